//! The policies in Rego of a file, asked about an exchange that is only supposed.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_admit::filter::{Checkpoint, FlowRego, Policies, read_policies};
use hermes_config::element;
use hermes_config::model::Document;
use hermes_rules::judge::{Permitted, Step};
use hermes_rules::{Matcher, Rules};

use super::asked::{FilterClient, FilterEntry};
use super::forecast::{Filtered, Filtering, unasked};
use crate::builtin;
use crate::nowhere::Nowhere;

/// The policies that decide in the process of a node with this file, beside its rules.
pub struct FilePolicies<'a> {
    document: &'a Document,
    filters: Vec<FileFilter>,
    /// The policy about flows of packets.
    pub flows: Option<Arc<FlowRego>>,
}

/// An entry of `authorize`.
struct FileFilter {
    matcher: Matcher,
    /// `None` for a filter that asks a server or belongs to the program.
    checkpoint: Option<Checkpoint>,
    /// Why its policy cannot be read here.
    unreadable: Option<String>,
}

impl<'a> FilePolicies<'a> {
    /// Those of a document whose rules these are.
    pub fn read<H>(document: &'a Document, rules: &Rules<H>) -> Self {
        let mut wrong = Vec::new();
        let Policies { filters, flows } = read_policies(document, &mut wrong);

        let plugs = builtin::plugs();
        let upstreams = HashMap::new();
        let entries = document.authorize.iter().zip(filters).enumerate();
        let filters = entries.map(|(index, (config, policy))| {
            let own = element("authorize", index);
            let unreadable = wrong.iter().find(|problem| problem.path.starts_with(&own));
            FileFilter {
                matcher: Matcher::compile(&config.matches, rules.names.clone()),
                checkpoint: Checkpoint::new(config, rules, policy, &upstreams, &plugs),
                unreadable: unreadable.map(ToString::to_string),
            }
        });

        Self {
            document,
            filters: filters.collect(),
            flows,
        }
    }

    /// Asks the filters about an exchange: policies decide, others would be asked. That blocks, within a run time.
    ///
    /// # Errors
    /// The files of a policy that decides cannot be read here, in words.
    pub fn filter<H>(
        &self,
        rules: &Rules<H>,
        filtering: Filtering<'_>,
        permitted: &mut Permitted,
        steps: &mut Vec<Step>,
    ) -> Result<Filtered, String> {
        let mut asking = None;
        for (index, filter) in self.filters.iter().enumerate() {
            let entry = filter.checkpoint.as_ref().map(|checkpoint| FilterEntry {
                index,
                checkpoint,
                names: &rules.names,
            });
            if let Some(entry) = entry {
                let asking = asking
                    .get_or_insert_with(|| FilterClient::new(Arc::new(Nowhere), filtering.arrived));
                let others = asking.ask_about_others(
                    self.document,
                    rules,
                    entry,
                    filtering,
                    permitted,
                    steps,
                );
                if others.denied.is_some() {
                    return Ok(others);
                }
            }

            let facts = filtering.arrived.facts(
                permitted.user.as_deref(),
                &permitted.fields,
                &rules.aliases,
            );
            if !filter.matcher.matches(&facts) {
                continue;
            }
            if let Some(reason) = &filter.unreadable {
                return Err(reason.clone());
            }
            let Some(entry) = entry else {
                steps.push(unasked(self.document, index, "; only a running node can"));
                continue;
            };

            let asking = asking
                .get_or_insert_with(|| FilterClient::new(Arc::new(Nowhere), filtering.arrived));
            let filtered = asking.step(entry, filtering, permitted, steps);
            if filtered.denied.is_some() {
                return Ok(filtered);
            }
        }

        Ok(Filtered { denied: None })
    }
}

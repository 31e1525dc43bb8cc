//! The decision of a node with a file.

use std::path::Path;

use hermes_admit::node_name::node_name;
use hermes_admit::refusals::account::Account;
use hermes_config::model::Document;
use hermes_config::{Loaded, Problems};
use hermes_node::why::{FilePolicies, Filtered, Forecaster, SupposedExchange};
use hermes_rules::route::Hop;
use hermes_rules::{EgressRules, Rules, chains, ends, lint};

use crate::failure::Failure;
use crate::output::Output;

/// The decision on an exchange of a node with this file. It blocks, within a runtime, while policies in Rego decide.
///
/// # Errors
/// The file is not valid, or the question makes no sense.
pub fn account(
    file: &Path,
    supposed: &SupposedExchange,
    output: Output,
) -> Result<Account, Failure> {
    let loaded = sound(super::super::load(file), output)?;
    let node = node_name(&loaded).map_err(Failure::invalid)?;
    let Loaded {
        document, places, ..
    } = loaded;

    let found = |hop: Hop<'_>| match hop {
        Hop::Proxy(name) | Hop::Origin(name) | Hop::Connector(name) | Hop::Handler(name) => {
            name.to_owned()
        }
        Hop::Target => "(target)".to_owned(),
    };
    let rules = Rules::compile(&document, node.into(), |_, hop| Some(found(hop)))
        .map_err(|unfit| Failure::invalid(unfit.to_string()))?;

    let egress = EgressRules::compile(&document.egress, &[]);
    let policies = FilePolicies::read(&document, &rules);
    let forecaster = Forecaster {
        rules: &rules,
        document: &document,
        places: Some(&places),
        flows: policies.flows.as_deref(),
        may_choose: &|address| egress.check(address, |ip| ip.is_loopback()),
        endpoints: &|upstream| endpoints(&document, upstream),
    };

    // This process asks about one exchange alone.
    hermes_rego::suppose_time(supposed.at);
    let mut unreadable = None;
    let account = forecaster.forecast(supposed, |filtering, permitted, steps| {
        let filtered = policies.filter(&rules, filtering, permitted, steps);
        filtered.unwrap_or_else(|reason| {
            unreadable = Some(reason);
            Filtered { denied: None }
        })
    });

    match unreadable {
        // Without this policy, the answer of the rules alone would be wrong.
        Some(reason) => Err(Failure::invalid(reason)),
        None => account.map_err(Failure::invalid),
    }
}

/// The endpoints that the file names.
fn endpoints(document: &Document, upstream: &str) -> Vec<String> {
    let upstream = document.upstreams.get(upstream);
    let endpoints = upstream
        .into_iter()
        .flat_map(|upstream| &upstream.endpoints);
    endpoints
        .map(|endpoint| format!("endpoint {}", endpoint.address()))
        .collect()
}

/// A file that lint finds sound, its short forms written out; the files that it names need not be here.
fn sound(loaded: Result<Loaded, Problems>, output: Output) -> Result<Loaded, Failure> {
    let problems = match loaded {
        Ok(mut loaded) => {
            ends::expand(&mut loaded.document);
            let found = lint(&loaded.document);
            if found.is_empty() {
                chains::expand(&mut loaded.document);
                return Ok(loaded);
            }

            let found = found.into_iter();
            found.map(|problem| loaded.places.placed(problem)).collect()
        }
        Err(problems) => problems.0,
    };

    if output.json {
        output.value(&problems);
        return Err(Failure::told(2));
    }

    problems.iter().for_each(|problem| output.line(problem));
    Err(Failure::invalid("the file is not valid"))
}

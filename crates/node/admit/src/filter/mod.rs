//! *Authorize*: filters see an exchange after it was identified and tagged, and before its route is chosen.
//!
//! A filter decides on the head alone, so that messages and tunnels of every kind are alike to it. Fields that it adds
//! feeds the routes.

mod answer;
mod envoy;
mod external;
mod facts;
mod flow_rego;
mod grpc;
mod named_user;
mod pace;
mod policies;
mod presence;
mod question;
mod readings;
mod rego;
mod server;
mod timed;
mod undecided;

use std::collections::HashMap;
use std::sync::Arc;

use hermes_config::model::{Authorize, Document};
use hermes_plug::{Decision, Disobeyed, Filter, Outcome, Plugs, Subject, Verdict};
use hermes_rego::Evaluator;
use hermes_rules::judge::Rules;
use hermes_rules::{Facts, Matcher, UserAliases};
use hermes_upstream::Upstream;
use http::StatusCode;

pub use facts::{KnownUser, exchange_kind, facts, kind};
pub use flow_rego::FlowRego;
pub(crate) use flow_rego::described_flow;
pub use flow_rego::{FlowRuling, FlowTunnel, PLACE as FLOW_REGO};
pub use policies::{Policies, read_policies};
pub use question::{joined, known};
pub use readings::{other_readings, unmatched};
use timed::Timed;

/// A filter where a document asks it.
pub struct Checkpoint {
    /// Its name in records, metrics and reasons.
    pub name: String,
    matcher: Matcher,
    filter: Arc<dyn Filter>,
    /// Other names of the users whom it may name.
    aliases: Arc<UserAliases>,
    /// Whether it decides in this process, without a server.
    pub is_rego: bool,
}

impl Checkpoint {
    /// `None` if the decider is missing, which was reported.
    pub fn new<H>(
        config: &Authorize,
        rules: &Rules<H>,
        policy: Option<Arc<Evaluator>>,
        upstreams: &HashMap<String, Arc<Upstream>>,
        plugs: &Plugs,
    ) -> Option<Self> {
        let filter: Arc<dyn Filter> = match (&config.filter, &config.rego) {
            (Some(named), _) => {
                let filter = plugs.filters.named("filter", named).ok()?;
                Arc::new(Timed::new(config, filter))
            }
            (None, Some(rego)) => Arc::new(rego::RegoFilter::new(config, rego, policy?)),
            (None, None) => {
                let upstream = upstreams.get(&config.asked())?.clone();
                Arc::new(external::External::new(config, upstream))
            }
        };
        Some(Self {
            name: config.name.clone(),
            is_rego: config.filter.is_none() && config.rego.is_some(),
            matcher: Matcher::compile(&config.matches, rules.names.clone()),
            filter,
            aliases: rules.aliases.clone(),
        })
    }

    /// Asks the filter.
    pub async fn decide(&self, subject: &Subject<'_>) -> Verdict {
        let mut verdict = self.filter.decide(subject).await;
        let refused = match &mut verdict.decision {
            Decision::Allow(changes) => {
                if let Err(reason) = named_user::unify(changes, &self.aliases) {
                    return unusable(&verdict, reason);
                }
                changes.query.of(subject.head).err()
            }
            Decision::Deny(_) => None,
        };

        match refused {
            None => verdict,
            Some(Disobeyed::NoQuery) => Verdict {
                reason: format!(
                    "{}; parameters are not set: there is no query",
                    verdict.reason
                ),
                ..verdict
            },
            Some(Disobeyed::Unwritable) => {
                unusable(&verdict, "a parameter of the query cannot be written")
            }
        }
    }

    /// Whether the filter is asked about such an exchange.
    pub fn applies(&self, facts: &Facts<'_>) -> bool {
        self.matcher.matches(facts)
    }
}

/// In place of a verdict that cannot be obeyed: a change that cannot be made as it was decided is not passed over.
fn unusable(verdict: &Verdict, reason: &str) -> Verdict {
    Verdict {
        outcome: Outcome::FailedClosed,
        took: verdict.took,
        ..Verdict::deny(StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

/// The filters of a document, in their order; those of which something is missing were reported.
pub(crate) fn assemble<H>(
    document: &Document,
    rules: &Rules<H>,
    policies: Vec<Option<Arc<Evaluator>>>,
    upstreams: &HashMap<String, Arc<Upstream>>,
    plugs: &Plugs,
) -> Vec<Checkpoint> {
    let entries = document.authorize.iter().zip(policies);
    entries
        .filter_map(|(config, policy)| Checkpoint::new(config, rules, policy, upstreams, plugs))
        .collect()
}

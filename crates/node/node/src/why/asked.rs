//! A supposed exchange at a running node: its filters, its endpoints and its egress as they are now.

use std::sync::Arc;

use hermes_admit::filter;
use hermes_admit::filter::Checkpoint;
use hermes_admit::refusals::account::Account;
use hermes_admit::snapshot::Snapshot;
use hermes_config::element;
use hermes_config::model::Document;
use hermes_http::RequestHead;
use hermes_net::{PeerAddress, Resolver, StreamInfo};
use hermes_plug::{Decision, Subject};
use hermes_proto::fields::Fields;
use hermes_rules::fields::USER;
use hermes_rules::judge::{Arrived, Permitted, Phase, Step};
use hermes_rules::{Facts, Names, Rules};
use hermes_upstream::{Client, Directory};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::forecast::{Filtered, Filtering, Forecaster, SupposedExchange, unasked};
use super::question::SupposedRequest;
use crate::process::Node;

impl Node {
    /// The forecast of a supposed exchange. Filters are asked if the question says so; that blocks.
    ///
    /// # Errors
    /// The question is none, in words.
    pub(crate) fn suppose(&self, text: &str) -> Result<Account, String> {
        let read = serde_json::from_str(text).map_err(|error| error.to_string());
        read.and_then(|supposed: SupposedExchange| self.forecast(&supposed))
    }

    pub(crate) fn forecast(&self, supposed: &SupposedExchange) -> Result<Account, String> {
        let snapshot = self.shared.snapshot.load_full();
        let places = self.written_places();
        let forecaster = Forecaster {
            rules: &snapshot.rules,
            document: &snapshot.document,
            places: places.as_ref().ok(),
            flows: snapshot.policing.flows.as_deref(),
            may_choose: &|address| snapshot.may_choose(address),
            endpoints: &|upstream| endpoints(&snapshot, upstream),
        };

        let account = forecaster.forecast(supposed, |filtering, permitted, steps| {
            self.filter(&snapshot, supposed, filtering, permitted, steps)
        })?;
        Ok(Account {
            node: Some(snapshot.node.name.to_string()),
            without_lines: places.err(),
            ..account
        })
    }

    /// Asks the filters that apply, or says that they would be asked.
    fn filter(
        &self,
        snapshot: &Snapshot,
        supposed: &SupposedExchange,
        filtering: Filtering<'_>,
        permitted: &mut Permitted,
        steps: &mut Vec<Step>,
    ) -> Filtered {
        let mut asking = None;
        for (index, checkpoint) in snapshot.policing.filters.iter().enumerate() {
            let entry = FilterEntry {
                index,
                checkpoint,
                names: &snapshot.rules.names,
            };
            if supposed.ask || checkpoint.is_rego {
                let asking = asking.get_or_insert_with(|| {
                    FilterClient::new(self.shared.snapshot.clone(), filtering.arrived)
                });
                let document: &Document = &snapshot.document;
                let others = asking.ask_about_others(
                    document,
                    &snapshot.rules,
                    entry,
                    filtering,
                    permitted,
                    steps,
                );
                if others.denied.is_some() {
                    return others;
                }
            }

            let facts = filtering.arrived.facts(
                permitted.user.as_deref(),
                &permitted.fields,
                &snapshot.rules.aliases,
            );
            if !checkpoint.applies(&facts) {
                continue;
            }
            // A policy of this process costs nothing.
            if !supposed.ask && !checkpoint.is_rego {
                steps.push(unasked(&snapshot.document, index, "; `--ask` asks it"));
                continue;
            }

            let asking = asking.get_or_insert_with(|| {
                FilterClient::new(self.shared.snapshot.clone(), filtering.arrived)
            });
            let asked = asking.step(entry, filtering, permitted, steps);
            if asked.denied.is_some() {
                return asked;
            }
        }

        Filtered { denied: None }
    }
}

fn step(path: String, said: String) -> Step {
    Step {
        phase: Phase::Authorize,
        path,
        said,
    }
}

/// A filter that is asked.
#[derive(Clone, Copy)]
pub(super) struct FilterEntry<'a> {
    /// Its place in `authorize`.
    pub(super) index: usize,
    pub(super) checkpoint: &'a Checkpoint,
    /// The users and groups of the document.
    pub(super) names: &'a Names,
}

/// Asks filters.
pub(super) struct FilterClient {
    client: Client,
    source: StreamInfo,
}

impl FilterClient {
    /// `upstreams` are where those are that a filter asks.
    pub(super) fn new(upstreams: Arc<dyn Directory>, arrived: &Arrived<'_>) -> Self {
        let resolver = Arc::new(Resolver::system());
        Self {
            client: Client::new(resolver, TaskTracker::new(), upstreams),
            source: StreamInfo {
                peer: match arrived.peer {
                    Some(address) => PeerAddress::Ip(address),
                    None => PeerAddress::Unix { uid: None },
                },
                local: None,
                tls: None,
                origin: None,
            },
        }
    }

    /// Asks a filter and notes its answer; that blocks.
    pub(super) fn step(
        &self,
        entry: FilterEntry<'_>,
        filtering: Filtering<'_>,
        permitted: &mut Permitted,
        steps: &mut Vec<Step>,
    ) -> Filtered {
        let path = element("authorize", entry.index);
        match self.ask(entry, filtering, permitted) {
            Ok(said) => {
                steps.push(step(path, said));
                Filtered { denied: None }
            }
            Err((status, said)) => {
                steps.push(step(path, said.clone()));
                Filtered {
                    denied: Some((status, said)),
                }
            }
        }
    }

    /// Asks about the other readings of the path, as the pipeline does.
    pub(super) fn ask_about_others<H>(
        &self,
        document: &Document,
        rules: &Rules<H>,
        entry: FilterEntry<'_>,
        filtering: Filtering<'_>,
        permitted: &Permitted,
        steps: &mut Vec<Step>,
    ) -> Filtered {
        let request = filtering.request;
        let others = match filter::other_readings(document, &request.head) {
            Ok(others) => others,
            Err(refusal) => {
                return Filtered {
                    denied: Some((refusal.code().as_u16(), refusal.reason())),
                };
            }
        };

        for head in others {
            let user = permitted.user.as_deref();
            let facts = filtering
                .arrived
                .facts(user, &permitted.fields, &rules.aliases);
            let path = head.path();
            if !entry.checkpoint.applies(&Facts { path, ..facts }) {
                continue;
            }

            let other = SupposedRequest {
                head: head.clone(),
                target: request.target.clone(),
            };
            let mut unchanged = Permitted {
                user: permitted.user.clone(),
                fields: permitted.fields.clone(),
            };
            let filtering = Filtering {
                request: &other,
                ..filtering
            };
            let filtered = self.step(entry, filtering, &mut unchanged, steps);
            if filtered.denied.is_some() {
                return filtered;
            }
        }
        Filtered { denied: None }
    }

    /// The words of a filter, which may change `permitted`; or the status with which it denies, and its words.
    fn ask(
        &self,
        entry: FilterEntry<'_>,
        filtering: Filtering<'_>,
        permitted: &mut Permitted,
    ) -> Result<String, (u16, String)> {
        let FilterEntry {
            checkpoint, names, ..
        } = entry;
        let Filtering {
            request,
            arrived,
            claims,
            ..
        } = filtering;
        let head = RequestHead {
            fields: permitted.fields.clone(),
            ..request.head.clone()
        };
        let nothing = Fields::new();
        let target = request.target.canonical();
        let subject = Subject {
            client: &self.client,
            head: &head,
            target: &target,
            user: permitted.user.as_deref(),
            source: &self.source,
            listener: arrived.entrance.name,
            credentials: &nothing,
            claims: claims.all(),
            groups: names.groups_of(permitted.user.as_deref()),
        };

        let verdict = Handle::current().block_on(checkpoint.decide(&subject));
        let remembered = if verdict.took.is_none() {
            ", remembered"
        } else {
            ""
        };
        let outcome = verdict.outcome.word();
        let said = format!(
            "{} {outcome}{remembered}: {}",
            checkpoint.name, verdict.reason
        );

        match verdict.decision {
            Decision::Allow(changes) => {
                changes.apply(&mut permitted.fields);
                let named = changes.set.get(USER);
                let named = named.and_then(|named| std::str::from_utf8(named.as_bytes()).ok());
                if let Some(named) = named {
                    permitted.user = Some(named.to_owned());
                }
                Ok(said)
            }
            Decision::Deny(denial) => Err((denial.status.as_u16(), said)),
        }
    }
}

impl Drop for FilterClient {
    fn drop(&mut self) {
        self.client.close();
    }
}

/// The endpoints of an upstream as they are now.
fn endpoints(snapshot: &Snapshot, upstream: &str) -> Vec<String> {
    let Some(upstream) = snapshot.upstreams.get(upstream) else {
        return Vec::new();
    };
    let status = upstream.status();
    let mut said: Vec<String> = status
        .endpoints
        .iter()
        .map(|endpoint| {
            let why = endpoint.last_error.as_ref();
            let why = why.map_or_else(String::new, |why| format!(", last {why}"));
            format!("endpoint {} is {}{why}", endpoint.address, endpoint.health)
        })
        .collect();

    if let Some(name) = &status.attached {
        said.push(format!("the nodes that are attached as {name}"));
    }
    if let Some(via) = &status.via {
        said.push(format!("through upstream {via}"));
    }
    said
}

//! The node as administration sees it.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use hermes_admit::memory_limits;
use hermes_admit::refusals::account::Account;
use hermes_admit::refusals::remembered::RefusalLine;
use hermes_admit::snapshot::Snapshot;
use hermes_net::clock::unix_seconds;
use hermes_net::shared_socket::forward_counts;
use hermes_observe::admin::{AdminRefusal, Confirmation, Control};
use hermes_plug::NeighbourView;
use hermes_upstream::{HopStatus, UpstreamStatus};
use serde_json::Value;

use crate::answers::{
    Comparison, ConfigStatus, DocumentView, GivenUp, LiveExchanges, MachineStatus, NameServers,
    NodeStatus, NotReady, ProcessStatus, SharedSockets, TrafficStatus,
};
use crate::change::{Confirmed, NotReloaded, NotReturned, ReloadReport, Trigger};
use crate::process::{Changing, Node};

/// Attached nodes that an answer lists.
#[doc(alias = "bound")]
const ATTACHED: usize = 1000;

/// An endpoint of which nothing bad is known, nor anything good.
const HEALTHY: &str = "healthy";

impl Node {
    /// As it is now; may wait for a change that is under way.
    pub(crate) fn status(&self) -> NodeStatus {
        let snapshot = self.shared.snapshot.load();
        let changing = self.changing.lock();
        NodeStatus {
            process: self.process_status(&snapshot, &changing),
            traffic: self.traffic_status(&snapshot, &changing),
            machine: self.machine_status(),
        }
    }

    fn process_status(&self, snapshot: &Snapshot, changing: &Changing) -> ProcessStatus {
        let documents = &changing.documents;
        let given_up = documents.given_up.as_ref();
        ProcessStatus {
            node: snapshot.node.name.to_string(),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            config: ConfigStatus {
                file: self.source.file().map(Path::to_owned),
                revision: snapshot.revision,
                routes: snapshot.document.routes.len(),
            },
            unconfirmed: documents.unconfirmed(Instant::now()),
            given_up: given_up.map(|given_up| GivenUp {
                revision: given_up.number,
            }),
            log: self.log.current(),
            workers: changing.doors.len(),
        }
    }

    fn traffic_status(&self, snapshot: &Snapshot, changing: &Changing) -> TrafficStatus {
        let now = unix_seconds();
        let neighbours = self.plugs.whole.neighbours();
        let upstreams = snapshot.document.upstreams.keys();
        let certificates = self.shared.telemetry.certificates();
        TrafficStatus {
            listeners: changing.table.views(&snapshot.document),
            upstreams: upstreams
                .filter_map(|name| Some(snapshot.upstreams.get(name)?.status()))
                .map(|upstream| as_carried(upstream, neighbours.values().flatten()))
                .collect(),
            hops: chained(snapshot),
            certificates: certificates.iter().map(|held| held.view(now)).collect(),
            acme: snapshot.node.credentials.certificates.progress(),
            attached: self.shared.attachments.attached.views(ATTACHED),
            attachments: self.shared.attachments.joins.views(),
            devices: self.shared.devices.views(),
            missing_devices: self.shared.devices.missing(&snapshot.document),
            neighbours,
            plugs: self.plugs.whole.status(),
            exchanges: LiveExchanges {
                live: self.shared.telemetry.live_count(),
            },
        }
    }

    fn machine_status(&self) -> MachineStatus {
        MachineStatus {
            captures: self.shared.devices.captures().views(),
            dns: NameServers {
                servers: self.resolver.servers(),
            },
            shared_sockets: shared_sockets(),
            memory: memory_limits::view(),
            holders: memory_limits::holders(),
            draining: self.drain.watch().is_draining(),
        }
    }
}

impl Control for Node {
    type Status = NodeStatus;
    type Missing = NotReady;
    type Document = DocumentView;
    type Comparison = Comparison;
    type Report = ReloadReport;
    type Account = Account;
    type RefusalLine = RefusalLine;

    fn status(&self) -> NodeStatus {
        Self::status(self)
    }

    fn readiness(&self) -> Result<(), NotReady> {
        let snapshot = self.shared.snapshot.load();
        let state = NotReady {
            missing_devices: self.shared.devices.missing(&snapshot.document),
            pending_devices: self.shared.devices.pending(&snapshot.document),
            draining: self.drain.watch().is_draining(),
        };
        let is_there = state.missing_devices.is_empty() && state.pending_devices.is_empty();
        match is_there && !state.draining {
            true => Ok(()),
            false => Err(state),
        }
    }

    fn document(&self) -> Result<DocumentView, AdminRefusal> {
        Ok(Self::document(self)?)
    }

    fn compare(&self, text: &str) -> Result<Comparison, AdminRefusal> {
        Ok(Self::compare(self, text)?)
    }

    fn reload(&self, confirm: Option<Duration>) -> Result<ReloadReport, AdminRefusal> {
        Ok(Self::reload(self, Trigger::Operator(confirm))?)
    }

    fn why(&self, id: &str) -> Option<Account> {
        Self::why(self, id)
    }

    fn refusals(&self) -> Vec<RefusalLine> {
        self.shared.refusals.lines()
    }

    fn suppose(&self, question: &str) -> Result<Account, AdminRefusal> {
        Self::suppose(self, question).map_err(AdminRefusal::other)
    }

    fn ask_plug(&self, name: &str, question: &Value) -> Result<Value, AdminRefusal> {
        self.plugs.whole.ask(name, question)
    }

    fn confirm(&self) -> Result<Confirmation, AdminRefusal> {
        let confirmed = Self::confirm(self).map_err(AdminRefusal::other)?;
        Ok(match confirmed {
            Confirmed::Now(revision) => Confirmation {
                revision,
                confirmed: true,
            },
            Confirmed::Before(revision) => Confirmation {
                revision,
                confirmed: false,
            },
        })
    }

    fn roll_back(&self) -> Result<ReloadReport, AdminRefusal> {
        Self::roll_back(self).map_err(|not| match not {
            NotReturned::Refused(refused) => refused.into(),
            NotReturned::NoEarlier => AdminRefusal::other(not),
        })
    }

    fn log_level(&self, filter: &str) -> Result<(), String> {
        self.log.change(filter)
    }
}

impl From<NotReloaded> for AdminRefusal {
    fn from(refused: NotReloaded) -> Self {
        Self::NotInForce {
            valid: matches!(refused, NotReloaded::Unbound(_)),
            problems: refused.into_problems(),
        }
    }
}

fn shared_sockets() -> Option<SharedSockets> {
    let counts = forward_counts();
    let has_any = counts.forwarded + counts.dropped > 0;
    has_any.then_some(SharedSockets {
        forwarded: counts.forwarded,
        dropped: counts.dropped,
    })
}

/// An upstream that stands for a neighbour has the neighbour's state, as long as no connection has shown that of its endpoints.
fn as_carried<'a>(
    mut upstream: UpstreamStatus,
    mut neighbours: impl Iterator<Item = &'a NeighbourView>,
) -> UpstreamStatus {
    let Some(neighbour) = neighbours.find(|one| one.name == upstream.name) else {
        return upstream;
    };

    for endpoint in &mut upstream.endpoints {
        if endpoint.http.is_none() && endpoint.health == HEALTHY {
            endpoint.health = neighbour.state.word();
            endpoint.reason.clone_from(&neighbour.reason);
        }
    }
    upstream
}

/// The hops of chains: of upstreams that go via another one, and of those that they go via.
fn chained(snapshot: &Snapshot) -> Vec<HopStatus> {
    let upstreams = &snapshot.document.upstreams;
    let via: HashSet<_> = upstreams
        .values()
        .filter_map(|upstream| upstream.via.as_ref())
        .collect();

    let of_chain = upstreams
        .iter()
        .filter(|(name, upstream)| upstream.via.is_some() || via.contains(name));
    of_chain
        .filter_map(|(name, _)| Some(snapshot.upstreams.get(name)?.hops()))
        .flatten()
        .collect()
}

//! What administration sees of the node and asks it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hermes_net::clock::unix_seconds;
use hermes_net::shared_socket::forward_counts;
use hermes_observe::NeighbourView;
use hermes_observe::admin::Control;
use serde_json::{Value, json};

use crate::administered::Node;
use crate::change::{By, Confirmed, NotReloaded, NotReturned};
use hermes_admit::memory_limits;
use hermes_admit::snapshot::Snapshot;
use hermes_upstream::{HopStatus, UpstreamStatus};

/// Attached nodes that an answer lists.
#[doc(alias = "bound")]
const ATTACHED: usize = 1000;

/// An endpoint of which nothing bad is known, nor anything good.
const HEALTHY: &str = "healthy";

impl Control for Node {
    fn status(&self) -> Value {
        let snapshot = self.shared.snapshot.load();
        let changing = self.changing.lock();
        let neighbours = self.plugs.neighbours();
        let upstreams: Vec<_> = snapshot
            .document
            .upstreams
            .keys()
            .filter_map(|name| Some(snapshot.upstreams.get(name)?.status()))
            .map(|upstream| in_custody(upstream, &neighbours))
            .collect();

        let status = json!({
            "node": &*snapshot.node,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "config": { "file": self.source.file(), "revision": snapshot.revision, "routes": snapshot.document.routes.len() },
            "unconfirmed": changing.documents.unconfirmed(Instant::now()),
            "given_up": changing.documents.given_up.as_ref().map(|given_up| json!({ "revision": given_up.number })),
            "log": self.log.current(),
            "workers": changing.doors.len(),
            "listeners": changing.table.views(&snapshot.document),
            "upstreams": upstreams,
            "hops": chained(&snapshot),
            "certificates": self.shared.telemetry.certificates().iter().map(|held| held.view(unix_seconds())).collect::<Vec<_>>(),
            "acme": snapshot.own.certificates.progress(),
            "attached": self.shared.attached.views(ATTACHED),
            "attachments": self.shared.joins.views(),
            "devices": self.shared.devices.views(),
            "missing_devices": self.shared.devices.missing(&snapshot.document),
            "custody": neighbours,
            "plugs": self.plugs.whole.status(),
            "exchanges": { "live": self.shared.telemetry.live_count() },
            "dns": { "servers": self.resolver.servers() },
            "shared_sockets": shared_sockets(),
            "memory": memory_limits::view(),
            "holders": memory_limits::holders(),
            "draining": self.drain.watch().is_draining(),
        });

        without_absent(status)
    }

    fn readiness(&self) -> Result<(), Value> {
        let snapshot = self.shared.snapshot.load();
        let missing = self.shared.devices.missing(&snapshot.document);
        let pending = self.shared.devices.pending(&snapshot.document);
        let is_draining = self.drain.watch().is_draining();
        if missing.is_empty() && pending.is_empty() && !is_draining {
            return Ok(());
        }
        Err(
            json!({ "missing_devices": missing, "pending_devices": pending, "draining": is_draining }),
        )
    }

    fn document(&self) -> Result<Value, Value> {
        Self::document(self).map_err(|problems| json!({ "problems": problems }))
    }

    fn compare(&self, text: &str) -> Result<Value, Value> {
        Self::compare(self, text).map_err(|problems| json!({ "problems": problems }))
    }

    fn reload(&self, confirm: Option<Duration>) -> Result<Value, Value> {
        Self::reload(self, By::Operator(confirm))
            .map(|report| json!(report))
            .map_err(|refused| refused_answer(&refused))
    }

    fn why(&self, id: &str) -> Option<Value> {
        Self::why(self, id)
    }

    fn refusals(&self) -> Value {
        json!({ "refusals": self.shared.refusals.lines() })
    }

    fn suppose(&self, question: &str) -> Result<Value, Value> {
        Self::suppose(self, question)
    }

    fn confirm(&self) -> Result<Value, Value> {
        match Self::confirm(self) {
            Ok(Confirmed::Now(revision)) => Ok(json!({ "revision": revision, "confirmed": true })),
            Ok(Confirmed::Before(revision)) => {
                Ok(json!({ "revision": revision, "confirmed": false }))
            }
            Err(late) => Err(json!({ "error": late.to_string() })),
        }
    }

    fn roll_back(&self) -> Result<Value, Value> {
        match Self::roll_back(self) {
            Ok(report) => Ok(json!(report)),
            Err(NotReturned::Refused(refused)) => Err(refused_answer(&refused)),
            Err(none @ NotReturned::NoEarlier) => Err(json!({ "error": none.to_string() })),
        }
    }

    fn log_level(&self, filter: &str) -> Result<(), String> {
        self.log.change(filter)
    }
}

fn refused_answer(refused: &NotReloaded) -> Value {
    let valid = matches!(refused, NotReloaded::Unbound(_));
    json!({ "problems": refused.problems(), "valid": valid })
}

/// Datagrams of sockets that other processes have too, once there are any.
fn shared_sockets() -> Option<Value> {
    let counts = forward_counts();
    let has_any = counts.forwarded + counts.dropped > 0;
    has_any.then(|| json!({ "forwarded": counts.forwarded, "dropped": counts.dropped }))
}

/// Without what is said only while there is something to say.
fn without_absent(mut status: Value) -> Value {
    const RARE: [&str; 7] = [
        "unconfirmed",
        "given_up",
        "missing_devices",
        "custody",
        "plugs",
        "acme",
        "shared_sockets",
    ];
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    };
    if let Value::Object(entries) = &mut status {
        entries.retain(|key, value| !RARE.contains(&key.as_str()) || is_said(value));
    }
    status
}

/// An upstream that stands for a neighbour in custody is as that is, as long as no connection has shown how its endpoints are.
fn in_custody(mut upstream: UpstreamStatus, neighbours: &[NeighbourView]) -> UpstreamStatus {
    let known = neighbours.iter().find(|one| one.name == upstream.name);
    let Some(neighbour) = known else {
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

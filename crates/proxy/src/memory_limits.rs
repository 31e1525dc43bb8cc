//! The limits of the memory that the node holds contents in, and what is done where they are reached.

use std::time::Duration;

use hermes_config::model;
use hermes_net::Watch;
use hermes_net::memory::{BUDGET, CONNECTION, Memory, Purpose};
use serde_json::{Value, json};

/// How often to check whether too much is held.
const LOOK: Duration = Duration::from_secs(1);

/// Connections and owners that `hermes status` lists: those that hold most.
#[doc(alias = "bound")]
const HOLDERS: usize = 5;

/// Puts the bounds of a document in force.
pub(crate) fn apply(memory: &model::Memory) {
    let bytes = |size: Option<model::ByteSize>, default: usize| {
        size.map_or(default, |size| {
            usize::try_from(size.0).unwrap_or(usize::MAX)
        })
    };
    Memory::node().set(
        bytes(memory.total, BUDGET),
        bytes(memory.connection, CONNECTION),
    );
}

/// Ends connections that hold too much and do not move, while the node holds more than it may.
pub(crate) async fn enforce(watch: Watch) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let end = watch.graceful();
    tokio::pin!(end);

    loop {
        tokio::select! {
            () = &mut end => return,
            _ = looks.tick() => {}
        }

        let memory = Memory::node();
        for ended in memory.press() {
            tracing::warn!(
                peer = %ended.info.peer,
                held = ended.held,
                total = memory.held(),
                "connection ended: its peer takes nothing, and the node holds more than memory.total"
            );
        }
    }
}

/// How much is held, and of how much.
pub(crate) fn view() -> Value {
    let memory = Memory::node();
    let purposes: serde_json::Map<String, Value> = Purpose::ALL
        .into_iter()
        .map(|purpose| {
            (
                purpose.name().to_owned(),
                memory.charged_for(purpose).into(),
            )
        })
        .collect();

    json!({
        "held_bytes": memory.held(),
        "total_bytes": memory.budget(),
        "connection_bytes": memory.connection(),
        "charged_bytes": memory.charged(),
        "charged_for": purposes,
        "refused_charges": memory.refused_charges(),
        "owners": owners(),
    })
}

/// The owners that are charged most.
fn owners() -> Vec<Value> {
    let owners = Memory::node().largest_owners(HOLDERS).into_iter();
    owners
        .map(|(owner, bytes)| json!({ "owner": owner.to_string(), "charged_bytes": bytes }))
        .collect()
}

/// Which connections hold most.
pub(crate) fn holders() -> Vec<Value> {
    let holders = Memory::node().holders(HOLDERS).into_iter();
    holders
        .map(|holder| json!({ "peer": holder.info.peer.to_string(), "held_bytes": holder.held }))
        .collect()
}

//! The limits of the memory for contents, and their enforcement.

use std::time::Duration;

use hermes_config::model;
use hermes_net::Watch;
use hermes_net::memory::{BUDGET, CONNECTION, Memory, Purpose};
use serde::Serialize;
use serde_json::{Map, Value};

/// How often to check whether too much is held.
const LOOK: Duration = Duration::from_secs(1);

/// Looks, one a second, between two log lines about refused charges.
#[doc(alias = "bound")]
const QUIET: u32 = 30;

/// Connections and owners that `hermes status` lists: those that hold most.
#[doc(alias = "bound")]
const HOLDERS: usize = 5;

/// Bytes that an exchange may keep without a charge: less than it costs itself, so that most exchanges need no account.
#[doc(alias = "bound")]
pub const UNCHARGED: usize = 2048;

/// Puts the bounds of a document in force.
pub fn apply(memory: &model::Memory) {
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
pub async fn enforce(watch: Watch) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let end = watch.graceful();
    tokio::pin!(end);
    let mut refusals = RefusalLines::default();

    loop {
        tokio::select! {
            () = &mut end => return,
            _ = looks.tick() => {}
        }

        let memory = Memory::node();
        // Only over the total: a slow reader on a node with memory left harms no one.
        for ended in memory.press() {
            tracing::warn!(
                peer = %ended.info.peer,
                held = ended.held,
                total = memory.held(),
                "connection ended: its peer takes nothing, and the node holds more than memory.total"
            );
        }
        refusals.look(memory);
    }
}

/// Says that charges were refused: at once, and then every [`QUIET`] looks as long as there are more.
#[derive(Default)]
struct RefusalLines {
    /// Refusals that a line has told of.
    told: usize,
    /// Looks until the next line.
    wait: u32,
}

impl RefusalLines {
    fn look(&mut self, memory: &Memory) {
        self.wait = self.wait.saturating_sub(1);
        let refused = memory.refused_charges();
        if self.wait > 0 || refused == self.told {
            return;
        }

        if let Some(last) = memory.take_last_refusal() {
            let times = refused - self.told;
            tracing::warn!(times, last = %last, "charges were refused: raise memory.total if the owner may have more");
        }
        self.told = refused;
        self.wait = QUIET;
    }
}

/// How much is held, and of how much.
#[derive(Debug, Serialize)]
pub struct MemoryView {
    held_bytes: usize,
    total_bytes: usize,
    connection_bytes: usize,
    charged_bytes: usize,
    charged_for: Map<String, Value>,
    refused_charges: usize,
    refused_for: Map<String, Value>,
    /// Those that are charged most.
    owners: Vec<OwnerView>,
}

/// The charge of an owner.
#[derive(Debug, Serialize)]
pub struct OwnerView {
    owner: String,
    charged_bytes: usize,
}

/// A connection that holds much.
#[derive(Debug, Serialize)]
pub struct HolderView {
    peer: String,
    held_bytes: usize,
}

/// How much is held, and of how much.
pub fn view() -> MemoryView {
    let memory = Memory::node();
    let owners = memory.largest_owners(HOLDERS).into_iter();
    MemoryView {
        held_bytes: memory.held(),
        total_bytes: memory.budget(),
        connection_bytes: memory.connection(),
        charged_bytes: memory.charged(),
        charged_for: by_purpose(|purpose| memory.charged_for(purpose)),
        refused_charges: memory.refused_charges(),
        refused_for: by_purpose(|purpose| memory.refused_for(purpose)),
        owners: owners
            .map(|(owner, bytes)| OwnerView {
                owner: owner.to_string(),
                charged_bytes: bytes,
            })
            .collect(),
    }
}

fn by_purpose(count: impl Fn(Purpose) -> usize) -> Map<String, Value> {
    let counts = Purpose::ALL
        .into_iter()
        .map(|purpose| (purpose.name().to_owned(), count(purpose).into()));
    counts.collect()
}

/// Which connections hold most.
pub fn holders() -> Vec<HolderView> {
    let holders = Memory::node().holders(HOLDERS).into_iter();
    holders
        .map(|holder| HolderView {
            peer: holder.info.peer.to_string(),
            held_bytes: holder.held,
        })
        .collect()
}

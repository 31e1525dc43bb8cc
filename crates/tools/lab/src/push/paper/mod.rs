//! The experiments of the paper about HTTP as the narrow waist: its pings, calls, throughput, scale, heads, and choice of a relay.
//!
//! - `local`: on one machine. `wide`: the four sites of the paper, emulated. `call`: messages at an even pace. `rendezvous`: computed.
//! - `reference`: the figures of the paper. `goals`: the bounds that were promised.

mod call;
mod counts;
mod forwarder;
mod goals;
mod local;
mod reference;
mod rendezvous;
mod wide;

use std::path::Path;

use anyhow::Result;

use super::lane::{ForwardedPorts, LaneKind};
use super::side::Side;
use super::systems::{BrokerAddress, PushSystem, RunningBroker};
use crate::peers::ports;
use crate::report::Sheet;
use forwarder::start_forwarder;
use local::LocalMeasuring;
use wide::WideArea;

pub(super) use call::OUTSIDE;
pub(super) use counts::{LONG, PaperCounts, SHORT};
pub(super) use goals::of as goals;
pub(super) use local::{CALL, LARGEST, PING};

/// Measures all, once.
///
/// # Errors
/// A program does not start, or a connection fails.
pub(super) fn measure(
    brokers: &[PushSystem],
    hermes: &Path,
    counts: PaperCounts,
    seed: u64,
    sheet: &mut Sheet,
) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let forwarded = ForwardedPorts {
        entries: [ports::free()?, ports::free()?],
        ports: [ports::free()?.port(), ports::free()?.port()],
    };
    let ends = [Side::HERE.address; 2];
    let forwarder = start_forwarder(Side::HERE, forwarded, ends, folder.path())?;
    let started = brokers
        .iter()
        .map(|system| RunningBroker::start(*system, hermes, folder.path()));
    let started: Vec<_> = started.collect::<Result<_>>()?;
    let brokers: Vec<BrokerAddress> = started.iter().map(|broker| broker.at).collect();
    let ways = [LaneKind::Direct, LaneKind::Indirect(forwarded)];
    let lanes: Vec<_> = ways
        .into_iter()
        .chain(brokers.iter().copied().map(LaneKind::Broker))
        .collect();
    let local = LocalMeasuring {
        lanes: &lanes,
        brokers: &brokers,
        counts,
        sheet,
    };
    local.all()?;
    drop(forwarder);
    drop(started);

    WideArea::lay(hermes, seed)?.measure(counts, sheet)?;
    rendezvous::compute(seed, sheet);
    reference::add(sheet);
    Ok(())
}

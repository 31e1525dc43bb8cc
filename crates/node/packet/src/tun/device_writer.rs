//! The state for writing packets of a tunnel into a device, or into the tunnel of another client,
//! and the fates of those that do not pass.

use hermes_ip::offload::Coalescer;
use hermes_ip::{MtuProbe, Rejection, Verdict};
use hermes_proto::ip::IcmpLimiter;

use super::sealed_run::SealedRun;

/// Packets of a batch that did not go into the device.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// A rule forbids them.
    pub(super) forbidden: usize,
    /// They do not belong into the tunnel, or the device did not take them.
    pub(super) failed: usize,
}

impl Unsent {
    pub(super) fn count(&mut self, reason: Rejection) {
        match reason {
            Rejection::Policy => self.forbidden += 1,
            _ => self.failed += 1,
        }
    }
}

/// The state for writing into the device.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) coalescer: Coalescer,
    pub(super) limiter: IcmpLimiter,
    /// A packet that is translated.
    pub(super) translated: Vec<u8>,
    pub(super) from_client: FromClient,
    /// Packets to another machine.
    pub(super) sealed: SealedRun,
    /// The verdicts on the packets of a batch; `None` for answers to the probe.
    pub(super) verdicts: Vec<Option<Verdict>>,
    /// Finds out whether the tunnel carries IPv6.
    pub(super) probe: Option<MtuProbe>,
}

/// A packet that goes into the tunnel of another client.
#[derive(Default)]
pub(super) struct FromClient {
    pub(super) packet: Vec<u8>,
    /// The same, as it is sent.
    pub(super) segment: Vec<u8>,
}

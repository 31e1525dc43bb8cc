//! Whether the tunnel of a listener's device carries the 1,280 bytes that IPv6 needs, over all that is on its way (RFC 9484, section 7.1).

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use hermes_ip::{IpRole, MtuProbe, ProbeState};
use serde::Serialize;

use super::end::{TunEnd, TunTunnel};
use super::flow_stack::random;
use super::service::TunService;

/// What is known of a tunnel and IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipv6Proof {
    /// Its other end has answered no packet of 1,280 bytes.
    Unproven,
    /// It is being asked.
    Asking,
    /// It has answered one.
    Proven,
}

impl TunTunnel {
    /// Asks the other end, if it is time for that and the tunnel has an address of IPv6.
    pub(super) fn prove_ipv6(&self) {
        if !matches!(self.hub.service, TunService::Client(_)) {
            return;
        }
        let Some(own) = self.end.own_ipv6() else {
            return;
        };
        let mut writer = self.end.writer.lock();
        let probe = writer
            .probe
            .get_or_insert_with(|| MtuProbe::new(IpRole::Client, Some(own), random() as u16));

        let before = probe.state();
        while let Some(question) = probe.poll_packet(Instant::now()) {
            self.end.inbox.push(&question);
        }
        if before != probe.state() && probe.state() == ProbeState::Failed {
            tracing::warn!(
                device = self.hub.name(),
                "no packet of 1280 bytes was answered: either the path carries less than IPv6 needs, or the other end answers no echoes"
            );
        }
    }

    /// What was known does not count for what comes: its path, or what that carries, is another one.
    pub(super) fn forget_ipv6(&self) {
        self.end.writer.lock().probe = None;
    }
}

impl TunEnd {
    /// What is known; none without an address of IPv6, or at the end of a proxy, which does not ask.
    pub(super) fn ipv6_proof(&self) -> Option<Ipv6Proof> {
        let state = self.writer.lock().probe.as_ref()?.state();
        Some(match state {
            ProbeState::Asking => Ipv6Proof::Asking,
            ProbeState::Proven => Ipv6Proof::Proven,
            ProbeState::Failed => Ipv6Proof::Unproven,
        })
    }

    fn own_ipv6(&self) -> Option<Ipv6Addr> {
        let session = self.session.lock();
        let addresses = session.own_addresses().iter();
        let mut addresses = addresses.filter_map(|prefix| match prefix.address() {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        });
        addresses.next()
    }
}

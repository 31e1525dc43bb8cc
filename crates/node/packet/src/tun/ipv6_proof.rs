//! Proves that the tunnel of a listener's device carries the 1,280 bytes that IPv6 needs, end to end (RFC 9484, section 7.1).

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use hermes_ip::{IpRole, MtuProbe, ProbeState};

use super::device_view::Ipv6Proof;
use super::end::{TunEnd, TunTunnel};
use super::flow_stack::random;
use super::service::TunService;

impl TunTunnel {
    /// Probes the other end, if a probe is due and the tunnel has an IPv6 address.
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
        let state = probe.state();
        drop(writer);
        self.refuse_ipv6(state == ProbeState::TooNarrow);
        if before == state {
            return;
        }

        let device = self.hub.name();
        match state {
            ProbeState::TooNarrow => tracing::error!(
                device,
                "IPv6 is refused: the other end answers short packets, but not those of the minimum MTU, 1280 bytes"
            ),
            ProbeState::Unanswered => tracing::warn!(
                device,
                "the other end answers no echoes: whether the tunnel carries the 1280 bytes that IPv6 needs is unknown"
            ),
            ProbeState::Asking | ProbeState::Proven => {}
        }
    }

    /// Forgets the result: the path, or its MTU, changed.
    pub(super) fn forget_ipv6(&self) {
        self.end.writer.lock().probe = None;
        self.refuse_ipv6(false);
    }

    fn refuse_ipv6(&self, is_refused: bool) {
        self.end
            .with_session(|session| session.refuse_ipv6(is_refused));
    }
}

impl TunEnd {
    /// The result; `None` without an address of IPv6, or at the end of a proxy, which does not
    /// probe.
    pub(super) fn ipv6_proof(&self) -> Option<Ipv6Proof> {
        let state = self.writer.lock().probe.as_ref()?.state();
        Some(match state {
            ProbeState::Asking => Ipv6Proof::Asking,
            ProbeState::Proven => Ipv6Proof::Proven,
            ProbeState::TooNarrow => Ipv6Proof::Refused,
            ProbeState::Unanswered => Ipv6Proof::Unproven,
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

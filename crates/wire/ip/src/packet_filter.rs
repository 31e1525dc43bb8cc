//! The conditions for a packet to pass a tunnel (RFC 9484, section 7; RFC 1812, section 5.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use hermes_proto::ip::{
    DUMMY_ROUTER_V4, ICMP, ICMPV6, IcmpError, IcmpLimiter, Packet, TCP, UDP, clamp_mss,
    decrement_hop_limit, quoted_flow,
};

use crate::intervals::AddressSet;
use crate::link_echo;
use crate::mtu::InnerMtu;
use crate::role::IpRole;
use crate::scope::PacketScope;
use crate::verdict::{Rejection, Verdict};

/// From which addresses this end writes errors. Linux drops those from addresses that it would not route to the device they come from
/// (`rp_filter`): give one that it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouterAddresses {
    /// `None`: errors come from the address for routers without IPv4 (RFC 7600).
    pub v4: Option<Ipv4Addr>,
    /// `None`: no errors about IPv6 are written.
    pub v6: Option<Ipv6Addr>,
}

/// The filter of one tunnel. It is immutable: a session makes a new one after a change.
#[derive(Debug, Clone)]
pub struct PacketFilter {
    pub(crate) role: IpRole,
    /// Allowed sources here and destinations there: assigned to this end, or routed by it.
    pub(crate) ours: AddressSet,
    /// The same of the peer.
    pub(crate) theirs: AddressSet,
    pub(crate) scope: PacketScope,
    pub(crate) routers: RouterAddresses,
    pub(crate) mtu: InnerMtu,
}

/// A packet that does not pass, and the error that says so.
struct Refused {
    reason: Rejection,
    error: Option<IcmpError>,
}

/// Without an error: its sender cannot be told, or must not be.
fn silently(reason: Rejection) -> Refused {
    Refused {
        reason,
        error: None,
    }
}

fn saying(reason: Rejection, error: IcmpError) -> Refused {
    Refused {
        reason,
        error: Some(error),
    }
}

fn too_big(length: usize, mtu: InnerMtu) -> Refused {
    let error = IcmpError::TooBig { mtu: mtu.number() };
    let mtu = mtu.bytes();
    saying(Rejection::TooBig { length, mtu }, error)
}

impl PacketFilter {
    /// Judges a packet that came out of the tunnel. Its hop limit stays: who puts it into a tunnel takes a hop (RFC 9484, section 7).
    pub fn check_from_peer(
        &self,
        packet: &[u8],
        limiter: &mut IcmpLimiter,
        now: Instant,
    ) -> Verdict {
        let parsed = match Packet::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return reject_unread(error.into()),
        };
        // Before the rules: a probe of the link goes to the other end itself, and link-local addresses pass no rule.
        if let Some(answer) = link_echo::answer(&parsed, self.role, self.routers.v6) {
            return match limiter.allows(now) {
                // Limited as errors are: an answer for each packet would make this end a reflector.
                true => Verdict::Answer(answer),
                false => reject_unread(Rejection::NotForwarded),
            };
        }

        match self.judge_from_peer(&parsed) {
            Ok(()) => Verdict::Pass,
            Err(refused) => self.refuse(&parsed, refused, limiter, now),
        }
    }

    /// Judges a packet that is to go into the tunnel, and takes a hop off one that passes.
    ///
    /// `longest` is the length of the packet, or for a super-packet that will be cut, of a segment
    /// with its headers.
    pub fn check_to_peer(
        &self,
        packet: &mut [u8],
        longest: usize,
        limiter: &mut IcmpLimiter,
        now: Instant,
    ) -> Verdict {
        let parsed = match Packet::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return reject_unread(error.into()),
        };
        if let Err(refused) = self.judge_to_peer(&parsed, longest) {
            return self.refuse(&parsed, refused, limiter, now);
        }

        // A packet with a hop to go was judged above: this cannot fail.
        match decrement_hop_limit(packet) {
            Ok(_) => Verdict::Pass,
            Err(_) => reject_unread(Rejection::HopLimit),
        }
    }

    /// The verdict on a packet that a rule forbids, and that passed everything else.
    pub fn prohibit(&self, packet: &[u8], limiter: &mut IcmpLimiter, now: Instant) -> Verdict {
        match Packet::parse(packet) {
            Ok(parsed) => {
                let refused = saying(Rejection::Policy, IcmpError::Prohibited);
                self.refuse(&parsed, refused, limiter, now)
            }
            Err(error) => reject_unread(error.into()),
        }
    }

    /// Judges the length of a packet that passed everything else, if the path behind this end
    /// carries only packets of this many bytes.
    pub fn check_onward(
        &self,
        packet: &[u8],
        mtu: InnerMtu,
        limiter: &mut IcmpLimiter,
        now: Instant,
    ) -> Verdict {
        let length = packet.len();
        if length <= mtu.bytes() {
            return Verdict::Pass;
        }
        match Packet::parse(packet) {
            Ok(packet) => self.refuse(&packet, too_big(length, mtu), limiter, now),
            Err(error) => reject_unread(error.into()),
        }
    }

    fn judge_from_peer(&self, packet: &Packet<'_>) -> Result<(), Refused> {
        check_forwardable(packet)?;

        let protocol = packet.protocol();
        if !self.theirs.allows(packet.source(), protocol) && !self.may_come_from_anywhere(packet) {
            return Err(saying(Rejection::Source, IcmpError::SourceFailedPolicy));
        }
        if !self.ours.allows(packet.destination(), protocol) {
            return Err(saying(Rejection::Destination, IcmpError::NoRoute));
        }
        // An error about a flow that never went this way would end a flow of another host.
        check_quotation(packet, &self.theirs)?;

        let is_meant = match self.role {
            IpRole::Client => self.scope.takes_from(packet.source(), protocol),
            IpRole::Proxy => self.scope.takes_to(packet.destination(), protocol),
        };
        match is_meant {
            true => Ok(()),
            false => Err(saying(Rejection::Scope, IcmpError::Prohibited)),
        }
    }

    fn judge_to_peer(&self, packet: &Packet<'_>, longest: usize) -> Result<(), Refused> {
        check_forwardable(packet)?;

        let protocol = packet.protocol();
        // A router on the way may have an address that no one routes here, and its errors are needed.
        let may_come_from_anywhere = self.role == IpRole::Proxy && packet.is_icmp_error();
        if !self.ours.allows(packet.source(), protocol) && !may_come_from_anywhere {
            return Err(saying(Rejection::Source, IcmpError::SourceFailedPolicy));
        }
        if !self.theirs.allows(packet.destination(), protocol) {
            return Err(saying(Rejection::Destination, IcmpError::NoRoute));
        }
        check_quotation(packet, &self.ours)?;

        let is_meant = match self.role {
            IpRole::Client => self.scope.takes_to(packet.destination(), protocol),
            IpRole::Proxy => self.scope.takes_from(packet.source(), protocol),
        };
        if !is_meant {
            return Err(saying(Rejection::Scope, IcmpError::Prohibited));
        }

        // Behind the rules: "too big" about a packet that would not pass anyway sends its host on a search for nothing.
        self.check_length(longest)?;
        match packet.hop_limit() {
            // RFC 9484, 7: forwarding into the tunnel is a hop; out of it none.
            0 | 1 => Err(saying(Rejection::HopLimit, IcmpError::HopLimitExceeded)),
            _ => Ok(()),
        }
    }

    /// Packets of IPv4 that might be cut are not: their sender learns the length and cuts them itself.
    fn check_length(&self, length: usize) -> Result<(), Refused> {
        match length <= self.mtu.bytes() {
            true => Ok(()),
            false => Err(too_big(length, self.mtu)),
        }
    }

    /// Errors reach a client from any router (RFC 9484, section 8). A client itself has no routers but those that it says it routes.
    fn may_come_from_anywhere(&self, packet: &Packet<'_>) -> bool {
        self.role == IpRole::Client && packet.is_icmp_error()
    }

    fn refuse(
        &self,
        packet: &Packet<'_>,
        refused: Refused,
        limiter: &mut IcmpLimiter,
        now: Instant,
    ) -> Verdict {
        let from = match packet.is_ipv4() {
            true => Some(self.routers.v4.unwrap_or(DUMMY_ROUTER_V4).into()),
            // RFC 7600 has a dummy for IPv4 alone. Without an address, no error is sent.
            false => self.routers.v6.map(IpAddr::V6),
        };
        // Only an error that could be sent counts against the rate.
        let error = refused
            .error
            .zip(from)
            .and_then(|(error, from)| error.about(packet, from))
            .filter(|_| limiter.allows(now));

        Verdict::Reject {
            reason: refused.reason,
            error,
        }
    }

    /// Makes a connection of TCP that is being opened, in either direction, ask for segments that the tunnel carries. True where it
    /// asked for longer ones. `is_complete`: its checksum is, and has to follow.
    pub fn clamp_tcp(&self, packet: &mut [u8], is_complete: bool) -> bool {
        // Few packets open a connection, and a tunnel over streams carries any.
        if self.mtu == InnerMtu::STREAM || !may_open_tcp(packet) {
            return false;
        }
        let header = match Packet::parse(packet) {
            Ok(parsed) if parsed.is_tcp_syn() => parsed.header_length(),
            _ => return false,
        };
        clamp_mss(packet, header, self.mtu.bytes(), is_complete).is_some()
    }

    /// The MTU of the tunnel.
    pub fn mtu(&self) -> InnerMtu {
        self.mtu
    }

    /// Whether packets of a family can pass at all: both ends have addresses of it.
    pub fn carries(&self, is_ipv4: bool) -> bool {
        self.ours.has_family(is_ipv4) && self.theirs.has_family(is_ipv4)
    }
}

/// A quick check that most packets fail: false for TCP directly behind the IP header, without SYN.
fn may_open_tcp(packet: &[u8]) -> bool {
    let Some(first) = packet.first() else {
        return false;
    };
    let [protocol, flags] = match first >> 4 {
        4 => [9, usize::from(first & 0x0f) * 4 + 13],
        _ => [6, 40 + 13],
    };
    let has_syn = packet.get(flags).is_some_and(|flags| flags & 0x02 != 0);
    match packet.get(protocol) {
        Some(&TCP) => has_syn,
        // Behind extension headers, it is looked for.
        Some(_) => first >> 4 == 6 && packet[6] != UDP,
        None => false,
    }
}

fn reject_unread(reason: Rejection) -> Verdict {
    Verdict::Reject {
        reason,
        error: None,
    }
}

/// An error is about a packet that went the other way: from where the error goes, to an address of the side that it comes from (RFC 5508,
/// section 4.2). Else a client that guesses addresses and ports ends, or slows down, the flows of others.
fn check_quotation(packet: &Packet<'_>, sent_to: &AddressSet) -> Result<(), Refused> {
    // Most packets are something else, which costs one look.
    let is_icmp = matches!(packet.protocol(), ICMP | ICMPV6);
    if !is_icmp || !packet.is_icmp_error() {
        return Ok(());
    }
    let quoted = quoted_flow(packet);
    let went_this_way = quoted.is_some_and(|quoted| {
        // The quoted packet must have been sent by the one who gets the error, towards where this tunnel leads.
        quoted.source == packet.destination() && sent_to.allows(quoted.destination, quoted.protocol)
    });
    match went_this_way {
        true => Ok(()),
        false => Err(silently(Rejection::Quotation)),
    }
}

/// Addresses of one link or one host stay there (RFC 9484, section 7), and no tunnel carries packets to many.
fn check_forwardable(packet: &Packet<'_>) -> Result<(), Refused> {
    let has_addresses = is_forwardable(packet.source()) && is_forwardable(packet.destination());
    match has_addresses && !is_about_a_link(packet) {
        true => Ok(()),
        false => Err(silently(Rejection::NotForwarded)),
    }
}

/// Routers and neighbours of one link: a peer could change the routes of a host with them (RFC 792, RFC 1256, RFC 4861, section 6.1).
fn is_about_a_link(packet: &Packet<'_>) -> bool {
    let Some(kind) = packet.payload().first() else {
        return false;
    };
    match packet.protocol() {
        // Redirects, and advertisements of routers and requests for them.
        ICMP if packet.is_ipv4() => matches!(kind, 5 | 9 | 10),
        // RFC 4861, 4: solicitations and advertisements of routers and neighbours, and redirects.
        ICMPV6 if !packet.is_ipv4() => matches!(kind, 133..=137),
        _ => false,
    }
}

fn is_forwardable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            // Network 0, loopback, multicast and class E (RFC 6890), and addresses of a link (RFC 3927, section 7).
            first != 0 && first != 127 && first < 224 && !address.is_link_local()
        }
        IpAddr::V6(address) => {
            // An IPv4 address in disguise is on no wire (RFC 6890).
            let is_reserved = address.is_unspecified() || address.is_loopback();
            !is_reserved
                && !address.is_multicast()
                && !address.is_unicast_link_local()
                && address.to_ipv4_mapped().is_none()
        }
    }
}

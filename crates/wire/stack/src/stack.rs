//! The machine: the tables of flows, their timers and their data.

mod echoes;
mod incoming;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hermes_proto::ip::{IcmpError, IcmpLimiter, Packet, TCP, UDP};

use crate::build::{self, IPV4, IPV6, UDP_HEADER};
use crate::counts::StackCounts;
use crate::echo::{EchoHandling, EchoTable};
use crate::flow::{Ends, FlowId, FlowRefusal, Received, StackEvent};
use crate::fragments;
use crate::outgoing::Outgoing;
use crate::tcp::{OpenTcp, TcpFlow, TcpPhase, TcpSettings};
use crate::udp::UdpFlow;
use crate::{MAX_EVENTS, MAX_HALF_OPEN, MAX_TCP, MAX_UDP};

/// The first port that is chosen for connections from here (RFC 6335, section 6).
const FIRST_PORT: u16 = 49_152;

/// Ports that are tried before the range counts as exhausted.
#[doc(alias = "bound")]
const PORT_TRIES: u16 = 4096;

/// The longest packet whole, in bytes, by the 16 bits of its lengths.
const LONGEST_PACKET: usize = 65_535;

/// How a stack behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSettings {
    /// The longest packet that leaves, in bytes; at least 1280. [`Stack::set_mtu`] changes it.
    pub mtu: usize,
    /// Bytes of each of the two buffers of a connection. Default: 64 KiB.
    pub buffer: usize,
    /// Whether clients may open flows to any address: interception. Otherwise flows are opened from here only.
    pub intercepts: bool,
    /// The handling of echo requests.
    pub echo: EchoHandling,
    /// How many flows there may be.
    pub limits: StackLimits,
}

/// How many flows of a stack there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackLimits {
    /// Connections, those that end included. Default: [`MAX_TCP`].
    pub tcp: usize,
    /// Connections that clients have asked for and that are not open yet. Default: [`MAX_HALF_OPEN`].
    pub half_open: usize,
    /// Pairs of UDP ports. Default: [`MAX_UDP`].
    pub udp: usize,
}

impl Default for StackLimits {
    fn default() -> Self {
        Self {
            tcp: MAX_TCP,
            half_open: MAX_HALF_OPEN,
            udp: MAX_UDP,
        }
    }
}

impl Default for StackSettings {
    fn default() -> Self {
        Self {
            mtu: 1500,
            buffer: 64 << 10,
            intercepts: true,
            echo: EchoHandling::Answer,
            limits: StackLimits::default(),
        }
    }
}

/// The state of the checksums in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They are to be verified.
    Verify,
    /// The sender left them to be computed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`), or they were verified.
    Trusted,
}

/// Why no flow was opened from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The table of flows is full.
    #[error("there are as many flows as there may be")]
    Full,
    /// The addresses are of two families, or not valid for a flow.
    #[error("no flow can be between these addresses")]
    Address,
    /// Every port that was tried is taken.
    #[error("no port is left towards this target")]
    NoPort,
}

/// Flows of TCP and UDP over packets.
pub struct Stack {
    settings: StackSettings,
    tcp_settings: TcpSettings,
    pub(crate) tcp: HashMap<FlowId, TcpFlow>,
    pub(crate) udp: HashMap<FlowId, UdpFlow>,
    pub(crate) by_ends: HashMap<Ends, FlowId>,
    due: BTreeSet<(Instant, FlowId)>,
    outgoing: Outgoing,
    pub(crate) events: VecDeque<StackEvent>,
    icmp: Icmp,
    counts: StackCounts,
    numbers: Numbers,
    /// Connections that clients asked for and that are not open yet.
    half_open: usize,
}

/// The state of ICMP: errors and echoes.
#[derive(Debug, Default)]
struct Icmp {
    limiter: IcmpLimiter,
    echoes: EchoTable,
}

/// The last numbers that were given out.
#[derive(Debug)]
struct Numbers {
    flow: u64,
    port: u16,
    /// Of packets that were cut.
    packet: u32,
}

impl Stack {
    /// A stack without flows.
    pub fn new(settings: StackSettings, now: Instant) -> Self {
        let mtu = settings.mtu.max(hermes_proto::ip::MIN_MTU_V6);
        Self {
            settings: StackSettings { mtu, ..settings },
            tcp_settings: TcpSettings {
                mtu,
                buffer: settings.buffer.max(mtu),
                began: now,
            },
            tcp: HashMap::new(),
            udp: HashMap::new(),
            by_ends: HashMap::new(),
            due: BTreeSet::new(),
            outgoing: Outgoing::default(),
            events: VecDeque::new(),
            icmp: Icmp::default(),
            counts: StackCounts::default(),
            numbers: Numbers {
                flow: 0,
                port: FIRST_PORT,
                packet: 0,
            },
            half_open: 0,
        }
    }

    /// Sets the longest packet that leaves, for open connections as well. At least 1280.
    pub fn set_mtu(&mut self, mtu: usize) {
        let mtu = mtu.max(hermes_proto::ip::MIN_MTU_V6);
        if mtu == self.settings.mtu {
            return;
        }
        self.settings.mtu = mtu;
        self.tcp_settings.mtu = mtu;
        for tcp in self.tcp.values_mut() {
            if let TcpPhase::Open(open) = &mut tcp.phase {
                open.set_mtu(mtu);
            }
        }
    }

    /// The next packet to write.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop()
    }

    /// Whether [`Self::poll_transmit`] has a packet.
    pub fn has_transmit(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether connections wait for packets to be taken: before that, [`Self::handle_timeout`] is of no use.
    pub fn is_held_up(&self) -> bool {
        !self.outgoing.has_room()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<StackEvent> {
        let event = self.events.pop_front()?;
        if let StackEvent::Progress { flow } = &event
            && let Some(flow) = self.tcp.get_mut(flow)
        {
            flow.announced = false;
        }
        Some(event)
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        // A flow that is due again at once waits for the next call: there may be no room for its
        // packets.
        let due: Vec<FlowId> = self
            .due
            .iter()
            .take_while(|(due, _)| *due <= now)
            .map(|(_, flow)| *flow)
            .collect();
        for flow in due {
            self.handle_due(flow, now);
        }
    }

    /// Packets lost so far.
    pub fn counts(&self) -> StackCounts {
        self.counts
    }

    /// Whether there is such a flow, which ends only after it was [let go](Self::release).
    pub fn has(&self, flow: FlowId) -> bool {
        self.tcp.contains_key(&flow) || self.udp.contains_key(&flow)
    }

    /// How many flows there may be.
    pub fn limits(&self) -> StackLimits {
        self.settings.limits
    }

    /// The numbers of connections and of pairs of UDP ports.
    pub fn flows(&self) -> [usize; 2] {
        [self.tcp.len(), self.udp.len()]
    }

    // --- flows that clients open -------------------------------------------------------------------------------------

    /// Opens a connection that a client asked for, with two buffers of this many bytes, at least
    /// the MTU and at most the bound in the settings. `seed` is random: it makes sequence numbers
    /// hard to guess.
    pub fn accept(&mut self, flow: FlowId, buffer: usize, seed: u64, now: Instant) {
        let Some(tcp) = self.tcp.get_mut(&flow) else {
            return;
        };
        let TcpPhase::Asked(first) = &tcp.phase else {
            return;
        };

        let first = first.clone();
        let TcpSettings { mtu, .. } = self.tcp_settings;
        let settings = TcpSettings {
            buffer: buffer.clamp(mtu, self.tcp_settings.buffer),
            ..self.tcp_settings
        };
        match OpenTcp::listening(tcp.ends, settings, seed) {
            Some(open) => {
                tcp.phase = TcpPhase::Open(Box::new(open));
                self.look(flow, Some(&first), now);
            }
            None => self.refuse(flow, FlowRefusal::Reset, now),
        }
    }

    /// Refuses a flow that a client asked for. A pair of UDP ports stays until it is [released](Self::release), and each datagram that
    /// comes meanwhile is answered in the same way: a reset means here that nothing listens on the port.
    pub fn refuse(&mut self, flow: FlowId, refusal: FlowRefusal, now: Instant) {
        if let Some(udp) = self.udp.get_mut(&flow) {
            udp.refusal = Some(refusal);
            // Ports are all that a host looks for in the packet that an error quotes.
            let about = build::udp(udp.ends.there, udp.ends.here, &[]);
            self.answer_refused(&about, refusal, now);
            return;
        }

        let is_asked = self.is_asked(flow);
        let Some(tcp) = self.tcp.get(&flow).filter(|_| is_asked) else {
            return;
        };
        if let TcpPhase::Asked(first) = &tcp.phase {
            let first = first.clone();
            self.remove_tcp(flow);
            // One answer to one segment, after its target was really tried: no reason to be sparing.
            if let Ok(packet) = Packet::parse(&first) {
                self.send_refusal(&packet, refusal);
            }
        }
    }

    /// Tells the sender of a pair of UDP ports that payloads of more than this many bytes do not go on, as the router of a narrower
    /// link does (RFC 1191, section 3; RFC 8201, section 3), and as often as errors may be told. One whose packets may be cut is told nothing.
    pub fn refuse_larger(&mut self, flow: FlowId, payload: usize, now: Instant) {
        let Some(udp) = self.udp.get(&flow).filter(|udp| udp.keeps_whole) else {
            return;
        };
        let header = if udp.ends.here.is_ipv4() { IPV4 } else { IPV6 };
        let mtu = header + UDP_HEADER + payload;
        let error = IcmpError::TooBig {
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
        };
        let about = build::udp(udp.ends.there, udp.ends.here, &[]);
        self.answer_refused(&about, FlowRefusal::Error(error), now);
    }

    /// Answers a datagram of a pair that was refused, as often as errors may be told.
    pub(crate) fn answer_refused(&mut self, packet: &[u8], refusal: FlowRefusal, now: Instant) {
        let refusal = match refusal {
            FlowRefusal::Reset => FlowRefusal::Error(IcmpError::PortUnreachable),
            other => other,
        };
        if refusal != FlowRefusal::Silence
            && self.icmp.limiter.allows(now)
            && let Ok(packet) = Packet::parse(packet)
        {
            self.send_refusal(&packet, refusal);
        }
    }

    fn send_refusal(&mut self, packet: &Packet<'_>, refusal: FlowRefusal) {
        let answer = match refusal {
            FlowRefusal::Reset => build::reset(packet),
            // From the target itself: it is the one address whose errors a client certainly takes.
            FlowRefusal::Error(error) => {
                let error = error.about(packet, packet.destination());
                error.map(|error| error.to_vec())
            }
            FlowRefusal::Silence => None,
        };
        if let Some(answer) = answer {
            self.counts.full += u64::from(!self.outgoing.push(answer));
        }
    }

    // --- flows from here ---------------------------------------------------------------------------------------------

    /// Opens a connection from an address of ours. The first [`StackEvent::Progress`] tells the
    /// result. `seed` is random.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_tcp(
        &mut self,
        from: IpAddr,
        target: SocketAddr,
        seed: u64,
        now: Instant,
    ) -> Result<FlowId, OpenError> {
        if self.tcp.len() >= self.settings.limits.tcp {
            return Err(OpenError::Full);
        }
        let ends = self.free_ends(TCP, from, target, seed)?;
        let open = OpenTcp::connecting(ends, self.tcp_settings, seed).ok_or(OpenError::Address)?;
        let flow = self.add_tcp(ends, TcpPhase::Open(Box::new(open)));
        self.look(flow, None, now);
        Ok(flow)
    }

    /// Opens a pair of UDP ports from an address of ours. `seed` is random.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_udp(
        &mut self,
        from: IpAddr,
        target: SocketAddr,
        seed: u64,
        now: Instant,
    ) -> Result<FlowId, OpenError> {
        if self.udp.len() >= self.settings.limits.udp {
            return Err(OpenError::Full);
        }
        let ends = self.free_ends(UDP, from, target, seed)?;
        Ok(self.add_udp(UdpFlow::new(ends.here, target, now)))
    }

    /// Free ends for a flow.
    fn free_ends(
        &mut self,
        protocol: u8,
        from: IpAddr,
        target: SocketAddr,
        seed: u64,
    ) -> Result<Ends, OpenError> {
        let fits = from.is_ipv4() == target.is_ipv4() && target.port() != 0;
        if !fits || !is_host(from) || !is_host(target.ip()) {
            return Err(OpenError::Address);
        }

        // RFC 6056: an off-path attacker must not guess the next port.
        let span = u16::MAX - FIRST_PORT;
        let jump = (seed >> 32) as u16 % span;
        for step in 0..PORT_TRIES {
            let offset = self.numbers.port.wrapping_add(jump).wrapping_add(step) % span;
            let ends = Ends {
                protocol,
                here: SocketAddr::new(from, FIRST_PORT + offset),
                there: target,
            };
            if !self.by_ends.contains_key(&ends) {
                self.numbers.port = offset.wrapping_add(1);
                return Ok(ends);
            }
        }
        Err(OpenError::NoPort)
    }

    // --- data of flows -----------------------------------------------------------------------------------------------

    /// Reads from a connection.
    pub fn receive(&mut self, flow: FlowId, room: &mut [u8], now: Instant) -> Received {
        let Some(open) = self.open(flow) else {
            return match self.tcp.contains_key(&flow) {
                true => Received::Nothing,
                false => Received::Broken,
            };
        };
        let received = open.receive(room);
        if matches!(received, Received::Bytes(_)) {
            // The window has grown: the peer may be waiting for that.
            self.look(flow, None, now);
        }
        received
    }

    /// Writes to a connection. Returns how many bytes there was room for.
    pub fn send(&mut self, flow: FlowId, bytes: &[u8], now: Instant) -> usize {
        let Some(open) = self.open(flow) else {
            return 0;
        };
        let sent = open.send(bytes);
        if sent > 0 {
            self.look(flow, None, now);
        }
        sent
    }

    /// Whether a connection is open in both directions, or was: it was answered.
    pub fn is_open(&mut self, flow: FlowId) -> bool {
        self.open(flow).is_some_and(OpenTcp::is_open)
    }

    /// Whether nothing can be sent on a connection any more, though this side has not [finished](Self::finish): it broke, or is not known.
    pub fn is_broken(&mut self, flow: FlowId) -> bool {
        match self.open(flow) {
            Some(open) => open.is_broken(),
            None => !self.tcp.contains_key(&flow),
        }
    }

    /// Says that nothing more will be sent on a connection.
    pub fn finish(&mut self, flow: FlowId, now: Instant) {
        if let Some(open) = self.open(flow) {
            open.finish();
            self.look(flow, None, now);
        }
    }

    /// Keeps a pair of UDP ports through a silence longer than the usual five minutes: its holder ends it.
    pub fn outlast(&mut self, flow: FlowId, silence: Duration) {
        if let Some(udp) = self.udp.get_mut(&flow) {
            udp.silence = udp.silence.max(silence);
        }
    }

    /// Sends a datagram. Returns whether it went: not where too many packets wait, or the flow is gone. One that is too long for the MTU goes
    /// in pieces to a client here, as from any host, and not at all from here: a proxy may not cut it (RFC 9298, section 3.1).
    pub fn send_datagram(&mut self, flow: FlowId, payload: &[u8], now: Instant) -> bool {
        let Some(udp) = self.udp.get_mut(&flow) else {
            return false;
        };
        let header = if udp.ends.here.is_ipv4() { IPV4 } else { IPV6 };
        let length = header + UDP_HEADER + payload.len();
        let is_long = length > self.settings.mtu;
        if (is_long && !self.settings.intercepts) || length > LONGEST_PACKET {
            self.counts.full += 1;
            return false;
        }

        udp.last = now;
        let packet = build::udp(udp.ends.here, udp.ends.there, payload);
        let sent = if is_long {
            self.numbers.packet = self.numbers.packet.wrapping_add(1);
            let pieces = fragments::cut(&packet, self.settings.mtu, self.numbers.packet);
            self.outgoing.push_all(pieces)
        } else {
            self.outgoing.push(packet)
        };
        self.counts.full += u64::from(!sent);
        sent
    }

    /// Releases a flow. A connection that has not ended is reset.
    pub fn release(&mut self, flow: FlowId, now: Instant) {
        if self.remove_udp(flow) {
            return;
        }

        let Some(tcp) = self.tcp.get_mut(&flow) else {
            return;
        };
        tcp.released = true;
        match &mut tcp.phase {
            TcpPhase::Asked(_) => self.refuse(flow, FlowRefusal::Reset, now),
            TcpPhase::Open(open) => {
                if !open.is_finished() {
                    open.abort();
                }
                self.look(flow, None, now);
            }
        }
    }

    /// Tells the sender of a segment that there is no connection, as often as errors may be told.
    fn reset(&mut self, segment: &Packet<'_>, now: Instant) {
        if let Some(answer) = build::reset(segment)
            && self.icmp.limiter.allows(now)
        {
            self.counts.full += u64::from(!self.outgoing.push(answer));
        }
    }

    // --- tables ------------------------------------------------------------------------------------------------------

    fn has_event_room(&self) -> bool {
        self.events.len() < MAX_EVENTS
    }

    fn next_flow(&mut self) -> FlowId {
        self.numbers.flow += 1;
        FlowId(self.numbers.flow)
    }

    fn add_tcp(&mut self, ends: Ends, phase: TcpPhase) -> FlowId {
        let flow = self.next_flow();
        self.by_ends.insert(ends, flow);
        let half_open = matches!(phase, TcpPhase::Asked(_));
        let tcp = TcpFlow {
            ends,
            phase,
            due: None,
            announced: false,
            released: false,
            half_open,
        };
        self.tcp.insert(flow, tcp);
        flow
    }

    fn add_udp(&mut self, udp: UdpFlow) -> FlowId {
        let flow = self.next_flow();
        self.by_ends.insert(udp.ends, flow);
        self.due.insert((udp.due, flow));
        self.udp.insert(flow, udp);
        flow
    }

    /// Whether it was a pair of ports.
    pub(crate) fn remove_udp(&mut self, flow: FlowId) -> bool {
        let Some(udp) = self.udp.remove(&flow) else {
            return false;
        };
        self.by_ends.remove(&udp.ends);
        self.due.remove(&(udp.due, flow));
        true
    }

    pub(crate) fn remove_tcp(&mut self, flow: FlowId) -> Option<TcpFlow> {
        self.set_due(flow, None);
        let tcp = self.tcp.remove(&flow)?;
        self.by_ends.remove(&tcp.ends);
        self.half_open -= usize::from(tcp.half_open);
        Some(tcp)
    }

    fn is_asked(&self, flow: FlowId) -> bool {
        let phase = self.tcp.get(&flow).map(|tcp| &tcp.phase);
        matches!(phase, Some(TcpPhase::Asked(_)))
    }

    fn open(&mut self, flow: FlowId) -> Option<&mut OpenTcp> {
        match &mut self.tcp.get_mut(&flow)?.phase {
            TcpPhase::Open(open) => Some(open),
            TcpPhase::Asked(_) => None,
        }
    }

    /// Polls a connection: it takes the packet, if there is one, and sends.
    fn look(&mut self, flow: FlowId, packet: Option<&[u8]>, now: Instant) {
        let Some(tcp) = self.tcp.get_mut(&flow) else {
            return;
        };
        let TcpPhase::Open(open) = &mut tcp.phase else {
            return;
        };
        let look = open.look(packet, &mut self.outgoing, now);
        if tcp.half_open && !look.opening {
            tcp.half_open = false;
            self.half_open -= 1;
        }

        // Not before: the last FIN or reset may have to be sent again.
        if tcp.released && look.closed {
            self.remove_tcp(flow);
            return;
        }
        if look.progress && !tcp.announced && !tcp.released {
            tcp.announced = true;
            self.events.push_back(StackEvent::Progress { flow });
        }
        self.set_due(flow, look.due);
    }

    fn set_due(&mut self, flow: FlowId, due: Option<Instant>) {
        let Some(tcp) = self.tcp.get_mut(&flow) else {
            return;
        };
        if let Some(before) = tcp.due.take() {
            self.due.remove(&(before, flow));
        }
        tcp.due = due;
        if let Some(due) = due {
            self.due.insert((due, flow));
        }
    }

    fn handle_due(&mut self, flow: FlowId, now: Instant) {
        if let Some(udp) = self.udp.get_mut(&flow) {
            self.due.remove(&(udp.due, flow));
            // Datagrams do not move the timer, so it may be early: one tree update a silence, not one a datagram.
            udp.due = udp.last + udp.silence;
            if udp.due > now {
                self.due.insert((udp.due, flow));
                return;
            }
            self.release(flow, now);
            self.events.push_back(StackEvent::Gone { flow });
            return;
        }

        match self.tcp.get(&flow).map(|tcp| &tcp.phase) {
            Some(TcpPhase::Asked(_)) => {
                // Its target has said nothing for as long.
                self.refuse(flow, FlowRefusal::Silence, now);
                self.events.push_back(StackEvent::Gone { flow });
            }
            Some(TcpPhase::Open(_)) => self.look(flow, None, now),
            None => {}
        }
    }
}

/// Whether it can be the address of one host, that is not the machine itself.
fn is_host(address: IpAddr) -> bool {
    let broadcast = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    !broadcast && !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

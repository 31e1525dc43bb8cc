//! One connection: smoltcp's, on an interface of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpListenEndpoint};

use crate::flow::{Ends, Received};
use crate::outgoing::Outgoing;
use crate::wire::{HighestSent, Wire};

/// How long a peer may leave segments unanswered.
#[doc(alias = "bound")]
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);

/// How often an idle peer is asked whether it is there.
#[doc(alias = "bound")]
const KEEP_ALIVE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);

/// How long a client may leave the answer to its first segment unanswered.
#[doc(alias = "bound")]
const HALF_OPEN: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(20);

/// How long a client's first segment waits to be accepted: clients give up at about that time.
#[doc(alias = "bound")]
pub(crate) const ASKING: Duration = Duration::from_secs(60);

/// The longest first segment that is kept, in bytes: with all options, and no content.
#[doc(alias = "bound")]
pub(crate) const LONGEST_SYN: usize = 200;

/// The least length of packets that a connection over IPv4 is told by errors, in bytes.
const LEAST_V4: usize = 576;

/// The settings of every connection of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpSettings {
    pub(crate) mtu: usize,
    /// Bytes of each of its two buffers.
    pub(crate) buffer: usize,
    /// When time began for smoltcp.
    pub(crate) began: Instant,
}

/// A connection, from the first segment to the end.
pub(crate) struct TcpFlow {
    pub(crate) ends: Ends,
    pub(crate) phase: TcpPhase,
    /// When it is due.
    pub(crate) due: Option<Instant>,
    /// Whether the event about its last progress was not taken yet.
    pub(crate) announced: bool,
    /// Whether its holder has let it go.
    pub(crate) released: bool,
    /// Whether a client asked for it, and it is not open yet.
    pub(crate) half_open: bool,
}

/// The phase of a connection.
pub(crate) enum TcpPhase {
    /// The first segment waits to be accepted.
    Asked(Bytes),
    /// Accepted, or opened from here.
    Open(Box<OpenTcp>),
}

/// A connection of smoltcp.
pub(crate) struct OpenTcp {
    ends: Ends,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    settings: TcpSettings,
    sent: HighestSent,
    /// The state seen last, so that progress is reported once.
    seen: Seen,
    /// Whether this side has finished sending.
    is_finished: bool,
}

/// The state that matters to the reader and the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    state: State,
    readable: bool,
    writable: bool,
}

/// The result of a look at a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpLook {
    /// When to look again.
    pub(crate) due: Option<Instant>,
    /// Whether there is something new for the reader or the writer.
    pub(crate) progress: bool,
    /// Whether it is over.
    pub(crate) closed: bool,
    /// Whether it is not open yet.
    pub(crate) opening: bool,
}

impl OpenTcp {
    /// Waits for the first segment of `ends`.
    pub(crate) fn listening(ends: Ends, settings: TcpSettings, seed: u64) -> Option<Self> {
        let mut open = Self::new(ends, settings, seed)?;
        let at = IpListenEndpoint {
            addr: Some(ends.here.ip().into()),
            port: ends.here.port(),
        };
        open.socket().set_timeout(Some(HALF_OPEN));
        open.socket().listen(at).ok()?;
        Some(open)
    }

    /// Begins to connect.
    pub(crate) fn connecting(ends: Ends, settings: TcpSettings, seed: u64) -> Option<Self> {
        let mut open = Self::new(ends, settings, seed)?;
        let to = (IpAddress::from(ends.there.ip()), ends.there.port());
        let from = (IpAddress::from(ends.here.ip()), ends.here.port());
        let socket = open.sockets.get_mut::<Socket<'_>>(open.handle);
        socket.connect(open.interface.context(), to, from).ok()?;
        Some(open)
    }

    fn new(ends: Ends, settings: TcpSettings, seed: u64) -> Option<Self> {
        let interface = interface(ends, settings.mtu, seed)?;
        let buffer = || SocketBuffer::new(vec![0; settings.buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        // The bytes come from another connection: waiting for more of them only adds delay.
        socket.set_nagle_enabled(false);
        // Behind it is a path with losses, not a device.
        socket.set_congestion_control(CongestionControl::Cubic);
        socket.set_timeout(Some(SILENCE));
        socket.set_keep_alive(Some(KEEP_ALIVE));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);

        Some(Self {
            ends,
            interface,
            sockets,
            handle,
            settings,
            sent: HighestSent::default(),
            seen: Seen {
                state: State::Closed,
                readable: false,
                writable: false,
            },
            is_finished: false,
        })
    }

    /// Limits its segments to packets of this length, retransmissions as well.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        // An interface keeps its MTU for life, but has no state of the connection; the seed is not needed again, as the initial number was drawn.
        if let Some(interface) = interface(self.ends, mtu, 0) {
            self.interface = interface;
            self.settings.mtu = mtu;
        }
    }

    /// Limits its segments to packets of this length, if that is less than before: the MTU of a
    /// path, but no less than the minimum of IPv6, or the length that every IPv4 host takes (RFC
    /// 791).
    pub(crate) fn lower_mtu(&mut self, mtu: usize) {
        let least = match self.ends.here.is_ipv4() {
            true => LEAST_V4,
            false => hermes_proto::ip::MIN_MTU_V6,
        };
        let mtu = mtu.max(least);
        if mtu < self.settings.mtu {
            self.set_mtu(mtu);
        }
    }

    /// Whether a sequence number is within the last window that was sent.
    pub(crate) fn has_sent(&self, number: u32) -> bool {
        let Some(next) = self.sent.next() else {
            return false;
        };
        let window = u32::try_from(self.settings.buffer).unwrap_or(u32::MAX);
        (1..=window).contains(&next.wrapping_sub(number))
    }

    /// Whether its peer has not answered yet.
    pub(crate) fn is_opening(&mut self) -> bool {
        is_opening(self.socket().state())
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Hands the connection a packet, if there is one, and lets it send.
    pub(crate) fn look(
        &mut self,
        packet: Option<&[u8]>,
        outgoing: &mut Outgoing,
        now: Instant,
    ) -> TcpLook {
        let began = self.settings.began;
        let at = smoltcp_time(began, now);
        let mut wire = Wire {
            incoming: packet,
            outgoing,
            sent: &mut self.sent,
            mtu: self.settings.mtu,
            held_up: false,
        };
        self.interface.poll(at, &mut wire, &mut self.sockets);

        let held_up = wire.held_up;
        let due = match held_up {
            true => Some(now),
            false => self.due(at, now),
        };
        let was_opening = is_opening(self.seen.state);
        let socket = self.socket();
        // A client that completed the handshake has earned the longer patience.
        if was_opening && !is_opening(socket.state()) {
            socket.set_timeout(Some(SILENCE));
        }
        let seen = Seen {
            state: socket.state(),
            readable: socket.can_recv(),
            writable: socket.can_send(),
        };
        // Bytes behind unread ones change none of these states, but a waiting reader wants them.
        let more = packet.is_some() && seen.readable;
        let progress = seen != self.seen || more;
        self.seen = seen;
        TcpLook {
            due,
            progress,
            closed: seen.state == State::Closed,
            opening: is_opening(seen.state),
        }
    }

    /// When smoltcp has to be polled again: at least a millisecond from now, or it could ask for ever.
    fn due(&mut self, at: smoltcp::time::Instant, now: Instant) -> Option<Instant> {
        let due = self.interface.poll_at(at, &self.sockets)?;
        let wait = (due.total_micros() - at.total_micros()).max(1000);
        let wait = u64::try_from(wait).unwrap_or_default();
        Some(now + Duration::from_micros(wait))
    }

    pub(crate) fn receive(&mut self, room: &mut [u8]) -> Received {
        let socket = self.socket();
        match socket.recv_slice(room) {
            Ok(0) if socket.may_recv() || is_opening(socket.state()) => Received::Nothing,
            Ok(0) => Received::End,
            Ok(length) => Received::Bytes(length),
            Err(RecvError::Finished) => Received::End,
            Err(RecvError::InvalidState) if is_opening(socket.state()) => Received::Nothing,
            Err(RecvError::InvalidState) => Received::Broken,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        self.socket().send_slice(bytes).unwrap_or(0)
    }

    pub(crate) fn is_open(&mut self) -> bool {
        let state = self.socket().state();
        !is_opening(state) && state != State::Closed
    }

    pub(crate) fn is_broken(&mut self) -> bool {
        let is_finished = self.is_finished;
        let socket = self.socket();
        let is_lost = matches!(socket.peek(0), Err(RecvError::InvalidState));
        socket.state() == State::Closed && (is_lost || !is_finished)
    }

    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
        self.socket().close();
    }

    pub(crate) fn abort(&mut self) {
        self.socket().abort();
    }

    /// Whether both sides have finished sending.
    pub(crate) fn is_finished(&mut self) -> bool {
        use State::{Closed, Closing, LastAck, TimeWait};
        matches!(self.socket().state(), Closed | Closing | LastAck | TimeWait)
    }
}

/// The parts of smoltcp beside the connection itself: its own address, and the length of packets.
fn interface(ends: Ends, mtu: usize, seed: u64) -> Option<Interface> {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut none = Outgoing::default();
    let mut wire = Wire {
        incoming: None,
        outgoing: &mut none,
        sent: &mut HighestSent::default(),
        mtu,
        held_up: false,
    };
    let mut interface = Interface::new(config, &mut wire, smoltcp::time::Instant::ZERO);

    let (own, bits) = address(ends.here);
    interface.update_ip_addrs(|addresses| {
        // There is room for more than one.
        let _ = addresses.push(IpCidr::new(own, bits));
    });
    // All other hosts are behind the same wire.
    match own {
        IpAddress::Ipv4(own) => drop(interface.routes_mut().add_default_ipv4_route(own).ok()?),
        IpAddress::Ipv6(own) => drop(interface.routes_mut().add_default_ipv6_route(own).ok()?),
    }
    Some(interface)
}

fn is_opening(state: State) -> bool {
    matches!(state, State::Listen | State::SynSent | State::SynReceived)
}

fn address(of: SocketAddr) -> (IpAddress, u8) {
    let own = IpAddress::from(of.ip());
    let bits = if of.is_ipv4() { 32 } else { 128 };
    (own, bits)
}

fn smoltcp_time(began: Instant, now: Instant) -> smoltcp::time::Instant {
    let micros = now.saturating_duration_since(began).as_micros();
    smoltcp::time::Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

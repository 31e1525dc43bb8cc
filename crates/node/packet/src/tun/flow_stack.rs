//! Ends the packets of tunnels in user space: [a stack](hermes_stack::Stack), and the tasks that
//! wait for its flows.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use hermes_net::Asker;
use hermes_net::memory::{OwnerAccount, Purpose};
use hermes_net::turns::Turns;
use hermes_proto::ip::{Fragment, IcmpError, Packet, TCP, UDP};
use hermes_stack::{
    Checksums, EchoHandling, EchoId, FailedEcho, FlowId, FlowRefusal, MAX_ECHOES, OpenError, Stack,
    StackEvent, StackSettings,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::flow_charges::{ASKED, CONNECTION, FlowCharges, FlowKind, PORTS, charge_connection};
use super::flow_error::FlowError;
use super::tcp_flow::{FlowProgress, TcpFlow};
use super::udp_flow::UdpFlow;
use crate::device::WaitingTurn;
use crate::{Bounds, ChargedBounds, Queue, Session};

/// Packets that are taken from the stack at once.
#[doc(alias = "bound")]
const TOGETHER: usize = 64;

/// Bytes of the header of IPv6 alone.
const HEADER_V6: usize = 40;

/// A stack, and the tasks that wait for its flows.
///
/// It has no task of its own: the caller of a method wakes the others. Only timers need [a
/// task](Self::keep_time).
pub struct FlowStack {
    state: Mutex<FlowState>,
    /// Flows wait to be taken.
    asked: Notify,
    /// Echoes wait to be taken.
    echo_asked: Notify,
    /// A timer is due earlier than `keep_time` waits for.
    due: Notify,
    bounds: Bounds,
    echo: EchoHandling,
    buffer: usize,
    /// The account for flows that clients open.
    account: OnceLock<OwnerAccount>,
    turns: OnceLock<PacketTurns>,
}

/// The turns at packets of tunnels that end in stacks, and the user who takes them here.
struct PacketTurns {
    turns: Turns,
    asker: Asker,
}

struct FlowState {
    stack: Stack,
    connections: HashMap<FlowId, Arc<FlowProgress>>,
    sessions: HashMap<FlowId, Weak<Session>>,
    /// For flows in the stack, also those that no one waits for any more.
    charges: FlowCharges,
    /// Flows that no one has taken yet. Bounded by the stack: they are in its tables.
    asked: VecDeque<AskedFlow>,
    /// Echoes that no one has taken yet. Bounded as those that wait are.
    echoes: VecDeque<AskedEcho>,
    /// The task that takes packets.
    taker: Option<Waker>,
    /// The deadline that `keep_time` waits for.
    awaited: Option<Instant>,
    is_closed: bool,
}

/// A flow that a client wants.
pub struct AskedFlow {
    /// Its address and port, in the tunnel.
    pub client: SocketAddr,
    /// The target.
    pub target: SocketAddr,
    /// The carrier.
    pub carrier: FlowCarrier,
}

/// An echo that a client asks a host for.
#[derive(Debug, Clone)]
pub struct AskedEcho {
    /// Its name in the stack.
    pub echo: EchoId,
    /// The host.
    pub target: IpAddr,
    /// The content for the answer.
    pub content: Bytes,
}

/// The carrier of a flow.
pub enum FlowCarrier {
    /// A connection, which waits for an answer.
    Tcp(TcpFlow),
    /// Datagrams.
    Udp(Arc<Session>),
}

/// Effects that are carried out without the lock: sessions and tasks take locks of their own.
#[derive(Default)]
struct Effects {
    taker: Option<Waker>,
    datagrams: Vec<(Arc<Session>, Bytes)>,
    ended: Vec<Arc<Session>>,
    failed: Vec<(Arc<Session>, IcmpError)>,
}

impl fmt::Debug for FlowStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowStack").finish_non_exhaustive()
    }
}

impl Effects {
    fn apply(self) {
        if let Some(taker) = self.taker {
            taker.wake();
        }
        let now = tokio::time::Instant::now();
        for (session, payload) in self.datagrams {
            session.push(std::iter::once(&*payload), now);
        }
        for session in self.ended {
            session.evict();
        }
        for (session, error) in self.failed {
            session.fail(error);
        }
    }
}

impl FlowStack {
    /// A stack without flows. `bounds` are those of a client's datagrams until a route sets others.
    pub fn new(settings: StackSettings, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(FlowState {
                stack: Stack::new(settings, Instant::now()),
                connections: HashMap::new(),
                sessions: HashMap::new(),
                charges: FlowCharges::default(),
                asked: VecDeque::new(),
                echoes: VecDeque::new(),
                taker: None,
                awaited: None,
                is_closed: false,
            }),
            asked: Notify::new(),
            echo_asked: Notify::new(),
            due: Notify::new(),
            bounds,
            echo: settings.echo,
            buffer: settings.buffer,
            account: OnceLock::new(),
            turns: OnceLock::new(),
        })
    }

    /// Makes each batch of packets from the tunnel take a turn of this user: other tunnels of the same user wait meanwhile, those of
    /// other users do not.
    pub fn set_turns(&self, turns: Turns, asker: Asker) {
        // Set once, before the first packet.
        let _ = self.turns.set(PacketTurns { turns, asker });
    }

    /// Waits for a turn, where there are turns.
    pub(super) fn turn(&self) -> Option<WaitingTurn<'_>> {
        let PacketTurns { turns, asker } = self.turns.get()?;
        Some(Box::pin(async move { turns.take(*asker, None).await.ok() }))
    }

    /// Charges the flows that clients open from now on to this account.
    pub fn set_account(&self, account: OwnerAccount) {
        // Set once, before the first packet.
        let _ = self.account.set(account);
    }

    /// Opens a connection that a client asked for, with buffers as large as its owner has room for, or refuses it.
    pub(super) fn accept(self: &Arc<Self>, flow: FlowId) {
        let granted = match self.account.get() {
            None => Some((self.buffer, None)),
            Some(account) => charge_connection(account, self.buffer)
                .map(|(buffer, charge)| (buffer, Some(charge))),
        };
        let Some((buffer, charge)) = granted else {
            return self.refuse(flow, FlowRefusal::Reset);
        };

        // The client may have given up meanwhile: then the charge is dropped here and now.
        let is_there = self.with(|stack, now| {
            stack.accept(flow, buffer, random(), now);
            stack.has(flow)
        });
        if let Some(charge) = charge.filter(|_| is_there) {
            let mut state = self.state.lock();
            state.charges.enter(flow, FlowKind::Tcp, charge);
        }
    }

    /// Refuses a flow that a client asked for.
    pub(super) fn refuse(self: &Arc<Self>, flow: FlowId, refusal: FlowRefusal) {
        self.with(|stack, now| stack.refuse(flow, refusal, now));
    }

    /// Runs `act` on the stack, and then wakes the waiting tasks.
    pub(super) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut Stack, Instant) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state.stack, Instant::now());
        let effects = self.settle(&mut state);
        drop(state);
        effects.apply();
        result
    }

    /// Whether the stack handles a packet: whole packets of TCP and UDP, ICMP errors, and echo requests unless those are handed on.
    pub(super) fn takes(&self, packet: &[u8]) -> bool {
        let Ok(packet) = Packet::parse(packet) else {
            return false;
        };
        let has_options = !packet.is_ipv4() && packet.header_length() > HEADER_V6;
        if packet.fragment() != Fragment::Whole || has_options {
            return false;
        }
        let is_transport = [TCP, UDP].contains(&packet.protocol());
        let takes_echo = self.echo != EchoHandling::HandOn && packet.is_echo_request();
        is_transport || packet.is_icmp_error() || takes_echo
    }

    /// Takes a packet that came out of a tunnel.
    pub(super) fn handle_packet(self: &Arc<Self>, packet: &[u8], checksums: Checksums) {
        self.with(|stack, now| stack.handle_packet(packet, checksums, now));
    }

    /// Takes packets that came out of a tunnel under one lock; `packets` gives each of them to its argument.
    pub(super) fn handle_packets(self: &Arc<Self>, packets: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        self.with(|stack, now| {
            packets(&mut |packet| stack.handle_packet(packet, Checksums::Verify, now));
        });
    }

    /// Sets the longest packet that the stack sends, in bytes.
    pub(super) fn set_mtu(self: &Arc<Self>, mtu: usize) {
        self.with(|stack, _| stack.set_mtu(mtu));
    }

    /// Registers the task to wake when there are packets.
    pub(super) fn wake(&self, waker: &Waker) {
        self.state.lock().taker = Some(waker.clone());
    }

    /// Takes a batch of the packets that the stack sends into a tunnel.
    pub(super) fn transmits(self: &Arc<Self>) -> Vec<Vec<u8>> {
        self.with(|stack, now| {
            let was_held_up = stack.is_held_up();
            let packets: Vec<Vec<u8>> = std::iter::from_fn(|| stack.poll_transmit())
                .take(TOGETHER)
                .collect();
            // The timers rested while the queue was full: there is room again.
            if was_held_up {
                stack.handle_timeout(now);
            }
            packets
        })
    }

    /// Waits for packets that the stack sends, and takes a batch. One task at a time waits.
    pub(super) async fn next_transmits(self: &Arc<Self>) -> Vec<Vec<u8>> {
        poll_fn(|cx| {
            // A sender of packets meanwhile wakes this task, or this finds them already.
            self.wake(cx.waker());
            match self.transmits() {
                packets if packets.is_empty() => Poll::Pending,
                packets => Poll::Ready(packets),
            }
        })
        .await
    }

    /// The next flow that a client wants.
    pub async fn next_flow(&self) -> AskedFlow {
        loop {
            // `notify_one` leaves a permit: a flow that comes between these lines is not missed.
            let next = self.state.lock().asked.pop_front();
            match next {
                Some(flow) => return flow,
                None => self.asked.notified().await,
            }
        }
    }

    /// The next echo that a client asks for.
    pub async fn next_echo(&self) -> AskedEcho {
        loop {
            let next = self.state.lock().echoes.pop_front();
            match next {
                Some(echo) => return echo,
                None => self.echo_asked.notified().await,
            }
        }
    }

    /// Tells a client the answer of `target` to the echo with this number.
    pub fn answer_echo(self: &Arc<Self>, number: u16, target: IpAddr, content: &[u8]) {
        self.with(|stack, now| stack.answer_echo(number, target, content, now));
    }

    /// Tells a client that policy forbids its echo.
    pub fn refuse_echo(self: &Arc<Self>, asked: &AskedEcho) {
        self.with(|stack, now| stack.refuse_echo(asked.echo, asked.target, now));
    }

    /// Tells a client that its echo did not reach the host.
    pub fn fail_echo(self: &Arc<Self>, failed: FailedEcho) {
        self.with(|stack, now| stack.fail_echo(failed, now));
    }

    /// Whether echoes are asked elsewhere.
    pub fn asks_echo(&self) -> bool {
        self.echo == EchoHandling::Ask
    }

    /// Handles the timers. Never completes.
    pub async fn keep_time(self: &Arc<Self>) -> Infallible {
        loop {
            let due = {
                let mut state = self.state.lock();
                state.awaited = state.due();
                state.awaited
            };
            let timer = async {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => self.with(Stack::handle_timeout),
                () = self.due.notified() => {}
            }
        }
    }

    /// The numbers of connections and of pairs of UDP ports.
    pub fn flows(&self) -> [usize; 2] {
        self.state.lock().stack.flows()
    }

    /// Ends all flows, and takes no more.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let asked = std::mem::take(&mut state.asked);
        let connections = std::mem::take(&mut state.connections);
        let sessions = std::mem::take(&mut state.sessions);
        drop(state);

        for progress in connections.values() {
            progress.end();
        }
        for session in sessions.values().filter_map(Weak::upgrade) {
            session.evict();
        }
        // Without the lock: dropping a carrier releases its flow, which takes the lock.
        drop(asked);
    }

    /// Opens a connection from an address that a tunnel has assigned. It is charged to the owner of
    /// its exchange, who leaves as many connections to others as it has.
    pub(super) fn open_tcp(
        self: &Arc<Self>,
        from: IpAddr,
        target: SocketAddr,
        account: &OwnerAccount,
    ) -> Result<TcpFlow, FlowError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(OpenError::Full.into());
        }
        let FlowState { stack, charges, .. } = &*state;
        charges.check_share(stack, account, FlowKind::Tcp)?;

        let charge = account.charge(Purpose::Stack, CONNECTION + 2 * self.buffer)?;
        let flow = state
            .stack
            .open_tcp(from, target, random(), Instant::now())?;
        state.charges.enter(flow, FlowKind::Tcp, charge);
        let progress = Arc::<FlowProgress>::default();
        state.connections.insert(flow, progress.clone());
        let effects = self.settle(&mut state);
        drop(state);
        effects.apply();
        Ok(TcpFlow::new(self.clone(), flow, progress))
    }

    /// Opens a pair of ports from an address that a tunnel has assigned, as [`Self::open_tcp`]. The
    /// session's datagrams are those of the target.
    pub(super) fn open_udp(
        self: &Arc<Self>,
        from: IpAddr,
        target: SocketAddr,
        bounds: &ChargedBounds,
    ) -> Result<Arc<Session>, FlowError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(OpenError::Full.into());
        }
        let FlowState { stack, charges, .. } = &*state;
        charges.check_share(stack, &bounds.account, FlowKind::Udp)?;

        let charge = bounds.account.charge(Purpose::Stack, PORTS)?;
        let flow = state
            .stack
            .open_udp(from, target, random(), Instant::now())?;
        state.charges.enter(flow, FlowKind::Udp, charge);
        let own = UdpFlow::new(self.clone(), flow);
        let session = Arc::new(Session::of_flow(own, Queue::charged(bounds)));
        state.sessions.insert(flow, Arc::downgrade(&session));
        Ok(session)
    }

    /// Releases a flow: no task waits for it any more.
    pub(super) fn release(self: &Arc<Self>, flow: FlowId) {
        {
            let mut state = self.state.lock();
            state.connections.remove(&flow);
            state.sessions.remove(&flow);
        }
        self.with(|stack, now| stack.release(flow, now));
    }

    /// Handles the events.
    fn settle(self: &Arc<Self>, state: &mut FlowState) -> Effects {
        let mut effects = Effects::default();
        while let Some(event) = state.stack.poll_event() {
            self.handle_event(state, event, &mut effects);
        }

        state.charges.settle(&state.stack);
        if state.stack.has_transmit() {
            effects.taker = state.taker.take();
        }
        let due = state.due();
        if due.is_some_and(|due| state.awaited.is_none_or(|awaited| due < awaited)) {
            state.awaited = due;
            self.due.notify_one();
        }
        effects
    }

    fn handle_event(
        self: &Arc<Self>,
        state: &mut FlowState,
        event: StackEvent,
        effects: &mut Effects,
    ) {
        match event {
            StackEvent::TcpAsked {
                flow,
                client,
                target,
            } if !state.is_closed => {
                // A client that is told at once waits for nothing, and its owner knows that it has too many.
                if !self.charge_asked(state, flow) {
                    state.stack.refuse(flow, FlowRefusal::Reset, Instant::now());
                    return;
                }
                let carrier = self.tcp_carrier(state, flow);
                let flow = AskedFlow {
                    client,
                    target,
                    carrier,
                };
                self.ask(state, flow);
            }
            StackEvent::UdpAsked {
                flow,
                client,
                target,
            } if !state.is_closed => match self.udp_carrier(state, flow) {
                None => state.stack.release(flow, Instant::now()),
                Some(carrier) => {
                    let flow = AskedFlow {
                        client,
                        target,
                        carrier,
                    };
                    self.ask(state, flow);
                }
            },
            StackEvent::Datagram { flow, payload } => {
                let session = state.sessions.get(&flow).and_then(Weak::upgrade);
                effects
                    .datagrams
                    .extend(session.map(|session| (session, payload)));
            }
            StackEvent::Progress { flow } => {
                if let Some(progress) = state.connections.get(&flow) {
                    progress.made();
                }
            }
            StackEvent::Gone { flow } => {
                if let Some(progress) = state.connections.remove(&flow) {
                    progress.end();
                }
                let session = state.sessions.remove(&flow);
                effects
                    .ended
                    .extend(session.and_then(|session| session.upgrade()));
            }
            StackEvent::Unreachable { flow, error } => {
                effects.failed.extend(state.fail(flow, error));
            }
            StackEvent::EchoAsked {
                echo,
                target,
                content,
            } => self.ask_echo(
                state,
                AskedEcho {
                    echo,
                    target,
                    content,
                },
            ),
            // Closed: no task takes flows any more.
            StackEvent::TcpAsked { flow, .. } | StackEvent::UdpAsked { flow, .. } => {
                state.stack.release(flow, Instant::now());
            }
            StackEvent::Other(_) => {}
        }
    }

    fn tcp_carrier(self: &Arc<Self>, state: &mut FlowState, flow: FlowId) -> FlowCarrier {
        let progress = Arc::<FlowProgress>::default();
        state.connections.insert(flow, progress.clone());
        FlowCarrier::Tcp(TcpFlow::new(self.clone(), flow, progress))
    }

    /// `None` where its owner has no room for it.
    fn udp_carrier(self: &Arc<Self>, state: &mut FlowState, flow: FlowId) -> Option<FlowCarrier> {
        if !self.charge_ports(state, flow) {
            return None;
        }

        let own = UdpFlow::new(self.clone(), flow);
        let session = Arc::new(Session::of_flow(own, self.datagram_queue()));
        state.sessions.insert(flow, Arc::downgrade(&session));
        Some(FlowCarrier::Udp(session))
    }

    /// Charges a pair of ports to its owner; false where that has no room.
    fn charge_ports(&self, state: &mut FlowState, flow: FlowId) -> bool {
        self.charge(state, flow, FlowKind::Udp, PORTS)
    }

    /// Charges a connection that waits for its target to its owner; false where that has no room.
    fn charge_asked(&self, state: &mut FlowState, flow: FlowId) -> bool {
        self.charge(state, flow, FlowKind::Tcp, ASKED)
    }

    fn charge(&self, state: &mut FlowState, flow: FlowId, kind: FlowKind, bytes: usize) -> bool {
        let Some(account) = self.account.get() else {
            return true;
        };
        let charge = account.charge(Purpose::Stack, bytes).ok();
        let charged = charge.map(|charge| state.charges.enter(flow, kind, charge));
        charged.is_some()
    }

    /// A queue for datagrams of a client.
    fn datagram_queue(&self) -> Queue {
        match self.account.get() {
            None => Queue::new(self.bounds),
            Some(account) => Queue::charged(&ChargedBounds {
                bounds: self.bounds,
                account: account.clone(),
            }),
        }
    }

    fn ask_echo(&self, state: &mut FlowState, asked: AskedEcho) {
        // The stack follows no more than this: it has given up the oldest by now.
        if state.echoes.len() >= MAX_ECHOES {
            state.echoes.pop_front();
        }
        state.echoes.push_back(asked);
        self.echo_asked.notify_one();
    }

    fn ask(&self, state: &mut FlowState, flow: AskedFlow) {
        state.asked.push_back(flow);
        self.asked.notify_one();
    }
}

/// A number that peers cannot guess. Without random numbers from the kernel it is 0, and peers could guess sequence numbers.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}

impl FlowState {
    /// Fails a flow that reaches no host. Returns the session to report it to, if it has one.
    fn fail(&mut self, flow: FlowId, error: IcmpError) -> Option<(Arc<Session>, IcmpError)> {
        if let Some(progress) = self.connections.remove(&flow) {
            progress.fail(error);
        }
        let session = self.sessions.remove(&flow)?;
        Some((session.upgrade()?, error))
    }

    /// When the next timer is due; none is while the stack is held up.
    fn due(&self) -> Option<Instant> {
        self.stack
            .poll_timeout()
            .filter(|_| !self.stack.is_held_up())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hermes_net::memory::{Memory, Owner};
    use hermes_stack::{MAX_TCP, MAX_UDP};

    use super::*;

    const HERE: [u8; 4] = [10, 7, 0, 2];

    fn stack() -> Arc<FlowStack> {
        let settings = StackSettings {
            intercepts: false,
            ..StackSettings::default()
        };
        FlowStack::new(settings, Bounds::NOTHING)
    }

    fn fill<T>(open: impl Fn(SocketAddr) -> Result<T, FlowError>) -> Vec<T> {
        let one = |port| open(SocketAddr::from(([192, 0, 2, 1], port))).ok();
        (1..2000).map_while(one).collect()
    }

    #[test]
    fn a_user_has_half_of_what_others_leave_of_the_flows_of_a_tunnel() {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(1 << 30, 1 << 20)));
        let account = |name: &str| memory.owner(Owner::User(name.into()));
        let stack = stack();

        let ports = |name: &str| {
            let bounds = ChargedBounds {
                bounds: Bounds {
                    bytes: 1000,
                    age: Duration::from_secs(1),
                },
                account: account(name),
            };
            fill(|target| stack.open_udp(HERE.into(), target, &bounds))
        };
        let greedy = ports("greedy");
        assert_eq!(greedy.len(), MAX_UDP / 2);
        let other = ports("other");
        assert_eq!(other.len(), MAX_UDP / 4);
        let charged = (greedy.len() + other.len()) * PORTS;
        assert_eq!(memory.charged_for(Purpose::Stack), charged);
        drop((greedy, other));

        let connections =
            |name: &str| fill(|target| stack.open_tcp(HERE.into(), target, &account(name)));
        let greedy = connections("greedy");
        assert_eq!(greedy.len(), MAX_TCP / 2);
        assert_eq!(connections("other").len(), MAX_TCP / 4);

        drop(greedy);
        stack.close();
        drop(stack);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn a_flow_that_there_is_no_memory_for_is_refused_with_the_reason() {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(1 << 20, 1 << 20)));
        let account = memory.owner(Owner::User("greedy".into()));
        let stack = stack();
        let target = SocketAddr::from(([192, 0, 2, 1], 1));
        let open = || stack.open_tcp(HERE.into(), target, &account);
        let held: Vec<_> = std::iter::from_fn(|| open().ok()).collect();
        assert!((1..5).contains(&held.len()), "{}", held.len());
        let refused = open().err().unwrap();
        assert!(matches!(refused, FlowError::NoMemory(_)), "{refused}");
    }
}

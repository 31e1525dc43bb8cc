//! The live sessions of one worker's share of a socket for UDP, each of a client and where its datagrams go. A client that sends one datagram
//! has one, so those that were not answered are the first to go: a flood of sources displaces itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::HostPort;
use hermes_rules::session::{Candidate, Class, evicted};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Session;

/// The fraction of all sessions that ends at once to make room, so that the search for them is not
/// paid for by each.
#[doc(alias = "bound")]
const PART: usize = 16;

/// The fraction of all sessions that may be unanswered: a flood displaces itself.
#[doc(alias = "bound")]
const UNANSWERED: usize = 2;

/// Silence after which a conversation makes room where there is none: more than twice the 25 s of WireGuard's keep-alive.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(60);

/// The same for one whose target has never sent anything. Video does not pause so long, and forged sources send a few datagrams each.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(2);

/// How long no room is looked for after there was none: a look at all sessions costs far more than the datagram that asks for it.
#[doc(alias = "bound")]
const NEXT_LOOK: Duration = Duration::from_millis(100);

/// The client of a session, and its target: one client may talk to many targets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The address of the client.
    pub client: SocketAddr,
    /// Where its datagrams go.
    pub target: SessionTarget,
}

/// Where the datagrams of a session go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionTarget {
    /// To the target of the listener.
    OfListener,
    /// To an address, such as that to which a captured datagram was sent.
    Address(SocketAddr),
    /// To a name and a port, as a client of SOCKS may say.
    Name(Arc<str>, u16),
}

impl SessionTarget {
    /// Name or address, with its port; `None`: the listener knows.
    pub fn host_port(&self) -> Option<HostPort> {
        match self {
            Self::OfListener => None,
            Self::Address(address) => Some(HostPort {
                host: address.ip().to_string(),
                port: address.port(),
            }),
            Self::Name(name, port) => Some(HostPort {
                host: name.to_string(),
                port: *port,
            }),
        }
    }
}

/// Live sessions.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Live>>);

#[derive(Default)]
struct Live {
    sessions: HashMap<SessionKey, Known>,
    /// The number of sessions at which to look whether some have to go.
    look: usize,
    /// When to look again, after there was no room.
    again: Option<Instant>,
}

/// A session, and when it was seen to speak.
struct Known {
    session: Arc<Session>,
    /// How often both sides had spoken when it was looked at last, and since when.
    seen: (u64, Instant),
}

impl Known {
    /// The session among those that may have to go; `full` says that there is no room at all.
    fn candidate(&mut self, full: bool, now: Instant) -> Candidate {
        let activity = self.session.activity();
        if activity != self.seen.0 {
            self.seen = (activity, now);
        }

        let silence = now.duration_since(self.seen.1);
        let is_unanswered = full && silence >= PAUSE && self.session.is_one_way();
        Candidate {
            class: match is_unanswered {
                true => Class::Unanswered,
                false => self.session.worth(),
            },
            own: true,
            quiet: full && silence >= QUIET,
        }
    }
}

/// All sessions go on speaking, so that there is no room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl Sessions {
    /// The session of a client for a target, if it takes datagrams.
    pub fn find(&self, key: &SessionKey) -> Option<Arc<Session>> {
        self.0
            .lock()
            .sessions
            .get(key)
            .map(|known| &known.session)
            .filter(|session| !session.is_retired())
            .cloned()
    }

    /// Enters a session.
    pub fn enter(&self, key: SessionKey, session: Arc<Session>) {
        let seen = (session.activity(), Instant::now());
        let mut live = self.0.lock();
        live.sessions.insert(key, Known { session, seen });
        live.again = None;
    }

    /// A session has ended; another with the same key may be there already.
    pub fn leave(&self, key: &SessionKey, session: &Arc<Session>) {
        let mut live = self.0.lock();
        if live
            .sessions
            .get(key)
            .is_some_and(|other| Arc::ptr_eq(&other.session, session))
        {
            live.sessions.remove(key);
        }
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.0.lock().sessions.is_empty()
    }

    /// Makes room for one more where there may be `most`; says how many had to end for it.
    ///
    /// # Errors
    /// There is none: all have had traffic lately.
    pub fn make_room(&self, most: usize) -> Result<usize, NoRoom> {
        let mut live = self.0.lock();
        let now = Instant::now();
        let looks = live.again.is_none_or(|again| again <= now);
        let gone = if looks && live.sessions.len() >= live.look.min(most) {
            live.end_some(most, now)
        } else {
            0
        };

        if live.sessions.len() < most {
            return Ok(gone);
        }
        if looks {
            live.again = Some(now + NEXT_LOOK);
        }
        Err(NoRoom)
    }
}

impl Live {
    /// Ends sessions if there are too many, and says when to look again.
    fn end_some(&mut self, most: usize, now: Instant) -> usize {
        let full = self.sessions.len() >= most;
        let known = self.sessions.values_mut();
        let mut by_age: Vec<(Arc<Session>, Candidate)> = known
            .map(|known| (known.session.clone(), known.candidate(full, now)))
            .collect();
        by_age.sort_unstable_by_key(|(session, _)| session.began());

        let candidates: Vec<_> = by_age.iter().map(|(_, candidate)| *candidate).collect();
        let unanswered = candidates
            .iter()
            .filter(|one| one.class == Class::Unanswered)
            .count();
        let allowed = (most / UNANSWERED).max(1);
        let part = (most / PART).max(1);
        let wanted = if unanswered >= allowed || full {
            part
        } else {
            0
        };

        let gone = evicted(&candidates, wanted);
        for index in &gone {
            by_age[*index].0.evict();
        }
        if !gone.is_empty() {
            self.sessions.retain(|_, known| !known.session.is_evicted());
        }

        // Each further session is one more that is unanswered, at most.
        let room = allowed
            .saturating_sub(unanswered.saturating_sub(gone.len()))
            .max(1);
        self.look = self.sessions.len() + room;
        gone.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use hermes_net::memory::{Memory, Owner};
    use hermes_net::{PeerAddress, UdpSocket};

    use super::*;
    use crate::{Bounds, Hold};
    use hermes_observe::{AccessSink, Begin, Telemetry};

    struct Listener {
        sessions: Sessions,
        socket: Arc<UdpSocket>,
        telemetry: Arc<Telemetry>,
        next: u16,
    }

    fn key(port: u16) -> SessionKey {
        SessionKey {
            client: SocketAddr::from(([127, 0, 0, 1], port)),
            target: SessionTarget::OfListener,
        }
    }

    impl Listener {
        fn new() -> Self {
            let socket =
                UdpSocket::bound(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            let telemetry = Telemetry::new("a", AccessSink::off());
            Self {
                sessions: Sessions::default(),
                socket: Arc::new(socket),
                telemetry,
                next: 1,
            }
        }

        /// A session after these have spoken: `c` the client, `t` the target.
        fn add(&mut self, spoken: &str) -> Arc<Session> {
            let client = SocketAddr::from(([127, 0, 0, 1], self.next));
            self.next += 1;
            let bounds = Bounds {
                bytes: 1000,
                age: Duration::from_secs(1),
            };
            let hold = Hold::new(Memory::node().owner(Owner::Local));
            let session = Session::new(client, None, self.socket.clone(), bounds, &hold);
            let session = Arc::new(session);
            let source = PeerAddress::Ip(client);
            let begin = Begin {
                kind: "connect-udp",
                listener: "voice".into(),
                source,
                protocol: "udp",
            };
            let exchange = Arc::new(self.telemetry.begin(begin));
            let counters = exchange.counters();
            for who in spoken.chars() {
                let is_client = who == 'c';
                counters.spoke(is_client);
                let datagrams = match is_client {
                    true => &counters.datagrams_in,
                    false => &counters.datagrams_out,
                };
                datagrams.fetch_add(1, Ordering::Relaxed);
            }
            session.is_exchange(&exchange);
            self.sessions.enter(key(self.next - 1), session.clone());
            session
        }

        fn len(&self) -> usize {
            self.sessions.0.lock().sessions.len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_sources_displaces_itself_and_has_half_of_the_room() {
        let mut listener = Listener::new();
        let call = listener.add("ctc");
        let question = listener.add("ct");
        for _ in 0..10_000 {
            assert!(listener.sessions.make_room(64).is_ok());
            listener.add("c");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(listener.len() <= 34, "{}", listener.len());
        }
        assert!(!call.is_retired() && !question.is_retired());
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_go_on_speaking_make_no_room() {
        let mut listener = Listener::new();
        let calls: Vec<_> = (0..4).map(|_| listener.add("ctc")).collect();
        assert!(listener.sessions.make_room(4).is_err());
        listener.sessions.leave(&key(1), &calls[1]);
        assert_eq!(
            listener.len(),
            4,
            "another session of that client is not its own"
        );
        listener.sessions.leave(&key(1), &calls[0]);
        assert_eq!(listener.sessions.make_room(4), Ok(0));
        listener.add("ct");
        assert_eq!(listener.sessions.make_room(4), Ok(1));
        assert!(listener.sessions.find(&key(5)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_streamed_one_way_makes_room_once_it_has_stopped() {
        let mut listener = Listener::new();
        let stream = "c".repeat(17);
        let goes_on = listener.add(&stream);
        let call = listener.add("ctc");
        for _ in 2..64 {
            listener.add(&stream);
        }
        assert!(listener.sessions.make_room(64).is_err());

        let empty = || std::iter::empty::<&[u8]>();
        tokio::time::advance(PAUSE).await;
        goes_on.push(empty(), Instant::now());
        assert_eq!(listener.sessions.make_room(64), Ok(4));
        assert!(!goes_on.is_retired() && !call.is_retired());
    }

    #[tokio::test(start_paused = true)]
    async fn conversations_make_room_once_they_are_quiet_and_are_not_looked_at_each_time() {
        let mut listener = Listener::new();
        let calls: Vec<_> = (0..4).map(|_| listener.add("ctc")).collect();
        assert!(listener.sessions.make_room(4).is_err());

        tokio::time::advance(QUIET).await;
        calls[0].push(std::iter::empty::<&[u8]>(), Instant::now());
        assert_eq!(listener.sessions.make_room(4), Ok(1));
        let retired = calls.iter().filter(|call| call.is_retired());
        assert!(!calls[0].is_retired() && retired.count() == 1);

        // Newer ones, which have not been silent for long.
        while listener.sessions.make_room(4).is_ok() {
            listener.add("ctc");
        }
        let looked = listener.sessions.0.lock().again;
        tokio::time::advance(NEXT_LOOK / 2).await;
        assert!(listener.sessions.make_room(4).is_err());
        assert_eq!(listener.sessions.0.lock().again, looked);
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_has_a_session_for_each_target() {
        let mut listener = Listener::new();
        let question = listener.add("ct");
        let mut other = key(1);
        other.target = SessionTarget::Address(SocketAddr::from(([192, 0, 2, 1], 53)));
        assert!(listener.sessions.find(&other).is_none());

        let call = listener.add("ctc");
        listener.sessions.enter(other.clone(), call.clone());
        let found = |key: &SessionKey| listener.sessions.find(key).unwrap();
        assert!(Arc::ptr_eq(&found(&key(1)), &question));
        assert!(Arc::ptr_eq(&found(&other), &call));

        listener.sessions.leave(&other, &call);
        assert!(listener.sessions.find(&other).is_none());
        assert!(listener.sessions.find(&key(1)).is_some());
    }
}

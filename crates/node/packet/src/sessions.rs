//! The live sessions of one worker's share of a socket for UDP, each of a client and where its datagrams go. A client that sends one datagram
//! has one, so those that were not answered are the first to go: a flood of sources displaces itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_rules::session::{Candidate, Class, evicted};
use parking_lot::Mutex;

use crate::Session;

/// The fraction of all sessions that ends at once to make room, so that the search for them is not
/// paid for by each.
#[doc(alias = "bound")]
const PART: usize = 16;

/// The fraction of all sessions that may be unanswered: a flood displaces itself.
#[doc(alias = "bound")]
const UNANSWERED: usize = 2;

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
    sessions: HashMap<SessionKey, Arc<Session>>,
    /// The number of sessions at which to look whether some have to go.
    look: usize,
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
            .filter(|session| !session.is_retired())
            .cloned()
    }

    /// Enters a session.
    pub fn enter(&self, key: SessionKey, session: Arc<Session>) {
        self.0.lock().sessions.insert(key, session);
    }

    /// A session has ended; another with the same key may be there already.
    pub fn leave(&self, key: &SessionKey, session: &Arc<Session>) {
        let mut live = self.0.lock();
        if live
            .sessions
            .get(key)
            .is_some_and(|other| Arc::ptr_eq(other, session))
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
    /// There is none: all have traffic.
    pub fn make_room(&self, most: usize) -> Result<usize, NoRoom> {
        let mut live = self.0.lock();
        let gone = if live.sessions.len() >= live.look.min(most) {
            live.end_some(most)
        } else {
            0
        };

        if live.sessions.len() < most {
            Ok(gone)
        } else {
            Err(NoRoom)
        }
    }
}

impl Live {
    /// Ends sessions if there are too many, and says when to look again.
    fn end_some(&mut self, most: usize) -> usize {
        let mut by_age: Vec<Arc<Session>> = self.sessions.values().cloned().collect();
        by_age.sort_unstable_by_key(|session| session.began());

        let candidate = |session: &Arc<Session>| Candidate {
            class: session.worth(),
            own: true,
            quiet: false,
        };
        let candidates: Vec<_> = by_age.iter().map(candidate).collect();
        let unanswered = candidates
            .iter()
            .filter(|one| one.class == Class::Unanswered)
            .count();
        let allowed = (most / UNANSWERED).max(1);
        let part = (most / PART).max(1);
        let wanted = if unanswered >= allowed || candidates.len() >= most {
            part
        } else {
            0
        };

        let gone = evicted(&candidates, wanted);
        for index in &gone {
            by_age[*index].evict();
        }
        if !gone.is_empty() {
            self.sessions.retain(|_, session| !session.is_evicted());
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
    use std::time::Duration;

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
            spoken
                .chars()
                .for_each(|who| exchange.counters().spoke(who == 'c'));
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

//! The live sessions of one worker's share of a `udp` listener. A client that sends one datagram has one, so those that were not answered are
//! the first to go: a flood of sources displaces itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hermes_rules::session::{Candidate, Class, evicted};
use parking_lot::Mutex;

use hermes_packet::Session;

/// The fraction of all sessions that ends at once to make room, so that the search for them is not
/// paid for by each.
#[doc(alias = "bound")]
const PART: usize = 16;

/// The fraction of all sessions that may be unanswered: a flood displaces itself.
#[doc(alias = "bound")]
const UNANSWERED: usize = 2;

/// Live sessions, by their clients.
#[derive(Clone, Default)]
pub(super) struct Clients(Arc<Mutex<Live>>);

#[derive(Default)]
struct Live {
    sessions: HashMap<SocketAddr, Arc<Session>>,
    /// The number of sessions at which to look whether some have to go.
    look: usize,
}

impl Clients {
    /// The session of a client, if it takes datagrams.
    pub(super) fn find(&self, client: SocketAddr) -> Option<Arc<Session>> {
        self.0
            .lock()
            .sessions
            .get(&client)
            .filter(|session| !session.is_retired())
            .cloned()
    }

    /// Enters a session.
    pub(super) fn enter(&self, client: SocketAddr, session: Arc<Session>) {
        self.0.lock().sessions.insert(client, session);
    }

    /// A session has ended; another of the same client may be there already.
    pub(super) fn leave(&self, client: SocketAddr, session: &Arc<Session>) {
        let mut live = self.0.lock();
        if live
            .sessions
            .get(&client)
            .is_some_and(|other| Arc::ptr_eq(other, session))
        {
            live.sessions.remove(&client);
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().sessions.is_empty()
    }

    /// Makes room for one more where there may be `most`.
    ///
    /// # Errors
    /// There is none: all go on speaking.
    pub(super) fn make_room(&self, most: usize) -> Result<usize, ()> {
        let mut live = self.0.lock();
        let gone = if live.sessions.len() >= live.look.min(most) {
            live.end_some(most)
        } else {
            0
        };

        if live.sessions.len() < most {
            Ok(gone)
        } else {
            Err(())
        }
    }
}

impl Live {
    /// Ends sessions if there are too many, and says when to look again.
    fn end_some(&mut self, most: usize) -> usize {
        let mut by_age: Vec<_> = self
            .sessions
            .iter()
            .map(|(client, session)| (session.began(), *client))
            .collect();
        by_age.sort_unstable();
        let class = |client: &SocketAddr| {
            self.sessions
                .get(client)
                .map_or(Class::Unanswered, |one| one.worth())
        };

        let candidate = |(_, client): &_| Candidate {
            class: class(client),
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
            if let Some(session) = self.sessions.remove(&by_age[*index].1) {
                session.evict();
            }
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
    use hermes_observe::{AccessSink, Begin, Telemetry};
    use hermes_packet::{Bounds, Hold};

    struct Listener {
        clients: Clients,
        socket: Arc<UdpSocket>,
        telemetry: Arc<Telemetry>,
        next: u16,
    }

    impl Listener {
        fn new() -> Self {
            let socket =
                UdpSocket::bound(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            let telemetry = Telemetry::new("a", AccessSink::off());
            Self {
                clients: Clients::default(),
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
            self.clients.enter(client, session.clone());
            session
        }

        fn len(&self) -> usize {
            self.clients.0.lock().sessions.len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_sources_displaces_itself_and_has_half_of_the_room() {
        let mut listener = Listener::new();
        let call = listener.add("ctc");
        let question = listener.add("ct");
        for _ in 0..10_000 {
            assert!(listener.clients.make_room(64).is_ok());
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
        assert!(listener.clients.make_room(4).is_err());
        listener
            .clients
            .leave(SocketAddr::from(([127, 0, 0, 1], 1)), &calls[1]);
        assert_eq!(
            listener.len(),
            4,
            "another session of that client is not its own"
        );
        listener
            .clients
            .leave(SocketAddr::from(([127, 0, 0, 1], 1)), &calls[0]);
        assert_eq!(listener.clients.make_room(4), Ok(0));
        listener.add("ct");
        assert_eq!(listener.clients.make_room(4), Ok(1));
        assert!(
            listener
                .clients
                .find(SocketAddr::from(([127, 0, 0, 1], 5)))
                .is_none()
        );
    }
}

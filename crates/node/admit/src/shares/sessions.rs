//! The CONNECT-UDP sessions of each user at each listener. Where they have all the permits there are, one that is of little use makes
//! room for the next: a name server that is asked from a new port each time must not end a call.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hermes_observe::Exchange;
use hermes_plug::target::Target;
use hermes_rules::session::{Candidate, evicted};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Silence after which a conversation may make room: more than twice the 25 s of WireGuard's
/// keep-alive.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(60);

/// The fraction of all permits that is made free at once, so that the search for them is not paid
/// for by each.
#[doc(alias = "bound")]
const PART: usize = 16;

/// How long no room is looked for after a user had none: a look at all sessions, which others wait for, costs far more than a request.
#[doc(alias = "bound")]
const NEXT_LOOK: Duration = Duration::from_millis(10);

/// Sessions of each user at each listener, over all workers.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Arc<Mutex<Members>>,
}

#[derive(Debug, Default)]
struct Members {
    users: HashMap<UserOfListener, Held>,
    next: u64,
}

/// The sessions of one user at one listener.
#[derive(Debug, Default)]
struct Held {
    members: BTreeMap<u64, Member>,
    /// When to look for room again, after there was none.
    again: Option<Instant>,
}

/// A listener and a user.
type UserOfListener = (Arc<str>, String);

#[derive(Debug)]
struct Member {
    exchange: Arc<Exchange>,
    target: Target,
    /// The bytes that it had moved when it was looked at last, and since when.
    seen: (u64, Instant),
}

/// A session's permit, held until this is dropped. One that has to make room loses it before.
#[derive(Debug)]
pub struct SessionPermit {
    open: Arc<Mutex<Members>>,
    key: UserOfListener,
    number: u64,
}

/// How a session got its permit.
#[derive(Debug)]
pub struct Joined {
    /// The permit.
    pub permit: SessionPermit,
    /// How many others lost theirs for it.
    pub evicted: usize,
}

impl Sessions {
    /// A permit for a session of `user` for `target`, of which `most` may be open at `listener`; `None` when there is none, and none
    /// can be made.
    pub fn join(
        &self,
        listener: &Arc<str>,
        user: &str,
        most: usize,
        target: &Target,
        exchange: &Arc<Exchange>,
    ) -> Option<Joined> {
        let key = (listener.clone(), user.to_owned());
        let now = Instant::now();
        let mut open = self.open.lock();
        let number = open.next;
        let held = open.users.entry(key.clone()).or_default();
        let looks = held.again.is_none_or(|again| again <= now);
        let evicted = if held.members.len() >= most && looks {
            make_room(&mut held.members, most, target, now)
        } else {
            0
        };

        if held.members.len() >= most {
            if looks {
                held.again = Some(now + NEXT_LOOK);
            }
            return None;
        }
        held.again = None;
        let seen = (exchange.counters().moved(), now);
        held.members.insert(
            number,
            Member {
                exchange: exchange.clone(),
                target: target.clone(),
                seen,
            },
        );

        open.next += 1;
        Some(Joined {
            permit: SessionPermit {
                open: self.open.clone(),
                key,
                number,
            },
            evicted,
        })
    }

    /// How many `user` has open at `listener`.
    pub fn count(&self, listener: &Arc<str>, user: &str) -> usize {
        self.open
            .lock()
            .users
            .get(&(listener.clone(), user.to_owned()))
            .map_or(0, |held| held.members.len())
    }
}

/// Tells some of these sessions to end, and takes their permits at once.
fn make_room(
    held: &mut BTreeMap<u64, Member>,
    most: usize,
    target: &Target,
    now: Instant,
) -> usize {
    // One that is still being opened does not look whether it has to go.
    let looking = held
        .iter_mut()
        .filter(|(_, member)| member.exchange.can_be_evicted());
    let (numbers, candidates): (Vec<u64>, Vec<Candidate>) = looking
        .map(|(number, member)| (*number, member.candidate(target, now)))
        .unzip();
    let gone = evicted(&candidates, (most / PART).max(1));

    for index in &gone {
        if let Some(member) = held.remove(&numbers[*index]) {
            member.exchange.evict();
        }
    }

    gone.len()
}

impl Member {
    fn candidate(&mut self, target: &Target, now: Instant) -> Candidate {
        let counters = self.exchange.counters();
        let moved = counters.moved();
        if moved != self.seen.0 {
            self.seen = (moved, now);
        }

        let quiet = now.duration_since(self.seen.1) >= QUIET;
        Candidate {
            class: counters.traffic().worth(),
            own: self.target == *target,
            quiet,
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(held) = open.users.get_mut(&self.key) {
            held.members.remove(&self.number);
            if held.members.is_empty() {
                open.users.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::PeerAddress;

    use super::*;
    use hermes_observe::{AccessSink, Begin, Telemetry};

    /// A session that looks whether it has to make room, after these have spoken: `c` the client, `t` the target.
    fn session(telemetry: &Arc<Telemetry>, spoken: &str) -> Arc<Exchange> {
        let source = PeerAddress::Unix { uid: None };
        let begin = Begin {
            kind: "connect-udp",
            listener: "web".into(),
            source,
            protocol: "h2",
        };
        let exchange = Arc::new(telemetry.begin(begin));
        spoken
            .chars()
            .for_each(|who| exchange.counters().spoke(who == 'c'));
        let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::pin::pin!(exchange.evicted()).poll(cx);
        exchange
    }

    fn is_evicted(exchange: &Exchange) -> bool {
        let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(exchange.evicted()).poll(cx).is_ready()
    }

    fn target(host: &str) -> Target {
        Target::host_port(host.to_owned(), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn questions_make_room_for_questions_and_a_call_stays() {
        let (sessions, telemetry, name) = (
            Sessions::default(),
            Telemetry::new("a", AccessSink::off()),
            Arc::from("web"),
        );
        let join =
            |exchange: &Arc<Exchange>, to| sessions.join(&name, "alice", 4, &target(to), exchange);
        let call = session(&telemetry, "ctc");
        let kept = join(&call, "VIDEO").unwrap();
        let questions: Vec<_> = (0..9).map(|_| session(&telemetry, "ct")).collect();
        let permits: Vec<_> = questions
            .iter()
            .map(|one| join(one, "DNS").unwrap())
            .collect();
        assert_eq!(
            permits.iter().map(|joined| joined.evicted).sum::<usize>(),
            6
        );
        let gone: Vec<_> = questions.iter().map(|one| is_evicted(one)).collect();
        assert_eq!(
            gone,
            [true, true, true, true, true, true, false, false, false],
            "the oldest"
        );
        assert!(!is_evicted(&call));
        assert_eq!(sessions.count(&name, "alice"), 4);
        drop((permits, kept));
        assert!(sessions.open.lock().users.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn conversations_are_refused_a_place_until_one_of_them_is_quiet() {
        let (sessions, telemetry, name) = (
            Sessions::default(),
            Telemetry::new("a", AccessSink::off()),
            Arc::from("web"),
        );
        let join =
            |exchange: &Arc<Exchange>| sessions.join(&name, "alice", 2, &target("VIDEO"), exchange);
        let calls = [(); 2].map(|()| session(&telemetry, "ctc"));
        let _places = calls.each_ref().map(|call| join(call).unwrap());
        let another = session(&telemetry, "");
        assert!(join(&another).is_none());
        assert!(
            sessions
                .join(&name, "bob", 2, &target("VIDEO"), &another)
                .is_some(),
            "each user has his own"
        );

        let key = (name.clone(), "alice".to_owned());
        let again = || sessions.open.lock().users[&key].again;
        let looked = again();
        tokio::time::advance(NEXT_LOOK / 2).await;
        assert!(join(&another).is_none());
        assert!(looked.is_some() && again() == looked, "not each time");

        tokio::time::advance(QUIET).await;
        calls[0].counters().from_client(1);
        assert!(join(&another).is_some());
        assert_eq!(calls.each_ref().map(|call| is_evicted(call)), [false, true]);
    }
}

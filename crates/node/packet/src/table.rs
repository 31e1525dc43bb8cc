//! Sessions that can be taken over by their token. The table is shared by all workers, because a
//! tunnel may come back on another one. Each kind of session has a table of its own; that of UDP
//! hands over sockets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_net::memory::Owner;
use hermes_upstream::{Active, Shares};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::received::Received;
use crate::session_token::Token;

/// How long a session with a broken path waits to be resumed: longer than a restart takes.
#[doc(alias = "bound")]
pub const KEPT_FOR: Duration = Duration::from_secs(10);

/// Sessions of the process that wait at once; others end with their path. Each keeps a socket and
/// its datagrams.
#[doc(alias = "bound")]
const WAITING: usize = 4096;

/// How long a session's carrier may take to hand it over: it is another worker, which may be busy.
#[doc(alias = "bound")]
const HAND_OVER: Duration = Duration::from_millis(500);

/// The user and target of a session: a successor must be the same in all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The user, if one is known.
    pub user: Option<String>,
    /// Where the client is, where nothing else says who it is.
    pub source: Option<IpAddr>,
    /// Where its exchange came in.
    pub listener: Arc<str>,
    /// The target, as records show it.
    pub target: String,
    /// Where the route sent it.
    pub upstream: Arc<str>,
}

/// A session on its way from one tunnel to another.
pub struct Handed {
    /// The socket towards the target.
    pub socket: std::net::UdpSocket,
    /// The address that it is connected to.
    pub remote: SocketAddr,
    /// Datagrams that were received and not taken yet.
    pub received: Received,
    /// Counts it at its endpoint.
    pub active: Active,
    /// How often it was taken over, this time included.
    pub times: u32,
}

/// Someone waits here to be handed a session.
pub type Claim<H = Handed> = oneshot::Sender<H>;

/// The sessions, each of which is handed over as an `H`.
pub struct Resumable<H = Handed> {
    sessions: Mutex<HashMap<Token, Entry<H>>>,
    numbers: AtomicU64,
    waiting: Mutex<Option<Shares>>,
}

struct Entry<H> {
    number: u64,
    destination: Destination,
    claims: mpsc::Sender<Claim<H>>,
    /// The number of the last claim, where claims are numbered.
    last: u32,
}

/// A session's entry in the table, which its carrier has. The session leaves the table when this is dropped.
pub struct SessionEntry<H = Handed> {
    resumable: Arc<Resumable<H>>,
    token: Token,
    number: u64,
    claims: mpsc::Receiver<Claim<H>>,
    /// The owner.
    owner: String,
    /// How often it was taken over.
    pub times: u32,
}

/// A session that waits, counted.
pub struct Waiting<H = Handed> {
    resumable: Arc<Resumable<H>>,
    owner: String,
}

impl<H> Default for Resumable<H> {
    fn default() -> Self {
        Self {
            sessions: Mutex::default(),
            numbers: AtomicU64::default(),
            waiting: Mutex::default(),
        }
    }
}

impl<H> Resumable<H> {
    /// Enters a session that was taken over `times` times.
    pub fn enter(
        self: &Arc<Self>,
        token: Token,
        destination: Destination,
        times: u32,
    ) -> SessionEntry<H> {
        self.enter_after(token, destination, times, 0)
    }

    /// The same, for a session with a last claim of this number.
    pub fn enter_after(
        self: &Arc<Self>,
        token: Token,
        destination: Destination,
        times: u32,
        last: u32,
    ) -> SessionEntry<H> {
        let (sender, claims) = mpsc::channel(1);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let of_source = || destination.source.map(|source| source.to_string());
        let owner = destination
            .user
            .clone()
            .or_else(of_source)
            .unwrap_or_default();
        self.sessions.lock().insert(
            token,
            Entry {
                number,
                destination,
                claims: sender,
                last,
            },
        );

        SessionEntry {
            resumable: self.clone(),
            token,
            number,
            claims,
            owner,
            times,
        }
    }

    /// Whether a session of this user can be taken over with the token.
    pub fn knows(&self, token: &Token, user: Option<&str>) -> bool {
        self.sessions
            .lock()
            .get(token)
            .is_some_and(|entry| entry.destination.user.as_deref() == user)
    }

    /// Takes a session over, whether it waits or is still carried; `None` for a token that is not known here, or to others.
    pub async fn claim(&self, token: &Token, destination: &Destination) -> Option<H> {
        self.claim_by(token, destination, None).await
    }

    /// The same, with a number above those of earlier claims: an observed claim cannot be replayed.
    pub async fn claim_next(
        &self,
        token: &Token,
        destination: &Destination,
        number: u32,
    ) -> Option<H> {
        self.claim_by(token, destination, Some(number)).await
    }

    async fn claim_by(
        &self,
        token: &Token,
        destination: &Destination,
        number: Option<u32>,
    ) -> Option<H> {
        let (claim, handed) = oneshot::channel();
        {
            let mut sessions = self.sessions.lock();
            // The entry stays until it is handed over: its claimant may be gone before.
            let entry = sessions
                .get_mut(token)
                .filter(|entry| entry.destination == *destination)?;
            if let Some(number) = number {
                if number <= entry.last {
                    return None;
                }
                entry.last = number;
            }
            entry.claims.try_send(claim).ok()?;
        }

        timeout(HAND_OVER, handed).await.ok()?.ok()
    }
}

impl<H> SessionEntry<H> {
    /// The same, with the wait counted to this owner: not every destination names its source.
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = owner.to_string();
        self
    }

    /// The token that stands for it.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Waits until someone claims the session. May be dropped and called again.
    pub async fn claimed(&mut self) -> Claim<H> {
        loop {
            match self.claims.recv().await {
                Some(claim) if claim.is_closed() => {}
                Some(claim) => return claim,
                // Another session has the token.
                None => std::future::pending().await,
            }
        }
    }

    /// A permit to wait, if there is one: no user has more than half of those that others leave.
    pub fn wait(&self) -> Option<Waiting<H>> {
        let mut waiting = self.resumable.waiting.lock();
        let joined = waiting
            .get_or_insert_with(|| Shares::new(WAITING))
            .take(&self.owner);
        joined.then(|| Waiting {
            resumable: self.resumable.clone(),
            owner: self.owner.clone(),
        })
    }
}

impl<H> Drop for SessionEntry<H> {
    fn drop(&mut self) {
        let mut sessions = self.resumable.sessions.lock();
        // The tunnel that took it over has the same token.
        if sessions
            .get(&self.token)
            .is_some_and(|entry| entry.number == self.number)
        {
            sessions.remove(&self.token);
        }
    }
}

impl<H> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(waiting) = self.resumable.waiting.lock().as_mut() {
            waiting.give(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::Memory;

    use super::*;

    fn bound(user: &str) -> Destination {
        let target = "video:5004".to_owned();
        Destination {
            user: Some(user.to_owned()),
            source: None,
            listener: "web".into(),
            target,
            upstream: "(target)".into(),
        }
    }

    fn handed() -> Handed {
        let bounds = crate::ChargedBounds {
            bounds: crate::Bounds::NOTHING,
            account: Memory::node().owner(Owner::Local),
        };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let remote = socket.local_addr().unwrap();
        Handed {
            socket,
            remote,
            received: Received::new(&bounds),
            active: Active::default(),
            times: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_knows_the_token_and_is_the_same_is_handed_a_session_and_only_once() {
        let resumable: Arc<Resumable> = Arc::default();
        let token = Token::random().unwrap();
        let mut entry = resumable.enter(token, bound("alice"), 0);
        let carrier = tokio::spawn(async move {
            assert!(entry.claimed().await.send(handed()).is_ok());
            entry
        });
        assert!(
            resumable
                .claim(&Token::random().unwrap(), &bound("alice"))
                .await
                .is_none()
        );
        assert!(
            resumable.claim(&token, &bound("bob")).await.is_none(),
            "and alice does not notice"
        );
        assert!(resumable.knows(&token, Some("alice")) && !resumable.knows(&token, Some("bob")));
        assert!(resumable.claim(&token, &bound("alice")).await.is_some());
        assert!(resumable.claim(&token, &bound("alice")).await.is_none());
        let next = resumable.enter(token, bound("alice"), 1);
        drop(carrier.await.unwrap());
        assert!(
            resumable.knows(&token, Some("alice")),
            "the first entry does not take the second one along"
        );
        drop(next);
        assert!(resumable.sessions.lock().is_empty());
    }

    #[tokio::test]
    async fn what_is_handed_over_may_be_anything() {
        let bytes: Arc<Resumable<Vec<u8>>> = Arc::default();
        let token = Token::random().unwrap();
        let mut entry = bytes.enter(token, bound("alice"), 0);
        let carrier = tokio::spawn(async move { entry.claimed().await.send(b"kept".to_vec()) });
        let handed = bytes.claim(&token, &bound("alice")).await;
        assert_eq!(handed, Some(b"kept".to_vec()));
        carrier.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_claim_with_a_number_counts_once() {
        let numbered: Arc<Resumable<u32>> = Arc::default();
        let token = Token::random().unwrap();
        let mut entry = numbered.enter_after(token, bound("alice"), 0, 4);
        let alice = bound("alice");
        for old in [0, 3, 4] {
            assert_eq!(numbered.claim_next(&token, &alice, old).await, None);
        }
        assert_eq!(numbered.claim_next(&token, &bound("bob"), 9).await, None);

        let carrier = tokio::spawn(async move { entry.claimed().await.send(1) });
        assert_eq!(numbered.claim_next(&token, &alice, 7).await, Some(1));
        carrier.await.unwrap().unwrap();

        let _entry = numbered.enter_after(token, bound("alice"), 1, 7);
        assert_eq!(
            numbered.claim_next(&token, &alice, 7).await,
            None,
            "nor is it known to the exchange that took the session over"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_claims_a_session_and_goes_leaves_it_to_the_next() {
        let resumable: Arc<Resumable> = Arc::default();
        let token = Token::random().unwrap();
        let mut entry = resumable.enter(token, bound("alice"), 0);
        assert!(
            timeout(HAND_OVER / 2, resumable.claim(&token, &bound("alice")))
                .await
                .is_err(),
            "it was given up"
        );
        let carrier = tokio::spawn(async move {
            assert!(entry.claimed().await.send(handed()).is_ok());
        });
        tokio::task::yield_now().await;
        assert!(resumable.claim(&token, &bound("alice")).await.is_some());
        carrier.await.unwrap();
        assert!(resumable.sessions.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_carrier_that_does_not_answer_is_not_waited_for() {
        let resumable: Arc<Resumable> = Arc::default();
        let token = Token::random().unwrap();
        let _seat = resumable.enter(token, bound("alice"), 0);
        assert!(resumable.claim(&token, &bound("alice")).await.is_none());
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let resumable: Arc<Resumable> = Arc::default();
        let entry = resumable.enter(Token::random().unwrap(), bound("alice"), 0);
        let mut waiting: Vec<Waiting> = std::iter::from_fn(|| entry.wait()).collect();
        assert!(
            (WAITING / 4..WAITING / 2).contains(&waiting.len()),
            "{}",
            waiting.len()
        );
        waiting.pop();
        assert!(entry.wait().is_some());
        let other = resumable.enter(Token::random().unwrap(), bound("bob"), 0);
        assert!(
            other.wait().is_some(),
            "one user does not take what others need"
        );
    }
}

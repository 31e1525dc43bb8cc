//! Sessions of SOCKS6, and the tokens that make a request count once (draft-olteanu-intarea-socks-6-11, 8.4 and 8.5).
//!
//! A session remembers the password that began it, which is checked anew for each of its requests: a user who goes loses them. Without input or
//! output: time and the bytes of new IDs are arguments.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use hermes_proto::socks6::{Socks6Credentials, Socks6SessionId, Socks6Window};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Sessions of one user, or of one source without users; a further one takes the place of the oldest.
#[doc(alias = "bound")]
const SESSIONS_OF_ONE: usize = 8;

/// Sessions of all; where there are so many, no further one begins.
#[doc(alias = "bound")]
const SESSIONS: usize = 4096;

/// Time without a request after which a session is over.
#[doc(alias = "bound")]
const SESSION_TIME: Duration = Duration::from_secs(600);

/// Tokens of a window.
#[doc(alias = "bound")]
const TOKENS: u32 = 256;

/// Bytes of the ID of a session, of which no one guesses any.
pub(crate) const ID_BYTES: usize = 16;

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// One who has shown a password, by the bytes of the name.
    User(Vec<u8>),
    /// One who has not, by the address; networks of IPv6 count as one.
    Source(Option<IpAddr>),
}

impl Party {
    pub(crate) fn of(credentials: Option<&Socks6Credentials>, source: Option<IpAddr>) -> Self {
        match credentials {
            Some(credentials) => Self::User(credentials.user.clone()),
            None => Self::Source(source.map(network)),
        }
    }
}

/// An address of IPv4, or the /64 that an address of IPv6 is in.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let prefix = v6.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(prefix.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions6(Mutex<HashMap<Socks6SessionId, Session6>>);

#[derive(Debug)]
struct Session6 {
    party: Party,
    credentials: Option<Socks6Credentials>,
    used: Instant,
    tokens: Option<Tokens>,
}

impl Sessions6 {
    /// Begins a session, with an ID of these bytes; `None` where there is no room.
    pub(crate) fn begin(
        &self,
        party: Party,
        credentials: Option<Socks6Credentials>,
        random: [u8; ID_BYTES],
        now: Instant,
    ) -> Option<Socks6SessionId> {
        let id = Socks6SessionId::new(&random).ok()?;
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| !session.is_over(now));
        let own = sessions
            .iter()
            .filter(|(_, session)| session.party == party);
        let own: Vec<_> = own
            .map(|(id, session)| (session.used, id.clone()))
            .collect();
        if own.len() >= SESSIONS_OF_ONE
            && let Some((_, oldest)) = own.iter().min_by_key(|(used, _)| *used)
        {
            sessions.remove(oldest);
        }
        if sessions.len() >= SESSIONS {
            return None;
        }
        let session = Session6 {
            party,
            credentials,
            used: now,
            tokens: None,
        };
        sessions.insert(id.clone(), session);
        Some(id)
    }

    /// The credentials of a session, which a request belongs to; `None` where there is no such session.
    pub(crate) fn visit(
        &self,
        id: &Socks6SessionId,
        now: Instant,
    ) -> Option<Option<Socks6Credentials>> {
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(id)?;
        if session.is_over(now) {
            sessions.remove(id);
            return None;
        }
        session.used = now;
        Some(session.credentials.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &Socks6SessionId) {
        self.0.lock().remove(id);
    }

    /// Gives a session a window of tokens, unless it has one; the first is `base`.
    pub(crate) fn grant(&self, id: &Socks6SessionId, size: u32, base: u32) {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get_mut(id)
            && size > 0
        {
            let tokens = Tokens::new(base, size.min(TOKENS));
            session.tokens.get_or_insert(tokens);
        }
    }

    /// The tokens of a session, where it has any.
    pub(crate) fn window(&self, id: &Socks6SessionId) -> Option<Socks6Window> {
        let sessions = self.0.lock();
        let tokens = sessions.get(id)?.tokens.as_ref()?;
        Some(Socks6Window {
            base: tokens.base,
            size: tokens.size,
        })
    }

    /// Spends a token; false where it was spent before, or is none of the session's.
    pub(crate) fn spend(&self, id: &Socks6SessionId, token: u32) -> bool {
        let mut sessions = self.0.lock();
        let tokens = sessions
            .get_mut(id)
            .and_then(|session| session.tokens.as_mut());
        tokens.is_some_and(|tokens| tokens.spend(token))
    }
}

impl Session6 {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > SESSION_TIME
    }
}

/// A window of tokens, of which some are spent.
#[derive(Debug)]
struct Tokens {
    base: u32,
    size: u32,
    /// A bit for each token from the base on.
    spent: [u64; (TOKENS / 64) as usize],
}

impl Tokens {
    fn new(base: u32, size: u32) -> Self {
        Self {
            base,
            size,
            spent: Default::default(),
        }
    }

    fn spend(&mut self, token: u32) -> bool {
        // Tokens are numbers modulo 2^32 (8.5).
        let offset = token.wrapping_sub(self.base);
        if offset >= self.size || self.is_spent(offset) {
            return false;
        }
        self.spent[(offset / 64) as usize] |= 1 << (offset % 64);

        // 8.5.3: past the lowest that are spent, and up where a high one is; tokens that are left behind can be spent no more.
        let quarter = self.size / 4;
        while self.is_spent(0) {
            self.shift();
        }
        while token.wrapping_sub(self.base) < self.size
            && token.wrapping_sub(self.base) >= self.size - quarter
            && quarter > 0
        {
            self.shift();
        }
        true
    }

    fn is_spent(&self, offset: u32) -> bool {
        self.spent[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    /// Leaves the lowest token behind.
    fn shift(&mut self) {
        self.base = self.base.wrapping_add(1);
        let mut carried = 0;
        for word in self.spent.iter_mut().rev() {
            let lowest = *word & 1;
            *word = *word >> 1 | carried << 63;
            carried = lowest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str) -> Option<Socks6Credentials> {
        Some(Socks6Credentials {
            user: user.as_bytes().to_vec(),
            password: b"password".to_vec(),
        })
    }

    fn random(number: usize) -> [u8; ID_BYTES] {
        let mut bytes = [7; ID_BYTES];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn begin(
        sessions: &Sessions6,
        user: &str,
        number: usize,
        now: Instant,
    ) -> Option<Socks6SessionId> {
        let credentials = credentials(user);
        let party = Party::of(credentials.as_ref(), None);
        sessions.begin(party, credentials, random(number), now)
    }

    #[test]
    fn a_session_lasts_while_it_is_used() {
        let sessions = Sessions6::default();
        let now = Instant::now();
        let id = begin(&sessions, "alice", 0, now).unwrap();
        let almost = now + SESSION_TIME;
        assert_eq!(sessions.visit(&id, almost), Some(credentials("alice")));
        assert!(sessions.visit(&id, almost + SESSION_TIME).is_some());
        let over = almost + SESSION_TIME * 2 + Duration::from_secs(1);
        assert_eq!(sessions.visit(&id, over), None);
        let other = begin(&sessions, "alice", 1, now).unwrap();
        sessions.end(&other);
        assert_eq!(sessions.visit(&other, now), None);
    }

    #[test]
    fn one_user_has_so_many_sessions_and_others_keep_theirs() {
        let sessions = Sessions6::default();
        let now = Instant::now();
        let of_bob = begin(&sessions, "bob", 9999, now).unwrap();
        let first = begin(&sessions, "alice", 0, now).unwrap();
        for number in 1..1000 {
            let later = now + Duration::from_millis(number as u64);
            assert!(begin(&sessions, "alice", number, later).is_some());
        }
        assert_eq!(sessions.0.lock().len(), SESSIONS_OF_ONE + 1);
        assert_eq!(sessions.visit(&first, now), None);
        assert!(sessions.visit(&of_bob, now).is_some());
    }

    #[test]
    fn all_have_so_many_sessions_until_some_are_over() {
        let sessions = Sessions6::default();
        let now = Instant::now();
        for number in 0..SESSIONS {
            assert!(begin(&sessions, &number.to_string(), number, now).is_some());
        }
        assert_eq!(begin(&sessions, "late", SESSIONS, now), None);
        let later = now + SESSION_TIME * 2;
        assert!(begin(&sessions, "late", SESSIONS, later).is_some());
        assert_eq!(sessions.0.lock().len(), 1);
    }

    #[test]
    fn sources_of_one_network_of_ipv6_are_one() {
        let party = |address: &str| Party::of(None, Some(address.parse().unwrap()));
        assert_eq!(party("2001:db8::1"), party("2001:db8::2"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
        assert_eq!(party("::ffff:192.0.2.1"), party("192.0.2.1"));
    }

    #[test]
    fn a_token_is_spent_once_whatever_the_order() {
        let sessions = Sessions6::default();
        let now = Instant::now();
        let id = begin(&sessions, "alice", 0, now).unwrap();
        assert!(!sessions.spend(&id, 0), "there are none yet");
        sessions.grant(&id, 1 << 30, u32::MAX - 10);
        let window = sessions.window(&id).unwrap();
        assert_eq!((window.base, window.size), (u32::MAX - 10, TOKENS));
        sessions.grant(&id, 8, 0);
        assert_eq!(
            sessions.window(&id),
            Some(window),
            "a session has one window"
        );

        let token = |offset: u32| window.base.wrapping_add(offset);
        for offset in [3, 0, 1, 2, 70, 100] {
            assert!(sessions.spend(&id, token(offset)), "{offset}");
            assert!(!sessions.spend(&id, token(offset)), "{offset}");
        }
        assert_eq!(sessions.window(&id).unwrap().base, token(4));
        assert!(!sessions.spend(&id, token(TOKENS + 4)), "beyond the window");
        assert!(!sessions.spend(&id, token(u32::MAX)), "before the window");
    }

    #[test]
    fn a_high_token_shifts_the_window_which_stays_as_large() {
        let mut tokens = Tokens::new(0, TOKENS);
        assert!(tokens.spend(TOKENS - 1));
        assert!(tokens.base > 0 && tokens.base < TOKENS - 1);
        assert!(!tokens.spend(TOKENS - 1) && !tokens.spend(0));
        assert!(tokens.spend(tokens.base + TOKENS - 1));
    }

    #[test]
    fn a_window_of_one_token_goes_on_and_on() {
        let mut tokens = Tokens::new(u32::MAX, 1);
        for token in [u32::MAX, 0, 1, 2] {
            assert!(tokens.spend(token));
            assert!(!tokens.spend(token));
        }
    }
}

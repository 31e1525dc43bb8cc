//! User and password (RFC 7617), checked against bcrypt hashes away from the workers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use hermes_config::model::Basic;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::BuildError;
use super::cache::Cache;
use super::challenge::{REALM, Refusal};
use super::proof::PasswordProof;
use super::users::Users;

/// Hashes that are computed at once: each keeps a processor busy for a quarter of a second.
const AT_ONCE: usize = 4;

/// Requests that wait for a hash to be computed; at a quarter of a second each, the last waits 16 s.
const WAITING: usize = 256;

/// Users whose latest right password is remembered.
const REMEMBERED: usize = 1024;

/// Seconds for which it is.
const REMEMBERED_FOR: u64 = 300;

/// bcrypt reads no more bytes of a password than these; a longer one would match by its beginning.
const PASSWORD_LIMIT: usize = 72;

/// Checks passwords for one listener.
pub(super) struct BasicAuth {
    realm: String,
    users: Users,
    key: hmac::Key,
    /// By user: the keyed digest of the pair that was right.
    right: Mutex<Cache<String, Vec<u8>>>,
    slots: Arc<Semaphore>,
    pending: AtomicUsize,
}

impl BasicAuth {
    /// Reads the file of users; `path` is the path of `config`.
    pub fn build(config: &Basic, path: &str) -> Result<Self, Vec<BuildError>> {
        let error = |key: &str, reason: &str| {
            vec![BuildError { path: format!("{path}.{key}"), reason: reason.to_owned(), remedy: None }]
        };
        let realm = config.realm.clone().unwrap_or_else(|| REALM.to_owned());
        if realm.len() > 128 || !realm.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(error("realm", "a realm is at most 128 printable ASCII characters"));
        }
        let users = Users::read(&config.file.0, &format!("{path}.file"))?;
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| error("file", "the system gives no random bytes"))?;
        Ok(Self {
            realm,
            users,
            key,
            right: Mutex::new(Cache::new(REMEMBERED)),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            pending: AtomicUsize::new(0),
        })
    }

    /// What the client is shown.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// What `user`'s right password proves; `None` if there is no such user.
    pub fn proof(&self, user: &str) -> Option<PasswordProof> {
        let (hash, known) = self.users.hash_of(user);
        known.then(|| PasswordProof::of(hash))
    }

    /// Checks a password. A user that is not known takes as long as one who is.
    pub async fn verify(&self, user: &str, password: String, now: u64) -> Result<(), Refusal> {
        let digest = self.digest(user, &password);
        if self.is_remembered(user, &digest, now) {
            return Ok(());
        }
        if password.len() > PASSWORD_LIMIT {
            return Err(Refusal::Basic);
        }
        let _pending = Pending::enter(&self.pending)?;
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Refusal::Busy)?;
        if self.is_remembered(user, &digest, now) {
            return Ok(());
        }
        let (hash, known) = self.users.hash_of(user);
        let hash = hash.to_owned();
        let check = tokio::task::spawn_blocking(move || {
            let matches = bcrypt::verify(password, &hash).unwrap_or(false);
            // Kept until here: whoever waited may be gone, the processor is busy all the same.
            drop(slot);
            matches
        });
        let matches = check.await.map_err(|_| Refusal::Busy)?;
        if !(known && matches) {
            return Err(Refusal::Basic);
        }
        self.right.lock().insert(user.to_owned(), digest, now.saturating_add(REMEMBERED_FOR));
        Ok(())
    }

    /// A digest that nobody without the key can try passwords against.
    fn digest(&self, user: &str, password: &str) -> Vec<u8> {
        // A user holds no colon, so that the pair is unambiguous.
        let mut context = hmac::Context::with_key(&self.key);
        for part in [user.as_bytes(), b":", password.as_bytes()] {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }

    fn is_remembered(&self, user: &str, digest: &[u8], now: u64) -> bool {
        let right = self.right.lock();
        right.find(user, now).is_some_and(|known| verify_slices_are_equal(known, digest).is_ok())
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("realm", &self.realm).finish_non_exhaustive()
    }
}

/// A place among those who wait or are served.
struct Pending<'a>(&'a AtomicUsize);

impl<'a> Pending<'a> {
    fn enter(count: &'a AtomicUsize) -> Result<Self, Refusal> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let place = Self(count);
        if before < AT_ONCE + WAITING { Ok(place) } else { Err(Refusal::Busy) }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_are_bounded() {
        let count = AtomicUsize::new(0);
        let mut places: Vec<_> = (0..AT_ONCE + WAITING).map(|_| Pending::enter(&count).ok().unwrap()).collect();
        assert_eq!(Pending::enter(&count).err(), Some(Refusal::Busy));
        places.pop();
        assert!(Pending::enter(&count).is_ok());
        drop(places);
        assert_eq!(count.into_inner(), 0);
    }
}

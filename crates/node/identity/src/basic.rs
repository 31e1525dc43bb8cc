//! User and password (RFC 7617), checked against bcrypt hashes away from the workers.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use hermes_config::Problem;
use hermes_config::model::Basic;
use hermes_net::PeerAddress;
use hermes_net::peer::network;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::challenge::{REALM, Refusal};
use crate::hashing::{Hashing, Turn};
use crate::proof::PasswordProof;
use crate::users::Users;

/// Users with a remembered password, so that not every request pays for a hash.
#[doc(alias = "bound")]
const REMEMBERED: usize = 1024;

/// Seconds for which a right password is remembered.
#[doc(alias = "bound")]
const REMEMBERED_FOR: u64 = 300;

/// Wrong pairs of user and password that are remembered, so that a flood of the same one costs
/// nothing.
#[doc(alias = "bound")]
const WRONG: usize = 4096;

/// Seconds for which a wrong pair is remembered.
#[doc(alias = "bound")]
const WRONG_FOR: u64 = 60;

/// bcrypt reads no more bytes of a password than these; a longer one would match by its beginning.
#[doc(alias = "bound")]
const PASSWORD_LIMIT: usize = 72;

/// Checks passwords for one listener.
pub(crate) struct BasicAuth {
    realm: String,
    users: Users,
    memory: Arc<Memory>,
    /// Digests of pairs that are wrong by the current file.
    wrong: Arc<Mutex<Cache<Vec<u8>, ()>>>,
    hashing: Arc<Hashing>,
}

/// The state that outlives a change of the configuration.
struct Memory {
    key: hmac::Key,
    /// By user: the keyed digest of the pair that was right, and the hash that it matched.
    right: Mutex<Cache<String, (Vec<u8>, PasswordProof)>>,
}

impl BasicAuth {
    /// Reads the file of users; `path` is the path of `config`. The listener keeps its memory of right passwords, and its waiting
    /// checks.
    pub fn build(
        config: &Basic,
        path: &str,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let error = |key: &str, reason: &str| vec![Problem::new(format!("{path}.{key}"), reason)];

        let realm = config.realm.clone().unwrap_or_else(|| REALM.to_owned());
        if realm.len() > 128 || !realm.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(error(
                "realm",
                "a realm is at most 128 printable ASCII characters",
            ));
        }

        let users = Users::read(&config.file, &format!("{path}.file"))?;
        let memory = match previous {
            Some(previous) => previous.memory.clone(),
            None => {
                let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
                let key = key.map_err(|_| error("file", "the system gives no random bytes"))?;
                Arc::new(Memory {
                    key,
                    right: Mutex::new(Cache::new(REMEMBERED)),
                })
            }
        };

        // Waiting checks keep their turns over a reload. Wrong passwords are forgotten: they may be
        // right in the new file.
        let hashing = previous.map_or_else(Hashing::new, |previous| previous.hashing.clone());
        Ok(Self {
            realm,
            users,
            memory,
            wrong: Arc::new(Mutex::new(Cache::new(WRONG))),
            hashing,
        })
    }

    /// The realm that the client is shown.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The proof of `user`'s right password; `None` if there is no such user.
    pub fn proof(&self, user: &str) -> Option<PasswordProof> {
        let (hash, known) = self.users.hash_of(user);
        known.then(|| PasswordProof::of(hash))
    }

    /// Checks a password of someone at `source`. An unknown user takes as long as a known one. A
    /// remembered password needs no wait.
    pub async fn verify(
        &self,
        user: &str,
        password: String,
        source: PeerAddress,
        now: u64,
    ) -> Result<(), Refusal> {
        let digest = self.memory.digest(user, &password);
        if let Some(known) = self.recall(user, &digest, now) {
            return known;
        }

        // No user can have such a password, so the quick answer tells nothing about this one.
        if password.len() > PASSWORD_LIMIT {
            return Err(Refusal::Basic);
        }
        let turn = self
            .hashing
            .turn(source.ip().map(network), user)
            .await
            .map_err(|_| Refusal::Busy)?;

        // Another check of the same pair may have ended meanwhile.
        if let Some(known) = self.recall(user, &digest, now) {
            return known;
        }
        let right = self
            .hash(turn, user, password, digest, now)
            .await
            .ok_or(Refusal::Busy)?;

        if right { Ok(()) } else { Err(Refusal::Basic) }
    }

    /// Whether the password is right; `None` if the process is ending.
    async fn hash(
        &self,
        turn: Turn,
        user: &str,
        password: String,
        digest: Vec<u8>,
        now: u64,
    ) -> Option<bool> {
        let (hash, known) = self.users.hash_of(user);
        let hash = hash.to_owned();
        let user = user.to_owned();
        let memory = self.memory.clone();
        let wrong = self.wrong.clone();

        let check = tokio::task::spawn_blocking(move || {
            // The hash comes first, for an unknown user as well: the time of the answer must not tell whether the user exists.
            let right = bcrypt::verify(password, &hash).unwrap_or(false) && known;
            // Before the turn ends, so that a check of the same pair finds it.
            if right {
                let proved = (digest, PasswordProof::of(&hash));
                memory
                    .right
                    .lock()
                    .insert(user, proved, now.saturating_add(REMEMBERED_FOR));
            } else {
                wrong
                    .lock()
                    .insert(digest, (), now.saturating_add(WRONG_FOR));
            }

            // Kept until here: the waiting client may be gone, the processor is busy all the same.
            turn.found(right);
            right
        });

        check.await.ok()
    }

    /// The remembered result for a pair; `None` if there is none.
    fn recall(&self, user: &str, digest: &[u8], now: u64) -> Option<Result<(), Refusal>> {
        let right = self.memory.right.lock().find(user, now).cloned();
        // The file may have another hash for the user since the password was right.
        if let Some((known, proof)) = right
            && verify_slices_are_equal(&known, digest).is_ok()
            && self.proof(user) == Some(proof)
        {
            return Some(Ok(()));
        }

        self.wrong
            .lock()
            .find(digest, now)
            .map(|()| Err(Refusal::Basic))
    }
}

impl Memory {
    /// A digest that no one without the key can try passwords against.
    fn digest(&self, user: &str, password: &str) -> Vec<u8> {
        // A user holds no colon, so that the pair is unambiguous.
        let mut context = hmac::Context::with_key(&self.key);
        for part in [user.as_bytes(), b":", password.as_bytes()] {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth")
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

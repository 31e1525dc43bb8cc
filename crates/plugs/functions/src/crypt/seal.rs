//! The keys of a tunnel, and pieces that are sealed with them.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::at::keyring::{SharedKey, Unbelieved};

/// The bytes that sealing adds, its tag.
pub const TAG: usize = 16;

/// The length of a [`Salt`].
pub const SALT: usize = 16;

/// The beginning of a sealed stream or span: the second when it was made, and a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; SALT]);

/// There is no randomness, or no room to remember the number. Nothing is sealed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsealed;

impl Salt {
    /// One of this second that was never there; `None` without randomness.
    pub fn new(now: u64) -> Option<Self> {
        let mut salt = [0; SALT];
        salt[..8].copy_from_slice(&now.to_be_bytes());
        aws_lc_rs::rand::fill(&mut salt[8..]).ok()?;
        Some(Self(salt))
    }

    fn half(&self, at: usize) -> u64 {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0[at..at + 8]);
        u64::from_be_bytes(half)
    }
}

/// The key that two nodes share, for one target.
#[derive(Clone)]
pub struct TunnelKeys {
    shared: Arc<SharedKey>,
    target: String,
}

impl TunnelKeys {
    /// For this target: what is sealed for one opens for no other.
    pub fn new(shared: Arc<SharedKey>, target: String) -> Self {
        Self { shared, target }
    }

    /// The key of one direction of the tunnel that began with this salt.
    pub fn sealer(&self, salt: &[u8], direction: &str) -> Option<Sealer> {
        let purpose = format!("hermes functions: encrypt {direction}\n{}", self.target);
        let key = self.shared.secret().derive(salt, &purpose);
        let key = UnboundKey::new(&AES_256_GCM, &key).ok()?;
        Some(Sealer {
            key: LessSafeKey::new(key),
        })
    }

    /// Takes a genuine salt once, in its time. Senders take their own, too, so that none comes back to them as another's.
    ///
    /// # Errors
    /// It is over, or was here before.
    pub fn take(&self, salt: &Salt, now: u64) -> Result<(), Unbelieved> {
        self.shared.take(salt.half(0), salt.half(8), now)
    }
}

/// Seals and opens pieces of one direction.
pub struct Sealer {
    key: LessSafeKey,
}

impl Sealer {
    /// Seals all bytes of `piece` from `from` on, under a number that no other piece of this direction has, and adds the tag.
    ///
    /// # Errors
    /// It failed: no part of the piece may leave.
    pub fn seal(
        &self,
        number: u64,
        aad: &[u8],
        piece: &mut ::bytes::BytesMut,
        from: usize,
    ) -> Result<(), Unsealed> {
        let nonce = nonce(number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), &mut piece[from..])
            .map_err(|_| Unsealed)?;
        piece.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens a piece; gives its bytes. `None` if it is not genuine.
    pub fn open<'p>(&self, number: u64, aad: &[u8], piece: &'p mut [u8]) -> Option<&'p [u8]> {
        let opened = self
            .key
            .open_in_place(nonce(number), Aad::from(aad), piece)
            .ok()?;
        Some(opened)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

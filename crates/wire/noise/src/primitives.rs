//! The primitives for `snow`: X25519, two ciphers and SHA-256 of aws-lc-rs, and BLAKE2s.

use aws_lc_rs::aead::{
    AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::rand::fill;
use blake2::Blake2s256;
use blake2::digest::Digest;
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

use crate::key::KEY;

/// The bytes that a cipher adds, its tag.
pub const TAG: usize = 16;

/// The primitives of `Noise_*_25519_{AESGCM,ChaChaPoly}_{SHA256,BLAKE2s}`.
#[derive(Debug, Clone, Copy)]
pub struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SystemRandom))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(X25519Pair::default())),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        match choice {
            HashChoice::Blake2s => Some(Box::new(Blake2s::default())),
            HashChoice::SHA256 => Some(Box::new(Sha256(digest::Context::new(&SHA256)))),
            _ => None,
        }
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::ChaChaPoly => Some(Box::new(AeadCipher::new(CHACHA_POLY))),
            CipherChoice::AESGCM => Some(Box::new(AeadCipher::new(AES_GCM))),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }
}

struct SystemRandom;

impl Random for SystemRandom {
    fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Error> {
        fill(destination).map_err(|_| Error::Rng)
    }
}

#[derive(Default)]
struct X25519Pair {
    private: [u8; KEY],
    public: [u8; KEY],
}

impl Dh for X25519Pair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY
    }

    fn priv_len(&self) -> usize {
        KEY
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        // Any 32 bytes are a key of X25519.
        let pair = PrivateKey::from_private_key(&X25519, private).ok();
        let public = pair.and_then(|pair| pair.compute_public_key().ok());
        if let Some(public) = public {
            self.public.copy_from_slice(public.as_ref());
        }
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = [0; KEY];
        random.try_fill_bytes(&mut private)?;
        self.set(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let private =
            PrivateKey::from_private_key(&X25519, &self.private).map_err(|_| Error::Dh)?;
        // `agree` refuses a secret of zeros (RFC 7748, 6.1): with a point of small order a peer could choose it.
        let public = UnparsedPublicKey::new(&X25519, &public[..KEY]);
        agree(&private, public, Error::Dh, |secret| {
            out[..KEY].copy_from_slice(secret);
            Ok(())
        })
    }
}

#[derive(Default)]
struct Blake2s(Blake2s256);

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let done = self.0.clone().finalize();
        out[..32].copy_from_slice(&done);
    }
}

struct Sha256(digest::Context);

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = digest::Context::new(&SHA256);
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let done = self.0.clone().finish();
        out[..32].copy_from_slice(done.as_ref());
    }
}

/// The differences between ciphers (section 12 of the specification).
#[derive(Clone, Copy)]
struct CipherKind {
    name: &'static str,
    algorithm: &'static Algorithm,
    /// The bytes of a number in the nonce, behind four zeros.
    bytes: fn(u64) -> [u8; 8],
}

const CHACHA_POLY: CipherKind = CipherKind {
    name: "ChaChaPoly",
    algorithm: &CHACHA20_POLY1305,
    bytes: u64::to_le_bytes,
};

const AES_GCM: CipherKind = CipherKind {
    name: "AESGCM",
    algorithm: &AES_256_GCM,
    bytes: u64::to_be_bytes,
};

/// A cipher, and its key once it has one.
struct AeadCipher {
    kind: CipherKind,
    key: Option<LessSafeKey>,
}

impl AeadCipher {
    fn new(kind: CipherKind) -> Self {
        Self { kind, key: None }
    }

    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&(self.kind.bytes)(number));
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Cipher for AeadCipher {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn set(&mut self, key: &[u8; KEY]) {
        self.key = UnboundKey::new(self.kind.algorithm, key)
            .ok()
            .map(LessSafeKey::new);
    }

    fn encrypt(&self, number: u64, aad: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (sealed, tag) = out.split_at_mut(plain.len());
        sealed.copy_from_slice(plain);
        let done = self.key.as_ref().and_then(|key| {
            key.seal_in_place_separate_tag(self.nonce(number), Aad::from(aad), sealed)
                .ok()
        });

        match done {
            Some(made) => tag[..TAG].copy_from_slice(made.as_ref()),
            // No plain text may leave if sealing fails.
            None => out.fill(0),
        }
        plain.len() + TAG
    }

    fn decrypt(
        &self,
        number: u64,
        aad: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let key = self.key.as_ref().ok_or(Error::Decrypt)?;
        let length = sealed.len().checked_sub(TAG).ok_or(Error::Decrypt)?;
        let (text, tag) = sealed.split_at(length);
        key.open_separate_gather(
            self.nonce(number),
            Aad::from(aad),
            text,
            tag,
            &mut out[..length],
        )
        .map_err(|_| Error::Decrypt)?;
        Ok(length)
    }
}

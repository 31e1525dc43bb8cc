//! Keys between two neighbours: the pattern IK of the Noise protocol, in one round trip.
//!
//! Each node has an X25519 key, and knows the public keys of its neighbours. TLS would need several datagrams for certificates,
//! which links that are up for a moment lose; Noise needs one each way. The pattern is that of the specification's revision 34,
//! the state machine is that of `snow`, and its primitives are those of aws-lc-rs, as everywhere else.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::rand::fill;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState, StatelessTransportState};

/// The length of a key, in bytes.
const KEY: usize = 32;

/// The length of what AES-GCM adds, in bytes.
pub const TAG: usize = 16;

/// Room for a message of a handshake, in bytes: a key, a sealed key and two tags are 96.
const MESSAGE: usize = 128;

/// Both sides mix it in, so that no other use of the keys fits.
const PROLOGUE: &[u8] = b"hermes custody 1";

/// The key of a node.
#[derive(Clone)]
pub struct NodeKey([u8; KEY]);

/// What neighbours know of a node's key. It is written in Base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; KEY]);

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes in Base64")]
pub struct NoKey;

impl NodeKey {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, NoKey> {
        let mut key = [0; KEY];
        fill(&mut key).map_err(|_| NoKey)?;
        Ok(Self(key))
    }

    /// In Base64, for a file that no one else may read.
    pub fn to_text(&self) -> String {
        BASE64.encode(self.0)
    }

    /// What neighbours are told.
    pub fn public(&self) -> PublicKey {
        let mut dh = X25519Pair::default();
        dh.set(&self.0);
        PublicKey(dh.public)
    }
}

impl FromStr for NodeKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey")
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn decode(text: &str) -> Result<[u8; KEY], NoKey> {
    let bytes = BASE64.decode(text.trim()).map_err(|_| NoKey)?;
    bytes.try_into().map_err(|_| NoKey)
}

/// A handshake that waits for its answer.
pub struct Initiation(HandshakeState);

/// Begins a handshake; the first message is to be said in a HELLO.
///
/// # Errors
/// The other side's key is no point of the curve.
pub fn initiate(own: &NodeKey, peer: &PublicKey) -> Result<(Initiation, Bytes), Error> {
    let mut state = builder(own)?
        .remote_public_key(&peer.0)?
        .build_initiator()?;
    let mut message = [0; MESSAGE];
    let length = state.write_message(&[], &mut message)?;
    Ok((
        Initiation(state),
        Bytes::copy_from_slice(&message[..length]),
    ))
}

impl Initiation {
    /// Ends a handshake with the second message.
    ///
    /// # Errors
    /// The message is not from the other side.
    pub fn end(mut self, answer: &[u8]) -> Result<Keys, Error> {
        self.0.read_message(answer, &mut [0; MESSAGE])?;
        self.0.into_stateless_transport_mode().map(Keys)
    }
}

/// Answers a handshake: whose it is, the second message, and the keys.
///
/// # Errors
/// The message is none for this node.
pub fn respond(own: &NodeKey, hello: &[u8]) -> Result<(PublicKey, Bytes, Keys), Error> {
    let mut state = builder(own)?.build_responder()?;
    state.read_message(hello, &mut [0; MESSAGE])?;
    let peer = state
        .get_remote_static()
        .and_then(|key| key.try_into().ok())
        .map(PublicKey)
        .ok_or(Error::Input)?;

    let mut message = [0; MESSAGE];
    let length = state.write_message(&[], &mut message)?;
    let keys = state.into_stateless_transport_mode().map(Keys)?;
    Ok((peer, Bytes::copy_from_slice(&message[..length]), keys))
}

fn builder(own: &NodeKey) -> Result<Builder<'_>, Error> {
    let params: NoiseParams = "Noise_IK_25519_AESGCM_SHA256".parse()?;
    Builder::with_resolver(params, Box::new(AwsLc))
        .prologue(PROLOGUE)?
        .local_private_key(&own.0)
}

/// The keys of one epoch, for both directions.
pub struct Keys(StatelessTransportState);

impl Keys {
    /// Seals frames.
    ///
    /// # Errors
    /// The number is the one that Noise reserves, or there is too much to seal.
    pub fn seal(&self, number: u64, plain: &[u8]) -> Result<Bytes, Error> {
        let mut sealed = vec![0; plain.len() + TAG];
        let length = self.0.write_message(number, plain, &mut sealed)?;
        sealed.truncate(length);
        Ok(sealed.into())
    }

    /// Opens them.
    ///
    /// # Errors
    /// They were not sealed with these keys under this number.
    pub fn open(&self, number: u64, sealed: &[u8]) -> Result<Bytes, Error> {
        let mut plain = vec![0; sealed.len()];
        let length = self.0.read_message(number, sealed, &mut plain)?;
        plain.truncate(length);
        Ok(plain.into())
    }
}

/// The primitives.
struct AwsLc;

impl CryptoResolver for AwsLc {
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
            HashChoice::SHA256 => Some(Box::new(Sha256(digest::Context::new(&SHA256)))),
            _ => None,
        }
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::AESGCM => Some(Box::new(AesGcm(None))),
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
        let public = UnparsedPublicKey::new(&X25519, &public[..KEY]);
        agree(&private, public, Error::Dh, |secret| {
            out[..KEY].copy_from_slice(secret);
            Ok(())
        })
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

/// AES-256-GCM with the nonce of Noise: four zero bytes, then the number in network byte order.
struct AesGcm(Option<LessSafeKey>);

impl AesGcm {
    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; KEY]) {
        self.0 = UnboundKey::new(&AES_256_GCM, key)
            .ok()
            .map(LessSafeKey::new);
    }

    fn encrypt(&self, number: u64, aad: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (sealed, tag) = out.split_at_mut(plain.len());
        sealed.copy_from_slice(plain);
        let done = self.0.as_ref().and_then(|key| {
            key.seal_in_place_separate_tag(Self::nonce(number), Aad::from(aad), sealed)
                .ok()
        });

        match done {
            Some(made) => tag[..TAG].copy_from_slice(made.as_ref()),
            // Nothing of the plain text may leave when it could not be sealed.
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
        let key = self.0.as_ref().ok_or(Error::Decrypt)?;
        let length = sealed.len().checked_sub(TAG).ok_or(Error::Decrypt)?;
        let (text, tag) = sealed.split_at(length);
        key.open_separate_gather(
            Self::nonce(number),
            Aad::from(aad),
            text,
            tag,
            &mut out[..length],
        )
        .map_err(|_| Error::Decrypt)?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Keys, Keys, PublicKey, NodeKey) {
        let one = NodeKey::generate().unwrap();
        let two = NodeKey::generate().unwrap();
        let (begun, hello) = initiate(&one, &two.public()).unwrap();
        let (seen, answer, theirs) = respond(&two, &hello).unwrap();
        (begun.end(&answer).unwrap(), theirs, seen, one)
    }

    #[test]
    fn both_sides_have_the_same_keys_and_know_each_other() {
        let (ours, theirs, seen, one) = pair();
        assert_eq!(seen, one.public());
        let sealed = ours.seal(7, b"frames").unwrap();
        assert_eq!(&theirs.open(7, &sealed).unwrap()[..], b"frames");
        let sealed = theirs.seal(0, b"").unwrap();
        assert_eq!(&ours.open(0, &sealed).unwrap()[..], b"");
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let (ours, theirs, ..) = pair();
        let sealed = ours.seal(7, b"frames").unwrap();
        assert!(theirs.open(8, &sealed).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(theirs.open(7, &changed).is_err(), "bit {bit}");
        }
        assert!(theirs.open(7, &sealed[..TAG - 1]).is_err());
    }

    #[test]
    fn a_hello_is_for_one_node_only() {
        let one = NodeKey::generate().unwrap();
        let two = NodeKey::generate().unwrap();
        let (begun, hello) = initiate(&one, &two.public()).unwrap();
        assert!(respond(&one, &hello).is_err());
        assert!(begun.end(&hello).is_err());
        assert!(respond(&two, &hello[1..]).is_err());
    }

    #[test]
    fn agrees_as_rfc_7748_section_6_1_says() {
        let alice = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let alice: NodeKey = alice.parse().unwrap();
        assert_eq!(alice.public().to_string(), public);
        assert!("short".parse::<NodeKey>().is_err());
    }
}

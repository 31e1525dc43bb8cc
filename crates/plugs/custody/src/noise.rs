//! Keys between two neighbours: the pattern IK of the Noise protocol, in one round trip.
//!
//! Each node has an X25519 key, and knows the public keys of its neighbours. TLS would need several datagrams for certificates,
//! which links that are up for a moment lose; Noise needs one each way. The pattern is that of the specification's revision 34,
//! the state machine is that of `snow`; keys and primitives are those of [`hermes_noise`].

use bytes::Bytes;
use hermes_noise::{Primitives, PrivateKey, PublicKey, TAG};
use snow::params::NoiseParams;
use snow::{Builder, Error, HandshakeState, StatelessTransportState};

/// Room for a message of a handshake, in bytes: a key, a sealed key and two tags are 96, and a stamp is 8.
const MESSAGE: usize = 128;

/// Bytes of a first message without a stamp, as nodes of version 0.1 make it.
const BARE: usize = 96;

/// Bytes of a stamp.
const STAMP: usize = 8;

/// Both sides mix it in, so that no other use of the keys fits.
const PROLOGUE: &[u8] = b"hermes custody 1";

/// A handshake that waits for its answer.
pub struct Initiation(HandshakeState);

/// The time at which a handshake was begun: later ones of the same node have greater stamps. 0 in a HELLO without one.
pub type Stamp = u64;

/// A handshake that was answered.
pub struct Handshake {
    /// The key of its maker.
    pub peer: PublicKey,
    /// When it was begun.
    pub stamp: Stamp,
    /// The second message.
    pub answer: Bytes,
    /// The keys that both sides have then.
    pub keys: Keys,
}

/// Begins a handshake; the first message is to be said in a HELLO.
///
/// # Errors
/// The other side's key is no point of the curve.
pub fn initiate(
    own: &PrivateKey,
    peer: &PublicKey,
    stamp: Stamp,
) -> Result<(Initiation, Bytes), Error> {
    let mut state = builder(own)?
        .remote_public_key(&peer.0)?
        .build_initiator()?;
    let mut message = [0; MESSAGE];
    let length = state.write_message(&stamp.to_be_bytes(), &mut message)?;
    Ok((
        Initiation(state),
        Bytes::copy_from_slice(&message[..length]),
    ))
}

impl Initiation {
    /// Reads the second message. One that is not from the other side changes nothing.
    ///
    /// # Errors
    /// It is not from the other side.
    pub fn read(&mut self, answer: &[u8]) -> Result<(), Error> {
        self.0.read_message(answer, &mut [0; MESSAGE]).map(drop)
    }

    /// The keys, once the second message was [read](Self::read).
    ///
    /// # Errors
    /// It was not.
    pub fn keys(self) -> Result<Keys, Error> {
        self.0.into_stateless_transport_mode().map(Keys)
    }
}

/// Whether this may be the first message of a handshake, by its length alone.
pub fn may_be_hello(message: &[u8]) -> bool {
    // Before any cryptography: a message of another length costs nothing.
    [BARE, BARE + STAMP].contains(&message.len())
}

/// Answers a handshake.
///
/// # Errors
/// The message is not for this node.
pub fn respond(own: &PrivateKey, hello: &[u8]) -> Result<Handshake, Error> {
    // IK: the first message carries the initiator's key, sealed, so that one round trip makes both sides known to each other.
    let mut state = builder(own)?.build_responder()?;
    let mut stamp = [0; MESSAGE];
    let length = state.read_message(hello, &mut stamp)?;
    let stamp = stamp[..length].first_chunk().copied();
    let peer = state
        .get_remote_static()
        .and_then(|key| key.try_into().ok())
        .map(PublicKey)
        .ok_or(Error::Input)?;

    let mut message = [0; MESSAGE];
    let length = state.write_message(&[], &mut message)?;
    Ok(Handshake {
        peer,
        stamp: stamp.map_or(0, Stamp::from_be_bytes),
        answer: Bytes::copy_from_slice(&message[..length]),
        keys: state.into_stateless_transport_mode().map(Keys)?,
    })
}

fn builder(own: &PrivateKey) -> Result<Builder<'_>, Error> {
    let params: NoiseParams = "Noise_IK_25519_AESGCM_SHA256".parse()?;
    Builder::with_resolver(params, Box::new(Primitives))
        .prologue(PROLOGUE)?
        .local_private_key(own.bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Keys, Keys, PublicKey, PrivateKey) {
        let one = PrivateKey::generate().unwrap();
        let two = PrivateKey::generate().unwrap();
        let (mut begun, hello) = initiate(&one, &two.public(), 7).unwrap();
        assert!(may_be_hello(&hello));
        let theirs = respond(&two, &hello).unwrap();
        assert_eq!(theirs.stamp, 7);

        let mut forged = theirs.answer.to_vec();
        forged[40] ^= 1;
        assert!(begun.read(&forged).is_err());
        begun.read(&theirs.answer).unwrap();
        (begun.keys().unwrap(), theirs.keys, theirs.peer, one)
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
        let one = PrivateKey::generate().unwrap();
        let two = PrivateKey::generate().unwrap();
        let (mut begun, hello) = initiate(&one, &two.public(), 7).unwrap();
        assert!(respond(&one, &hello).is_err());
        assert!(begun.read(&hello).is_err());
        assert!(respond(&two, &hello[1..]).is_err());
    }
}

//! Handshakes: Noise with the pattern `IKpsk2`, in one round trip.

use snow::params::NoiseParams;
use snow::{Builder, Error, HandshakeState, StatelessTransportState};

use crate::message::{FIRST, SECOND, TAG};
use crate::timestamp::{TIMESTAMP, Timestamp};
use hermes_noise::Primitives;
use hermes_noise::{PresharedKey, PrivateKey, PublicKey};

/// Section 5.4: both sides mix it in, so that no other use of the keys fits.
const PARAMETERS: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// Where the preshared key is mixed in: after the second message.
const PRESHARED_AT: u8 = 2;

/// Without one, it is all zeros (section 5.2).
const NO_PRESHARED: PresharedKey = PresharedKey([0; 32]);

/// A handshake that waits for its answer.
pub(crate) struct Begun(HandshakeState);

/// A handshake of a sender who may or may not be a peer.
pub(crate) struct Opened {
    /// The peer that it belongs to.
    pub(crate) peer: PublicKey,
    /// The time of its beginning, by the sender's clock.
    pub(crate) timestamp: Timestamp,
    state: HandshakeState,
}

/// Begins a handshake with a peer.
pub(crate) fn begin(
    own: &PrivateKey,
    peer: &PublicKey,
    preshared: Option<&PresharedKey>,
    timestamp: Timestamp,
) -> Result<(Begun, [u8; FIRST]), Error> {
    let preshared = preshared.unwrap_or(&NO_PRESHARED);
    let mut state = builder(own)?
        .remote_public_key(&peer.0)?
        .psk(PRESHARED_AT, &preshared.0)?
        .build_initiator()?;
    let mut message = [0; FIRST];
    state.write_message(&timestamp.0, &mut message)?;
    Ok((Begun(state), message))
}

impl Begun {
    /// Takes the answer. An invalid answer changes nothing.
    pub(crate) fn read(&mut self, answer: &[u8; SECOND]) -> Result<(), Error> {
        // Where a tag is wrong, snow goes back to its checkpoint: a forged answer leaves the handshake open for the true one.
        self.0.read_message(answer, &mut [0; TAG]).map(drop)
    }

    /// The keys, once the answer was [read](Self::read).
    pub(crate) fn keys(self) -> Result<StatelessTransportState, Error> {
        self.0.into_stateless_transport_mode()
    }
}

impl Opened {
    /// Reads the first message of a handshake.
    pub(crate) fn read(own: &PrivateKey, message: &[u8; FIRST]) -> Result<Self, Error> {
        let mut state = builder(own)?.build_responder()?;
        // The pattern `IK`: the first message has the initiator's static key, sealed, so that we learn who it is before we answer.
        let mut timestamp = [0; TIMESTAMP + TAG];
        state.read_message(message, &mut timestamp)?;
        let peer = state
            .get_remote_static()
            .and_then(|key| key.try_into().ok())
            .map(PublicKey)
            .ok_or(Error::Input)?;
        let timestamp = timestamp.first_chunk().copied().ok_or(Error::Input)?;

        Ok(Self {
            peer,
            timestamp: Timestamp(timestamp),
            state,
        })
    }

    /// The second message, and the keys.
    pub(crate) fn answer(
        mut self,
        preshared: Option<&PresharedKey>,
    ) -> Result<([u8; SECOND], StatelessTransportState), Error> {
        let preshared = preshared.unwrap_or(&NO_PRESHARED);
        self.state
            .set_psk(usize::from(PRESHARED_AT), &preshared.0)?;
        // Only now, as the preshared key depends on the peer that the first message named.
        let mut message = [0; SECOND];
        self.state.write_message(&[], &mut message)?;
        Ok((message, self.state.into_stateless_transport_mode()?))
    }
}

fn builder(own: &PrivateKey) -> Result<Builder<'_>, Error> {
    let parameters: NoiseParams = PARAMETERS.parse()?;
    Builder::with_resolver(parameters, Box::new(Primitives))
        .prologue(PROLOGUE)?
        .local_private_key(own.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (PrivateKey, PrivateKey) {
        (
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        )
    }

    fn seals(one: Option<&PresharedKey>, two: Option<&PresharedKey>) -> Result<(), Error> {
        let (alice, bob) = pair();
        let timestamp = Timestamp([9; TIMESTAMP]);
        let (mut begun, first) = begin(&alice, &bob.public(), one, timestamp)?;
        let opened = Opened::read(&bob, &first)?;
        assert_eq!(opened.peer, alice.public());
        assert_eq!(opened.timestamp, timestamp);

        let (second, theirs) = opened.answer(two)?;
        assert!(begun.read(&[7; SECOND]).is_err());
        begun.read(&second)?;
        let ours = begun.keys()?;
        let mut sealed = [0; 5 + TAG];
        ours.write_message(3, b"bytes", &mut sealed)?;
        let mut plain = [0; 5];
        theirs.read_message(3, &sealed, &mut plain)?;
        assert_eq!(&plain, b"bytes");
        Ok(())
    }

    #[test]
    fn both_sides_have_the_same_keys_and_a_forged_answer_changes_nothing() {
        let preshared = PresharedKey([4; 32]);
        seals(None, None).unwrap();
        seals(Some(&preshared), Some(&preshared)).unwrap();
        assert!(seals(Some(&preshared), None).is_err());
    }

    #[test]
    fn an_initiation_is_for_one_key_only() {
        let (alice, bob) = pair();
        let bobs = bob.public();
        let (_, first) = begin(&alice, &bobs, None, Timestamp::default()).unwrap();
        assert!(Opened::read(&alice, &first).is_err());
        for byte in 0..FIRST {
            let mut changed = first;
            changed[byte] ^= 1;
            assert!(Opened::read(&bob, &changed).is_err(), "byte {byte}");
        }
    }
}

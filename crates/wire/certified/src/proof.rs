//! The proof of a message: its signature as it travels with the message, and what a receiver checks by it.

use aws_lc_rs::digest::{SHA256, digest};

use crate::approval::Approval;
use crate::key::PublicKey;
use crate::name::{ChannelKeys, KeyName};
use crate::signature::{Signature, SignatureError};
use crate::statement::{Statement, content_digest};

pub use hermes_proto::relay::MAX_PROOF;

/// The names of its lines, in the order in which they are written.
const NAMES: [&str; 6] = [
    "signature-input",
    "signature",
    "hermes-publish",
    "approve-input",
    "approve-signature",
    "hermes-approve",
];

/// A proof, as lines of `name: value`.
///
/// ```text
/// signature-input, signature            of the one who published
/// hermes-publish                        as it was signed, if it was there
/// approve-input, approve-signature      of the owner of the channel, if it is another one
/// hermes-approve                        as the owner signed it
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    values: [Option<String>; 6],
}

/// A message of a channel, as a relay or a receiver has it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The path and query of the channel.
    pub channel: &'a str,
    /// Its media type.
    pub content_type: Option<&'a str>,
    /// Its topic.
    pub topic: Option<&'a str>,
    /// Its content.
    pub content: &'a [u8],
}

/// A reason for which a message is not its sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// It is no proof.
    #[error(
        "the proof of a message has lines that no one knows, or is longer than {MAX_PROOF} bytes"
    )]
    Malformed,
    /// The signature is none, or of another message.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The label beside the message is not the one that was signed.
    #[error("the topic of the message is not the one that was signed")]
    Topic,
    /// The key is neither the channel's nor one that its owner approves.
    #[error("the key is not one of those that may publish to the channel")]
    Key,
    /// The owner's approval is none, or over.
    #[error("the approval of the sender is not the owner's, or over")]
    Approval,
}

impl Proof {
    /// The proof of a message that its sender signed, with the value of `Hermes-Publish` that was signed.
    #[must_use]
    pub fn new(signature: &Signature, publish: Option<&str>) -> Self {
        let mut proof = Self::default();
        proof.values[0] = Some(signature.input());
        proof.values[1] = Some(signature.value());
        proof.values[2] = publish.map(str::to_owned);
        proof
    }

    /// The same with the owner's approval of the sender: its signature, and the value of `Hermes-Approve`.
    #[must_use]
    pub fn approved(mut self, signature: &Signature, approve: &str) -> Self {
        self.values[3] = Some(signature.input());
        self.values[4] = Some(signature.value());
        self.values[5] = Some(approve.to_owned());
        self
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is malformed, or too long.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProofError> {
        let text = std::str::from_utf8(bytes).map_err(|_| ProofError::Malformed)?;
        if bytes.len() > MAX_PROOF {
            return Err(ProofError::Malformed);
        }
        let mut proof = Self::default();
        for line in text.split_terminator('\n') {
            let (name, value) = line.split_once(": ").ok_or(ProofError::Malformed)?;
            // Lines of a later version would change what the others mean.
            let known = NAMES.iter().position(|known| *known == name);
            let index = known.ok_or(ProofError::Malformed)?;
            if proof.values[index].replace(value.to_owned()).is_some() {
                return Err(ProofError::Malformed);
            }
        }
        Ok(proof)
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::new();
        for (name, value) in NAMES.iter().zip(&self.values) {
            if let Some(value) = value {
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
        text.into_bytes()
    }

    /// The value of one of its lines.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let index = NAMES.iter().position(|known| *known == name)?;
        self.values[index].as_deref()
    }

    /// The signature of the sender.
    ///
    /// # Errors
    /// There is none.
    pub fn signature(&self) -> Result<Signature, ProofError> {
        let read = |name| self.value(name).unwrap_or_default().as_bytes();
        Ok(Signature::read(read("signature-input"), read("signature"))?)
    }

    /// Checks that the sender signed this message, and may publish to its channel, at this time in seconds since 1970; the
    /// signature, whose time and nonce the caller has yet to look at. Whether a channel without a key of its sender takes the message
    /// is the relay's word: here, any key may publish to it.
    ///
    /// # Errors
    /// It is not the sender's, or the sender may not.
    pub fn verify(
        &self,
        message: &Message<'_>,
        keys: &ChannelKeys,
        now: u64,
    ) -> Result<Signature, ProofError> {
        let signature = self.signature()?;
        let signed = self.value("hermes-publish");
        if topic_of(signed)?.as_deref() != message.topic {
            return Err(ProofError::Topic);
        }
        // From the content itself: a digest that travelled beside it would prove nothing.
        let digest = content_digest(message.content);
        signature.verify(&Statement {
            method: "POST",
            target: message.channel,
            content_digest: Some(&digest),
            content_type: message.content_type,
            publish: signed,
            approve: None,
        })?;
        match keys.sender {
            Some(sender) if signature.key.name() != sender => {
                self.check_approval(message.channel, &sender, &signature.key, now)?;
            }
            _ => {}
        }
        Ok(signature)
    }

    /// Whether the owner of the channel approves of a key.
    fn check_approval(
        &self,
        channel: &str,
        owner: &KeyName,
        key: &PublicKey,
        now: u64,
    ) -> Result<(), ProofError> {
        let Some(text) = self.value("hermes-approve") else {
            return Err(ProofError::Key);
        };
        let read = |name| self.value(name).unwrap_or_default().as_bytes();
        let signature = Signature::read(read("approve-input"), read("approve-signature"))?;
        let statement = Statement {
            method: "POST",
            target: channel,
            approve: Some(text),
            ..Statement::default()
        };
        signature.verify(&statement)?;
        let approval = Approval::parse(text.as_bytes()).map_err(|_| ProofError::Approval)?;
        let is_good = signature.key.name() == *owner && approval.has_key(&key.name(), now);
        match is_good {
            true => Ok(()),
            false => Err(ProofError::Approval),
        }
    }
}

impl Signature {
    /// A name for it by which a [`ReplayWindow`](crate::ReplayWindow) knows it again, in one channel.
    #[must_use]
    pub fn id(&self, channel: &str) -> [u8; 16] {
        let text = format!("{}\n{}\n{channel}", self.key, self.nonce);
        let mut id = [0; 16];
        id.copy_from_slice(&digest(&SHA256, text.as_bytes()).as_ref()[..16]);
        id
    }
}

/// The topic of a value of `Hermes-Publish`.
fn topic_of(publish: Option<&str>) -> Result<Option<String>, ProofError> {
    use hermes_proto::fields::Fields;
    use hermes_proto::relay::fields::{PUBLISH, Publish};

    let Some(publish) = publish else {
        return Ok(None);
    };
    let value: http::HeaderValue = publish.parse().map_err(|_| ProofError::Malformed)?;
    let fields = Fields::from_iter([(PUBLISH, value)]);
    let read = Publish::read(&fields).map_err(|_| ProofError::Malformed)?;
    Ok(read.topic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SigningKey;

    fn key(seed: u8) -> SigningKey {
        SigningKey::of_seed(&[seed; 32]).unwrap()
    }

    fn signed(key: &SigningKey, message: &Message<'_>, publish: Option<&str>) -> Proof {
        let digest = content_digest(message.content);
        let statement = Statement {
            method: "POST",
            target: message.channel,
            content_digest: Some(&digest),
            content_type: message.content_type,
            publish,
            approve: None,
        };
        Proof::new(&Signature::make(key, &statement, 1000, "n"), publish)
    }

    #[test]
    fn a_receiver_knows_the_owners_messages_by_the_uri_alone() {
        let owner = key(1);
        let channel = format!("/c/{}", owner.public().name());
        let keys = ChannelKeys::of(&channel).unwrap();
        let message = Message {
            channel: &channel,
            content_type: Some("text/plain"),
            topic: Some("t"),
            content: b"hi",
        };
        let proof = signed(&owner, &message, Some("topic=\"t\""));
        let proof = Proof::decode(&proof.encode()).unwrap();
        assert_eq!(proof.verify(&message, &keys, 1000).unwrap().created, 1000);

        let changed = [
            Message {
                content: b"ho",
                ..message
            },
            Message {
                content_type: None,
                ..message
            },
            Message {
                topic: None,
                ..message
            },
            Message {
                topic: Some("u"),
                ..message
            },
        ];
        for changed in changed {
            assert!(proof.verify(&changed, &keys, 1000).is_err(), "{changed:?}");
        }
        let strangers = signed(&key(2), &message, Some("topic=\"t\""));
        assert_eq!(
            strangers.verify(&message, &keys, 1000).unwrap_err(),
            ProofError::Key
        );
    }

    #[test]
    fn an_approved_key_is_believed_by_the_owners_word_and_while_it_holds() {
        let owner = key(1);
        let sender = key(2);
        let channel = format!("/c/{}", owner.public().name());
        let keys = ChannelKeys::of(&channel).unwrap();
        let message = Message {
            channel: &channel,
            content_type: None,
            topic: None,
            content: b"hi",
        };
        let list = Approval {
            keys: vec![sender.public().name()],
            users: Vec::new(),
            until: 2000,
        };
        let text = list.value();
        let statement = Statement {
            method: "POST",
            target: &channel,
            approve: Some(&text),
            ..Statement::default()
        };
        let word = Signature::make(&owner, &statement, 900, "a");
        let proof = signed(&sender, &message, None).approved(&word, &text);
        assert!(proof.verify(&message, &keys, 2000).is_ok());
        assert_eq!(
            proof.verify(&message, &keys, 2001).unwrap_err(),
            ProofError::Approval
        );
        // A sender does not approve itself.
        let own = Signature::make(&sender, &statement, 900, "a");
        let proof = signed(&sender, &message, None).approved(&own, &text);
        assert_eq!(
            proof.verify(&message, &keys, 1000).unwrap_err(),
            ProofError::Approval
        );
        // A third key is not in the list.
        let proof = signed(&key(3), &message, None).approved(&word, &text);
        assert_eq!(
            proof.verify(&message, &keys, 1000).unwrap_err(),
            ProofError::Approval
        );
    }
}

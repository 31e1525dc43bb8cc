//! Requests to channels with keys: who may publish, subscribe and approve.

use std::sync::Arc;

use bytes::Bytes;
use hermes_certified::{
    APPROVE, Approval, CONTENT_DIGEST, ChannelKeys, Message, Proof, SIGNATURE, SIGNATURE_INPUT,
    Signature, Statement, content_digest,
};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::PUBLISH;
use http::{HeaderName, StatusCode};

use super::approvals::Standing;
use super::{Certified, denied, no_channel, seconds, with_approval};
use crate::account::Account;

/// The longest time for which an owner may approve of senders, in seconds.
#[doc(alias = "bound")]
const MAX_APPROVAL: u64 = 24 * 60 * 60;

/// One request to a channel.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) certified: &'a Certified,
    /// The path and query of the channel.
    pub(crate) channel: &'a str,
    /// The keys that it names.
    pub(crate) keys: ChannelKeys,
    /// The key of the channel in the tables of this node.
    pub(crate) key: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) account: &'a Arc<Account>,
}

/// A message, and the claims about it.
#[derive(Clone, Copy)]
pub(crate) struct ClaimedMessage<'a> {
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) topic: Option<&'a str>,
    pub(crate) content: &'a [u8],
}

impl Claim<'_> {
    /// Reads the proof of the fields of a publisher, before its content costs anything. `None`: the channel needs none, and has none.
    ///
    /// # Errors
    /// It may not publish.
    pub(crate) fn of_publisher(&self, fields: &Fields) -> Result<Option<Proof>, Refusal> {
        if self.keys.owner().is_none() {
            return Ok(None);
        }
        let Some(signature) = signature(fields)? else {
            self.check_sender(None, None)?;
            return Ok(None);
        };
        let publish = text(fields, PUBLISH)?;
        let proof = Proof::new(&signature, publish);
        self.check_sender(Some(&signature), Some(&proof))?;
        Ok(Some(proof))
    }

    /// Verifies a message with its proof: the proof as receivers get it.
    ///
    /// # Errors
    /// Its sender may not publish, or it is not its sender's, or it came already.
    pub(crate) fn message(
        &self,
        message: &ClaimedMessage<'_>,
        proof: Option<&Proof>,
    ) -> Result<Option<Bytes>, Refusal> {
        if self.keys.owner().is_none() {
            return Ok(None);
        }
        let Some(proof) = proof else {
            self.check_sender(None, None)?;
            return Ok(None);
        };
        let signature = proof.signature().map_err(|error| denied(&error))?;
        // Comparing names costs nothing; verifying a signature does.
        let standing = self.check_sender(Some(&signature), Some(proof))?;
        let proof = match standing {
            Standing::Key => {
                with_approval(proof.clone(), &self.certified.approvals.lock(), self.key)
            }
            _ => proof.clone(),
        };
        let content_type = message.content_type.map(std::str::from_utf8);
        let message = Message {
            channel: self.channel,
            content_type: content_type.transpose().map_err(|error| denied(&error))?,
            topic: message.topic,
            content: message.content,
        };
        let now = seconds();
        let signature = proof.verify(&message, &self.keys, now);
        let signature = signature.map_err(|error| denied(&error))?;
        // Only now: who has not the key could fill the memory of signatures, and spoil those of others.
        self.certified
            .take(&signature, self.channel, self.account, now)?;
        Ok(Some(proof.encode().into()))
    }

    /// Whether a sender may publish, as far as keys and lists say.
    fn check_sender(
        &self,
        signature: Option<&Signature>,
        proof: Option<&Proof>,
    ) -> Result<Standing, Refusal> {
        let now = seconds();
        let name = signature.map(|signature| signature.key.name());
        let approvals = self.certified.approvals.lock();
        let standing = approvals.standing(self.key, name.as_ref(), self.user, now);
        drop(approvals);
        let may = match self.keys.sender {
            Some(owner) if name == Some(owner) => true,
            // Without a list here, the sender may bring the owner's word: the channel came from another relay.
            Some(_) => match standing {
                Standing::Key => true,
                Standing::Unlisted => {
                    proof.is_some_and(|proof| proof.value("hermes-approve").is_some())
                }
                Standing::User | Standing::Stranger => false,
            },
            None => standing != Standing::Stranger,
        };
        match may {
            true => Ok(standing),
            false => Err(no_channel()),
        }
    }

    /// Checks that a subscriber has the key of the receiver, where the channel names one; it may bring a list of senders.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn subscriber(&self, target: &str, fields: &Fields) -> Result<(), Refusal> {
        let Some(receiver) = self.keys.receiver else {
            return Ok(());
        };
        let signature = signature(fields)?.ok_or_else(no_channel)?;
        if signature.key.name() != receiver {
            return Err(no_channel());
        }
        let approve = text(fields, APPROVE)?;
        let statement = Statement {
            method: "GET",
            target,
            approve,
            ..Statement::default()
        };
        signature
            .verify(&statement)
            .map_err(|error| denied(&error))?;
        self.certified
            .take(&signature, self.channel, self.account, seconds())?;
        match (approve, self.keys.sender) {
            (Some(approve), None) => self.set(signature, approve),
            _ => Ok(()),
        }
    }

    /// Sets the list of approved senders, in the name of the owner.
    ///
    /// # Errors
    /// It is not the owner's, or malformed.
    pub(crate) fn approve(&self, fields: &Fields) -> Result<(), Refusal> {
        let owner = self.keys.owner().ok_or_else(no_channel)?;
        let signature = signature(fields)?.ok_or_else(no_channel)?;
        if signature.key.name() != owner {
            return Err(no_channel());
        }
        let approve = text(fields, APPROVE)?.unwrap_or_default();
        let statement = Statement {
            method: "POST",
            target: self.channel,
            approve: Some(approve),
            ..Statement::default()
        };
        signature
            .verify(&statement)
            .map_err(|error| denied(&error))?;
        self.certified
            .take(&signature, self.channel, self.account, seconds())?;
        self.set(signature, approve)
    }

    fn set(&self, signature: Signature, approve: &str) -> Result<(), Refusal> {
        let approval = Approval::parse(approve.as_bytes()).map_err(|error| malformed(&error))?;
        let now = seconds();
        if !(now..=now + MAX_APPROVAL).contains(&approval.until) {
            return Err(malformed(
                &"`until` of Hermes-Approve is at most a day ahead",
            ));
        }
        // A user is this relay's word, which receivers at a channel of a sender do not take.
        if self.keys.sender.is_some() && !approval.users.is_empty() {
            let reason =
                "receivers know senders of this channel by their keys: approve keys, not users";
            return Err(malformed(&reason));
        }
        let word = (signature, approve.to_owned());
        let mut approvals = self.certified.approvals.lock();
        match approvals.set(self.key, approval, word, self.account) {
            true => Ok(()),
            false => {
                let details = "too many lists of approved senders, of this user or in all";
                let refusal = Refusal::new(ProxyError::ConnectionLimitReached, details);
                Err(refusal.status(StatusCode::TOO_MANY_REQUESTS))
            }
        }
    }
}

/// Checks that a content has the digest that its field says, where it was signed.
///
/// # Errors
/// It has another one, or the field is absent.
pub(crate) fn check_digest(fields: &Fields, content: &[u8]) -> Result<(), Refusal> {
    let said = text(fields, CONTENT_DIGEST)?.unwrap_or_default();
    match said == content_digest(content) {
        true => Ok(()),
        false => Err(denied(
            &"Content-Digest is not the SHA-256 of the content, as sha-256=:BASE64:",
        )),
    }
}

/// The signature for a channel in these fields; those for something else are none of ours.
fn signature(fields: &Fields) -> Result<Option<Signature>, Refusal> {
    if fields.get(SIGNATURE_INPUT).is_none() {
        return Ok(None);
    }
    let input = joined(fields, SIGNATURE_INPUT);
    let value = joined(fields, SIGNATURE);
    let read = Signature::read(&input, &value);
    read.map(Some).map_err(|error| malformed(&error))
}

/// Several lines are one dictionary (RFC 9651, section 4.2).
fn joined(fields: &Fields, name: HeaderName) -> Vec<u8> {
    let lines = fields.values(&name);
    let lines: Vec<_> = lines.map(|line| line.as_bytes().to_vec()).collect();
    lines.join(&b", "[..])
}

/// A field that is signed as it stands: of one line.
fn text(fields: &Fields, name: HeaderName) -> Result<Option<&str>, Refusal> {
    let Some(first) = fields.get(&name) else {
        return Ok(None);
    };
    let is_one = fields.values(&name).count() == 1;
    let text = std::str::from_utf8(first.as_bytes()).ok();
    text.filter(|_| is_one).map(Some).ok_or_else(|| {
        malformed(&format!(
            "{name} must be one line of ASCII where it is signed"
        ))
    })
}

fn malformed(error: &impl std::fmt::Display) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, error.to_string())
}

//! Messages of gRPC between agents and controllers, in the encoding of protobuf.
//!
//! They are derived from these types, whose tags are the wire format: a tag is never given to another field.

use prost::{Enumeration, Message, Oneof};

/// Bytes of a blob in one message: small enough that an acknowledgement never waits long behind one.
#[doc(alias = "bound")]
pub const MAX_PART: usize = 256 * 1024;

/// Bytes of the largest blob.
#[doc(alias = "bound")]
pub const MAX_BLOB: usize = 16 * 1024 * 1024;

/// Paths of the methods.
pub mod methods {
    /// [`JoinRequest`](super::JoinRequest) to [`JoinAnswer`](super::JoinAnswer); needs no certificate.
    pub const JOIN: &str = "/hermes.control.v1.Controller/Join";
    /// [`RenewRequest`](super::RenewRequest) to [`JoinAnswer`](super::JoinAnswer), by the certificate to be renewed.
    pub const RENEW: &str = "/hermes.control.v1.Controller/Renew";
    /// A stream of [`AgentMessage`](super::AgentMessage) to one of [`ControllerMessage`](super::ControllerMessage).
    pub const ATTEND: &str = "/hermes.control.v1.Controller/Attend";
    /// [`Operation`](super::Operation) to [`OperationAnswer`](super::OperationAnswer), between controllers.
    pub const OPERATE: &str = "/hermes.control.v1.Controller/Operate";
}

/// A node asks to become a member.
#[derive(Clone, PartialEq, Message)]
pub struct JoinRequest {
    /// Of its token.
    #[prost(string, tag = "1")]
    pub token_id: String,
    /// Of its token.
    #[prost(string, tag = "2")]
    pub token_secret: String,
    /// The name that it would have; empty for one of the controller's choice.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Its request for a certificate (PKCS #10, RFC 2986) in DER; the key stays at the node.
    #[prost(bytes = "vec", tag = "4")]
    pub request: Vec<u8>,
    /// SHA-256 of its program.
    #[prost(bytes = "vec", tag = "5")]
    pub binary: Vec<u8>,
}

/// A member asks for a certificate for a longer time.
#[derive(Clone, PartialEq, Message)]
pub struct RenewRequest {
    /// Its request for a certificate (PKCS #10, RFC 2986) in DER.
    #[prost(bytes = "vec", tag = "1")]
    pub request: Vec<u8>,
}

/// A node's membership.
#[derive(Clone, PartialEq, Message)]
pub struct JoinAnswer {
    /// The overlay.
    #[prost(string, tag = "1")]
    pub overlay: String,
    /// The domain of its SPIFFE IDs and DNS names.
    #[prost(string, tag = "2")]
    pub trust_domain: String,
    /// The node's name.
    #[prost(string, tag = "3")]
    pub node: String,
    /// The user of a device; empty for other nodes.
    #[prost(string, tag = "4")]
    pub user: String,
    /// The node's certificate and those between it and an authority, as PEM.
    #[prost(string, tag = "5")]
    pub certificates: String,
    /// Certificates of the overlay's authorities, as PEM.
    #[prost(string, tag = "6")]
    pub authorities: String,
    /// The key of statements, as [`VerifyingKey::to_text`](crate::VerifyingKey::to_text).
    #[prost(string, tag = "7")]
    pub statement_key: String,
    /// Addresses of all controllers of the overlay, such as `https://hub:7443`; empty where there is one.
    #[prost(string, repeated, tag = "8")]
    pub controllers: Vec<String>,
}

/// From an agent.
#[derive(Clone, PartialEq, Message)]
pub struct AgentMessage {
    /// Its content; a message without one is of a later version and ignored.
    #[prost(oneof = "agent_message::Content", tags = "1, 2, 3, 4, 5")]
    pub content: Option<agent_message::Content>,
}

/// Contents of [`AgentMessage`].
pub mod agent_message {
    /// Messages of an agent.
    #[derive(Clone, PartialEq, super::Oneof)]
    pub enum Content {
        /// The first message, and the only one of its kind.
        #[prost(message, tag = "1")]
        Hello(super::Hello),
        /// Blobs that the last offer names and the node lacks.
        #[prost(message, tag = "2")]
        Wanted(super::Wanted),
        /// How far it has come with an offer.
        #[prost(message, tag = "3")]
        Acknowledgement(super::Acknowledgement),
        /// Its exchanges before and since the last change, as [`Notice::Report`](super::Notice::Report) asks.
        #[prost(message, tag = "4")]
        Health(super::Health),
        /// A value that a key should have for all nodes.
        #[prost(message, tag = "5")]
        Proposed(super::Proposed),
    }
}

/// The state and the program of a node that begins to attend.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    /// [`Statement::content`](crate::Statement::content) of the statement in force; empty if none is.
    #[prost(bytes = "vec", tag = "1")]
    pub content: Vec<u8>,
    /// SHA-256 of the node's program.
    #[prost(bytes = "vec", tag = "2")]
    pub binary: Vec<u8>,
    /// The program's version.
    #[prost(string, tag = "3")]
    pub version: String,
    /// The key that secrets of the node are sealed to; empty if it opens none.
    #[prost(bytes = "vec", tag = "4")]
    pub sealing_key: Vec<u8>,
}

/// Blobs that a node lacks.
#[derive(Clone, PartialEq, Message)]
pub struct Wanted {
    /// Their hashes.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub hashes: Vec<Vec<u8>>,
}

/// Steps of a statement at a node, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Progress {
    /// Refused; the mistakes say why. The statement in force stays.
    Refused = 0,
    /// All its parts are on the node's disk.
    Stored = 1,
    /// It is in force.
    InForce = 2,
    /// It is in force, and no timer would return from it.
    Confirmed = 3,
    /// The node has returned from it to the one before: it was not confirmed in time.
    Returned = 4,
}

/// How far a node has come with a statement.
#[derive(Clone, PartialEq, Message)]
pub struct Acknowledgement {
    /// SHA-256 of the statement.
    #[prost(bytes = "vec", tag = "1")]
    pub statement: Vec<u8>,
    /// The step.
    #[prost(enumeration = "Progress", tag = "2")]
    pub progress: i32,
    /// Why it was refused.
    #[prost(message, repeated, tag = "3")]
    pub mistakes: Vec<Mistake>,
    /// The change in the node's words, such as `listeners kept: 2`.
    #[prost(string, tag = "4")]
    pub report: String,
    /// The exchanges of the node, once the statement is in force.
    #[prost(message, optional, tag = "5")]
    pub health: Option<Health>,
}

/// The exchanges of a node before and since a change.
#[derive(Clone, PartialEq, Message)]
pub struct Health {
    /// SHA-256 of the statement that is in force since the change.
    #[prost(bytes = "vec", tag = "1")]
    pub statement: Vec<u8>,
    /// In the minutes before it.
    #[prost(message, optional, tag = "2")]
    pub before: Option<Figures>,
    /// Since then.
    #[prost(message, optional, tag = "3")]
    pub since: Option<Figures>,
}

/// The exchanges of a node in a time.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Figures {
    /// Exchanges that ended.
    #[prost(uint64, tag = "1")]
    pub exchanges: u64,
    /// Exchanges that failed: without a response, with a 5xx, or broken off by the target.
    #[prost(uint64, tag = "2")]
    pub failures: u64,
    /// The duration that 98 of 100 requests stay below, in microseconds; 0 without requests.
    #[prost(uint64, tag = "3")]
    pub p98_micros: u64,
    /// The duration that 99 of 100 requests stay below, in microseconds; 0 without requests.
    #[prost(uint64, tag = "4")]
    pub p99_micros: u64,
}

/// A value that a key should have for all nodes. The first one that is proposed counts.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Proposed {
    /// Repeated by the answer.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// 1 to 64 letters, digits, `-` and `_`.
    #[prost(string, tag = "2")]
    pub key: String,
    /// At most 255 bytes.
    #[prost(string, tag = "3")]
    pub value: String,
    /// The value whose place it takes; empty if it takes that of none.
    #[prost(string, tag = "4")]
    pub instead_of: String,
}

/// The value that a key has for all nodes.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Agreed {
    /// Of the proposal.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Empty if the node may not propose.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A mistake in a node's document.
#[derive(Clone, PartialEq, Message)]
pub struct Mistake {
    /// The key, such as `routes[2].to`; empty where the whole is meant.
    #[prost(string, tag = "1")]
    pub path: String,
    /// The mistake.
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// From a controller.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerMessage {
    /// Its content; a message without one is of a later version and ignored.
    #[prost(oneof = "controller_message::Content", tags = "1, 2, 3, 4, 10")]
    pub content: Option<controller_message::Content>,
}

/// Contents of [`ControllerMessage`].
pub mod controller_message {
    /// Messages of a controller.
    #[derive(Clone, PartialEq, super::Oneof)]
    pub enum Content {
        /// The statement that the node should follow.
        #[prost(message, tag = "1")]
        Offer(super::Offer),
        /// A piece of a blob.
        #[prost(message, tag = "2")]
        BlobPart(super::BlobPart),
        /// Something that changes no document.
        #[prost(enumeration = "super::Notice", tag = "3")]
        Notice(i32),
        /// The answer to a proposal.
        #[prost(message, tag = "4")]
        Agreed(super::Agreed),
        /// The controllers of the overlay.
        #[prost(message, tag = "10")]
        Controllers(super::Controllers),
    }
}

/// A signed statement.
#[derive(Clone, PartialEq, Message)]
pub struct Offer {
    /// See [`SignedStatement::bytes`](crate::SignedStatement::bytes).
    #[prost(bytes = "vec", tag = "1")]
    pub statement: Vec<u8>,
    /// See [`SignedStatement::signature`](crate::SignedStatement::signature).
    #[prost(bytes = "vec", tag = "2")]
    pub signature: Vec<u8>,
    /// See [`SignedEndorsement::text`](crate::SignedEndorsement::text); empty if the operator has signed nothing.
    #[prost(string, tag = "3")]
    pub endorsement: String,
    /// See [`SignedEndorsement::signature`](crate::SignedEndorsement::signature).
    #[prost(bytes = "vec", tag = "4")]
    pub endorsed: Vec<u8>,
}

/// The controllers of an overlay. A node attends the one that leads.
#[derive(Clone, PartialEq, Message)]
pub struct Controllers {
    /// Addresses of all, such as `https://hub:7443`.
    #[prost(string, repeated, tag = "1")]
    pub urls: Vec<String>,
    /// The one to attend instead of this one; empty if this one leads.
    #[prost(string, tag = "2")]
    pub leader: String,
}

/// A request of an operator, which a controller passes on to the one that leads.
#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    /// It changes something.
    #[prost(bool, tag = "1")]
    pub changes: bool,
    /// Of its URL.
    #[prost(string, tag = "2")]
    pub path: String,
    /// Of its URL.
    #[prost(string, tag = "3")]
    pub query: String,
    /// Its content.
    #[prost(bytes = "vec", tag = "4")]
    pub body: Vec<u8>,
}

/// The answer of the controller that leads.
#[derive(Clone, PartialEq, Message)]
pub struct OperationAnswer {
    /// As of HTTP.
    #[prost(uint32, tag = "1")]
    pub status: u32,
    /// Its content, JSON.
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}

/// A piece of a blob, at most [`MAX_PART`] long. Pieces of a blob come in order, one blob after the other.
#[derive(Clone, PartialEq, Message)]
pub struct BlobPart {
    /// The hash of the whole.
    #[prost(bytes = "vec", tag = "1")]
    pub hash: Vec<u8>,
    /// The next bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub bytes: Vec<u8>,
    /// The blob ends here.
    #[prost(bool, tag = "3")]
    pub last: bool,
}

/// Something that changes no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Notice {
    /// The node has what it should have.
    InStep = 0,
    /// The statement in force is to be kept.
    Confirm = 1,
    /// The node is no member any more: its certificate was revoked.
    Revoked = 2,
    /// The node is to say how its exchanges go since the last change: [`Health`].
    Report = 3,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_later_version_is_read_without_its_content() {
        // Field 15 of an unknown kind.
        let later = AgentMessage::decode(&[0x7a, 0x02, 0x08, 0x01][..]).unwrap();
        assert_eq!(later.content, None);
    }

    #[test]
    fn the_hello_of_a_node_is_short() {
        let hello = Hello {
            content: vec![7; 32],
            binary: vec![8; 32],
            version: "0.1.0".to_owned(),
            sealing_key: vec![9; 32],
        };
        let message = AgentMessage {
            content: Some(agent_message::Content::Hello(hello.clone())),
        };
        let bytes = message.encode_to_vec();
        assert!(bytes.len() < 128, "{}", bytes.len());
        assert_eq!(AgentMessage::decode(&*bytes).unwrap(), message);
    }
}

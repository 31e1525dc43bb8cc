//! The language between controllers and agents: hashes, revisions, signed statements, tokens and messages.
//!
//! A controller keeps one desired state as content-addressed blobs, as git keeps files. For each node it makes a [`Statement`]: the
//! revision, and the hashes of the parts that this node should have. It is signed, so that an agent accepts it from any controller
//! that passes it on, and from no one who cannot sign. The agent asks for the blobs that it lacks, checks each against its hash,
//! and acknowledges in steps ([`Progress`]).
//!
//! There is no run time, socket, clock or source of randomness in here.
//!
//! Specifications: RFC 8785 in part ([`canonical`](canonical()) says which part), FIPS 180-4 (SHA-256), RFC 8032 (Ed25519), gRPC over HTTP/2.
//!
//! Begin reading in `statement.rs`.

mod canonical;
mod endorsement;
mod hash;
pub mod lifetime;
mod messages;
mod name;
mod revision;
mod sealed;
mod statement;
mod token;

pub use canonical::canonical;
pub use endorsement::{Endorsement, MAX_DOCUMENTS, SignedEndorsement};
pub use hash::{BadHash, Hash};
pub use messages::{
    Acknowledgement, AgentMessage, Agreed, BlobPart, ControllerMessage, Controllers, Figures,
    Health, Hello, JoinAnswer, JoinRequest, MAX_BLOB, MAX_PART, Mistake, Notice, Offer, Operation,
    OperationAnswer, Progress, Proposed, RenewRequest, Wanted, agent_message, controller_message,
    methods,
};
pub use name::{BadName, Name};
pub use revision::{BadRevision, Revision};
pub use sealed::{BadSealingKey, MAX_SECRET, NotOpened, PublicSealingKey, SealingKey};
pub use statement::{BadStatement, SignedStatement, SigningKey, Statement, VerifyingKey, parts};
pub use token::{BadToken, Token};

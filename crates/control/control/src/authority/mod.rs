//! Who is a member of an overlay: an authority of its own, tokens to join with, certificates that are short, and the end of both.
//!
//! Everything is in records of the store, each changed by compare-and-swap, so that several controllers can serve one overlay. Time is an
//! argument, in Unix seconds.
//!
//! - `root`: the whole. `generation`: certificates of the authority, of which a later one replaces an earlier one unattended.
//! - `tokens`: permissions to join. `joining`: a token and a key become a member. `issue`: certificates of members.
//! - `membership`: whose certificate it is. `revocation`: whose it was.
//!
//! Specifications: RFC 5280, RFC 2986, SPIFFE X.509-SVID.

mod certificates;
mod creation;
mod encoding;
mod endorsements;
mod error;
mod generation;
mod issue;
mod joining;
mod membership;
mod records;
mod revocation;
mod root;
mod sealed_texts;
mod sealing;
mod tokens;

pub use self::certificates::CertificateView;
pub use self::error::AuthorityError;
pub use self::joining::JoinRefused;
pub use self::membership::{Member, MemberRecord, NotMember};
pub use self::revocation::{NotRevoked, Revoked};
pub use self::root::{Authority, ControllerIdentity};
pub use self::tokens::{NoToken, TokenRequest, TokenSummary};
pub use sealed_texts::SealedText;

#[cfg(test)]
mod tests;

//! The basis of an identity: enough to check later whether it would still be accepted, and no
//! secret.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

/// The basis of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// There was no authentication.
    Nothing,
    /// A password that was right.
    Password(PasswordProof),
    /// A token.
    Token(Arc<TokenProof>),
    /// A certificate; the stream holds it.
    Certificate,
    /// The word of the ingress of this name.
    Ingress(Arc<str>),
    /// Nothing: a dry run supposes the claims of a token.
    Supposed(Arc<SupposedToken>),
}

impl Proof {
    /// `none`, `basic`, `bearer`, `mtls` or `ingress`; `supposed` in a dry run.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Password(_) => "basic",
            Self::Token(_) => "bearer",
            Self::Certificate => "mtls",
            Self::Ingress(_) => "ingress",
            Self::Supposed(_) => "supposed",
        }
    }
}

impl Proof {
    /// The token's claims, if it is one.
    #[must_use]
    pub fn claims(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Token(token) => Some(&token.claims),
            Self::Supposed(token) => Some(&token.claims),
            Self::Nothing | Self::Password(_) | Self::Certificate | Self::Ingress(_) => None,
        }
    }
}

/// Digest of the hash that a password matched: it changes with the password, and nothing can be tried against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordProof(Vec<u8>);

impl PasswordProof {
    pub(crate) fn of(hash: &str) -> Self {
        Self(digest(&SHA256, hash.as_bytes()).as_ref().to_vec())
    }
}

/// A token that no one has shown, for a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupposedToken {
    /// Its claims.
    pub claims: Map<String, Value>,
    /// The claim that names groups.
    pub groups_claim: String,
}

/// A token's content and its key, without the signature.
#[derive(Debug, PartialEq, Eq)]
pub struct TokenProof {
    /// The name of the key that the token asked for.
    pub(crate) kid: Option<String>,
    /// How it is signed.
    pub(crate) algorithm: Algorithm,
    /// Digest of the key that verified it.
    pub(crate) key: Vec<u8>,
    /// Its claims.
    pub(crate) claims: Map<String, Value>,
}

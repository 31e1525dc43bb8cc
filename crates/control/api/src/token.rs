//! The permission to join an overlay, as text that fits a command line.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Hash, Name};

/// Begins every token: the version of its form.
const PREFIX: &str = "h1.";

/// Bytes of the longest token that is read.
#[doc(alias = "bound")]
const LONGEST: usize = 2048;

/// The permission that a device or a node shows to join: `h1.` and base64url of JSON.
///
/// The first key that redeems it owns it: the same key may repeat the join, and another one is refused. So a token that is read
/// by others after it was used is worth nothing, and one that is used by others first is noticed by its owner.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The overlay to join.
    pub overlay: Name,
    /// By which the controller finds what the token is for.
    pub id: String,
    /// Known to its holder and, as a hash, to the controller: 128 random bits in base64url.
    pub secret: String,
    /// SHA-256 of the certificate of the overlay's authority, in DER. The joining node trusts no other.
    pub authority: Hash,
}

/// A text that is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no token: it begins with `h1.` and has no spaces; was it copied whole?")]
pub struct BadToken;

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_vec(self).map_err(|_| fmt::Error)?;
        write!(out, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
    }
}

impl fmt::Debug for Token {
    /// Without its secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token({} of {})", self.id, self.overlay)
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let content = text.strip_prefix(PREFIX).ok_or(BadToken)?;
        if text.len() > LONGEST {
            return Err(BadToken);
        }
        let json = URL_SAFE_NO_PAD.decode(content).map_err(|_| BadToken)?;
        serde_json::from_slice(&json).map_err(|_| BadToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token {
            overlay: "demo".parse().unwrap(),
            id: "k3".to_owned(),
            secret: "c2VjcmV0".to_owned(),
            authority: Hash::of(b"authority"),
        }
    }

    #[test]
    fn is_read_as_it_is_written() {
        let text = token().to_string();
        assert_eq!(text.parse(), Ok(token()));
        assert_eq!(format!(" {text}\n").parse(), Ok(token()));
        assert!(!format!("{:?}", token()).contains("c2VjcmV0"));
    }

    #[test]
    fn a_part_of_one_is_none() {
        let text = token().to_string();
        for length in 0..text.len() {
            assert_eq!(text[..length].parse::<Token>(), Err(BadToken), "{length}");
        }
        assert_eq!(
            format!("h1.{}", "A".repeat(4096)).parse::<Token>(),
            Err(BadToken)
        );
    }
}

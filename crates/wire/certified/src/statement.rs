//! The text that is signed: the signature base of a request (RFC 9421, section 2.5).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;

/// The digest of a content (RFC 9530).
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// A part of a request that a signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    Method,
    Path,
    Query,
    ContentDigest,
    ContentType,
    Publish,
    Approve,
}

impl Component {
    /// All, in the order in which this crate signs them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Method,
        Self::Path,
        Self::Query,
        Self::ContentDigest,
        Self::ContentType,
        Self::Publish,
        Self::Approve,
    ];

    /// Its identifier.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Method => "@method",
            Self::Path => "@path",
            Self::Query => "@query",
            Self::ContentDigest => "content-digest",
            Self::ContentType => "content-type",
            Self::Publish => "hermes-publish",
            Self::Approve => "hermes-approve",
        }
    }

    /// The component of an identifier; `None` for one that a receiver of the message could not know.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|component| component.name() == name)
    }
}

/// A request as far as it is signed. The authority is no part of it: a channel is the same wherever its key is, and may move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The method.
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    /// The value of `Content-Digest`, as [`content_digest`] has it.
    pub content_digest: Option<&'a str>,
    /// The media type of the content.
    pub content_type: Option<&'a str>,
    /// The value of `Hermes-Publish`.
    pub publish: Option<&'a str>,
    /// The value of `Hermes-Approve`.
    pub approve: Option<&'a str>,
}

impl Statement<'_> {
    /// The components that it has: all of them must be signed.
    pub(crate) fn components(&self) -> Vec<Component> {
        let mut all = Component::ALL.to_vec();
        all.retain(|component| self.value(*component).is_some());
        all
    }

    /// The value of a component.
    fn value(&self, component: Component) -> Option<&str> {
        let query = self.target.find('?');
        match component {
            Component::Method => Some(self.method),
            Component::Path => Some(&self.target[..query.unwrap_or(self.target.len())]),
            Component::Query => query.map(|query| &self.target[query..]),
            Component::ContentDigest => self.content_digest,
            Component::ContentType => self.content_type,
            Component::Publish => self.publish,
            Component::Approve => self.approve,
        }
    }

    /// The signature base, with these components and parameters.
    pub(crate) fn base(&self, components: &[Component], parameters: &str) -> String {
        let mut base = String::new();
        for &component in components {
            let value = self.value(component).unwrap_or_default().trim();
            base.push_str(&format!("\"{}\": {value}\n", component.name()));
        }
        base.push_str(&format!("\"@signature-params\": {parameters}"));
        base
    }

    /// Whether no value can end its line and begin another one.
    pub(crate) fn is_plain(&self) -> bool {
        let mut values = Component::ALL
            .into_iter()
            .filter_map(|component| self.value(component));
        values.all(|value| value.bytes().all(|byte| (0x20..0x7f).contains(&byte)))
    }
}

/// The value of `Content-Digest` of a content: its SHA-256.
#[must_use]
pub fn content_digest(content: &[u8]) -> String {
    let hash = digest(&SHA256, content);
    format!("sha-256=:{}:", STANDARD.encode(hash.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_rfc_9530() {
        // Appendix D: the SHA-256 of this content.
        let digest = content_digest(b"{\"hello\": \"world\"}\n");
        assert_eq!(
            digest,
            "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
        );
    }
}

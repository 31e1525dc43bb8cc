//! Names in certificates: one name, or the SPIFFE IDs of a family.
//!
//! Specifications: SPIFFE-ID sections 2.1 to 2.3. An ID has one spelling: it is compared as it stands, and one that is not
//! canonical is in no family.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// The beginning of SPIFFE IDs (SPIFFE-ID, 2).
const SCHEME: &str = "spiffe://";

/// Bytes of a SPIFFE ID (SPIFFE-ID, 2.3).
const LONGEST_ID: usize = 2048;

/// Stands for the user in the certificate.
pub(super) const USER: &str = "{user}";

/// Stands for any segment.
const ANY: &str = "*";

/// A name in a certificate, or the SPIFFE IDs of a family: `core.overlay`, `spiffe://example.org/user/{user}/*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// This name, of any kind.
    Exact(String),
    /// The SPIFFE IDs that fit.
    Family(SpiffeFamily),
}

/// SPIFFE IDs of one trust domain with paths that fit segment by segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpiffeFamily {
    trust_domain: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Segment {
    Text(String),
    Any,
    User,
}

/// A SPIFFE ID that is in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyMember<'a> {
    /// The user in its path, if the family says where.
    pub user: Option<&'a str>,
}

scalar!(
    CertificateName,
    "hermes-certificate-name",
    "A name in a certificate, or the SPIFFE IDs of a family: core.overlay, spiffe://example.org/user/{user}/*."
);

impl SpiffeFamily {
    /// Whether it says where an ID names a user.
    pub fn names_a_user(&self) -> bool {
        self.segments.contains(&Segment::User)
    }

    /// The member that `id` is; `None` if it is not in the family, or not canonical.
    pub fn member<'a>(&self, id: &'a str) -> Option<FamilyMember<'a>> {
        if id.len() > LONGEST_ID {
            return None;
        }
        let (trust_domain, path) = id.strip_prefix(SCHEME)?.split_once('/')?;
        if trust_domain != self.trust_domain {
            return None;
        }

        let mut member = FamilyMember { user: None };
        let mut found = path.split('/');
        for expected in &self.segments {
            let segment = found.next().filter(|segment| is_segment(segment))?;
            match expected {
                Segment::Text(text) if text != segment => return None,
                Segment::Text(_) | Segment::Any => {}
                Segment::User => member.user = Some(segment),
            }
        }

        found.next().is_none().then_some(member)
    }
}

/// A segment of a path that is spelt as it must be (SPIFFE-ID, 2.2): not empty, not relative, and nothing encoded.
fn is_segment(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !["", ".", ".."].contains(&text) && text.bytes().all(is_letter)
}

/// A trust domain (SPIFFE-ID, 2.1).
fn is_trust_domain(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

impl FromStr for CertificateName {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let Some(id) = text.strip_prefix(SCHEME) else {
            if text.contains(USER) {
                let reason = format!("`{USER}` can stand in a SPIFFE ID only");
                return Err(ScalarError::new(reason).remedy(EXAMPLE));
            }
            return Ok(Self::Exact(text.to_owned()));
        };
        // These letters cannot stand in an ID.
        if !id.contains(['{', '}', '*']) {
            return Ok(Self::Exact(text.to_owned()));
        }

        let Some((trust_domain, path)) = id.split_once('/') else {
            return Err(ScalarError::new("the SPIFFE ID has no path").remedy(EXAMPLE));
        };
        if !is_trust_domain(trust_domain) {
            let reason = format!("`{}` is no trust domain", trust_domain.escape_debug());
            return Err(ScalarError::new(reason)
                .remedy("write it in lower case: letters, digits, `-`, `_` and `.`"));
        }
        let segments = path
            .split('/')
            .map(segment)
            .collect::<Result<Vec<_>, _>>()?;
        let users = segments.iter().filter(|one| **one == Segment::User);
        if users.count() > 1 {
            let reason = format!("`{USER}` stands there twice, and an ID has one user");
            return Err(ScalarError::new(reason).remedy("write `*` for any other segment"));
        }

        Ok(Self::Family(SpiffeFamily {
            trust_domain: trust_domain.to_owned(),
            segments,
        }))
    }
}

/// An example of a family.
const EXAMPLE: &str = "write it as in spiffe://example.org/user/{user}/*";

fn segment(text: &str) -> Result<Segment, ScalarError> {
    match text {
        USER => Ok(Segment::User),
        ANY => Ok(Segment::Any),
        text if is_segment(text) => Ok(Segment::Text(text.to_owned())),
        text => {
            let reason = format!("`{}` is no segment of a SPIFFE ID", text.escape_debug());
            Err(ScalarError::new(reason).remedy(format!(
                "write letters, digits, `-`, `_` and `.`, or `{USER}` or `{ANY}` for a whole segment"
            )))
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => out.write_str(name),
            Self::Family(family) => family.fmt(out),
        }
    }
}

impl fmt::Display for SpiffeFamily {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}", self.trust_domain)?;
        for segment in &self.segments {
            let text = match segment {
                Segment::Text(text) => text,
                Segment::Any => ANY,
                Segment::User => USER,
            };
            write!(out, "/{text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificateName, FamilyMember};

    fn family(text: &str) -> super::SpiffeFamily {
        match text.parse() {
            Ok(CertificateName::Family(family)) => family,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_family_binds_the_user_of_an_id() {
        let devices = family("spiffe://example.org/user/{user}/*");
        for (id, user) in [
            ("spiffe://example.org/user/alice/laptop", "alice"),
            ("spiffe://example.org/user/Alice_2.b-c/x", "Alice_2.b-c"),
            ("spiffe://example.org/user/.../x", "..."),
        ] {
            let member = devices.member(id);
            assert_eq!(member, Some(FamilyMember { user: Some(user) }), "{id}");
        }
        let nodes = family("spiffe://example.org/node/*");
        let member = nodes.member("spiffe://example.org/node/hub");
        assert_eq!(member, Some(FamilyMember { user: None }));
    }

    #[test]
    fn what_only_looks_like_a_member_is_none() {
        let devices = family("spiffe://example.org/user/{user}/*");
        for id in [
            // Other domains, and the same in other spellings.
            "spiffe://example.com/user/alice/laptop",
            "spiffe://example.org.evil.test/user/alice/laptop",
            "spiffe://evil.test/example.org/user/alice/laptop",
            "spiffe://Example.org/user/alice/laptop",
            "SPIFFE://example.org/user/alice/laptop",
            "spiffe://example.org./user/alice/laptop",
            "spiffe://example.org:443/user/alice/laptop",
            "spiffe://a@example.org/user/alice/laptop",
            "https://example.org/user/alice/laptop",
            // More, fewer and empty segments.
            "spiffe://example.org/user/alice",
            "spiffe://example.org/user/alice/",
            "spiffe://example.org/user//laptop",
            "spiffe://example.org/user/alice//laptop",
            "spiffe://example.org//user/alice/laptop",
            "spiffe://example.org/user/alice/laptop/",
            "spiffe://example.org/user/alice/laptop/x",
            "spiffe://example.org/users/alice/laptop",
            "spiffe://example.org/User/alice/laptop",
            // Relative and encoded ones.
            "spiffe://example.org/user/./laptop",
            "spiffe://example.org/user/../laptop",
            "spiffe://example.org/user/al%69ce/laptop",
            "spiffe://example.org/user/alice%2Flaptop/x",
            "spiffe://example.org/user/{user}/laptop",
            "spiffe://example.org/user/*/laptop",
            // Letters that an ID cannot have.
            "spiffe://example.org/user/alice/laptop?x",
            "spiffe://example.org/user/alice/laptop#x",
            "spiffe://example.org/user/alice\0/laptop",
            "spiffe://example.org/user/alice /laptop",
            "spiffe://example.org/user/\u{430}lice/laptop",
            "spiffe://example.org/user/alice@example.org/laptop",
            " spiffe://example.org/user/alice/laptop",
            "",
        ] {
            assert_eq!(devices.member(id), None, "{id:?}");
        }
        let long = format!("spiffe://example.org/user/alice/{}", "a".repeat(2048));
        assert_eq!(devices.member(&long), None);
    }

    #[test]
    fn a_family_that_says_too_much_is_refused() {
        for text in [
            "spiffe://example.org/{user}/{user}",
            "spiffe://example.org/{user}/{node}",
            "spiffe://example.org/user/{user",
            "spiffe://example.org/user/a{user}",
            "spiffe://example.org/user/{user}-*",
            "spiffe://example.org/user/**",
            "spiffe://example.org/user/{user}/",
            "spiffe://example.org//{user}",
            "spiffe://example.org/../{user}",
            "spiffe://{user}/a",
            "spiffe://*",
            "spiffe://Example.org/{user}",
            "spiffe:///user/{user}",
            "https://example.org/{user}",
            "{user}.overlay",
        ] {
            assert!(text.parse::<CertificateName>().is_err(), "{text}");
        }
    }

    #[test]
    fn other_names_are_what_they_are() {
        for text in [
            "core.overlay",
            "*.example.org",
            "spiffe://Example.org/Core",
            "CN {x}",
        ] {
            let name = CertificateName::Exact(text.to_owned());
            assert_eq!(text.parse(), Ok(name));
        }
    }
}

//! `Signature-Input` and `Signature` (RFC 9421, sections 4.1 and 4.2) of one signer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use sfv::{BareItem, Dictionary, InnerList, ListEntry, Parser};

use crate::key::{PublicKey, SigningKey};
use crate::statement::{Component, Statement};

/// The field of components and parameters.
pub const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");

/// The field of the signature itself.
pub const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// The parameter `tag` of signatures for channels: no other application's signature is taken for one.
const TAG: &str = "hermes-relay";

/// The label under which this crate signs.
const LABEL: &str = "relay";

/// The longest nonce in bytes.
#[doc(alias = "bound")]
const MAX_NONCE: usize = 64;

/// A signature, read but not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The key that claims it.
    pub key: PublicKey,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The number that its signer used once.
    pub nonce: String,
    components: Vec<Component>,
    /// The value of `@signature-params`.
    parameters: String,
    bytes: Vec<u8>,
}

/// A reason for which a signature is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The fields are malformed, or none is for channels.
    #[error(
        "no signature has tag=\"hermes-relay\", alg=\"ed25519\", created, nonce and keyid, the key in base64url"
    )]
    Malformed,
    /// It covers a component that receivers could not check.
    #[error(
        "a signature for a channel covers only @method, @path, @query, content-digest, content-type, hermes-publish and hermes-approve"
    )]
    Foreign,
    /// It does not cover this component.
    #[error("the signature does not cover {0}")]
    Uncovered(&'static str),
    /// It covers a component that is not there.
    #[error("the signature covers {0}, which is not there")]
    Absent(&'static str),
    /// It was made of another text, or by another key.
    #[error("the signature is not of this message")]
    Wrong,
}

impl Signature {
    /// Signs a statement at this time, in seconds since 1970.
    #[must_use]
    pub fn make(key: &SigningKey, statement: &Statement<'_>, created: u64, nonce: &str) -> Self {
        let components = statement.components();
        let names = components.iter();
        let names: Vec<_> = names
            .map(|component| format!("\"{}\"", component.name()))
            .collect();
        let public = key.public();
        let parameters = format!(
            "({});created={created};nonce=\"{nonce}\";keyid=\"{public}\";alg=\"ed25519\";tag=\"{TAG}\"",
            names.join(" ")
        );
        let bytes = key.sign(statement.base(&components, &parameters).as_bytes());
        Self {
            key: public,
            created,
            nonce: nonce.to_owned(),
            components,
            parameters,
            bytes,
        }
    }

    /// Reads the values of both fields.
    ///
    /// # Errors
    /// They have no signature for a channel.
    pub fn read(input: &[u8], signature: &[u8]) -> Result<Self, SignatureError> {
        let malformed = SignatureError::Malformed;
        let inputs: Dictionary = Parser::new(input).parse().map_err(|_| malformed)?;
        let signatures: Dictionary = Parser::new(signature).parse().map_err(|_| malformed)?;
        // A request may have signatures for others, such as a gateway; ours says so itself.
        let mut ours = inputs.iter().filter_map(|(label, entry)| match entry {
            ListEntry::InnerList(list) if text(list, "tag") == Some(TAG) => Some((label, list)),
            _ => None,
        });
        let (label, list) = ours.next().ok_or(malformed)?;
        let bytes = match signatures.get(label) {
            Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
            _ => None,
        };
        let created = list.params.get("created").and_then(BareItem::as_integer);
        let created = created.and_then(|created| u64::try_from(i64::from(created)).ok());
        let nonce = text(list, "nonce").filter(|nonce| nonce.len() <= MAX_NONCE);
        if text(list, "alg") != Some("ed25519") {
            return Err(malformed);
        }
        Ok(Self {
            key: text(list, "keyid")
                .and_then(PublicKey::parse)
                .ok_or(malformed)?,
            created: created.ok_or(malformed)?,
            nonce: nonce.ok_or(malformed)?.to_owned(),
            components: components(list)?,
            parameters: parameters(list).ok_or(malformed)?,
            bytes: bytes.ok_or(malformed)?.to_vec(),
        })
    }

    /// Checks that it is of this statement, the whole of it.
    ///
    /// # Errors
    /// It is of another one, or of a part.
    pub fn verify(&self, statement: &Statement<'_>) -> Result<(), SignatureError> {
        let needed = statement.components();
        if let Some(left) = needed
            .iter()
            .find(|needed| !self.components.contains(needed))
        {
            return Err(SignatureError::Uncovered(left.name()));
        }
        if let Some(more) = self
            .components
            .iter()
            .find(|covered| !needed.contains(covered))
        {
            return Err(SignatureError::Absent(more.name()));
        }
        let base = statement.base(&self.components, &self.parameters);
        match statement.is_plain() && self.key.has_signed(base.as_bytes(), &self.bytes) {
            true => Ok(()),
            false => Err(SignatureError::Wrong),
        }
    }

    /// The value of `Signature-Input`.
    #[must_use]
    pub fn input(&self) -> String {
        format!("{LABEL}={}", self.parameters)
    }

    /// The value of `Signature`.
    #[must_use]
    pub fn value(&self) -> String {
        format!("{LABEL}=:{}:", STANDARD.encode(&self.bytes))
    }
}

fn text<'a>(list: &'a InnerList, name: &str) -> Option<&'a str> {
    let value = list.params.get(name)?.as_string()?;
    Some(value.as_str())
}

fn components(list: &InnerList) -> Result<Vec<Component>, SignatureError> {
    let mut components = Vec::new();
    for item in &list.items {
        let name = item.bare_item.as_string().map(|name| name.as_str());
        let component = name.and_then(Component::of);
        // Parameters such as `;req` change the meaning of a component.
        let component = component.filter(|_| item.params.is_empty());
        let component = component.ok_or(SignatureError::Foreign)?;
        // A component that stands twice makes the signature invalid (RFC 9421, section 2.5).
        if components.contains(&component) {
            return Err(SignatureError::Malformed);
        }
        components.push(component);
    }
    Ok(components)
}

/// The value of `@signature-params` (RFC 9421, section 2.3): the list as it came, in its strict form.
fn parameters(list: &InnerList) -> Option<String> {
    let names = list.items.iter().map(|item| {
        let name = item.bare_item.as_string()?;
        Some(format!("\"{}\"", name.as_str()))
    });
    let names: Option<Vec<_>> = names.collect();
    let mut text = format!("({})", names?.join(" "));
    for (name, value) in &list.params {
        if let Some(number) = value.as_integer() {
            text.push_str(&format!(";{}={}", name.as_str(), i64::from(number)));
        } else {
            let value = value.as_string()?.as_str();
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            text.push_str(&format!(";{}=\"{escaped}\"", name.as_str()));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::of_seed(&[7; 32]).unwrap()
    }

    fn statement<'a>() -> Statement<'a> {
        Statement {
            method: "POST",
            target: "/c/x?a=1",
            content_digest: Some("sha-256=:AAAA:"),
            content_type: Some("text/plain"),
            publish: Some("topic=\"t\""),
            approve: None,
        }
    }

    #[test]
    fn the_base_is_that_of_rfc_9421() {
        // Appendix B.2.6 has the form: identifiers in quotes, a colon, a space, the value.
        let signature = Signature::make(&key(), &statement(), 1_618_884_473, "n");
        let base = statement().base(&signature.components, &signature.parameters);
        let lines: Vec<_> = base.lines().collect();
        assert_eq!(lines[0], "\"@method\": POST");
        assert_eq!(lines[1], "\"@path\": /c/x");
        assert_eq!(lines[2], "\"@query\": ?a=1");
        let start = "\"@signature-params\": (\"@method\" \"@path\" \"@query\" \"content-digest\" \
                     \"content-type\" \"hermes-publish\");created=1618884473;nonce=\"n\";keyid=\"";
        assert!(lines[6].starts_with(start), "{base}");
    }

    #[test]
    fn the_signature_of_rfc_9421_is_verified_by_its_key() {
        // Appendix B.2.6, by the key of appendix B.1.4.
        let base = "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\
                    \"@authority\": example.com\n\"content-type\": application/json\n\
                    \"content-length\": 18\n\"@signature-params\": (\"date\" \"@method\" \"@path\" \
                    \"@authority\" \"content-type\" \"content-length\");created=1618884473\
                    ;keyid=\"test-key-ed25519\"";
        let signature = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==";
        let signature = STANDARD.decode(signature).unwrap();
        let key = PublicKey::parse("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs").unwrap();
        assert!(key.has_signed(base.as_bytes(), &signature));
    }

    #[test]
    fn a_signature_is_of_one_statement_and_of_the_whole_of_it() {
        let made = Signature::make(&key(), &statement(), 1000, "nonce");
        let read = Signature::read(made.input().as_bytes(), made.value().as_bytes()).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.verify(&statement()), Ok(()));
        let others = [
            Statement {
                method: "PUT",
                ..statement()
            },
            Statement {
                target: "/c/y?a=1",
                ..statement()
            },
            Statement {
                target: "/c/x?a=2",
                ..statement()
            },
            Statement {
                content_digest: Some("sha-256=:AAAB:"),
                ..statement()
            },
            Statement {
                content_type: Some("text/html"),
                ..statement()
            },
            Statement {
                publish: Some("topic=\"u\""),
                ..statement()
            },
        ];
        for other in others {
            assert_eq!(read.verify(&other), Err(SignatureError::Wrong), "{other:?}");
        }
        let more = Statement {
            approve: Some("x"),
            ..statement()
        };
        assert_eq!(
            read.verify(&more),
            Err(SignatureError::Uncovered("hermes-approve"))
        );
        let less = Statement {
            publish: None,
            ..statement()
        };
        assert_eq!(
            read.verify(&less),
            Err(SignatureError::Absent("hermes-publish"))
        );
    }

    #[test]
    fn a_flipped_bit_of_either_field_makes_it_invalid() {
        let made = Signature::make(&key(), &statement(), 1000, "nonce");
        let fields = [made.input(), made.value()];
        for field in 0..2 {
            for at in 0..fields[field].len() {
                let mut flipped = fields.clone().map(String::into_bytes);
                flipped[field][at] ^= 1;
                let read = Signature::read(&flipped[0], &flipped[1]);
                let is_valid = read.is_ok_and(|read| read.verify(&statement()).is_ok());
                // Labels are no part of what is signed, and both fields have to have the same.
                assert!(!is_valid, "field {field}, byte {at}");
            }
        }
    }

    #[test]
    fn signatures_for_something_else_are_none() {
        let made = Signature::make(&key(), &statement(), 1000, "nonce");
        let read = |from: &str, to: &str| {
            let input = made.input().replace(from, to);
            Signature::read(input.as_bytes(), made.value().as_bytes())
        };
        let malformed = Err(SignatureError::Malformed);
        assert_eq!(read("hermes-relay", "other"), malformed);
        assert_eq!(read("ed25519", "hmac-sha256"), malformed);
        assert_eq!(read("created=1000", "created=-1"), malformed);
        assert_eq!(read(";nonce=\"nonce\"", ""), malformed);
        assert_eq!(read("\"@path\"", "\"@method\""), malformed);
        assert_eq!(read("\"@path\"", "\"date\""), Err(SignatureError::Foreign));
        assert_eq!(
            read("\"@path\"", "\"@path\";req"),
            Err(SignatureError::Foreign)
        );
    }
}

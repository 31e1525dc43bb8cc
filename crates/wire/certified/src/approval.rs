//! Who else may publish: `Hermes-Approve`, which the owner of a channel signs.

use http::HeaderName;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::name::KeyName;

/// The field.
pub const APPROVE: HeaderName = HeaderName::from_static("hermes-approve");

/// Keys and users that one owner may approve: the list travels with each message of one of them.
#[doc(alias = "bound")]
pub const MAX_APPROVED: usize = 16;

/// The longest name of a user in bytes.
#[doc(alias = "bound")]
const MAX_USER: usize = 128;

/// Who may publish to a channel beside its owner, and until when.
///
/// # Examples
/// ```
/// use hermes_certified::Approval;
///
/// let approval = Approval::parse(br#"users=("alice" "bob"), until=1796000000"#)?;
/// assert_eq!(approval.users, ["alice", "bob"]);
/// # Ok::<(), hermes_certified::ApprovalError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approval {
    /// Keys.
    pub keys: Vec<KeyName>,
    /// Users, as the relay knows them.
    pub users: Vec<String>,
    /// Seconds since 1970.
    pub until: u64,
}

/// A list of approved senders is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Hermes-Approve is keys=(\"ni:sha-256;HASH\" ..), users=(\"NAME\" ..), until=SECONDS, with at most {MAX_APPROVED} of them"
)]
pub struct ApprovalError;

impl Approval {
    /// Reads the value of the field.
    ///
    /// # Errors
    /// It is malformed, or too long.
    pub fn parse(value: &[u8]) -> Result<Self, ApprovalError> {
        let members: Dictionary = Parser::new(value).parse().map_err(|_| ApprovalError)?;
        let names = names(&members, "keys")?;
        let keys = names.iter().map(|name| name.parse());
        let keys: Result<Vec<_>, _> = keys.collect();
        let approval = Self {
            keys: keys.map_err(|_| ApprovalError)?,
            users: self::names(&members, "users")?,
            until: match members.get("until") {
                Some(ListEntry::Item(item)) => item.bare_item.as_integer(),
                _ => None,
            }
            .and_then(|until| u64::try_from(i64::from(until)).ok())
            .ok_or(ApprovalError)?,
        };
        match approval.keys.len() + approval.users.len() <= MAX_APPROVED {
            true => Ok(approval),
            false => Err(ApprovalError),
        }
    }

    /// The value of the field.
    #[must_use]
    pub fn value(&self) -> String {
        let quoted = |name: &String| {
            let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{escaped}\"")
        };
        let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
        let keys: Vec<_> = keys.iter().map(quoted).collect();
        let users: Vec<_> = self.users.iter().map(quoted).collect();
        format!(
            "keys=({}), users=({}), until={}",
            keys.join(" "),
            users.join(" "),
            self.until
        )
    }

    /// Whether this key may publish now.
    #[must_use]
    pub fn has_key(&self, key: &KeyName, now: u64) -> bool {
        now <= self.until && self.keys.contains(key)
    }

    /// Whether this user may publish now.
    #[must_use]
    pub fn has_user(&self, user: &str, now: u64) -> bool {
        now <= self.until && self.users.iter().any(|known| known == user)
    }
}

/// The strings of an inner list; none if it is absent.
fn names(members: &Dictionary, name: &str) -> Result<Vec<String>, ApprovalError> {
    let list = match members.get(name) {
        None => return Ok(Vec::new()),
        Some(ListEntry::InnerList(list)) => list,
        Some(ListEntry::Item(_)) => return Err(ApprovalError),
    };
    let texts = list.items.iter().map(|item| match &item.bare_item {
        BareItem::String(text) if text.as_str().len() <= MAX_USER => Ok(text.as_str().to_owned()),
        _ => Err(ApprovalError),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_a_round_trip_and_ends() {
        let approval = Approval {
            keys: vec![KeyName([1; 32])],
            users: vec!["a \"b\"".to_owned()],
            until: 1000,
        };
        assert_eq!(
            Approval::parse(approval.value().as_bytes()),
            Ok(approval.clone())
        );
        assert!(approval.has_key(&KeyName([1; 32]), 1000));
        assert!(!approval.has_key(&KeyName([1; 32]), 1001));
        assert!(!approval.has_key(&KeyName([2; 32]), 1000));
        assert!(approval.has_user("a \"b\"", 1000));
        assert!(!approval.has_user("a", 1000));
    }

    #[test]
    fn malformed_and_long_lists_are_refused() {
        let many = format!("users=({}), until=1", "\"u\" ".repeat(MAX_APPROVED + 1));
        for value in [
            "",
            "users=(\"a\")",
            "keys=(\"a\"), until=1",
            "users=\"a\", until=1",
            "users=(a), until=1",
            "until=-1",
            &many,
        ] {
            assert_eq!(
                Approval::parse(value.as_bytes()),
                Err(ApprovalError),
                "{value}"
            );
        }
    }
}

//! The end of memberships, and the lists by which nodes learn of it.

use std::fmt;

use hermes_api::{Hash, Name};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevocationReason, RevokedCertParams, SerialNumber,
};
use serde::{Deserialize, Serialize};

use super::encoding::{time, unhex};
use super::error::{AuthorityError, DAY, OPERATOR};
use super::generation::Generation;
use super::joining::handed_key;
use super::membership::{MemberRecord, Serial};
use super::records::change;
use super::root::Authority;
use super::tokens::drop_tokens_of;
use crate::store::{Act, RecordChange, StoreError};

/// Begins the keys of lists.
const LISTS: &str = "revoked/";

/// The record of certificates of members that were forgotten.
const FORGOTTEN: &str = "forgotten";

/// How long a list counts: a controller may be away for that time.
#[doc(alias = "bound")]
const TIME: u64 = 60 * DAY;

/// Whose membership ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revoked {
    /// This node's.
    Node(Name),
    /// Those of all devices of this user.
    User(Name),
}

/// Why a membership does not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRevoked {
    /// There is none.
    #[error("the overlay has no member {0}")]
    Unknown(String),
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl From<StoreError> for NotRevoked {
    fn from(error: StoreError) -> Self {
        Self::Authority(error.into())
    }
}

impl fmt::Display for Revoked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(out, "node {node}"),
            Self::User(user) => write!(out, "user {user}"),
        }
    }
}

/// A list of revoked certificates of one generation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct List {
    /// PEM.
    pem: String,
    /// The hash of its entries: while it stays, so does the list.
    entries: Hash,
    number: u64,
    made: u64,
}

impl Authority {
    /// Ends memberships; a user's tokens end, too. Returns the nodes.
    ///
    /// # Errors
    /// There is no such member, or the store cannot be written.
    pub fn revoke(&self, whom: &Revoked, now: u64) -> Result<Vec<Name>, NotRevoked> {
        let is_meant = |member: &MemberRecord| match whom {
            Revoked::Node(node) => member.node == *node,
            Revoked::User(user) => member.user.as_ref() == Some(user),
        };
        // Before members are listed: a device that joins meanwhile is either among them, or refused.
        let had_tokens = match whom {
            Revoked::User(user) => drop_tokens_of(&self.records, user)?,
            Revoked::Node(_) => false,
        };
        let mut revoked = Vec::new();
        for member in self.members()?.into_iter().filter(is_meant) {
            self.mark(&member.node, now)?;
            revoked.push(member.node);
        }
        if revoked.is_empty() && !had_tokens {
            return Err(NotRevoked::Unknown(whom.to_string()));
        }
        if had_tokens {
            let subject = format!("tokens of {whom}");
            let act = Act {
                time: now,
                who: OPERATOR,
                act: "revoke",
                subject: &subject,
            };
            self.records.swap_told(&[], &act)?;
        }
        Ok(revoked)
    }

    /// Marks a member, however often others change its record meanwhile.
    fn mark(&self, node: &Name, now: u64) -> Result<(), NotRevoked> {
        while let Some(before) = self.record_of(node)? {
            let after = MemberRecord {
                revoked: before.revoked.or(Some(now)),
                ..before.clone()
            };
            let act = Act {
                time: now,
                who: OPERATOR,
                act: "revoke",
                subject: node.as_str(),
            };
            let changed = change(&after.key(), Some(&before), Some(&after));
            if self.records.swap_told(&[changed], &act)? {
                break;
            }
        }
        Ok(())
    }

    /// Frees the name of a node: its certificates are revoked as long as they would count.
    ///
    /// # Errors
    /// There is no such member, or the store cannot be written.
    pub fn forget(&self, node: &Name, now: u64) -> Result<(), NotRevoked> {
        loop {
            let member = self.record_of(node)?;
            let member = member.ok_or_else(|| NotRevoked::Unknown(node.to_string()))?;
            let before: Option<Vec<Serial>> = self.records.get(FORGOTTEN)?;
            let mut after = before.clone().unwrap_or_default();
            after.extend(member.serials.iter().cloned());
            after.retain(|serial| serial.until > now);
            let handed = handed_key(&member.membership);
            let act = Act {
                time: now,
                who: OPERATOR,
                act: "forget",
                subject: node.as_str(),
            };
            let changes = [
                change(FORGOTTEN, before.as_ref(), Some(&after)),
                change(&member.key(), Some(&member), None),
                RecordChange {
                    expected: self.records.raw(&handed)?,
                    key: handed,
                    new: None,
                },
            ];
            if self.records.swap_told(&changes, &act)? {
                return Ok(());
            }
        }
    }

    /// One list for each generation of the authority, as PEM. While nothing is revoked or ends, it is the same text.
    ///
    /// # Errors
    /// The store cannot be read or written, or nothing can be signed.
    pub fn revoked_pem(&self, now: u64) -> Result<String, AuthorityError> {
        let forgotten: Option<Vec<Serial>> = self.records.get(FORGOTTEN)?;
        let members = self.members()?.into_iter();
        let revoked = members.filter(|member| member.revoked.is_some());
        let mut serials: Vec<Serial> = revoked.flat_map(|member| member.serials).collect();
        serials.extend(forgotten.unwrap_or_default());
        serials.retain(|serial| serial.until > now);
        serials.sort_by(|a, b| a.number.cmp(&b.number));

        let mut text = String::new();
        for generation in self.generations()? {
            let own = serials
                .iter()
                .filter(|serial| serial.generation == generation.number);
            text.push_str(&self.list(&generation, &own.cloned().collect::<Vec<_>>(), now)?);
        }
        Ok(text)
    }

    /// The list of a generation: the last one, unless others are revoked now, or half of its time is over.
    fn list(
        &self,
        generation: &Generation,
        serials: &[Serial],
        now: u64,
    ) -> Result<String, AuthorityError> {
        let key = format!("{LISTS}{:08}", generation.number);
        let entries = serde_json::to_vec(serials).unwrap_or_default();
        let entries = Hash::of(&entries);
        let before: Option<List> = self.records.get(&key)?;
        let is_current = |list: &&List| list.entries == entries && now < list.made + TIME / 2;
        if let Some(list) = before.as_ref().filter(is_current) {
            return Ok(list.pem.clone());
        }

        let number = before.as_ref().map_or(1, |list| list.number + 1);
        let list = List {
            pem: signed(generation, serials, number, now)?,
            entries,
            number,
            made: now,
        };
        self.records.put(&key, before.as_ref(), Some(&list))?;
        Ok(list.pem)
    }
}

fn signed(
    generation: &Generation,
    serials: &[Serial],
    number: u64,
    now: u64,
) -> Result<String, AuthorityError> {
    let revoked = serials.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(unhex(&serial.number)),
        revocation_time: time(now),
        reason_code: Some(RevocationReason::PrivilegeWithdrawn),
        invalidity_date: None,
    });
    let parameters = CertificateRevocationListParams {
        this_update: time(now.saturating_sub(2 * DAY)),
        next_update: time(now + TIME),
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = parameters.signed_by(&generation.issuer()?)?;
    Ok(list.pem()?)
}

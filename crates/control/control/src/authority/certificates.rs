//! Certificates of members as operators see them.

use hermes_api::Name;
use hermes_api::lifetime::LIFETIME;
use serde::{Deserialize, Serialize};

use super::error::AuthorityError;
use super::membership::MemberRecord;
use super::root::Authority;

/// The newest certificate of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateView {
    /// The node.
    pub node: Name,
    /// The user of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// Unix seconds at which the node joined: its first certificate was issued.
    pub joined: u64,
    /// Unix seconds at which this one was issued.
    pub issued: u64,
    /// Unix seconds at which it ends.
    pub expires: u64,
    /// Whether it replaced an earlier one.
    pub renewed: bool,
    /// Unix seconds at which it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

impl Authority {
    /// The newest certificate of each member, in the order of their names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn certificates(&self) -> Result<Vec<CertificateView>, AuthorityError> {
        let members = self.members()?.into_iter();
        Ok(members.map(CertificateView::from).collect())
    }
}

impl From<MemberRecord> for CertificateView {
    fn from(member: MemberRecord) -> Self {
        let newest = member.serials.iter().max_by_key(|serial| serial.until);
        // One that was cut short by its authority's end was issued later, and a node that has just joined not before it did.
        let issued = member.expires.saturating_sub(LIFETIME).max(member.joined);
        Self {
            serial: newest.map_or_else(String::new, |serial| serial.number.clone()),
            node: member.node,
            user: member.user,
            joined: member.joined,
            issued,
            expires: member.expires,
            renewed: issued > member.joined,
            revoked: member.revoked,
        }
    }
}

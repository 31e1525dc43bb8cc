//! Whose certificate it is.

use hermes_api::Name;
use hermes_api::lifetime::first_end;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde::{Deserialize, Serialize};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::time::ASN1Time;

use super::encoding::hex;
use super::error::{AuthorityError, CONTROLLER, DAY};
use super::generation::Generation;
use super::issue;
use super::root::Authority;
use crate::store::StoreError;

/// Begins the keys of members' records.
const PREFIX: &str = "member/";

/// How long after its end a certificate may still be renewed.
#[doc(alias = "bound")]
const LATE: u64 = 90 * DAY;

/// A member that has shown its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: Name,
    /// The user of a device.
    pub user: Option<Name>,
    /// Unix seconds at which the certificate ends.
    pub expires: u64,
    /// The certificate has ended, and can only be renewed.
    pub expired: bool,
}

/// A member as the controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The node.
    pub node: Name,
    /// The user of a device.
    pub user: Option<Name>,
    /// Unix seconds at which it joined.
    pub joined: u64,
    /// Unix seconds at which its newest certificate ends.
    pub expires: u64,
    /// Unix seconds at which it was revoked.
    pub revoked: Option<u64>,
    /// Names this membership apart from others of the same node name: begins the serial numbers of its certificates.
    pub(super) membership: String,
    /// Certificates that count, or did when it was revoked.
    pub(super) serials: Vec<Serial>,
}

/// A certificate of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Serial {
    /// In hexadecimal.
    pub(super) number: String,
    pub(super) generation: u32,
    pub(super) until: u64,
}

/// A certificate is no member's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMember {
    /// Another authority has issued it, or it is none.
    #[error("the certificate is none of this overlay: {0}")]
    Certificate(String),
    /// It was revoked.
    #[error("the node was revoked")]
    Revoked,
    /// It was forgotten, or there never was such a node.
    #[error("the overlay knows no such node: it was forgotten, or its state is another one's")]
    Forgotten,
    /// It has ended too long ago.
    #[error("the certificate has ended more than 90 days ago; join with a new token")]
    TooOld,
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl From<StoreError> for NotMember {
    fn from(error: StoreError) -> Self {
        Self::Authority(error.into())
    }
}

impl MemberRecord {
    pub(super) fn new(node: Name, user: Option<Name>, now: u64) -> Result<Self, AuthorityError> {
        Ok(Self {
            membership: issue::membership()?,
            node,
            user,
            joined: now,
            expires: now,
            revoked: None,
            serials: Vec::new(),
        })
    }

    pub(super) fn key(&self) -> String {
        format!("{PREFIX}{}", self.node)
    }
}

impl Authority {
    /// The members, in the order of their names; revoked ones are among them until they are forgotten.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn members(&self) -> Result<Vec<MemberRecord>, AuthorityError> {
        Ok(self.records.all(PREFIX)?)
    }

    pub(super) fn record_of(&self, node: &Name) -> Result<Option<MemberRecord>, StoreError> {
        self.records.get(&format!("{PREFIX}{node}"))
    }

    /// The member of a certificate whose key the other end has shown to have.
    ///
    /// # Errors
    /// It is no member's, or no longer.
    pub fn member(&self, chain: &[CertificateDer<'_>], now: u64) -> Result<Member, NotMember> {
        let leaf = chain
            .first()
            .ok_or_else(|| NotMember::Certificate("there is none".to_owned()))?;
        let shown = Shown::read(leaf)?;
        // One that has ended still says whose it was.
        self.verify(leaf, now.min(shown.not_after))?;
        let node = shown.node(&self.trust_domain)?;
        let record = self.record_of(&node)?.ok_or(NotMember::Forgotten)?;
        // A node that has the name of a forgotten one is another one, even where the certificate has ended. Serials that the record
        // lacks are the member's own all the same: a store that was restored does not know of the last ones.
        let is_its_own =
            shown.serial.starts_with(&record.membership) && shown.uri == self.names(&record).uri;
        if !is_its_own {
            return Err(NotMember::Forgotten);
        }
        if record.revoked.is_some() {
            return Err(NotMember::Revoked);
        }
        if now > shown.until + LATE {
            return Err(NotMember::TooOld);
        }
        Ok(Member {
            node,
            user: record.user,
            expires: shown.until,
            expired: now >= shown.until,
        })
    }

    /// Whether a certificate, whose key the other end has shown to have, is one of the overlay's controllers.
    ///
    /// # Errors
    /// It is not, or no longer.
    pub fn controller(&self, chain: &[CertificateDer<'_>], now: u64) -> Result<(), NotMember> {
        let none = || NotMember::Certificate("it is no controller's".to_owned());
        let leaf = chain.first().ok_or_else(none)?;
        let shown = Shown::read(leaf)?;
        // First, since members come here, too, and are verified by the next look.
        if shown.uri != format!("spiffe://{}/{CONTROLLER}", self.trust_domain) {
            return Err(none());
        }
        self.verify(leaf, now)
    }

    /// Whether the authority has issued a certificate.
    fn verify(&self, leaf: &CertificateDer<'_>, at: u64) -> Result<(), NotMember> {
        let bad = |error: webpki::Error| NotMember::Certificate(error.to_string());
        let authorities: Result<Vec<_>, _> =
            self.generations()?.iter().map(Generation::der).collect();
        let authorities = authorities?;
        let anchors: Result<Vec<_>, _> = authorities
            .iter()
            .map(|der| anchor_from_trusted_cert(der))
            .collect();
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        EndEntityCert::try_from(leaf)
            .map_err(bad)?
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &anchors.map_err(bad)?,
                &[],
                time,
                KeyUsage::client_auth(),
                None,
                None,
            )
            .map_err(bad)?;
        Ok(())
    }
}

/// The names and the time in a certificate.
struct Shown {
    uri: String,
    serial: String,
    /// Its first end.
    until: u64,
    not_after: u64,
}

impl Shown {
    fn read(leaf: &CertificateDer<'_>) -> Result<Self, NotMember> {
        let bad = |reason: &str| NotMember::Certificate(reason.to_owned());
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| bad("it cannot be read"))?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names
            .map(|names| names.value.general_names.clone())
            .unwrap_or_default();
        let uris: Vec<_> = names
            .iter()
            .filter_map(|name| match name {
                GeneralName::URI(uri) => Some(*uri),
                _ => None,
            })
            .collect();
        let [uri] = uris[..] else {
            return Err(bad("it has not exactly one URI"));
        };
        let seconds = |time: ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
        let not_after = seconds(parsed.validity().not_after);
        Ok(Self {
            uri: uri.to_owned(),
            serial: hex(parsed.raw_serial()),
            until: first_end(seconds(parsed.validity().not_before), not_after),
            not_after,
        })
    }

    /// The node of `spiffe://T/node/N` and of `spiffe://T/user/U/N`.
    fn node(&self, trust_domain: &str) -> Result<Name, NotMember> {
        let bad = || NotMember::Certificate(format!("{:?} names no node", self.uri));
        let path = self
            .uri
            .strip_prefix("spiffe://")
            .and_then(|rest| rest.strip_prefix(trust_domain));
        let path: Vec<_> = path.ok_or_else(bad)?.split('/').collect();
        let name = match path[..] {
            ["", "node", name] | ["", "user", _, name] => name,
            _ => return Err(bad()),
        };
        name.parse().map_err(|_| bad())
    }
}

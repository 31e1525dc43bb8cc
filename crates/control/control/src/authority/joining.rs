//! A token and a key become a member, and a member gets certificates for longer.

use hermes_api::{Hash, JoinAnswer, JoinRequest, Name};
use rcgen::{CertificateSigningRequestParams, PublicKey, PublicKeyData};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use serde::{Deserialize, Serialize};

use super::error::{AuthorityError, CONTROLLER, DAY};
use super::issue;
use super::membership::{MemberRecord, NotMember, Serial};
use super::records::change;
use super::root::Authority;
use super::tokens::{Redeemed, TokenRecord};
use crate::store::{Act, StoreError};

/// Bytes of a request for a certificate.
#[doc(alias = "bound")]
const REQUEST: usize = 8 * 1024;

/// Bytes of an RSA key that is not too short, at least.
const RSA: usize = 256;

/// Names like the wanted one that are tried.
#[doc(alias = "bound")]
const NAMES: u32 = 100;

/// The names with numbers among them; where all nodes have the same name, others are random.
const COUNTED: u32 = 90;

/// Letters of the wanted name that are kept where something is added.
const STEM: usize = 40;

/// Seconds for which a key gets the same certificate again.
const AGAIN: u64 = DAY;

/// How often a change is tried again that another one came before.
#[doc(alias = "bound")]
const TRIES: u32 = 100;

/// Certificates of one member that count at once: it renews before the last one ends.
#[doc(alias = "bound")]
const CERTIFICATES: usize = 32;

/// Why someone does not become a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// The token or its secret is unknown. The answer is the same for both.
    #[error("the token is unknown or has expired; ask for a new one")]
    Unknown,
    /// Someone else was first.
    #[error(
        "the token was redeemed by another key: if that was not you, tell the operator that it was stolen"
    )]
    OtherKey,
    /// The request for a certificate.
    #[error("the request for a certificate: {0}")]
    Request(String),
    /// The name that the token says belongs to another node.
    #[error("there is a node {0} already")]
    Taken(Name),
    /// The program is none of those that may join.
    #[error("the program of this node is none that the overlay allows")]
    Binary,
    /// The certificate that is to be renewed.
    #[error(transparent)]
    NotMember(#[from] NotMember),
    /// The member has too many certificates.
    #[error("the node has {CERTIFICATES} certificates that count: wait until some have ended")]
    TooMany,
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// The certificate that a member was handed last.
#[derive(Serialize, Deserialize)]
struct Handed {
    pem: String,
    /// SHA-256 of the key that it is for.
    to: Hash,
    made: u64,
    until: u64,
}

impl Handed {
    /// The key of its record, which belongs to one membership: a later node of the same name gets another one.
    fn key(member: &MemberRecord) -> String {
        handed_key(&member.membership)
    }

    fn is_for(&self, key: &PublicKey, now: u64) -> bool {
        let is_fresh = now < self.made + AGAIN && now + AGAIN < self.until;
        is_fresh && self.to == fingerprint(key)
    }
}

/// The key of the record of a membership's last certificate.
pub(super) fn handed_key(membership: &str) -> String {
    format!("certificate/{membership}")
}

impl From<StoreError> for JoinRefused {
    fn from(error: StoreError) -> Self {
        Self::Authority(error.into())
    }
}

impl Authority {
    /// Makes a node a member. The same key may repeat it, and stays the same member.
    ///
    /// # Errors
    /// See [`JoinRefused`].
    pub fn join(
        &self,
        request: &JoinRequest,
        allowed: &[Hash],
        now: u64,
    ) -> Result<JoinAnswer, JoinRefused> {
        let is_allowed = |binary: &Hash| request.binary == binary.as_bytes();
        if !allowed.is_empty() && !allowed.iter().any(is_allowed) {
            return Err(JoinRefused::Binary);
        }
        // Before the request for a certificate, whose signature costs more to verify than a guess costs to send.
        self.token_of(request, now)?;
        let key = public_key(&request.request)?;
        let member = self.redeem(request, &fingerprint(&key), now)?;
        self.issue(&member, &key, now)
    }

    /// The token that is shown.
    fn token_of(&self, request: &JoinRequest, now: u64) -> Result<TokenRecord, JoinRefused> {
        let record = TokenRecord::key(&request.token_id);
        let token: Option<TokenRecord> = self.records.get(&record)?;
        let token =
            token.filter(|token| token.until > now && token.has_secret(&request.token_secret));
        token.ok_or(JoinRefused::Unknown)
    }

    /// The member of a token, which belongs to the first key from now on.
    fn redeem(
        &self,
        request: &JoinRequest,
        key: &Hash,
        now: u64,
    ) -> Result<MemberRecord, JoinRefused> {
        for _ in 0..TRIES {
            let token = self.token_of(request, now)?;
            if let Some(redeemed) = &token.redeemed {
                if redeemed.key != *key {
                    let node = &redeemed.node;
                    tracing::warn!(member = %node, token = token.id, "another key shows a token: stolen?");
                    return Err(JoinRefused::OtherKey);
                }
                let member = self.record_of(&redeemed.node)?;
                // A node that has the name of a forgotten one is another one.
                let member = member.filter(|member| member.membership == redeemed.membership);
                return Ok(member.ok_or(NotMember::Forgotten)?);
            }

            let node = self.free_name(&token, &request.name)?;
            let member = MemberRecord::new(node.clone(), token.user.clone(), now)?;
            let redeemed = token.redeemed_by(Redeemed {
                key: *key,
                node,
                membership: member.membership.clone(),
            });
            let subject = format!("token {}", token.id);
            let act = Act {
                time: now,
                who: member.node.as_str(),
                act: "join",
                subject: &subject,
            };
            // Both or none: a token is never used up without a member.
            let changes = [
                change(&TokenRecord::key(&token.id), Some(&token), Some(&redeemed)),
                change(&member.key(), None, Some(&member)),
            ];
            let changed = self.records.swap_told(&changes, &act)?;
            if changed {
                return Ok(member);
            }
        }
        Err(AuthorityError::Crypto("too many join at once".to_owned()).into())
    }

    /// The name of the token, or one like the wanted one that no member has.
    fn free_name(&self, token: &TokenRecord, wanted: &str) -> Result<Name, JoinRefused> {
        if let Some(name) = &token.name {
            return match self.record_of(name)? {
                None => Ok(name.clone()),
                Some(_) => Err(JoinRefused::Taken(name.clone())),
            };
        }
        let wanted = match wanted {
            "" => "node",
            name => name,
        };
        // A name is a label: at most 63 letters with what is added, and no hyphen at its end.
        let stem: String = wanted.chars().take(STEM).collect();
        let stem = stem.trim_end_matches('-');
        for number in 1..=NAMES {
            let text = match number {
                1 => wanted.to_owned(),
                number if number <= COUNTED => format!("{stem}-{number}"),
                _ => format!("{stem}-{}", issue::membership()?),
            };
            let name: Name = text
                .parse()
                .map_err(|error: hermes_api::BadName| JoinRefused::Request(error.to_string()))?;
            if name.as_str() != CONTROLLER && self.record_of(&name)?.is_none() {
                return Ok(name);
            }
        }
        Err(JoinRefused::Request(format!(
            "names like {wanted} are all taken"
        )))
    }

    /// Gives a member a certificate for a longer time, for the same key or another one.
    ///
    /// # Errors
    /// See [`JoinRefused`].
    pub fn renew(
        &self,
        chain: &[CertificateDer<'_>],
        request: &[u8],
        now: u64,
    ) -> Result<JoinAnswer, JoinRefused> {
        let member = self.member(chain, now)?;
        let key = public_key(request)?;
        let record = self.record_of(&member.node)?;
        self.issue(&record.ok_or(NotMember::Forgotten)?, &key, now)
    }

    /// A certificate for a member, which is in its record before anyone sees it: what is not there cannot be revoked. Within a day, a
    /// key gets the same one again, so that a node that repeats itself never comes to the bound.
    fn issue(
        &self,
        member: &MemberRecord,
        key: &PublicKey,
        now: u64,
    ) -> Result<JoinAnswer, JoinRefused> {
        let generation = self.issuing(now)?;
        for _ in 0..TRIES {
            let before = self.record_of(&member.node)?;
            let before = before.filter(|record| record.membership == member.membership);
            let before = before.ok_or(NotMember::Forgotten)?;
            if before.revoked.is_some() {
                return Err(NotMember::Revoked.into());
            }
            let handed: Option<Handed> = self.records.get(&Handed::key(&before))?;
            if let Some(handed) = handed.as_ref().filter(|last| last.is_for(key, now)) {
                return self.answer(&before, handed.pem.clone());
            }
            let issued =
                issue::certificate(&generation, key, &self.names(&before), self.grace(), now)?;
            let mut after = before.clone();
            after.serials.retain(|serial| serial.until > now);
            if after.serials.len() >= CERTIFICATES {
                return Err(JoinRefused::TooMany);
            }
            after.expires = issued.first_end;
            after.serials.push(Serial {
                number: issued.serial,
                generation: generation.number,
                until: issued.until,
            });
            let newest = Handed {
                pem: issued.pem,
                to: fingerprint(key),
                made: now,
                until: issued.until,
            };
            let changed = self.records.swap(&[
                change(&after.key(), Some(&before), Some(&after)),
                change(&Handed::key(&after), handed.as_ref(), Some(&newest)),
            ])?;
            if changed {
                return self.answer(&after, newest.pem);
            }
        }
        Err(AuthorityError::Crypto("too many renew at once".to_owned()).into())
    }

    fn answer(
        &self,
        member: &MemberRecord,
        certificates: String,
    ) -> Result<JoinAnswer, JoinRefused> {
        Ok(JoinAnswer {
            overlay: self.overlay.to_string(),
            trust_domain: self.trust_domain.clone(),
            node: member.node.to_string(),
            user: member
                .user
                .as_ref()
                .map(Name::to_string)
                .unwrap_or_default(),
            certificates,
            authorities: self.authorities_pem()?,
            statement_key: self.signing_key()?.verifying().to_text(),
            // Who answers knows them.
            controllers: Vec::new(),
        })
    }

    pub(super) fn names(&self, member: &MemberRecord) -> issue::Names {
        let domain = &self.trust_domain;
        let node = &member.node;
        issue::Names {
            membership: member.membership.clone(),
            uri: match &member.user {
                Some(user) => format!("spiffe://{domain}/user/{user}/{node}"),
                None => format!("spiffe://{domain}/node/{node}"),
            },
            // A device must not pass for a node: names of nodes have one label before the domain.
            dns: match &member.user {
                Some(user) => format!("{node}.{user}.devices.{domain}"),
                None => format!("{node}.{domain}"),
            },
        }
    }
}

/// The key of a request, which the requester has shown to have. The names in it are ignored.
fn public_key(request: &[u8]) -> Result<PublicKey, JoinRefused> {
    let bad = |reason: String| JoinRefused::Request(reason);
    if request.len() > REQUEST {
        return Err(bad(format!("it has more than {REQUEST} bytes")));
    }
    let der = CertificateSigningRequestDer::from(request);
    let parsed = CertificateSigningRequestParams::from_der(&der);
    let key = parsed.map_err(|error| bad(error.to_string()))?.public_key;

    let algorithm = key.algorithm();
    let is_rsa = [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_RSA_SHA384,
        &rcgen::PKCS_RSA_SHA512,
    ]
    .contains(&algorithm);
    let is_other = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ]
    .contains(&algorithm);
    if is_other || is_rsa && key.der_bytes().len() > RSA {
        return Ok(key);
    }
    Err(bad(
        "keys are of ECDSA with P-256 or P-384, Ed25519, or RSA with 2048 bits or more".to_owned(),
    ))
}

fn fingerprint(key: &PublicKey) -> Hash {
    Hash::of(&key.subject_public_key_info())
}

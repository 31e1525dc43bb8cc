//! The peers of a node, found by the names in their certificates, or as neighbours of an ingress.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_config::model::{
    CertificateName, Document, FamilyMember, FieldPattern, SpiffeFamily, UserPattern,
};

use crate::UserAliases;
use crate::route::expand_users;
use crate::trust::{Border, Mandate, Source};

/// The peers of a document. A certificate is looked up by its names, however many peers there are; families of SPIFFE IDs, of which a
/// document has few, are tried in turn.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    known: Vec<KnownPeer>,
    /// Name in a certificate -> the first peer that has it.
    by_certificate: HashMap<String, usize>,
    /// In the order of the document.
    families: Vec<PeerFamily>,
    /// Neighbour -> the first peer that it is.
    by_neighbour: HashMap<String, usize>,
    aliases: Arc<UserAliases>,
}

#[derive(Debug, Clone)]
struct KnownPeer {
    name: String,
    speaks_for: Vec<UserPattern>,
    /// It also speaks for the user in its certificate.
    speaks_for_certified: bool,
    /// The trust domain of its users, where it is another one.
    domain: Option<String>,
    /// The fields that are taken from it; `None`: all.
    accepts: Option<Vec<FieldPattern>>,
}

#[derive(Debug, Clone)]
struct PeerFamily {
    ids: SpiffeFamily,
    peer: usize,
}

impl Peers {
    /// The peers of a document, and the users that each speaks for.
    pub fn new(document: &Document, aliases: Arc<UserAliases>) -> Self {
        let mut found = Self {
            aliases,
            ..Self::default()
        };
        for (index, (name, peer)) in document.peers.iter().enumerate() {
            let (certified, named): (Vec<_>, Vec<_>) = peer
                .speaks_for
                .iter()
                .cloned()
                .partition(UserPattern::is_certified_user);
            found.known.push(KnownPeer {
                name: name.clone(),
                speaks_for: expand_users(&named, &document.groups),
                speaks_for_certified: !certified.is_empty(),
                domain: peer.domain.clone(),
                // Of another overlay nothing is taken that no one has listed.
                accepts: match (&peer.accepts, &peer.domain) {
                    (None, Some(_)) => Some(Vec::new()),
                    (accepts, _) => accepts.clone(),
                },
            });
            if let Some(neighbour) = &peer.neighbour {
                let first = found.by_neighbour.entry(neighbour.clone());
                first.or_insert(index);
            }
            for certificate in peer.certificate.iter() {
                found.add_certificate(certificate, index);
            }
        }

        found
    }

    fn add_certificate(&mut self, certificate: &CertificateName, peer: usize) {
        match certificate {
            CertificateName::Exact(name) => {
                self.by_certificate.entry(name.clone()).or_insert(peer);
            }
            CertificateName::Family(ids) => self.families.push(PeerFamily {
                ids: ids.clone(),
                peer,
            }),
        }
    }

    /// The peer with a certificate of one of these names; of several, the first in the document. A
    /// certificate without such a name may be of a family, by its SPIFFE ID.
    pub fn certified<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
        spiffe_id: Option<&'a str>,
    ) -> Option<Source<'a>> {
        let index = names
            .filter_map(|name| self.by_certificate.get(name))
            .min()
            .copied();
        match index {
            Some(index) => Some(self.source(index, None)),
            None => self.of_family(spiffe_id?),
        }
    }

    fn of_family<'a>(&'a self, id: &'a str) -> Option<Source<'a>> {
        self.families.iter().find_map(|family| {
            let FamilyMember { user } = family.ids.member(id)?;
            Some(self.source(family.peer, user))
        })
    }

    /// The peer that an ingress knows as this neighbour, by a key of its own.
    pub fn neighbour(&self, name: &str) -> Option<Source<'_>> {
        let index = self.by_neighbour.get(name)?;
        Some(self.source(*index, None))
    }

    /// The peer of this name, or of a family with this SPIFFE ID.
    pub fn named<'a>(&'a self, name: &'a str) -> Option<Source<'a>> {
        let index = self.known.iter().position(|peer| peer.name == name);
        match index {
            Some(index) => Some(self.source(index, None)),
            None => self.of_family(name),
        }
    }

    fn source<'a>(&'a self, peer: usize, certified: Option<&'a str>) -> Source<'a> {
        let peer = &self.known[peer];
        let certified = certified.filter(|_| peer.speaks_for_certified);
        Source::Peer {
            name: &peer.name,
            speaks_for: Mandate {
                named: &peer.speaks_for,
                certified: certified.map(|user| self.aliases.user_of(user)),
            },
            border: Border {
                domain: peer.domain.as_deref(),
                accepts: peer.accepts.as_deref(),
            },
        }
    }
}

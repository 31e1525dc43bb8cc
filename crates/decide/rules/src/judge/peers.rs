//! The peers of a node, found by the names in their certificates, or as neighbours in custody.

use std::collections::HashMap;

use hermes_config::model::{Peer, UserPattern};
use indexmap::IndexMap;

use crate::route::expand_users;
use crate::trust::Source;

/// The peers of a document. A certificate is looked up by its names, however many peers there are.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    known: Vec<KnownPeer>,
    /// Name in a certificate -> the first peer that has it.
    by_certificate: HashMap<String, usize>,
    /// Neighbour -> the first peer that it is.
    by_neighbour: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct KnownPeer {
    name: String,
    speaks_for: Vec<UserPattern>,
}

impl Peers {
    /// Those of a document, and for whom they speak by its groups.
    pub fn new(
        peers: &IndexMap<String, Peer>,
        groups: &IndexMap<String, Vec<UserPattern>>,
    ) -> Self {
        let mut found = Self::default();
        for (index, (name, peer)) in peers.iter().enumerate() {
            found.known.push(KnownPeer {
                name: name.clone(),
                speaks_for: expand_users(&peer.speaks_for, groups),
            });
            if let Some(neighbour) = &peer.neighbour {
                let first = found.by_neighbour.entry(neighbour.clone());
                first.or_insert(index);
            }
            for certificate in peer.certificate.iter() {
                found
                    .by_certificate
                    .entry(certificate.clone())
                    .or_insert(index);
            }
        }

        found
    }

    /// The peer whose certificate has one of these names; of several the first in the document.
    pub fn certified<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<Source<'_>> {
        let index = names
            .filter_map(|name| self.by_certificate.get(name))
            .min()?;
        Some(self.source(&self.known[*index]))
    }

    /// The peer that this neighbour in custody is.
    pub fn neighbour(&self, name: &str) -> Option<Source<'_>> {
        let index = self.by_neighbour.get(name)?;
        Some(self.source(&self.known[*index]))
    }

    /// The peer of this name.
    pub fn named(&self, name: &str) -> Option<Source<'_>> {
        let peer = self.known.iter().find(|peer| peer.name == name)?;
        Some(self.source(peer))
    }

    fn source<'a>(&self, peer: &'a KnownPeer) -> Source<'a> {
        Source::Peer {
            name: &peer.name,
            speaks_for: &peer.speaks_for,
        }
    }
}

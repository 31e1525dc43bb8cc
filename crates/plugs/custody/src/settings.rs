//! The settings of a node's custody: its key, its neighbours, and the folder of its exchanges.

use std::net::SocketAddr;
use std::time::Duration;

use hermes_config::model::{CustodyNeighbour, ListenAddress, NodeCustody};
use hermes_config::{Problem, child};

use crate::disk::Disk;
use hermes_noise::{PrivateKey, PublicKey};

/// A neighbour, as the configuration names it.
#[derive(Debug, Clone)]
pub struct NamedNeighbour {
    /// Its name: that of the upstream whose requests it takes into custody.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Its address; `None` if it always begins.
    pub address: Option<SocketAddr>,
}

impl NamedNeighbour {
    /// The neighbours of a document.
    ///
    /// # Errors
    /// A key is malformed; with its place.
    pub fn all(config: &NodeCustody) -> Result<Vec<Self>, Problem> {
        let one = |(name, neighbour): (&String, &CustodyNeighbour)| {
            let place = || child(&child("defaults.custody.neighbours", name), "key");
            let key: Result<PublicKey, _> = neighbour.key.parse();
            let address = match neighbour.address {
                Some(ListenAddress::Ip(address)) => Some(address),
                Some(ListenAddress::Unix(_)) | None => None,
            };
            Ok(Self {
                name: name.clone(),
                key: key.map_err(|error| Problem::new(place(), error.to_string()))?,
                address,
            })
        };
        config.neighbours.iter().map(one).collect()
    }
}

/// The settings of a node.
#[derive(Debug)]
pub struct Settings {
    /// The node's key.
    pub key: PrivateKey,
    /// How long an exchange is kept without an end.
    pub keep_for: Option<Duration>,
    /// The neighbours that it knows.
    pub neighbours: Vec<NamedNeighbour>,
    /// Where it keeps exchanges, so that it goes on with them when it is started again.
    pub disk: Option<Disk>,
}

//! Origins and targets that a request names: every address is checked before it is dialled.

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::HttpVersion;
use hermes_net::Asker;
use hermes_net::clock;
use hermes_net::peer::canonical;
use tokio::time::{Instant, timeout_at};

use crate::checkout::Checkout;
use crate::client::Client;
use crate::connect;
use crate::endpoint::Active;
use crate::failure::{ConnectFailure, FailureKind};
use crate::pinned::Own;
use crate::pool::{Dialling, Key};
use crate::reached::{Reached, Transport};
use crate::timeouts::Timeouts;
use crate::worker::Worker;

/// Says whether an address may be dialled, and if not, why. Called for every address, and again for
/// that of a kept connection.
pub type Allow<'a> = &'a (dyn Fn(SocketAddr) -> Result<(), String> + Sync);

/// An origin that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whether it is `https`.
    pub tls: bool,
    /// A name or an IP address, in brackets or not.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Origin {
    fn key(&self) -> Key {
        Key::Origin(
            self.tls,
            unbracketed(&self.host).to_ascii_lowercase(),
            self.port,
        )
    }

    /// Whether an exchange of this client connection and user has to be on a connection of its own, because one was before.
    pub fn is_known_to(&self, own: Own<'_>) -> bool {
        own.knows(&self.key())
    }
}

/// The user that a target is sought for, and the allowed addresses.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Which addresses may be dialled.
    pub allow: Allow<'a>,
    /// The asker at DNS.
    pub asker: Asker,
}

impl Client {
    /// A connection for one exchange with an origin that a request names. Under TLS the system's authorities are believed.
    ///
    /// # Errors
    /// Why there is no connection; [`FailureKind::Prohibited`] when `asking.allow` refused every
    /// address.
    pub async fn checkout_origin(
        &self,
        origin: &Origin,
        asking: Asking<'_>,
        timeouts: &Timeouts,
    ) -> Result<Checkout, ConnectFailure> {
        let until = clock::now() + timeouts.connect;
        match timeout_at(until, self.worker.origin(origin, asking, until, None)).await {
            Ok(done) => done,
            Err(_) => Err(ConnectFailure::timeout(place(&origin.host, origin.port))),
        }
    }

    /// As [`Self::checkout_origin`], of a connection in HTTP/1.1 that no exchange but those of `own` ever has.
    ///
    /// # Errors
    /// As for [`Self::checkout_origin`].
    pub async fn checkout_own_origin(
        &self,
        origin: &Origin,
        asking: Asking<'_>,
        timeouts: &Timeouts,
        own: Own<'_>,
    ) -> Result<Checkout, ConnectFailure> {
        let until = Instant::now() + timeouts.connect;
        match timeout_at(until, self.worker.origin(origin, asking, until, Some(own))).await {
            Ok(done) => done,
            Err(_) => Err(ConnectFailure::timeout(place(&origin.host, origin.port))),
        }
    }
}

impl Client {
    /// The addresses of a name that a request names, as its asker's turn comes; at least one. Which of them may be used is for the
    /// caller to say.
    ///
    /// # Errors
    /// The name has no addresses, or no server answered in `timeouts.connect`.
    pub async fn addresses(
        &self,
        name: &str,
        asker: Asker,
        timeouts: &Timeouts,
    ) -> Result<Vec<IpAddr>, ConnectFailure> {
        let lookup = self.worker.resolver.lookup_target(name, asker);
        match timeout_at(clock::now() + timeouts.connect, lookup).await {
            Ok(Ok(lookup)) => Ok(lookup.addresses.to_vec()),
            Ok(Err(error)) => Err(ConnectFailure::dns(name, &error)),
            Err(_) => Err(ConnectFailure::timeout(name.to_owned())),
        }
    }
}

impl Worker {
    async fn origin(
        &self,
        origin: &Origin,
        asking: Asking<'_>,
        until: Instant,
        own: Option<Own<'_>>,
    ) -> Result<Checkout, ConnectFailure> {
        let fits = |address: Option<SocketAddr>| {
            // Kept connections are shared by all who ask for the origin: each may use only those to addresses that its own rules allow.
            address.is_some_and(|address| (asking.allow)(address).is_ok())
        };
        let slot = match own {
            None => self
                .pool
                .slot_of_origin(origin.key(), origin.tls, || self.directory.origin_answers()),
            Some(own) => own.slot(origin.key(), || {
                self.pool
                    .own_slot_of_origin(self.directory.origin_answers())
            }),
        };

        let own = own.is_some();
        let taken = self
            .pool
            .acquire(&slot, &fits, || self.dialling(origin, asking, until, own))
            .await?;

        let endpoint = place(&origin.host, origin.port);
        Ok(Checkout::new(
            Some((self.pool.clone(), slot)),
            taken,
            endpoint.into(),
            Active::default(),
        ))
    }

    /// Boxed as `dyn`, so that crates that await it do not compile it again.
    #[inline(never)]
    fn dialling<'a>(
        &'a self,
        origin: &'a Origin,
        asking: Asking<'a>,
        until: Instant,
        own: bool,
    ) -> Dialling<'a> {
        Box::pin(self.reach(origin, asking, until, own))
    }

    async fn reach(
        &self,
        origin: &Origin,
        asking: Asking<'_>,
        until: Instant,
        own: bool,
    ) -> Result<Reached, ConnectFailure> {
        let endpoint = place(&origin.host, origin.port);
        // The addresses are judged, not the name: a name can be made to point anywhere.
        let addresses = self.allowed(&origin.host, origin.port, asking).await?;
        let from = self.directory.target_local_end();
        let stream = self.race(&addresses, &from, until, &endpoint).await?;
        let address = stream.info().peer.socket();

        if !origin.tls {
            return Ok(Reached {
                transport: Transport::H1(stream),
                address,
                endpoint,
                room: None,
                keepalive: None,
                nested_mtu: None,
            });
        }

        let roots = self.origin_tls();
        let roots =
            roots.map_err(|reason| ConnectFailure::new(FailureKind::Local, &endpoint, reason))?;
        // A connection for one client alone is HTTP/1.1: over HTTP/2 others would share it.
        let roots = if own { &roots.h1 } else { &roots.any };
        let stream = connect::secure(stream, roots, &origin.host, until, &endpoint).await?;
        let transport = connect::agreed(stream, &[HttpVersion::H1, HttpVersion::H2], &endpoint)?;

        Ok(Reached {
            transport,
            address,
            endpoint,
            room: None,
            keepalive: None,
            nested_mtu: None,
        })
    }

    /// The addresses of a target that may be dialled; at least one.
    pub(crate) async fn allowed(
        &self,
        host: &str,
        port: u16,
        asking: Asking<'_>,
    ) -> Result<Vec<SocketAddr>, ConnectFailure> {
        let endpoint = place(host, port);
        let lookup = self
            .resolver
            .lookup_target(unbracketed(host), asking.asker)
            .await;
        let lookup = lookup.map_err(|error| ConnectFailure::dns(&endpoint, &error))?;

        permitted(
            lookup
                .addresses
                .iter()
                .map(|ip| canonical(SocketAddr::new(*ip, port))),
            asking.allow,
            &endpoint,
        )
    }
}

/// The ones of `addresses` that may be dialled.
fn permitted(
    addresses: impl Iterator<Item = SocketAddr>,
    allow: Allow<'_>,
    endpoint: &str,
) -> Result<Vec<SocketAddr>, ConnectFailure> {
    let mut reason = None;
    let check = |address: &SocketAddr| match allow(*address) {
        Ok(()) => true,
        Err(why) => {
            reason.get_or_insert(why);
            false
        }
    };

    let allowed: Vec<_> = addresses.filter(check).collect();
    match reason {
        Some(reason) if allowed.is_empty() => Err(ConnectFailure::new(
            FailureKind::Prohibited,
            endpoint,
            reason,
        )),
        None if allowed.is_empty() => Err(ConnectFailure::new(
            FailureKind::Dns { timeout: false },
            endpoint,
            "the name has no address",
        )),
        _ => Ok(allowed),
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}

/// Host and port as an authority writes them.
pub(crate) fn place(host: &str, port: u16) -> String {
    let host = unbracketed(host);
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_addresses_are_left_out() {
        let addresses: Vec<SocketAddr> = ["127.0.0.1:80", "192.0.2.1:80"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let no_loopback = |address: SocketAddr| match address.ip().is_loopback() {
            true => Err(format!("{address} is loopback")),
            false => Ok(()),
        };
        let left = permitted(addresses.iter().copied(), &no_loopback, "x:80").unwrap();
        assert_eq!(left, [addresses[1]]);
        let failure = permitted(addresses[..1].iter().copied(), &no_loopback, "x:80").unwrap_err();
        assert_eq!(
            (failure.kind, failure.reason.as_str()),
            (FailureKind::Prohibited, "127.0.0.1:80 is loopback")
        );
    }

    #[test]
    fn places_are_written_like_authorities() {
        assert_eq!(place("[::1]", 80), "[::1]:80");
        assert_eq!(place("::1", 80), "[::1]:80");
        assert_eq!(place("a.example", 80), "a.example:80");
    }
}

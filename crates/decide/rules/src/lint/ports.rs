//! Checks of addresses that are listened on: no two may claim the same.

use std::net::SocketAddr;
use std::path::Path;

use hermes_config::child;
use hermes_config::model::{Document, HttpVersion, ListenAddress, ListenerKind};

use super::report::{Check, Report};
use crate::overlap::overlap;
use crate::versions::versions;

pub(super) const CHECKS: &[Check] = &[conflicts];

/// An address that the document claims.
struct AddressClaim<'a> {
    path: String,
    place: Place<'a>,
}

enum Place<'a> {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(&'a Path),
}

fn conflicts(document: &Document, report: &mut Report) {
    let claims = claims(document);
    for (index, claim) in claims.iter().enumerate() {
        let Some(earlier) = claims[..index]
            .iter()
            .find(|earlier| earlier.place.overlaps(&claim.place))
        else {
            continue;
        };

        let reason = match (&earlier.place, &claim.place) {
            (Place::Unix(path), _) => format!(
                "{} listens on unix:{} already",
                earlier.path,
                path.display()
            ),
            (Place::Tcp(one) | Place::Udp(one), Place::Tcp(two) | Place::Udp(two))
                if one == two =>
            {
                format!("{} listens on {one} already", earlier.path)
            }
            (Place::Tcp(one) | Place::Udp(one), _) => {
                format!(
                    "{} listens on {one}, which includes it or is part of it",
                    earlier.path
                )
            }
        };

        report.add(&claim.path, reason, "choose another address or port");
    }
}

fn claims(document: &Document) -> Vec<AddressClaim<'_>> {
    let mut claims = Vec::new();
    for (name, listener) in &document.listeners {
        let spoken = versions(document, listener);
        let path = child("listeners", name);
        // HTTP/3 alone takes no TCP port.
        let address = listener.kind.address();
        let address = address.filter(|_| spoken != [HttpVersion::H3]);
        let is_udp = matches!(listener.kind, ListenerKind::Udp(_));
        claims.extend(address.map(|address| AddressClaim {
            path: child(&path, listener.kind.key()),
            place: Place::of(address, is_udp),
        }));

        // HTTP/3 takes the UDP port of the same number: a `udp` listener there would collide.
        let quic = spoken.contains(&HttpVersion::H3);
        if let Some(http) = listener.http().filter(|_| quic)
            && let ListenAddress::Ip(address) = &http.address
        {
            let path = child(
                &path,
                if http.versions.is_some() {
                    "versions"
                } else {
                    "http"
                },
            );
            claims.push(AddressClaim {
                path,
                place: Place::Udp(*address),
            });
        }
    }

    let mut known = Vec::new();
    for (path, wireguard) in document.wireguard() {
        // Devices may share a port of WireGuard.
        let listen = wireguard.listen.socket_address();
        let listen = listen.filter(|address| !known.contains(address));
        known.extend(listen);
        claims.extend(listen.map(|address| AddressClaim {
            path: format!("{path}.listen"),
            place: Place::Udp(address),
        }));
    }

    let metrics = document
        .admin
        .metrics
        .as_ref()
        .map(|address| Place::of(address, false));
    claims.extend(metrics.map(|place| AddressClaim {
        path: "admin.metrics".to_owned(),
        place,
    }));
    let socket = document
        .admin
        .socket
        .as_ref()
        .map(|path| Place::Unix(&path.0));
    claims.extend(socket.map(|place| AddressClaim {
        path: "admin.socket".to_owned(),
        place,
    }));

    claims
}

impl<'a> Place<'a> {
    fn of(address: &'a ListenAddress, udp: bool) -> Self {
        match address {
            ListenAddress::Unix(path) => Self::Unix(path),
            ListenAddress::Ip(address) if udp => Self::Udp(*address),
            ListenAddress::Ip(address) => Self::Tcp(*address),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(two)) | (Self::Udp(one), Self::Udp(two)) => {
                overlap(*one, *two)
            }
            (Self::Unix(one), Self::Unix(two)) => one == two,
            _ => false,
        }
    }
}

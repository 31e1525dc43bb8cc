//! Checks of peers.

use std::collections::HashMap;

use hermes_config::model::{Attach, CertificateName, Document};
use hermes_config::{child, element};

use super::report::{Check, Report, has_tls};

pub(super) const CHECKS: &[Check] = &[
    unknowable,
    without_certificate,
    same_certificate,
    certified_user,
    unknown_neighbour,
];

/// Peers are known by their certificate: a listener with `client_ca_file` asks for it, and one that attaches over TLS sees it.
fn unknowable(document: &Document, report: &mut Report) {
    let asked = |tls: &hermes_config::model::ServerTls| tls.client_ca_file.is_some();
    let sees = |attach: &Attach| {
        document
            .upstreams
            .get(attach.upstream())
            .is_some_and(has_tls)
    };

    let knows = document
        .listeners
        .values()
        .any(|listener| listener.tls().is_some_and(asked) || listener.attach().is_some_and(sees));
    let has_certified = document.peers.values().any(|peer| peer.neighbour.is_none());
    if has_certified && !knows {
        let reason = "no listener can know a peer: none has `tls.client_ca_file`";
        report.add(
            "peers",
            reason,
            "add `tls.client_ca_file` to the listener that peers connect to",
        );
    }
}

fn without_certificate(document: &Document, report: &mut Report) {
    for (name, peer) in &document.peers {
        let has_none = peer.certificate.is_empty() && peer.neighbour.is_none();
        let is_empty = |name: &CertificateName| *name == CertificateName::Exact(String::new());
        if has_none || peer.certificate.iter().any(is_empty) {
            let reason = "a peer without a name in its certificate, or a neighbour that it is, cannot be known";
            report.add(
                child(&child("peers", name), "certificate"),
                reason,
                "give a name that its certificate holds",
            );
        }
    }
}

/// A neighbour has to be named with its key, and is one peer.
fn unknown_neighbour(document: &Document, report: &mut Report) {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    let custody = document.defaults.custody.as_ref();
    for (name, peer) in &document.peers {
        let Some(neighbour) = &peer.neighbour else {
            continue;
        };
        let place = || child(&child("peers", name), "neighbour");
        if !custody.is_some_and(|custody| custody.neighbours.contains_key(neighbour)) {
            let reason = format!("`{neighbour}` is not a neighbour in custody");
            report.add(place(), reason, "name one of `defaults.custody.neighbours`");
        }
        let owner = owners.entry(neighbour).or_insert(name);
        if *owner != name {
            let reason = format!("`{neighbour}` is peer `{owner}` already");
            report.add(place(), reason, "give each peer a neighbour of its own");
        }
    }
}

/// A certificate is that of one peer, or it would be unclear for whom it speaks.
fn same_certificate(document: &Document, report: &mut Report) {
    let mut owners: HashMap<&CertificateName, &str> = HashMap::new();
    for (name, peer) in &document.peers {
        for certificate in peer.certificate.iter() {
            let owner = owners.entry(certificate).or_insert(name);
            if *owner != name {
                let reason =
                    format!("`{certificate}` is the certificate of peer `{owner}` already");
                report.add(
                    child(&child("peers", name), "certificate"),
                    reason,
                    "give each peer a name of its own",
                );
            }
        }
    }
}

/// `{user}` is the user in a certificate: each certificate name of the peer has to say where it
/// stands, and a peer with such names has to use it.
fn certified_user(document: &Document, report: &mut Report) {
    const EXAMPLE: &str = "write `certificate: spiffe://example.org/user/{user}/*`";
    let names_a_user = |name: &CertificateName| match name {
        CertificateName::Exact(_) => false,
        CertificateName::Family(family) => family.names_a_user(),
    };

    for (name, peer) in &document.peers {
        let path = child("peers", name);
        let speaks = |user: &hermes_config::model::UserPattern| user.is_certified_user();
        let spoken = peer.speaks_for.iter().position(speaks);
        let names_all = peer.certificate.iter().all(names_a_user) && !peer.certificate.is_empty();
        let names_any = peer.certificate.iter().any(names_a_user);

        match spoken {
            Some(index) if !names_all => {
                let reason = "not every name in `certificate` says who the user is";
                let path = element(&child(&path, "speaks_for"), index);
                report.add(path, reason, EXAMPLE);
            }
            None if names_any => {
                let reason = "`{user}` is not among those that it `speaks_for`";
                let remedy = "write `speaks_for: [\"{user}\"]`, or `*` in place of `{user}`";
                report.add(child(&path, "certificate"), reason, remedy);
            }
            Some(_) | None => {}
        }
    }
}

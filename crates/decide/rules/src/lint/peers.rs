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
    other_domain,
    domain_without_listener,
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

/// Users of another trust domain have names of their own here, which `speaks_for` has to mean.
fn other_domain(document: &Document, report: &mut Report) {
    for (name, peer) in &document.peers {
        let Some(domain) = &peer.domain else {
            continue;
        };
        let path = child("peers", name);
        if !is_trust_domain(domain) {
            let path = child(&path, "domain");
            report.add(path, format!("`{domain}` is no trust domain"), DOMAIN);
        }
        let suffix = format!("@{domain}");
        for (index, users) in peer.speaks_for.iter().enumerate() {
            let text = users.to_string();
            if text != "*" && !text.ends_with(&suffix) && users.group().is_none() {
                let reason = format!("its users are known here by names that end with `{suffix}`");
                let remedy = format!("write `{text}{suffix}`, or `*{suffix}` for all of them");
                report.add(element(&child(&path, "speaks_for"), index), reason, remedy);
            }
        }
    }
}

const DOMAIN: &str = "write lower-case names with dots between them: `overlay.example.org`";

/// Authorities of other trust domains stand beside those of this one.
fn domain_without_listener(document: &Document, report: &mut Report) {
    for (name, listener) in &document.listeners {
        let Some(tls) = listener.tls() else { continue };
        let path = child(&child(&child("listeners", name), "tls"), "client_domains");
        if !tls.client_domains.is_empty() && tls.client_ca_file.is_none() {
            let reason = "clients of other trust domains come beside those of our own";
            report.add(&path, reason, "add `client_ca_file`");
        }
        for domain in tls.client_domains.keys() {
            if !is_trust_domain(domain) {
                let reason = format!("`{domain}` is no trust domain");
                report.add(child(&path, domain), reason, DOMAIN);
            }
        }
    }
}

/// SPIFFE ID, section 2.1: lower-case letters, digits, dots, hyphens and underscores.
fn is_trust_domain(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(is_letter)
}

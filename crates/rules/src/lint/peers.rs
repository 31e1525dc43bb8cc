//! Checks of peers.

use std::collections::HashMap;

use hermes_config::child;
use hermes_config::model::{Attach, Document};

use super::report::{Check, Report, has_tls};

pub(super) const CHECKS: &[Check] = &[unknowable, without_certificate, same_certificate];

/// Peers are known by their certificate: a listener with `client_ca_file` asks for it, and one that attaches over TLS sees it.
fn unknowable(document: &Document, report: &mut Report) {
    let asked = |tls: &hermes_config::model::ServerTls| tls.client_ca_file.is_some();
    let sees = |attach: &Attach| {
        document
            .upstreams
            .get(attach.upstream())
            .is_some_and(has_tls)
    };

    let knows = document.listeners.values().any(|listener| {
        listener.tls.as_ref().is_some_and(asked) || listener.attach.as_ref().is_some_and(sees)
    });
    if !document.peers.is_empty() && !knows {
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
        if peer.certificate.is_empty() || peer.certificate.iter().any(String::is_empty) {
            let reason = "a peer without a name in its certificate cannot be known";
            report.add(
                child(&child("peers", name), "certificate"),
                reason,
                "give a name that its certificate holds",
            );
        }
    }
}

/// One certificate is one peer, or it would not be known for whom it speaks.
fn same_certificate(document: &Document, report: &mut Report) {
    let mut owners: HashMap<&str, &str> = HashMap::new();
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

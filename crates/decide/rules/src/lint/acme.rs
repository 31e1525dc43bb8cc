//! Checks of certificates: files, or those that the node obtains itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

use hermes_config::model::{
    Acme, AcmeChallenge, Auth, AuthMode, Document, HttpListener, HttpVersion, ServerTls,
};
use http::Uri;
use http::uri::Scheme;

use super::report::{Check, Report, each_listener};

pub(super) const CHECKS: &[Check] = &[certificates, terms, domains, authority, challenge, files];

/// Names of a certificate: Let's Encrypt takes a hundred.
#[doc(alias = "bound")]
const DOMAINS: usize = 100;

/// Bytes of a name in DNS (RFC 1035 section 2.3.4), and of one of its labels.
#[doc(alias = "bound")]
const NAME: usize = 253;
const LABEL: usize = 63;

fn certificates(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(tls) = listener.tls() else { return };
        let ServerTls {
            cert_file,
            key_file,
            acme,
            ..
        } = tls;
        let path = format!("{path}.tls");
        match (cert_file, key_file, acme) {
            (Some(_), Some(_), None) | (None, None, Some(_)) => {}
            (None, None, None) => report.add(
                path,
                "there is no certificate",
                "add `cert_file` and `key_file`, or `acme`",
            ),
            (Some(_), None, None) => report.add(
                format!("{path}.cert_file"),
                "the certificate has no key",
                "add `key_file`",
            ),
            (None, Some(_), None) => report.add(
                format!("{path}.key_file"),
                "the key has no certificate",
                "add `cert_file`",
            ),
            (_, _, Some(_)) => report.add(
                format!("{path}.acme"),
                "the certificate comes from files or from an authority, not from both",
                "remove `acme`, or `cert_file` and `key_file`",
            ),
        }
    });
}

fn terms(document: &Document, report: &mut Report) {
    each_acme(document, |path, acme, _| {
        if !acme.terms_agreed {
            report.add(
                format!("{path}.terms_agreed"),
                "an authority issues certificates only to users who agree to its terms of service",
                format!(
                    "read those of {}, and write `terms_agreed: true`",
                    acme.directory()
                ),
            );
        }
    });
}

fn domains(document: &Document, report: &mut Report) {
    each_acme(document, |path, acme, _| {
        let path = format!("{path}.domains");
        if acme.domains.is_empty() || acme.domains.len() > DOMAINS {
            let reason = format!("a certificate is for 1 to {DOMAINS} names");
            report.add(&path, reason, "write the names that lead to this node");
        }

        for (index, domain) in acme.domains.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if let Some((reason, remedy)) = unfit(domain) {
                report.add(path, format!("`{domain}` {reason}"), remedy);
            } else if acme.domains[..index].contains(domain) {
                report.add(path, format!("`{domain}` is listed twice"), "remove one");
            }
        }
    });
}

/// Why no authority would find out that a name leads here.
fn unfit(domain: &str) -> Option<(&'static str, &'static str)> {
    if domain.starts_with("*.") {
        let reason = "is a wildcard, which only DNS can prove";
        return Some((reason, "list the names, or use `cert_file` and `key_file`"));
    }
    if domain.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Some(("is an address", "write a name that DNS leads here"));
    }
    if domain.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some(("has capital letters", "write it in small letters"));
    }

    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        let is_bounded = !label.is_empty() && label.len() <= LABEL;
        is_bounded
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(is_letter)
    };
    let is_name = domain.len() <= NAME && domain.contains('.') && domain.split('.').all(is_label);
    let remedy = "write it like www.example.org, names of other scripts as xn--";
    (!is_name).then_some(("is not a DNS name", remedy))
}

fn authority(document: &Document, report: &mut Report) {
    each_acme(document, |path, acme, _| {
        let directory = acme.directory();
        let uri: Option<Uri> = directory.parse().ok();
        let is_https = uri.is_some_and(|uri| {
            let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
            is_tls && uri.authority().is_some_and(|at| !at.as_str().contains('@'))
        });
        if !is_https {
            report.add(
                format!("{path}.directory"),
                "this is not an `https` URL, which ACME requires",
                "write it like https://acme-v02.api.letsencrypt.org/directory",
            );
        }

        let is_address = |email: &str| {
            let strange = |byte: u8| !byte.is_ascii_graphic() || b",?&%:<>".contains(&byte);
            let parts = email.split_once('@');
            parts.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
                && !email.bytes().any(strange)
        };
        if acme
            .email
            .as_deref()
            .is_some_and(|email| !is_address(email))
        {
            report.add(
                format!("{path}.email"),
                "this is not an email address",
                "write it like admin@example.org, or remove it",
            );
        }
    });
}

/// The authority must come through to the listener that is to answer it.
fn challenge(document: &Document, report: &mut Report) {
    each_acme(document, |path, acme, http| {
        if acme.challenge != AcmeChallenge::TlsAlpn01 {
            return;
        }
        let path = format!("{path}.challenge");
        if requires_certificate(http) {
            report.add(
                path,
                "the authority has no client certificate, which this listener requires",
                "write `challenge: http-01`",
            );
        } else if http.versions.as_deref() == Some(&[HttpVersion::H3]) {
            report.add(
                path,
                "the authority comes by TCP, and this listener speaks HTTP/3 alone",
                "write `challenge: http-01`, or add 2 to `versions`",
            );
        }
    });
}

/// Two certificates in one file would overwrite each other.
fn files(document: &Document, report: &mut Report) {
    let mut known: HashMap<PathBuf, &Acme> = HashMap::new();
    for (name, listener) in &document.listeners {
        let tls = listener.tls();
        let Some(acme) = tls.and_then(|tls| tls.acme.as_deref()) else {
            continue;
        };
        let first = known.entry(acme.certificate_file()).or_insert(acme);
        if *first != acme {
            report.add(
                format!("{}.tls.acme", hermes_config::child("listeners", name)),
                "another listener keeps another certificate in the same file",
                "write the same `acme` for both, or another `folder`",
            );
        }
    }
}

fn requires_certificate(http: &HttpListener) -> bool {
    match &http.auth {
        None | Some(Auth::Word(AuthMode::None)) => false,
        Some(Auth::Word(AuthMode::Mtls)) => true,
        Some(Auth::Methods(ways)) => ways.mtls && ways.basic.is_none() && ways.bearer.is_none(),
    }
}

fn each_acme(document: &Document, mut check: impl FnMut(&str, &Acme, &HttpListener)) {
    each_listener(document, |path, listener| {
        let Some(http) = listener.http() else { return };
        if let Some(acme) = http.tls.as_ref().and_then(|tls| tls.acme.as_deref()) {
            check(&format!("{path}.tls.acme"), acme, http);
        }
    });
}

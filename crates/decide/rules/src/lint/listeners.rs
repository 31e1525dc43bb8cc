//! Checks of listeners: what they are, and who may use them.

use std::net::SocketAddr;

use hermes_config::model::{Auth, AuthMode, Document, ListenAddress, Listener, PolicyDefault};

use super::report::{Check, Report, each_listener};
use crate::fields::{OverlayFields, Provenance};

pub(super) const CHECKS: &[Check] = &[
    kind,
    target,
    ingress,
    udp_on_unix,
    http_only_keys,
    datagrams,
    empty_auth,
    optional_auth,
    open,
    mtls,
    accepts,
    limits,
];

fn kinds(listener: &Listener) -> impl Iterator<Item = (&'static str, &ListenAddress)> {
    let all = [
        ("http", &listener.http),
        ("tcp", &listener.tcp),
        ("udp", &listener.udp),
    ];
    all.into_iter()
        .filter_map(|(key, address)| address.as_ref().map(|address| (key, address)))
}

fn is_port(listener: &Listener) -> bool {
    listener.tcp.is_some() || listener.udp.is_some()
}

fn kind(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let attach = listener.attach.as_ref().map(|_| "attach");
        let tun = listener.tun.as_ref().map(|_| "tun");
        let addresses = kinds(listener).map(|(key, _)| key);
        let given: Vec<&str> = addresses.chain(attach).chain(tun).collect();
        if given.is_empty() {
            report.add(
                path,
                "the listener has no address",
                "give one of `http`, `tcp`, `udp`, `attach` and `tun`",
            );
        } else if let [_, second, ..] = given.as_slice() {
            let reason = format!("the listener is {} at once", given.join(" and "));
            report.add(
                format!("{path}.{second}"),
                reason,
                "make a listener of each",
            );
        }
    });
}

fn target(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if is_port(listener) && listener.target.is_none() && listener.ingress.is_none() {
            let reason = "the listener does not say what its exchanges are for";
            report.add(path, reason, "add `target: HOST:PORT`");
        }
        if listener.http.is_some() && !is_port(listener) && listener.target.is_some() {
            let reason = "an `http` listener has no target: each request names its own";
            report.add(
                format!("{path}.target"),
                reason,
                "remove `target`, or make it a `tcp` listener",
            );
        }
    });
}

fn ingress(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if listener.ingress.is_some() && !is_port(listener) {
            report.add(
                format!("{path}.ingress"),
                "`ingress` is for `tcp` and `udp` listeners",
                "remove it",
            );
        }
    });
}

fn udp_on_unix(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if matches!(listener.udp, Some(ListenAddress::Unix(_))) {
            report.add(
                format!("{path}.udp"),
                "a Unix socket is not a UDP port",
                "write an IP address and a port",
            );
        }
    });
}

/// Keys that mean something only where requests arrive: a bare port authenticates no one.
fn http_only_keys(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let is_other = is_port(listener) || listener.tun.is_some();
        if listener.http.is_some() || !is_other {
            return;
        }
        let remove = "remove it, or make it an `http` listener";
        let keys = [
            (
                "auth",
                listener.auth.is_some(),
                "remove it, and say whose the traffic is with `user`",
            ),
            (
                "insecure_trust",
                !listener.insecure_trust.is_empty(),
                remove,
            ),
            ("accepts", !listener.accepts.is_empty(), remove),
            ("tls", listener.tls.is_some(), remove),
            ("gateway", listener.gateway, remove),
        ];

        for (key, _, remedy) in keys.into_iter().filter(|(_, given, _)| *given) {
            report.add(
                format!("{path}.{key}"),
                format!("`{key}` is for `http` listeners"),
                remedy,
            );
        }
    });
}

fn datagrams(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if listener.datagrams.is_some() && listener.udp.is_none() {
            let reason = "`datagrams` is for `udp` listeners";
            report.add(
                format!("{path}.datagrams"),
                reason,
                "remove it, or put it on a route",
            );
        }
    });
}

/// Whether a listener asks its clients who they are.
fn asks(listener: &Listener) -> bool {
    match &listener.auth {
        None | Some(Auth::Word(AuthMode::None)) => false,
        Some(Auth::Word(AuthMode::Mtls)) => true,
        Some(Auth::Methods(ways)) => ways.basic.is_some() || ways.bearer.is_some() || ways.mtls,
    }
}

fn empty_auth(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if matches!(listener.auth, Some(Auth::Methods(_))) && !asks(listener) {
            let reason = "`auth` names no way to authenticate";
            report.add(
                format!("{path}.auth"),
                reason,
                "give `basic`, `bearer` or `mtls: true`, or write `auth: none`",
            );
        }
    });
}

/// What no rule allows to those who show nothing must be denied: else every stranger may use the listener.
fn optional_auth(document: &Document, report: &mut Report) {
    let denies = document
        .policy
        .as_ref()
        .is_some_and(|policy| policy.default == PolicyDefault::Deny);
    each_listener(document, |path, listener| {
        if listener.takes_anonymous() && !denies {
            report.add(
                format!("{path}.auth.optional"),
                "strangers that show no credentials may do whatever no rule denies",
                "write a `policy` with `default: deny`, and rules with `user: false` for what they may do",
            );
        }
    });
}

/// Whether strangers could use a listener that is bound to `address`, though the operator does not say that they may.
pub fn is_open(listener: &Listener, address: SocketAddr) -> bool {
    !listener.public && !asks(listener) && !address.ip().to_canonical().is_loopback()
}

/// An open proxy is a danger to others: strangers are let in only if the operator says so.
fn open(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        for (key, address) in kinds(listener) {
            let ListenAddress::Ip(address) = address else {
                continue;
            };
            if !is_open(listener, *address) {
                continue;
            }

            let reason =
                format!("strangers can reach {address}, and no authentication is configured");
            let local = if address.is_ipv4() {
                "127.0.0.1"
            } else {
                "[::1]"
            };

            let add = if key == "http" { "add `auth`, or " } else { "" };
            let remedy = format!(
                "{add}listen on {local}:{}, or write `public: true`",
                address.port()
            );
            report.add(format!("{path}.{key}"), reason, remedy);
        }
    });
}

fn mtls(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let wanted = match &listener.auth {
            Some(Auth::Word(mode)) => *mode == AuthMode::Mtls,
            Some(Auth::Methods(ways)) => ways.mtls,
            None => false,
        };

        let remedy = match &listener.tls {
            _ if !wanted => return,
            Some(tls) if tls.client_ca_file.is_some() => return,
            Some(_) => "add `tls.client_ca_file`",
            None => "add `tls` with `cert_file`, `key_file` and `client_ca_file`",
        };

        let reason = "`mtls` needs to know whose client certificates are accepted";
        report.add(format!("{path}.auth"), reason, remedy);
    });
}

fn accepts(document: &Document, report: &mut Report) {
    let overlay = OverlayFields::new(&document.fields);
    let provenance = Provenance::new(&document.provenance);
    each_listener(document, |path, listener| {
        for (index, pattern) in listener.accepts.iter().enumerate() {
            if !overlay.meets(pattern) && !provenance.meets(pattern) {
                let reason = format!(
                    "`{pattern}` does nothing: it is no overlay field and not in `provenance`, and other fields pass anyway"
                );
                report.add(
                    format!("{path}.accepts[{index}]"),
                    reason,
                    "remove it, or declare it in `fields`",
                );
            }
        }
    });
}

fn limits(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let limits = &listener.limits;
        let zero = [
            (
                "head_bytes",
                limits.head_bytes.is_some_and(|size| size.0 == 0),
            ),
            (
                "trailer_bytes",
                limits.trailer_bytes.is_some_and(|size| size.0 == 0),
            ),
            ("fields", limits.fields == Some(0)),
            (
                "head_time",
                limits.head_time.is_some_and(|time| time.0.is_zero()),
            ),
            (
                "idle_time",
                limits.idle_time.is_some_and(|time| time.0.is_zero()),
            ),
            ("connections", limits.connections == Some(0)),
            ("per_source", limits.per_source == Some(0)),
            (
                "connections_per_user",
                limits.connections_per_user == Some(0),
            ),
            ("per_user", limits.per_user == Some(0)),
            ("sessions_per_user", limits.sessions_per_user == Some(0)),
            (
                "rate_window",
                limits.rate_window.is_some_and(|time| time.0.is_zero()),
            ),
            ("streams", limits.streams == Some(0)),
        ];

        for (key, _) in zero.into_iter().filter(|(_, is_zero)| *is_zero) {
            let reason = "a limit of zero lets nothing in";
            report.add(
                format!("{path}.limits.{key}"),
                reason,
                "give a larger one, or remove it for the default",
            );
        }
    });
}

//! Checks of listeners: their kinds, and who may use them.

use std::net::SocketAddr;

use hermes_config::model::{
    Auth, AuthMode, Document, HttpVersion, ListenAddress, Listener, ListenerKind, PolicyDefault,
    Purpose,
};

use super::report::{Check, Report, each_listener};
use crate::fields::{OverlayFields, Provenance};
use crate::versions;

pub(super) const CHECKS: &[Check] = &[
    target,
    udp_on_unix,
    split,
    multipath,
    congestion,
    empty_auth,
    optional_auth,
    open,
    mtls,
    socks,
    accepts,
    limits,
];

fn target(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let is_pointless =
            |purpose: &Purpose| purpose.target.is_none() && purpose.ingress.is_none();
        if listener.purpose().is_some_and(is_pointless) {
            let reason = "the listener does not say what its exchanges are for";
            report.add(path, reason, "add `target: HOST:PORT`");
        }
    });
}

fn udp_on_unix(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let address = listener.udp().map(|udp| &udp.address);
        if matches!(address, Some(ListenAddress::Unix(_))) {
            report.add(
                format!("{path}.udp"),
                "a Unix socket is not a UDP port",
                "write an IP address and a port",
            );
        }
    });
}

fn split(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(tcp) = listener.tcp().filter(|tcp| tcp.split) else {
            return;
        };
        let path = format!("{path}.split");
        if !matches!(&tcp.address, ListenAddress::Ip(address) if address.port() != 0) {
            report.add(
                path,
                "beginnings of connections are held at an IP address and a port",
                "write both, or remove `split`",
            );
        } else if tcp.purpose.target.is_none()
            || tcp.purpose.ingress.is_some()
            || listener.is_introduced()
        {
            let reason = "the target of a connection is not known before it is accepted";
            report.add(path, reason, "give `target` alone, or remove `split`");
        }
    });
}

/// Several networks are of use to connections of clients alone.
fn multipath(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if listener.multipath && !takes_connections(document, listener) {
            report.add(
                format!("{path}.multipath"),
                "no client connects here by TCP",
                "remove it, or give an IP address to `http`, `tcp` or `socks`",
            );
        }
    });
}

/// Only connections have one: a Unix socket loses nothing, and datagrams of clients are sent as they come.
fn congestion(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let is_http = matches!(listener.kind, ListenerKind::Http(_));
        let has_address = matches!(listener.kind.address(), Some(ListenAddress::Ip(_)));
        let has_quic = is_http && has_address;
        if listener.congestion.is_some() && !has_quic && !takes_connections(document, listener) {
            report.add(
                format!("{path}.congestion"),
                "no client connects here by TCP or QUIC",
                "remove it, or give an IP address to `http`, `tcp` or `socks`",
            );
        }
    });
}

/// Whether clients connect to a listener by TCP.
fn takes_connections(document: &Document, listener: &Listener) -> bool {
    let takes_streams = match &listener.kind {
        ListenerKind::Http(_) => versions(document, listener) != [HttpVersion::H3],
        ListenerKind::Tcp(_) | ListenerKind::Socks(_) => true,
        ListenerKind::Udp(_)
        | ListenerKind::Attach(_)
        | ListenerKind::Tun(_)
        | ListenerKind::Capture(_) => false,
    };
    takes_streams && matches!(listener.kind.address(), Some(ListenAddress::Ip(_)))
}

/// Whether a listener asks its clients who they are.
fn asks(listener: &Listener) -> bool {
    match listener.auth() {
        None | Some(Auth::Word(AuthMode::None)) => false,
        Some(Auth::Word(AuthMode::Mtls)) => true,
        Some(Auth::Methods(ways)) => ways.basic.is_some() || ways.bearer.is_some() || ways.mtls,
    }
}

fn empty_auth(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if matches!(listener.auth(), Some(Auth::Methods(_))) && !asks(listener) {
            let reason = "`auth` names no way to authenticate";
            report.add(
                format!("{path}.auth"),
                reason,
                "give `basic`, `bearer` or `mtls: true`, or write `auth: none`",
            );
        }
    });
}

/// Without credentials, the policy must deny by default: otherwise every stranger may use the
/// listener.
fn optional_auth(document: &Document, report: &mut Report) {
    let denies = document
        .policy
        .as_ref()
        .is_some_and(|policy| policy.default == PolicyDefault::Deny);
    each_listener(document, |path, listener| {
        if listener.takes_anonymous() && !denies {
            report.add(
                format!("{path}.auth.optional"),
                "strangers without credentials may do anything that no rule denies",
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
        let Some(ListenAddress::Ip(address)) = listener.kind.address() else {
            return;
        };
        if !is_open(listener, *address) {
            return;
        }

        let reason = format!("strangers can reach {address}, and no authentication is configured");
        let local = if address.is_ipv4() {
            "127.0.0.1"
        } else {
            "[::1]"
        };

        let add = match listener.kind {
            ListenerKind::Http(_) => "add `auth`, or ",
            ListenerKind::Socks(_) => "add `auth: { basic: { file: FILE } }`, or ",
            _ => "",
        };
        let remedy = format!(
            "{add}listen on {local}:{}, or write `public: true`",
            address.port()
        );
        report.add(format!("{path}.{}", listener.kind.key()), reason, remedy);
    });
}

fn mtls(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let wanted = match listener.auth() {
            Some(Auth::Word(mode)) => *mode == AuthMode::Mtls,
            Some(Auth::Methods(ways)) => ways.mtls,
            None => false,
        };

        let remedy = match listener.tls() {
            _ if !wanted => return,
            Some(tls) if tls.client_ca_file.is_some() => return,
            Some(_) => "add `tls.client_ca_file`",
            None => "add `tls` with `cert_file`, `key_file` and `client_ca_file`",
        };

        let reason = "`mtls` needs to know whose client certificates are accepted";
        report.add(format!("{path}.auth"), reason, remedy);
    });
}

/// SOCKS has a way to show a password (RFC 1929), and none for tokens or certificates.
fn socks(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let unknown = match listener.socks().and_then(|socks| socks.auth.as_ref()) {
            Some(Auth::Word(mode)) => *mode == AuthMode::Mtls,
            Some(Auth::Methods(ways)) => ways.bearer.is_some() || ways.mtls,
            None => false,
        };
        if unknown {
            report.add(
                format!("{path}.auth"),
                "clients of SOCKS can show a password alone",
                "write `basic` alone, or `auth: none`",
            );
        }
    });
}

fn accepts(document: &Document, report: &mut Report) {
    let overlay = OverlayFields::new(&document.fields);
    let provenance = Provenance::new(&document.provenance);
    each_listener(document, |path, listener| {
        for (index, pattern) in listener.accepts().iter().enumerate() {
            if !overlay.meets(pattern) && !provenance.meets(pattern) {
                let reason = format!(
                    "`{pattern}` has no effect: it is neither an overlay field nor in `provenance`, and other fields pass anyway"
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

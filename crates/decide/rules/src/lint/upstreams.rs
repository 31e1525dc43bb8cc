//! Checks of upstreams: their endpoints and how these are reached.

use std::net::IpAddr;

use hermes_config::child;
use hermes_config::model::{
    CongestionControl, Document, FieldCase, HttpVersion, RequestField, SocksVersion, Terminate,
    Timeouts, TlsChoice,
};

use super::changes::field_name;
use super::report::{Check, Report, each_upstream, has_tls};
use crate::fields::field_value;

pub(super) const CHECKS: &[Check] = &[
    endpoints,
    weights,
    names_without_tls,
    versions,
    versions_without_tls,
    client_certificate,
    congestion,
    multipath,
    timeouts,
    credentials,
    fields,
    field_case,
    local_ends,
    socks,
    experimental,
];

fn endpoints(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.endpoints.is_empty() && upstream.attached.is_none() {
            report.add(
                format!("{path}.endpoints"),
                "the upstream has no endpoint",
                "give one, such as `10.0.0.1:443`",
            );
        }
    });
}

fn weights(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            let weight = endpoint.weight();
            if !(1..=1000).contains(&weight) {
                let path = format!("{path}.endpoints[{index}].weight");
                report.add(
                    path,
                    format!("{weight} is not a weight"),
                    "write one from 1 to 1000",
                );
            }
        }
    });
}

/// Only TLS asks for a name.
fn names_without_tls(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            if endpoint.server_name().is_some() && !has_tls(upstream) {
                let path = format!("{path}.endpoints[{index}].server_name");
                let reason = "no certificate is asked for without TLS";
                report.add(path, reason, "add `tls`, or remove it");
            }
        }
    });
}

fn versions(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let versions = upstream.http.as_deref().unwrap_or_default();
        if upstream.http.is_some() && versions.is_empty() {
            report.add(
                format!("{path}.http"),
                "no HTTP version is left",
                "remove `http` for the default, or give one",
            );
        }

        for (index, version) in versions.iter().enumerate() {
            if versions[..index].contains(version) {
                let reason = format!("HTTP version {} is listed twice", version.number());
                report.add(format!("{path}.http[{index}]"), reason, "remove one");
            }
        }
    });
}

/// Only ALPN (RFC 7301) lets two sides agree on a version, and it is part of TLS. `[2, 1]` needs no agreement: each connection is made
/// for what it is to carry.
fn versions_without_tls(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let versions = upstream.http.as_deref().unwrap_or_default();
        let [first, rest @ ..] = versions else { return };
        if versions == [HttpVersion::H2, HttpVersion::H1] {
            return;
        }
        if !has_tls(upstream) && rest.iter().any(|version| version != first) {
            let first = first.number();
            let reason = format!(
                "without TLS no version can be agreed on: only HTTP version {first} would be used"
            );
            report.add(
                format!("{path}.http"),
                reason,
                format!("write `http: {first}`, or add `tls`"),
            );
        }
    });
}

fn client_certificate(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(TlsChoice::Details(tls)) = &upstream.tls else {
            return;
        };
        match (&tls.cert_file, &tls.key_file) {
            (Some(_), None) => {
                report.add(
                    format!("{path}.tls.cert_file"),
                    "the client certificate has no key",
                    "add `key_file`",
                );
            }
            (None, Some(_)) => {
                report.add(
                    format!("{path}.tls.key_file"),
                    "the key has no client certificate",
                    "add `cert_file`",
                );
            }
            _ => {}
        }
    });
}

/// TCP cannot do without, and no kernel lets it.
fn congestion(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let is_off = upstream.congestion == Some(CongestionControl::Off);
        if is_off && upstream.http.as_deref() != Some(&[HttpVersion::H3]) {
            report.add(
                format!("{path}.congestion"),
                "only QUIC goes without congestion control, and this upstream may be reached over TCP",
                "set `http: 3`, or remove `congestion`",
            );
        }
    });
}

/// QUIC has one path at a time.
fn multipath(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.multipath && upstream.http.as_deref() == Some(&[HttpVersion::H3]) {
            report.add(
                format!("{path}.multipath"),
                "HTTP/3 does not go over TCP, whose connections alone may use several paths",
                "let `http` have 2 or 1, or remove `multipath`",
            );
        }
    });
}

/// RFC 7617, section 2: a user's name has no colon, which ends it, and no control character.
fn credentials(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(credentials) = &upstream.credentials else {
            return;
        };
        let user = &credentials.user;
        if user.is_empty() || user.contains(|letter: char| letter == ':' || letter.is_control()) {
            report.add(
                format!("{path}.credentials.user"),
                "this can be no user's name: it is empty, or has a colon or a control character",
                "write the name alone, and the password in its file",
            );
        }

        if upstream.send_token == Some(true) {
            report.add(
                format!("{path}.send_token"),
                "a request shows either the node's token or `credentials`",
                "remove one of the two",
            );
        }
    });
}

fn fields(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        for (name, value) in &upstream.fields {
            let path = child(&format!("{path}.fields"), name);
            field_name(&path, name, report);
            if let RequestField::Text(text) = value
                && field_value(text).is_none()
            {
                report.add(&path, "the value holds a control character", "remove it");
            }

            let is_shown = upstream.credentials.is_some();
            if is_shown && name.eq_ignore_ascii_case("authorization") {
                report.add(
                    &path,
                    "origins of this upstream are shown `credentials` in this field",
                    "remove one of the two",
                );
            }
        }
    });
}

/// Where connections of upstreams and to targets leave from.
fn local_ends(document: &Document, report: &mut Report) {
    let egress = &document.egress;
    local_end(
        "egress",
        &egress.local_address,
        egress.interface.as_deref(),
        report,
    );
    each_upstream(document, |path, upstream| {
        let interface = upstream.interface.as_deref();
        local_end(path, &upstream.local_address, interface, report);

        let is_elsewhere = upstream.via.is_some() || upstream.attached.is_some();
        let is_given = interface.is_some() || !upstream.local_address.is_empty();
        if is_elsewhere && is_given {
            let key = if interface.is_some() {
                "interface"
            } else {
                "local_address"
            };
            report.add(
                format!("{path}.{key}"),
                "no connection to these endpoints leaves from this machine by itself",
                "write it at the upstream that `via` names, or remove it",
            );
        }
    });
}

/// Bytes of the name of an interface, with its end (`IFNAMSIZ`).
const INTERFACE_NAME: usize = 16;

fn local_end(path: &str, addresses: &[String], interface: Option<&str>, report: &mut Report) {
    let mut families = Vec::new();
    for (index, text) in addresses.iter().enumerate() {
        let place = format!("{path}.local_address[{index}]");
        let address = text.parse::<IpAddr>().map(|address| address.to_canonical());
        match address {
            Ok(address) if address.is_unspecified() || address.is_multicast() => {
                report.add(
                    place,
                    format!("{address} is not the address of a machine"),
                    "write one of this machine",
                );
            }
            Ok(address) if families.contains(&address.is_ipv4()) => {
                report.add(
                    place,
                    "there is another one of this family",
                    "give one of IPv4 and one of IPv6",
                );
            }
            Ok(address) => families.push(address.is_ipv4()),
            Err(_) => {
                report.add(
                    place,
                    format!("`{text}` is not an IP address"),
                    "write one such as 192.0.2.7, without a port",
                );
            }
        }
    }

    let fits = |name: &str| {
        let is_odd =
            |byte: u8| byte == b'/' || byte.is_ascii_whitespace() || byte.is_ascii_control();
        (1..INTERFACE_NAME).contains(&name.len()) && !name.bytes().any(is_odd)
    };
    if interface.is_some_and(|name| !fits(name)) {
        report.add(
            format!("{path}.interface"),
            "this can be no interface's name",
            "write one such as eth0",
        );
    }
}

/// A proxy of SOCKS reads no request of HTTP.
fn socks(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.socks.is_none() {
            return;
        }
        for (key, is_given) in [
            ("attached", upstream.attached.is_some()),
            ("http", upstream.http.is_some()),
            ("early_data", upstream.early_data),
            ("warm", upstream.warm > 0),
            ("keepalive", upstream.keepalive.is_some()),
            ("templates", upstream.templates.is_some()),
            ("fields", !upstream.fields.is_empty()),
            ("send_token", upstream.send_token.is_some()),
            ("hedge", upstream.hedge.is_some()),
        ] {
            if is_given {
                let reason = "this is of HTTP, which a proxy of SOCKS does not speak";
                report.add(format!("{path}.{key}"), reason, "remove it, or `socks`");
            }
        }
    });

    for (index, route) in document.routes.iter().enumerate() {
        let Some(Terminate::Upstream(name)) = &route.terminate else {
            continue;
        };
        let upstream = document.upstreams.get(name);
        if upstream.is_some_and(|upstream| upstream.socks.is_some()) {
            report.add(
                format!("routes[{index}].terminate"),
                "a proxy of SOCKS is no end of the overlay: it connects to the targets of tunnels",
                "write `to`",
            );
        }
    }
}

/// A draft that has expired is asked for by name.
fn experimental(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(socks) = upstream.socks else { return };
        match (socks.version(), socks.is_experimental()) {
            (SocksVersion::V6, false) => report.add(
                format!("{path}.socks"),
                "SOCKS6 is a draft that has expired: it may change, or go",
                "write `{ version: 6, experimental: true }`, or 5",
            ),
            (SocksVersion::V5, _) if socks.opens_fast() => report.add(
                format!("{path}.socks.fast_open"),
                "the first message of SOCKS5 says nothing that a round trip could be saved with",
                "write `{ version: 6, experimental: true, fast_open: true }`, or `socks: 5`",
            ),
            (SocksVersion::V5, true) => report.add(
                format!("{path}.socks.experimental"),
                "nothing here is experimental",
                "write `socks: 5`",
            ),
            _ => {}
        }
    });
}

fn field_case(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let speaks_h1 = upstream
            .http
            .as_deref()
            .is_none_or(|versions| versions.contains(&HttpVersion::H1));
        if upstream.field_case == FieldCase::Preserve && !speaks_h1 {
            report.add(
                format!("{path}.field_case"),
                "names of fields have small letters over HTTP/2 and HTTP/3 (RFC 9113, 8.2)",
                "set `http: 1`, or remove `field_case`",
            );
        }
    });
}

fn timeouts(document: &Document, report: &mut Report) {
    zero_timeouts("defaults", &document.defaults.timeouts, report);
    each_upstream(document, |path, upstream| {
        zero_timeouts(path, &upstream.timeouts, report)
    });
}

pub(super) fn zero_timeouts(path: &str, timeouts: &Timeouts, report: &mut Report) {
    let times = [
        ("connect", timeouts.connect),
        ("header", timeouts.header),
        ("idle", timeouts.idle),
        ("udp", timeouts.udp),
        ("udp_unanswered", timeouts.udp_unanswered),
        ("udp_answered", timeouts.udp_answered),
    ];

    for (key, _) in times
        .into_iter()
        .filter(|(_, time)| time.is_some_and(|time| time.0.is_zero()))
    {
        let reason = "a time-out of zero lets nothing happen";
        report.add(
            format!("{path}.timeouts.{key}"),
            reason,
            "give a longer one, or remove it for the default",
        );
    }
}

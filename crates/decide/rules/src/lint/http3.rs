//! Checks of HTTP versions against TLS, UDP and proxies on the way.

use hermes_config::model::{Document, EndpointAddress, HttpVersion, ListenAddress};

use super::report::{Check, Report, each_listener, each_upstream, has_tls};
use crate::versions::versions;

pub(super) const CHECKS: &[Check] = &[
    listener_versions,
    listener_quic,
    early_data,
    upstream_quic,
    upstream_early_data,
];

fn listener_versions(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(http) = listener.http() else { return };
        let Some(stated) = &http.versions else {
            return;
        };
        let path = format!("{path}.versions");
        if stated.is_empty() {
            report.add(
                &path,
                "no HTTP version is left",
                "remove `versions` for the default, or give one",
            );
        } else if http.tls.is_none() {
            let reason = "without TLS no version can be agreed on: the client sends HTTP/1.1 or HTTP/2 as it likes";
            report.add(&path, reason, "remove `versions`, or add `tls`");
        }

        for (index, version) in stated.iter().enumerate() {
            if stated[..index].contains(version) {
                let reason = format!("HTTP version {} is listed twice", version.number());
                report.add(format!("{path}[{index}]"), reason, "remove one");
            }
        }
    });
}

/// An explicit version must be possible; the default picks one that is.
fn listener_quic(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(http) = listener.http() else { return };
        let wanted = http
            .versions
            .as_ref()
            .is_some_and(|stated| stated.contains(&HttpVersion::H3));
        if !wanted {
            return;
        }

        let path = format!("{path}.versions");
        if matches!(http.address, ListenAddress::Unix(_)) {
            report.add(
                path,
                "HTTP/3 needs a UDP port, not a Unix socket",
                "remove 3, or listen on an IP address",
            );
        } else if http.introduction.proxy_protocol.is_some() {
            let reason = "HTTP/3 has no PROXY headers: its clients would not be introduced";
            report.add(
                path,
                reason,
                "remove 3, or make a listener of its own for HTTP/3",
            );
        }
    });
}

fn early_data(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(tls) = listener.tls().filter(|tls| tls.early_data) else {
            return;
        };
        let path = format!("{path}.tls.early_data");
        if !versions(document, listener).contains(&HttpVersion::H3) {
            let reason = "early data is taken over HTTP/3 only, which the listener does not speak";
            report.add(path, reason, "add 3 to `versions`, or remove `early_data`");
        } else if tls.client_ca_file.is_some() {
            let reason = "early data comes before a client has shown its certificate";
            report.add(path, reason, "remove `early_data`, or `client_ca_file`");
        }
    });
}

fn upstream_quic(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let versions = upstream.http.as_deref().unwrap_or_default();
        if !versions.contains(&HttpVersion::H3) {
            return;
        }

        let path = format!("{path}.http");
        if !has_tls(upstream) {
            report.add(
                path,
                "HTTP/3 is always encrypted, and this upstream has no TLS",
                "add `tls`, or remove 3",
            );
        } else if upstream.proxy_protocol.is_some() {
            report.add(
                path,
                "HTTP/3 has no PROXY headers",
                "remove 3, or remove `proxy_protocol`",
            );
        } else if upstream
            .endpoints
            .iter()
            .any(|endpoint| matches!(endpoint.address(), EndpointAddress::Unix(_)))
        {
            report.add(
                path,
                "HTTP/3 does not reach a Unix socket",
                "remove 3, or make an upstream of the other endpoints",
            );
        }
    });
}

/// Before the handshake has ended, neither UDP's reachability nor the client's address is proven.
fn upstream_early_data(document: &Document, report: &mut Report) {
    let attached_to: Vec<_> = document
        .listeners
        .values()
        .filter_map(|listener| Some(listener.attach()?.upstream()))
        .collect();
    each_upstream(document, |path, upstream| {
        let path = format!("{path}.early_data");
        if !upstream.early_data {
            return;
        }

        if upstream.http.as_deref() != Some(&[HttpVersion::H3]) {
            let reason =
                "early data is sent over HTTP/3 only, without a fallback to another version";
            report.add(path, reason, "set `http: 3`, or remove `early_data`");
        } else if attached_to
            .iter()
            .any(|name| path == format!("upstreams.{name}.early_data"))
        {
            let reason = "a listener attaches to it, and `early_data` cannot be used with `attach`";
            report.add(
                path,
                reason,
                "remove `early_data`, or attach to an upstream of its own",
            );
        }
    });
}

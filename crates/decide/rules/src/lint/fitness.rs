//! Checks of how an upstream balances, checks and bounds its endpoints.

use hermes_config::model::{
    Balance, CheckKind, Document, Endpoint, EndpointAddress, HttpVersion, Upstream,
};

use super::report::{Check, Report, each_upstream, has_tls, is_token};

pub(super) const CHECKS: &[Check] = &[
    hash,
    hash_names,
    health_kind,
    health_numbers,
    udp,
    eject,
    limits,
    links,
];

fn hash(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        match (upstream.balance, &upstream.hash) {
            (Balance::RingHash, None) => {
                let remedy = "add `hash`, such as `hash: { user: true }`";
                report.add(
                    format!("{path}.hash"),
                    "`balance: ring_hash` has nothing to go by",
                    remedy,
                );
            }
            (Balance::RingHash, Some(hash)) => {
                let given = [
                    hash.field.is_some(),
                    hash.cookie.is_some(),
                    hash.source,
                    hash.user,
                ];
                if given.into_iter().filter(|given| *given).count() != 1 {
                    let remedy =
                        "write exactly one of `field`, `cookie`, `source: true` and `user: true`";
                    report.add(
                        format!("{path}.hash"),
                        "the key of the hash is not clear",
                        remedy,
                    );
                }
            }
            (_, Some(_)) => {
                let remedy = "write `balance: ring_hash`, or remove `hash`";
                report.add(
                    format!("{path}.hash"),
                    "only `balance: ring_hash` goes by it",
                    remedy,
                );
            }
            (_, None) => {}
        }
    });
}

fn hash_names(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(hash) = &upstream.hash else { return };
        for (key, name) in [("field", &hash.field), ("cookie", &hash.cookie)] {
            if let Some(name) = name.as_ref().filter(|name| !is_token(name)) {
                report.add(
                    format!("{path}.hash.{key}"),
                    format!("`{name}` is not a name"),
                    "write a token (RFC 9110)",
                );
            }
        }
    });
}

fn health_kind(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(health) = &upstream.health else {
            return;
        };
        let is = |kind| health.kind == kind;
        let keys = [
            (
                "path",
                health.path.is_some() && !is(CheckKind::Http),
                "http",
            ),
            (
                "host",
                health.host.is_some() && !is(CheckKind::Http),
                "http",
            ),
            (
                "expect",
                health.expect.is_some() && !is(CheckKind::Http),
                "http",
            ),
            ("send", health.send.is_some() && !is(CheckKind::Udp), "udp"),
        ];

        for (key, _, kind) in keys.into_iter().filter(|(_, misplaced, _)| *misplaced) {
            let reason = format!("only checks of `kind: {kind}` have it");
            report.add(
                format!("{path}.health.{key}"),
                reason,
                format!("remove it, or write `kind: {kind}`"),
            );
        }

        if let Some(wrong) = health.path.as_ref().filter(|path| !path.starts_with('/')) {
            report.add(
                format!("{path}.health.path"),
                format!("`{wrong}` is not a path"),
                "begin it with `/`",
            );
        }

        if health
            .expect
            .as_ref()
            .is_some_and(|expect| expect.is_empty())
        {
            report.add(
                format!("{path}.health.expect"),
                "no status is healthy",
                "remove it for the default, or give one",
            );
        }
    });
}

fn health_numbers(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(health) = &upstream.health else {
            return;
        };
        for (key, _) in [("interval", health.interval), ("timeout", health.timeout)]
            .into_iter()
            .filter(|(_, time)| time.is_some_and(|time| time.0.is_zero()))
        {
            let reason = "zero leaves no time for a check";
            report.add(
                format!("{path}.health.{key}"),
                reason,
                "give a longer one, or remove it for the default",
            );
        }

        for (key, _) in [("healthy", health.healthy), ("unhealthy", health.unhealthy)]
            .into_iter()
            .filter(|(_, n)| *n == Some(0))
        {
            report.add(
                format!("{path}.health.{key}"),
                "no check would be needed",
                "write 1 or more",
            );
        }
    });
}

/// UDP is sent to addresses of our own network only.
fn udp(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let udp = upstream
            .health
            .as_ref()
            .is_some_and(|health| health.kind == CheckKind::Udp);
        let is_unix = |endpoint: &Endpoint| matches!(endpoint.address(), EndpointAddress::Unix(_));
        if udp && (upstream.via.is_some() || upstream.endpoints.iter().any(is_unix)) {
            let reason = "UDP reaches neither a Unix socket nor an endpoint behind `via`";
            report.add(
                format!("{path}.health.kind"),
                reason,
                "write `kind: tcp` or `kind: http`",
            );
        }
    });
}

fn eject(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(eject) = &upstream.eject else { return };
        if eject.consecutive == Some(0) {
            report.add(
                format!("{path}.eject.consecutive"),
                "no failure would be needed",
                "write 1 or more",
            );
        }

        if eject.time.is_some_and(|time| time.0.is_zero()) {
            report.add(
                format!("{path}.eject.for"),
                "zero ejects nothing",
                "give a longer time, or remove `eject`",
            );
        }
    });
}

fn limits(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let limits = &upstream.limits;
        for (key, _) in [
            ("connections", limits.connections),
            ("streams", limits.streams),
        ]
        .into_iter()
        .filter(|(_, count)| *count == Some(0))
        {
            report.add(
                format!("{path}.limits.{key}"),
                "a limit of zero lets nothing through",
                "write 1 or more",
            );
        }
    });
}

/// Whether it may speak one of these versions.
fn may_speak(upstream: &Upstream, wanted: &[HttpVersion]) -> bool {
    upstream.http.as_deref().map_or_else(
        || has_tls(upstream),
        |stated| stated.iter().any(|one| wanted.contains(one)),
    )
}

fn links(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.warm > 0 && !may_speak(upstream, &[HttpVersion::H2, HttpVersion::H3]) {
            let reason = "only HTTP/2 and HTTP/3 have links that are kept";
            report.add(
                format!("{path}.warm"),
                reason,
                "write `http: 2`, or remove `warm`",
            );
        }

        if upstream.keepalive.is_some() && !may_speak(upstream, &[HttpVersion::H2]) {
            let reason =
                "PINGs are sent on links of HTTP/2; QUIC keeps those of HTTP/3 alive by itself";
            report.add(
                format!("{path}.keepalive"),
                reason,
                "add 2 to `http`, or remove `keepalive`",
            );
        }

        let Some(keepalive) = &upstream.keepalive else {
            return;
        };
        for (key, _) in [("every", keepalive.every), ("timeout", keepalive.timeout)]
            .into_iter()
            .filter(|(_, time)| time.is_some_and(|time| time.0.is_zero()))
        {
            let reason = "zero leaves no time for an answer";
            report.add(
                format!("{path}.keepalive.{key}"),
                reason,
                "give a longer one, or remove it for the default",
            );
        }
    });
}

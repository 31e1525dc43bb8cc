//! Rules of `route`.

use serde_json::{Value as Json, json};

use super::inbound::Inbounds;
use super::outbound::{Outbounds, refuse};
use crate::draft::{Draft, Rank, one_or_many, put};
use crate::source::Node;

/// Private addresses, as `ip_is_private` means them.
const PRIVATE: &[&str] = &[
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
];

/// Actions of rules that happen here anyway, or are not needed.
const NOTHING: &[&str] = &["sniff", "resolve", "route-options", "bypass"];

pub(super) fn convert(
    rule: &Node,
    inbounds: &Inbounds,
    outbounds: &Outbounds<'_>,
    draft: &mut Draft,
) {
    let action = rule.text("action").unwrap_or("route");
    if NOTHING.contains(&action) {
        rule.skip_all();
        return;
    }
    if action == "hijack-dns" || rule.text("outbound") == Some("dns-out") {
        rule.skip_all();
        draft.left_out(rule.line, "route rule", "questions of DNS go where they are sent; `dns` of a `tun` listener answers for names of the overlay");
        return;
    }

    let Some(matched) = condition(rule, inbounds, draft) else {
        rule.skip_all();
        return;
    };
    let refused = |status, why: &str| {
        let mut route = json!({ "match": matched });
        refuse(&mut route, status, why);
        route
    };
    match action {
        "reject" => {
            rule.skip(&["method", "no_drop"]);
            draft.route(Rank::Request, rule.line, refused(403, "rejected"));
        }
        "route" => {
            let tag = rule.text("outbound").unwrap_or_default();
            let is_direct = outbounds.route(tag, matched, rule.line, draft);
            if is_direct && rule.flag("ip_is_private") {
                let private = PRIVATE[..3].iter().map(|prefix| (*prefix).to_owned());
                draft.egress.extend(private);
            }
        }
        other => {
            let reason = format!(
                "the action {other} has no counterpart; its exchanges are answered with 501"
            );
            draft.left_out(rule.line, "route rule", reason);
            draft.route(
                Rank::Request,
                rule.line,
                refused(501, "this rule was not carried over"),
            );
        }
    }
}

/// The conditions; `None` if the rule cannot be carried, which is told of.
fn condition(rule: &Node, inbounds: &Inbounds, draft: &mut Draft) -> Option<Json> {
    for key in [
        "type",
        "invert",
        "rule_set",
        "geoip",
        "geosite",
        "source_geoip",
        "protocol",
        "process_name",
        "package_name",
        "clash_mode",
        "wifi_ssid",
    ] {
        let is_plain = key == "type" && rule.text("type") == Some("default");
        if rule.has(key) && !is_plain && (key != "invert" || rule.flag("invert")) {
            let reason = format!(
                "`{key}` is not supported, and without it the rule would match more: its exchanges meet the next rules"
            );
            draft.left_out(rule.line, "route rule", reason);
            return None;
        }
    }

    let mut matched = json!({});
    let targets = targets(rule);
    let ports = ports(rule, "port", "port_range");
    put_list(&mut matched, "target", targets);
    put_list(&mut matched, "port", ports);
    let sources = rule
        .texts("source_ip_cidr")
        .into_iter()
        .map(|prefix| json!(prefix));
    put_list(&mut matched, "source", sources.collect());
    let users = rule.texts("auth_user").into_iter().map(|user| json!(user));
    put_list(&mut matched, "user", users.collect());

    let tags = rule.texts("inbound");
    let listeners: Vec<Json> = tags
        .iter()
        .filter_map(|tag| inbounds.named(tag))
        .map(|name| json!(name))
        .collect();
    if !tags.is_empty() && listeners.is_empty() {
        draft.left_out(
            rule.line,
            "route rule",
            "none of its inbounds was converted",
        );
        return None;
    }
    put_list(&mut matched, "listener", listeners);
    let kinds = match rule.texts("network").as_slice() {
        ["tcp"] => vec![
            json!("http"),
            json!("connect"),
            json!("connect-tcp"),
            json!("upgrade"),
        ],
        ["udp"] => vec![json!("connect-udp")],
        _ => Vec::new(),
    };
    put_list(&mut matched, "kind", kinds);
    if matched.as_object().is_some_and(serde_json::Map::is_empty) {
        draft.left_out(
            rule.line,
            "route rule",
            "none of its conditions can be converted",
        );
        return None;
    }
    Some(matched)
}

/// Names and addresses, of which one has to fit.
fn targets(rule: &Node) -> Vec<Json> {
    let mut targets = Vec::new();
    for domain in rule.texts("domain") {
        targets.push(json!(domain));
    }
    for suffix in rule.texts("domain_suffix") {
        match suffix.strip_prefix('.') {
            Some(below) => targets.push(json!(format!("*.{below}"))),
            None => targets.extend([json!(suffix), json!(format!("*.{suffix}"))]),
        }
    }
    for keyword in rule.texts("domain_keyword") {
        targets.push(json!(format!("~{}", regex::escape(keyword))));
    }
    for expression in rule.texts("domain_regex") {
        targets.push(json!(format!("~{expression}")));
    }
    for prefix in rule.texts("ip_cidr") {
        let has_length = prefix.contains('/');
        targets.push(if has_length {
            json!(prefix)
        } else {
            json!(bracketed(prefix))
        });
    }
    if rule.flag("ip_is_private") {
        targets.extend(PRIVATE.iter().map(|prefix| json!(prefix)));
    }
    targets
}

fn bracketed(address: &str) -> String {
    match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

fn ports(rule: &Node, one: &str, range: &str) -> Vec<Json> {
    let single = rule
        .texts(one)
        .into_iter()
        .filter_map(|port| port.parse::<u16>().ok());
    let mut ports: Vec<Json> = single.map(|port| json!(port)).collect();
    for range in rule.texts(range) {
        let (from, to) = range.split_once(':').unwrap_or((range, range));
        let from = if from.is_empty() { "1" } else { from };
        let to = if to.is_empty() { "65535" } else { to };
        ports.push(json!(format!("{from}-{to}")));
    }
    ports
}

fn put_list(matched: &mut Json, key: &str, values: Vec<Json>) {
    if !values.is_empty() {
        put(matched, key, one_or_many(values));
    }
}

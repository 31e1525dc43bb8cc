//! sing-box: inbounds become listeners, outbounds become actions and upstreams, and the rules of `route` become routes.

mod credentials;
mod inbound;
mod outbound;
mod rule;

use serde_json::json;

use crate::draft::{Draft, Rank, put};
use crate::source::Node;
use crate::unreadable::Unreadable;
use outbound::Outbounds;

pub(crate) fn convert(root: &Node, draft: &mut Draft) -> Result<(), Unreadable> {
    root.skip(&["$schema"]);
    log(root, draft);
    let outbounds = Outbounds::new(root, draft);
    let inbounds = inbound::convert_all(root.list("inbounds"), draft);
    if inbounds.is_empty() {
        return Err(Unreadable::new(
            "none of its inbounds can be converted: those of the types http, mixed, direct and tun can",
        ));
    }

    let route = root.field("route");
    if let Some(route) = route {
        route.skip(&[
            "auto_detect_interface",
            "default_domain_resolver",
            "find_process",
            "override_android_vpn",
        ]);
        for rule in route.list("rules") {
            rule::convert(rule, &inbounds, &outbounds, draft);
        }
    }
    last(root, &outbounds, draft);

    if let Some(dns) = root.field("dns") {
        dns.skip_all();
        draft.left_out(
            dns.line,
            "dns",
            "names are looked up by the system's resolver where the overlay ends; `dns` of a `tun` listener answers for names of the overlay",
        );
    }
    if let Some(tun) = &inbounds.tun {
        draft.route(Rank::Tunnel, root.line, tun.clone());
    }
    draft.note_unread(root);
    Ok(())
}

/// The exchanges that no rule takes.
fn last(root: &Node, outbounds: &Outbounds<'_>, draft: &mut Draft) {
    outbounds.route(outbounds.default_tag(root), json!({}), root.line, draft);
}

fn log(root: &Node, draft: &mut Draft) {
    let Some(log) = root.field("log") else { return };
    log.skip(&["timestamp"]);
    let level = match log.text("level") {
        Some("trace") => "trace",
        Some("debug") => "debug",
        Some("warn") => "warn",
        Some("error" | "fatal" | "panic") => "error",
        _ => "info",
    };
    let mut said = json!({ "level": level });
    if let Some(file) = log.text("output") {
        put(&mut said, "file", json!(file));
    }
    if log.flag("disabled") {
        said = json!({ "level": "error", "access": "off" });
    }
    draft.top.insert("log".to_owned(), said);
}

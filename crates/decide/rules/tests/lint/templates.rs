//! Findings of URI templates.

use serde_json::json;

use super::finds;

#[test]
fn a_listener_serves_templates_that_can_be_read_in_one_way() {
    let udp = |udp| json!({ "listeners": { "web": { "templates": { "udp": udp } } } });
    finds(udp(json!("/masque{?target_host,target_port}")), &[]);
    finds(
        udp(json!([
            "/a/{target_host}/{target_port}",
            "/b/{target_host}/{target_port}/"
        ])),
        &[],
    );
    finds(
        udp(json!("/a/{target_host}-{target_port}")),
        &[
            "listeners.web.templates.udp[0]: in `/a/{target_host}-{target_port}` it is not certain where a value ends; \
           put a character such as `/` after each variable that something follows",
        ],
    );
    finds(
        udp(json!([
            "https://proxy.example:4443/a/{target_host}/{target_port}"
        ])),
        &[
            "listeners.web.templates.udp[0]: the template of a listener is a path: its host is whatever leads here; \
           write `/a/{target_host}/{target_port}`",
        ],
    );
    finds(
        udp(json!([
            "/{target_host}/{target_port}",
            "/{target_host}/{target_port}"
        ])),
        &["listeners.web.templates.udp[1]: it is the same as the one at [0]; remove one"],
    );
}

#[test]
fn what_rfc_9298_forbids_is_found() {
    finds(
        json!({
            "listeners": { "web": { "templates": { "udp": ["/{target_host}/{+target_port}"] } } },
            "upstreams": { "next": { "templates": { "udp": "/{target_host}/{target_port}#x" } } },
        }),
        &[
            "listeners.web.templates.udp[0]: `{+...}` is not allowed (RFC 9298, section 2); \
             write `{target_host}`, `{?target_host}` or `{&target_host}`",
            "upstreams.next.templates.udp: a fragment (`#`) never reaches a proxy; remove it",
        ],
    );
    finds(
        json!({ "upstreams": { "next": { "templates": { "udp": "https://p.example/{target_host}-{target_port}" } } } }),
        &[],
    );
}

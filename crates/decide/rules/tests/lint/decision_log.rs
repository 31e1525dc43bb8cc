//! Checks of the log of decisions.

use serde_json::json;

use super::finds;

#[test]
fn decisions_are_logged_in_one_place() {
    finds(
        json!({ "log": { "decisions": {} } }),
        &[
            "log.decisions: neither a file nor a URL for decisions is named; add `file: decisions.json`, or `url: http://HOST:PORT/logs`",
        ],
    );
    finds(
        json!({ "log": { "decisions": { "file": "a", "url": "http://127.0.0.1:1/logs" } } }),
        &["log.decisions.file: decisions are logged in one place; keep either `file` or `url`"],
    );
    finds(
        json!({ "log": { "decisions": { "file": "a", "sample": "1%", "mask": [] } } }),
        &[],
    );
}

#[test]
fn tls_is_for_a_service_that_is_reached_over_it() {
    let tls = json!({ "insecure_skip_verify": true });
    let reason = "log.decisions.tls: decisions are not sent over TLS; write `url: https://...`, or remove it";
    for place in [
        json!({ "file": "a", "tls": tls }),
        json!({ "url": "http://127.0.0.1:1", "tls": tls }),
    ] {
        finds(json!({ "log": { "decisions": place } }), &[reason]);
    }
    let https = json!({ "url": "https://127.0.0.1:1", "tls": tls });
    finds(json!({ "log": { "decisions": https } }), &[]);
}

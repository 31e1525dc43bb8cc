//! Findings of connections from here, beside a next proxy.

use serde_json::{Value, json};

use super::finds;

fn route(keys: Value) -> Value {
    let mut route = json!({ "to": "next" });
    super::merge(&mut route, keys);
    json!({ "routes": [route] })
}

#[test]
fn a_way_beside_a_proxy_needs_the_proxy_and_bytes_that_it_does_not_change() {
    let fallback = json!({ "direct": "fallback" });
    finds(route(json!({ "tunnel": fallback })), &[]);
    finds(
        json!({ "routes": [{ "terminate": true, "tunnel": fallback }] }),
        &[
            "routes[0].tunnel.direct: `tunnel.direct` stands beside a next proxy, and this route has none; add `to`, or remove it",
        ],
    );
    finds(
        route(json!({ "tunnel": { "direct": "fallback", "answer": "early" } })),
        &[
            "routes[0].tunnel.direct: clients that are answered early have sent bytes before it is known which way is open; \
             remove `tunnel.direct`, or `tunnel.answer`",
        ],
    );
}

#[test]
fn a_head_start_is_short() {
    for (after, is_fine) in [
        ("250ms", true),
        ("10s", true),
        ("11s", false),
        ("0s", false),
    ] {
        let said = "routes[0].tunnel.direct.after: a head start is between 1ms and 10 s; write a time such as `250ms`";
        let expected: &[&str] = if is_fine { &[] } else { &[said] };
        finds(
            route(json!({ "tunnel": { "direct": { "after": after } } })),
            expected,
        );
    }
}

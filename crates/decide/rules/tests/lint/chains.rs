//! Checks of chains.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings with a route to this chain, and these upstreams besides.
#[track_caller]
fn finds_in(to: Value, upstreams: Value, expected: &[&str]) {
    let routes = json!([{ "match": { "target": "CHAINED" }, "to": to }, { "to": "next" }]);
    finds(
        json!({ "routes": routes, "upstreams": upstreams }),
        expected,
    );
}

#[test]
fn hops_that_are_not_there_or_too_many() {
    let tls = || json!({ "endpoints": ["a.example:443"], "tls": true });
    let upstreams = || json!({ "a": tls(), "b": tls(), "c": tls(), "d": tls(), "e": tls() });
    finds_in(json!(["a", "b", "c", "d"]), upstreams(), &[]);
    finds_in(
        json!(["a", "b", "c", "d", "e"]),
        upstreams(),
        &["routes[0].to: the chain has 5 hops, and 4 are the most; leave some out"],
    );
    finds_in(
        json!(["a", "bb"]),
        upstreams(),
        &["routes[0].to[1]: there is no upstream `bb`; did you mean `b`?"],
    );
    finds_in(
        json!(["a", "b", "a"]),
        upstreams(),
        &["routes[0].to[2]: the chain passes `a` twice; remove one"],
    );
    finds_in(
        json!([]),
        upstreams(),
        &[
            "routes[0].to: the chain has no hop; name the upstreams that are passed, the nearest first",
        ],
    );
}

#[test]
fn hops_that_cannot_stand_behind_another() {
    let upstreams = json!({
        "a": { "endpoints": ["a.example:80"] },
        "clear": { "endpoints": ["b.example:80"] },
        "local": { "endpoints": ["unix:/b"], "tls": { "server_name": "b" } },
        "own": { "endpoints": ["b.example:443"], "tls": true, "via": "a" },
    });
    finds_in(
        json!(["a", "clear"]),
        upstreams.clone(),
        &[
            "routes[0].to[1]: `clear` has no TLS, so `a` could read all that is meant for `clear`; add `tls` to `clear`; \
           if that is meant, give it `via: a` and write `to: clear`",
        ],
    );
    finds_in(
        json!(["a", "local"]),
        upstreams.clone(),
        &["routes[0].to[1]: `a` cannot reach the Unix socket of `local`; write a host and a port"],
    );
    finds_in(
        json!(["clear", "own"]),
        upstreams,
        &[
            "routes[0].to[1]: `own` is reached through `clear` here, and has `via: a` of its own; \
           remove its `via`, or make an upstream without",
        ],
    );
}

#[test]
fn ways_that_are_too_long() {
    let through = |via: &str| json!({ "endpoints": ["x.example:443"], "tls": true, "via": via });
    let upstreams = json!({
        "a": { "endpoints": ["a.example:443"], "tls": true },
        "b": through("a"), "c": through("b"), "d": through("c"), "e": through("d"), "f": through("e"),
        "z": { "endpoints": ["z.example:443"], "tls": true },
    });
    finds_in(
        json!("a"),
        upstreams.clone(),
        &["upstreams.f.via: more than 4 proxies are on the way to it; leave some out"],
    );
    finds_in(
        json!(["d", "z"]),
        upstreams,
        &[
            "routes[0].to: with the `via` of `d` the chain is longer than 4 hops; leave some out",
            "upstreams.f.via: more than 4 proxies are on the way to it; leave some out",
        ],
    );
    finds_in(
        json!("a > b"),
        json!({ "a > b": { "endpoints": ["a.example:80"] } }),
        &[
            "upstreams[\"a > b\"]: names with ` > ` in them are those of chains; choose another name",
        ],
    );
}

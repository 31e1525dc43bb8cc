//! Checks of authorisation servers.

use serde_json::{Value, json};

use super::finds;

/// The sound document with these filters.
fn authorize(filters: Value) -> Value {
    json!({ "authorize": filters })
}

#[test]
fn a_sound_filter_is_not_reported() {
    let opa = json!({ "name": "opa", "kind": "opa", "upstream": "next", "path": "/v1/data/a", "send": ["*"] });
    finds(
        authorize(json!([opa, { "name": "check", "upstream": "next", "body": "json" }])),
        &[],
    );
}

#[test]
fn names_upstreams_and_paths() {
    finds(
        authorize(json!([
            { "name": "a b", "upstream": "nex" },
            { "name": "a", "upstream": "next", "path": "check" },
            { "name": "a", "kind": "opa", "upstream": "next", "body": "json" },
        ])),
        &[
            "authorize[0].name: `a b` cannot be a filter's name; write letters, digits and `-`",
            "authorize[1].name: several filters have the name `a`; give each its own",
            "authorize[2].name: several filters have the name `a`; give each its own",
            "authorize[0].upstream: there is no upstream `nex`; did you mean `next`?",
            "authorize[1].path: `check` is not a path; write one such as /check",
            "authorize[2].path: OPA has no decision to give; write one such as /v1/data/overlay/allow",
            "authorize[2].body: OPA always gets its own JSON; remove it",
        ],
    );
}

#[test]
fn a_grpc_server_has_a_path_and_a_message_of_its_own() {
    let filters = json!([
        { "name": "a", "kind": "grpc", "url": "http://127.0.0.1:1/", "body": "json" },
        { "name": "b", "kind": "grpc", "url": "http://127.0.0.1:1/check" },
        { "name": "c", "kind": "grpc", "upstream": "plain" },
    ]);
    finds(
        json!({ "authorize": filters, "upstreams": { "plain": { "endpoints": ["127.0.0.1:1"], "http": 1 } } }),
        &[
            "authorize[2].upstream: gRPC needs HTTP/2, which the upstream `plain` does not speak; write `http: 2` there",
            "authorize[1].path: gRPC has a path of its own; remove it",
            "authorize[0].body: a gRPC server always gets its own message; remove it",
        ],
    );
}

#[test]
fn times_and_fields_that_cannot_be() {
    finds(
        authorize(json!([{
            "name": "a", "upstream": "next", "timeout": "0s", "cache": { "for": "2h" },
            "send": ["proxy-authorization", "te"], "recheck": "25h", "grace": "61m", "allow_fields": ["Host", "x-role"],
        }])),
        &[
            "authorize[0].timeout: the time cannot be kept; write a time up to 60s",
            "authorize[0].recheck: the time cannot be kept; write a time up to 86400s",
            "authorize[0].cache.for: the time cannot be kept; write a time up to 3600s",
            "authorize[0].grace: a tunnel goes on for too long without a decision; write a time up to 3600s",
            "authorize[0].send[1]: `te` belongs to the connection or to the proxy; remove it",
            "authorize[0].allow_fields[0]: `host` belongs to the connection or to the proxy; remove it",
        ],
    );
}

#[test]
fn a_policy_that_is_evaluated_here_needs_no_server() {
    let rego = json!({ "files": ["a.rego"], "query": "data.a.b" });
    finds(
        authorize(json!([{ "name": "a", "rego": rego, "allow_fields": ["x-a"], "recheck": "1m" }])),
        &[],
    );
    let rego = json!({ "files": ["a.rego"], "query": "data.allow", "memory": "1KiB" });
    finds(
        authorize(json!([{
            "name": "a", "rego": rego, "upstream": "next", "kind": "opa", "body": "json", "send": ["x"],
            "fail": "open", "cache": { "for": "1s" },
        }])),
        &[
            "authorize[0].kind: `kind` is for servers, and the policy is evaluated here; remove one of them",
            "authorize[0].upstream: `upstream` is for servers, and the policy is evaluated here; remove one of them",
            "authorize[0].send: `send` is for servers, and the policy is evaluated here; remove one of them",
            "authorize[0].body: `body` is for servers, and the policy is evaluated here; remove one of them",
            "authorize[0].cache: `cache` is for servers, and the policy is evaluated here; remove one of them",
            "authorize[0].fail: a policy that cannot decide never opens: a client may be the reason; remove it",
            "authorize[0].rego.query: `data.allow` names no rule; write one such as data.overlay.allow",
            "authorize[0].rego.memory: no policy can be evaluated in so little; write at least 64KiB",
            "authorize[0].body: OPA always gets its own JSON; remove it",
        ],
    );
}

#[test]
fn conditions_are_checked_as_those_of_routes() {
    finds(
        authorize(json!([{ "name": "a", "upstream": "next", "match": { "listener": "wep" } }])),
        &["authorize[0].match.listener[0]: there is no listener `wep`; did you mean `web`?"],
    );
}

#[test]
fn one_server_is_named_once() {
    finds(
        authorize(json!([
            { "name": "a" },
            { "name": "b", "upstream": "next", "url": "http://127.0.0.1:1" },
            { "name": "c", "url": "http://127.0.0.1:1/check", "path": "/check" },
            { "name": "d", "url": "http://127.0.0.1:1/v1/data/a", "kind": "opa" },
        ])),
        &[
            "authorize[0].url: no server is named; write one such as http://127.0.0.1:9191, or an `upstream`",
            "authorize[1].url: the server is named twice; write `url` or `upstream`, not both",
            "authorize[2].path: the url has a path already; write the path in one of them",
        ],
    );
}

#[test]
fn tls_is_for_a_server_that_a_url_reaches_over_it() {
    let tls = json!({ "insecure_skip_verify": true });
    let said = "the server is not reached over TLS by a `url`; write `url: https://...`, or put it into the upstream";
    finds(
        authorize(json!([
            { "name": "a", "url": "https://a.example:443/check", "tls": tls },
            { "name": "b", "url": "http://a.example:80/check", "tls": tls },
            { "name": "c", "upstream": "next", "tls": tls },
        ])),
        &[
            &format!("authorize[1].tls: {said}"),
            &format!("authorize[2].tls: {said}"),
        ],
    );
}

#[test]
fn a_filter_of_the_program_is_no_server() {
    finds(authorize(json!([{ "name": "a", "filter": "check" }])), &[]);
    finds(
        authorize(json!([
            { "name": "a", "filter": "check", "upstream": "next", "send": ["*"], "timeout": "1s" },
        ])),
        &[
            "authorize[0].upstream: `upstream` is for servers, and `filter` names a part of the program; remove one of them",
            "authorize[0].send: `send` is for servers, and `filter` names a part of the program; remove one of them",
        ],
    );
}

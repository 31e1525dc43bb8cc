//! Checks of changes to fields and paths.

use serde_json::json;

use super::finds;

const RESERVED: &str = "belongs to the connection or to the proxy and cannot be changed; remove it";

#[test]
fn fields_that_cannot_be_written() {
    finds(
        json!({
            "listeners": { "web": { "set": { "Host": "x", "service": "db" } } },
            "routes": [{ "to": "next", "append": { "Transfer-Encoding": "x", "a b": "x" } }],
        }),
        &[
            &format!("listeners.web.set.Host: `Host` {RESERVED}"),
            &format!("routes[0].append.Transfer-Encoding: `Transfer-Encoding` {RESERVED}"),
            "routes[0].append[\"a b\"]: `a b` cannot be a field's name; write a name of letters, digits and `-`",
        ],
    );
}

#[test]
fn connection_framing_and_proxy_fields_are_reserved() {
    for name in [
        "connection",
        "content-length",
        "transfer-encoding",
        "host",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "via",
    ] {
        finds(
            json!({ "listeners": { "web": { "set": { name: "x" } } } }),
            &[&format!("listeners.web.set.{name}: `{name}` {RESERVED}")],
        );
    }
}

#[test]
fn values_with_control_characters() {
    finds(
        json!({ "listeners": { "web": { "set": { "service": "a\tb" } } } }),
        &["listeners.web.set.service: the value holds a control character; remove it"],
    );
}

#[test]
fn fields_that_cannot_be_removed() {
    finds(
        json!({ "routes": [{ "to": "next", "remove": ["service", "Host", "x-*"] }] }),
        &[&format!("routes[0].remove[1]: `host` {RESERVED}")],
    );
}

#[test]
fn fields_of_a_local_answer() {
    finds(
        json!({ "routes": [{ "respond": {
            "status": 200, "fields": { "content-length": "3", "x": "a\nb", "content-type": "text/plain" },
        } }] }),
        &[
            &format!("routes[0].respond.fields.content-length: `content-length` {RESERVED}"),
            "routes[0].respond.fields.x: the value holds a control character; remove it",
        ],
    );
}

#[test]
fn rewritten_paths_that_are_no_paths() {
    let remedy = "begin with `/`, without `.` and `..`, and percent-encode space, `?`, `#` and characters beyond ASCII";
    finds(
        json!({ "routes": [{ "to": "next", "rewrite": { "path": { "prefix": "org/", "with": "/a?b" } } }] }),
        &[
            &format!(
                "routes[0].rewrite.path.prefix: \"org/\" is not the beginning of a path; {remedy}"
            ),
            &format!(
                "routes[0].rewrite.path.with: \"/a?b\" is not the beginning of a path; {remedy}"
            ),
        ],
    );
}

#[test]
fn answers_are_changed_as_requests_are() {
    finds(
        json!({ "routes": [{ "to": "next", "answer": {
            "set": { "content-length": "1", "a b": "x" }, "append": { "via": "x" }, "remove": ["connection", "content-*"],
        } }] }),
        &[
            "routes[0].answer.set.content-length: `content-length` belongs to the connection or to the proxy and cannot be changed; remove it",
            "routes[0].answer.set[\"a b\"]: `a b` cannot be a field's name; write a name of letters, digits and `-`",
            "routes[0].answer.append.via: `via` belongs to the connection or to the proxy and cannot be changed; remove it",
            "routes[0].answer.remove[0]: `connection` belongs to the connection or to the proxy and cannot be changed; remove it",
        ],
    );
}

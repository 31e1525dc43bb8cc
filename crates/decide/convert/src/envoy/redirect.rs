//! Redirects and answers that Envoy gives itself.

use serde_json::{Value as Json, json};

use super::extension::{DataSource, data_source};
use super::matcher::{Replaced, Unmatched};
use crate::source::Node;

/// An answer that is made here.
pub(super) fn respond(answer: &Node) -> Result<Json, Unmatched> {
    let status = answer.number("status").unwrap_or(200);
    if !(200..600).contains(&status) {
        let reason = format!("{status} is not a status of an answer");
        return Err(Unmatched::new(answer, &reason));
    }
    let mut respond = json!({ "status": status });
    if let Some(body) = answer.field("body") {
        match data_source(body) {
            DataSource::Inline(text) => respond["body"] = json!(text),
            DataSource::File(_) | DataSource::Other => {
                let reason = "content of an answer stands in the configuration itself, as text";
                return Err(Unmatched::new(body, reason));
            }
        }
    }
    Ok(respond)
}

/// A redirect. `is_tls` says by which scheme its requests come.
pub(super) fn convert(
    redirect: &Node,
    replaced: Option<&Replaced>,
    is_tls: bool,
) -> Result<Json, Unmatched> {
    let status = match redirect
        .text("response_code")
        .unwrap_or("MOVED_PERMANENTLY")
    {
        "MOVED_PERMANENTLY" => 301,
        "FOUND" => 302,
        "SEE_OTHER" => 303,
        "TEMPORARY_REDIRECT" => 307,
        "PERMANENT_REDIRECT" => 308,
        other => {
            let reason = format!("{other} is not the status of a redirect");
            return Err(Unmatched::new(redirect, &reason));
        }
    };
    let path = path(redirect, replaced)?;
    let origin = origin(redirect, is_tls);
    let strips = redirect.flag("strip_query");
    let query = match (strips, path.ends_with("{path}")) {
        // A location that ends with `{path}` goes on with the query by itself.
        (true, true) => {
            let reason = "a location that ends with the path keeps the query";
            return Err(Unmatched::new(redirect, reason));
        }
        (true, false) | (false, true) => "",
        (false, false) => "{query}",
    };
    Ok(json!({ "location": format!("{origin}{path}{query}"), "status": status }))
}

/// Scheme, host and port; nothing where they stay.
fn origin(redirect: &Node, is_tls: bool) -> String {
    let https = redirect.flag("https_redirect");
    let scheme = redirect.text("scheme_redirect");
    let host = redirect.text("host_redirect");
    let port = redirect.number("port_redirect");
    if !https && scheme.is_none() && host.is_none() && port.is_none() {
        return String::new();
    }

    let present = if is_tls { "https" } else { "http" };
    let scheme = match https {
        true => "https",
        false => scheme.unwrap_or(present),
    };
    let host = host.map_or_else(
        || "{target.host}".to_owned(),
        |host| host.replace('{', "{{"),
    );
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}")
}

fn path(redirect: &Node, replaced: Option<&Replaced>) -> Result<String, Unmatched> {
    if let Some(path) = redirect.text("path_redirect") {
        return Ok(path.replace('{', "{{"));
    }
    if let Some(expression) = redirect.field("regex_rewrite") {
        expression.skip_all();
        let reason = "a redirect cannot replace what an expression finds";
        return Err(Unmatched::new(expression, reason));
    }
    let Some(prefix) = redirect.text("prefix_rewrite") else {
        return Ok("{path}".to_owned());
    };
    match replaced {
        Some(Replaced::Path(_)) => Ok(prefix.replace('{', "{{")),
        // All of the path is behind the prefix.
        Some(Replaced::Prefix(before)) if before == "/" => {
            Ok(format!("{}{{path}}", prefix.trim_end_matches('/')))
        }
        _ => {
            let reason = "a redirect cannot replace a part of the path";
            Err(Unmatched::new(redirect, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    fn location(text: &str, replaced: Option<&Replaced>) -> Option<String> {
        let redirect = convert(&read(text).unwrap(), replaced, false).ok()?;
        Some(redirect["location"].as_str()?.to_owned())
    }

    #[test]
    fn locations_are_those_that_envoy_writes() {
        let of = |text| location(text, None).unwrap();
        assert_eq!(of("https_redirect: true"), "https://{target.host}{path}");
        assert_eq!(of("host_redirect: b.example"), "http://b.example{path}");
        assert_eq!(of("path_redirect: /new"), "/new{query}");
        assert_eq!(of("{ path_redirect: /new, strip_query: true }"), "/new");
        let all = Replaced::Prefix("/".to_owned());
        let text = "{ host_redirect: b, prefix_rewrite: /x/ }";
        assert_eq!(location(text, Some(&all)).unwrap(), "http://b/x{path}");
        let some = Replaced::Prefix("/a".to_owned());
        assert_eq!(location("prefix_rewrite: /b", Some(&some)), None);
    }
}

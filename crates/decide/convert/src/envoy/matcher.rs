//! Conditions of routes.

use serde_json::{Value as Json, json};

use super::scope::Tunnels;
use crate::draft::{one_or_many, put};
use crate::source::Node;

/// A condition that cannot be carried.
pub(super) struct Unmatched {
    pub(super) line: u32,
    pub(super) reason: String,
}

impl Unmatched {
    pub(super) fn new(node: &Node, reason: &str) -> Self {
        Self {
            line: node.line,
            reason: reason.to_owned(),
        }
    }
}

/// The condition of a route.
pub(super) struct Condition {
    /// As far as it can be carried.
    pub(super) json: Json,
    pub(super) is_tunnel: bool,
    /// The prefix or the whole path, which a rewrite replaces.
    pub(super) replaced: Option<Replaced>,
    /// The condition takes every request of its host.
    pub(super) is_everything: bool,
    /// The conditions that cannot be expressed.
    pub(super) missing: Vec<Unmatched>,
}

/// The part of a path that Envoy replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Replaced {
    Prefix(String),
    Path(String),
}

/// The condition under `match`. Tunnels are those that `upgrades` of the route or of the connection manager name.
pub(super) fn convert(matched: &Node, tunnels: Tunnels) -> Condition {
    let mut condition = Condition {
        json: json!({}),
        is_tunnel: false,
        replaced: None,
        is_everything: false,
        missing: Vec::new(),
    };
    path(matched, tunnels, &mut condition);

    for header in matched.list("headers") {
        if let Err(missing) = header_condition(header, &mut condition.json) {
            condition.missing.push(missing);
        }
        condition.is_everything = false;
    }
    for key in [
        "query_parameters",
        "dynamic_metadata",
        "tls_context",
        "filter_state",
        "cookies",
    ] {
        if let Some(node) = matched.field(key) {
            node.skip_all();
            let reason = format!("`{key}` is no condition here");
            condition.missing.push(Unmatched::new(node, &reason));
        }
    }
    if let Some(fraction) = matched.field("runtime_fraction") {
        fraction.skip_all();
        let reason = "a share of the requests is no condition here; weights of `to` split them";
        condition.missing.push(Unmatched::new(fraction, reason));
    }
    if matched.flag("grpc") || matched.has("grpc") {
        matched.skip(&["grpc"]);
        put_field(
            &mut condition.json,
            "content-type",
            json!("~^application/grpc"),
        );
    }
    condition
}

fn path(matched: &Node, tunnels: Tunnels, condition: &mut Condition) {
    let folds_case = matched.choice("case_sensitive") == Some(false);
    if let Some(connect) = matched.field("connect_matcher") {
        connect.skip_all();
        condition.is_tunnel = true;
        put(&mut condition.json, "kind", tunnels.kinds());
        return;
    }

    let paths = if let Some(prefix) = matched.text("prefix") {
        condition.replaced = Some(Replaced::Prefix(prefix.to_owned()));
        condition.is_everything = prefix == "/" || prefix.is_empty();
        by_prefix(prefix, folds_case)
    } else if let Some(path) = matched.text("path") {
        condition.replaced = Some(Replaced::Path(path.to_owned()));
        vec![by_path(path, folds_case)]
    } else if let Some(prefix) = matched.text("path_separated_prefix") {
        condition.replaced = Some(Replaced::Prefix(prefix.to_owned()));
        let within = format!("{}/", prefix.trim_end_matches('/'));
        let mut paths = vec![by_path(prefix, folds_case)];
        paths.extend(by_prefix(&within, folds_case));
        paths
    } else if let Some(expression) = matched.field("safe_regex") {
        expression.skip(&["google_re2"]);
        let text = expression.text("regex").unwrap_or_default();
        if regex::Regex::new(text).is_err() {
            let missing = Unmatched::new(expression, "this expression cannot be read");
            condition.missing.push(missing);
        }
        vec![whole_regex(text, folds_case)]
    } else {
        let reason = "this kind of path is no condition here";
        condition.missing.push(Unmatched::new(matched, reason));
        Vec::new()
    };
    if !paths.is_empty() {
        put(&mut condition.json, "path", one_or_many(paths));
    }
}

/// Paths with this prefix; empty for all.
fn by_prefix(prefix: &str, folds_case: bool) -> Vec<Json> {
    if prefix == "/" || prefix.is_empty() {
        return Vec::new();
    }
    if prefix.ends_with('/') && prefix.starts_with('/') && !folds_case && is_plain(prefix) {
        return vec![json!(format!("{prefix}*"))];
    }
    let case = if folds_case { "(?i)" } else { "" };
    vec![json!(format!("~{case}^{}", regex::escape(prefix)))]
}

fn by_path(path: &str, folds_case: bool) -> Json {
    match path.starts_with('/') && !folds_case && is_plain(path) {
        true => json!(path),
        false => {
            let case = if folds_case { "(?i)" } else { "" };
            json!(format!("~{case}^{}$", regex::escape(path)))
        }
    }
}

fn is_plain(path: &str) -> bool {
    !path.contains(['*', '?', '#'])
}

/// An expression that the whole text has to match.
fn whole_regex(text: &str, folds_case: bool) -> Json {
    let case = if folds_case { "(?i)" } else { "" };
    json!(format!("~{case}^(?:{text})$"))
}

/// A condition on a text.
enum TextCondition {
    Is(String),
    Matches(String),
}

impl TextCondition {
    fn json(&self) -> Json {
        match self {
            Self::Is(text) if text.starts_with('~') => {
                json!(format!("~^{}$", regex::escape(text)))
            }
            Self::Is(text) => json!(text),
            Self::Matches(expression) => json!(format!("~{expression}")),
        }
    }
}

/// A matcher of texts (`type.matcher.v3.StringMatcher`), or the older keys of a header.
fn text_condition(node: &Node) -> Option<TextCondition> {
    let case = if node.flag("ignore_case") { "(?i)" } else { "" };
    let escaped = |text: &str| regex::escape(text);
    for key in ["exact", "exact_match"] {
        if let Some(text) = node.text(key) {
            return Some(match case {
                "" => TextCondition::Is(text.to_owned()),
                case => TextCondition::Matches(format!("{case}^{}$", escaped(text))),
            });
        }
    }

    let expression = if let Some(text) = node.text("prefix").or(node.text("prefix_match")) {
        format!("{case}^{}", escaped(text))
    } else if let Some(text) = node.text("suffix").or(node.text("suffix_match")) {
        format!("{case}{}$", escaped(text))
    } else if let Some(text) = node.text("contains").or(node.text("contains_match")) {
        format!("{case}{}", escaped(text))
    } else {
        let regex = node
            .field("safe_regex")
            .or(node.field("safe_regex_match"))?;
        regex.skip(&["google_re2"]);
        let text = regex
            .text("regex")
            .filter(|text| regex::Regex::new(text).is_ok())?;
        format!("{case}^(?:{text})$")
    };
    Some(TextCondition::Matches(expression))
}

fn header_condition(header: &Node, json: &mut Json) -> Result<(), Unmatched> {
    let name = header.text("name").unwrap_or_default().to_ascii_lowercase();
    let is_inverted = header.flag("invert_match");
    header.skip(&["treat_missing_header_as_empty"]);
    if let Some(is_present) = header.choice("present_match") {
        put_field(json, &name, json!(is_present != is_inverted));
        return Ok(());
    }

    let matcher = header.field("string_match").unwrap_or(header);
    let Some(condition) = text_condition(matcher) else {
        let is_bare = header
            .entries()
            .all(|(key, _)| key == "name" || key == "invert_match");
        if is_bare {
            put_field(json, &name, json!(!is_inverted));
            return Ok(());
        }
        header.skip_all();
        return Err(Unmatched::new(
            header,
            "this condition on a header has no counterpart",
        ));
    };
    if is_inverted {
        let reason = "a header that must not have a value is no condition here; put a route for that value before this one";
        return Err(Unmatched::new(header, reason));
    }

    match (name.as_str(), &condition) {
        (":method", TextCondition::Is(method)) => put(json, "method", json!(method)),
        (":authority", TextCondition::Is(host)) => put(json, "authority", json!(host)),
        (":path", _) => {
            let reason = "`:path` has the query, which is no condition here";
            return Err(Unmatched::new(header, reason));
        }
        (name, _) if name.starts_with(':') => {
            let reason = "this condition on a pseudo-header has no counterpart";
            return Err(Unmatched::new(header, reason));
        }
        (name, condition) => put_field(json, name, condition.json()),
    }
    Ok(())
}

fn put_field(json: &mut Json, name: &str, value: Json) {
    if json.get("fields").is_none() {
        put(json, "fields", json!({}));
    }
    json["fields"][name] = value;
}

/// The domains of a virtual host, in our words; empty for any.
pub(super) fn domains(host: &Node) -> Vec<Json> {
    let domain = |domain: &str| {
        let lower = domain.to_ascii_lowercase();
        if let Some(prefix) = lower.strip_suffix('*').filter(|prefix| !prefix.is_empty()) {
            json!(format!("~^{}", regex::escape(prefix)))
        } else if let Some(suffix) = lower
            .strip_prefix('*')
            .filter(|rest| !rest.starts_with('.'))
        {
            json!(format!("~{}$", regex::escape(suffix)))
        } else {
            json!(lower)
        }
    };
    let domains = host.texts("domains");
    match domains.contains(&"*") {
        true => Vec::new(),
        false => domains.into_iter().map(domain).collect(),
    }
}

/// Where Envoy looks for a host: exact names first, then longer suffixes before shorter ones, prefixes, and `*`.
pub(super) fn specificity(host: &Node) -> (u8, usize) {
    let rank = |domain: &str| match domain {
        "*" => (3, 0),
        domain if domain.starts_with('*') => (1, usize::MAX - domain.len()),
        domain if domain.ends_with('*') => (2, usize::MAX - domain.len()),
        _ => (0, 0),
    };
    let ranks = host.texts("domains").into_iter().map(rank);
    ranks.max().unwrap_or((3, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    fn of(text: &str) -> Condition {
        convert(&read(text).unwrap(), Tunnels::default())
    }

    #[test]
    fn paths_are_those_that_envoy_matches() {
        let path = |text: &str| of(text).json["path"].to_string();
        assert_eq!(path("prefix: /"), "null");
        assert_eq!(path("prefix: /api/"), "\"/api/*\"");
        assert_eq!(path("prefix: /api"), "\"~^/api\"");
        assert_eq!(path("path: /one"), "\"/one\"");
        assert_eq!(path("path_separated_prefix: /a"), "[\"/a\",\"/a/*\"]");
        assert_eq!(
            path("{ prefix: /a/, case_sensitive: false }"),
            "\"~(?i)^/a/\""
        );
        assert_eq!(
            path("safe_regex: { regex: '/v[0-9]|/w' }"),
            "\"~^(?:/v[0-9]|/w)$\""
        );
    }

    #[test]
    fn headers_become_methods_hosts_and_fields() {
        let condition = of(
            "prefix: /\nheaders:\n- { name: ':method', exact_match: GET }\n\
             - { name: X-A, string_match: { prefix: b } }\n- { name: x-c, present_match: true, invert_match: true }\n",
        );
        assert!(condition.missing.is_empty() && !condition.is_everything);
        let expected = json!({ "method": "GET", "fields": { "x-a": "~^b", "x-c": false } });
        assert_eq!(condition.json, expected);
    }

    #[test]
    fn what_cannot_be_said_is_missing() {
        for text in [
            "{ prefix: /, headers: [ { name: a, exact_match: b, invert_match: true } ] }",
            "{ prefix: /, headers: [ { name: a, range_match: { start: 1, end: 2 } } ] }",
            "{ prefix: /, query_parameters: [ { name: q } ] }",
            "{ safe_regex: { regex: '(' } }",
            "{ path_match_policy: {} }",
        ] {
            assert_eq!(of(text).missing.len(), 1, "{text}");
        }
    }
}

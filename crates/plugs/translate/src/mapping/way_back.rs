//! URIs in answers, led back from paths of the new interface to those of the old one.

use hermes_proto::fields::Fields;
use hermes_proto::head::RequestHead;
use http::HeaderValue;

use super::Operation;
use super::ask::AskPattern;
use super::destination::Destination;
use crate::template::Scope;

/// Fields of answers that are one URI.
const URIS: [&str; 2] = ["location", "content-location"];

/// Fields whose URIs are in angle brackets (RFC 8288, section 3).
const LINK: &str = "link";

/// An operation, backwards.
pub(super) struct WayBack {
    new: AskPattern,
    old: Destination,
    /// Whether a query stays as it is.
    keeps_query: bool,
}

impl WayBack {
    /// The way back of an operation with this `from` and `to`; `None` where a new path does not tell the old one.
    pub(super) fn of(from: &str, to: &str, keeps_query: bool) -> Option<Self> {
        let pattern = AskPattern::parse(from).ok()?;
        let mut starred = to.to_owned();
        for name in pattern.several() {
            starred = starred.replace(&format!("{{{name}}}"), &format!("{{{name}*}}"));
        }
        // One with a query, or with a variable beside other letters, is no pattern.
        let new = AskPattern::parse(&starred).ok()?;
        let tells_all = pattern
            .variables()
            .all(|name| new.variables().any(|told| told == name));
        let several = pattern.several().map(str::to_owned).collect();
        let old = Destination::parse(&from.replace("*}", "}"), several).ok()?;
        tells_all.then_some(Self {
            new,
            old,
            keeps_query,
        })
    }

    /// The method that the new interface is asked by.
    fn method(&self) -> &http::Method {
        &self.new.method
    }

    /// The variables of a new path; `None` of a path of another operation.
    fn variables(&self, path: &str) -> Option<Scope> {
        self.new.matches(&self.new.method, path)
    }

    fn old(&self, variables: &Scope, query: &str) -> Option<String> {
        let is_told = query.is_empty() || self.keeps_query;
        let old = is_told.then(|| self.old.path(variables, query).ok())?;
        Some(old?.to_string())
    }
}

/// The URIs of one answer.
pub(super) struct AnswerUris<'a> {
    operations: &'a [Operation],
    request: &'a RequestHead,
    /// URIs of this server without a way back.
    left: u64,
}

impl<'a> AnswerUris<'a> {
    pub(super) fn new(operations: &'a [Operation], request: &'a RequestHead) -> Self {
        Self {
            operations,
            request,
            left: 0,
        }
    }

    /// Leads all back for which there is a way; gives the number of those that stay.
    pub(super) fn lead_back(mut self, fields: &mut Fields) -> u64 {
        for name in URIS {
            let value = fields.get(name);
            let uri = value.and_then(|value| value.to_str().ok().map(str::to_owned));
            let old = uri.and_then(|uri| self.uri(uri.trim()));
            if let Some(old) = old.and_then(|old| HeaderValue::try_from(old).ok()) {
                fields.insert(name, old);
            }
        }
        self.links(fields);
        self.left
    }

    fn links(&mut self, fields: &mut Fields) {
        let lines: Vec<_> = fields
            .values(LINK)
            .filter_map(|line| HeaderValue::from_bytes(line.as_bytes()).ok())
            .collect();
        if lines.is_empty() {
            return;
        }
        // All lines are written again, in their order.
        fields.remove(LINK);
        for line in lines {
            let changed = line.to_str().ok().map(|text| self.line(text));
            let changed = changed.and_then(|text| HeaderValue::try_from(text).ok());
            fields.append(LINK, changed.unwrap_or(line));
        }
    }

    /// A line of links: brackets in quoted texts are no URIs.
    fn line(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['<', '"']) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let (open, inner) = after.split_at(1);
            out.push_str(open);
            rest = inner;
            if open == "\"" {
                let end = quoted(inner);
                out.push_str(&inner[..end]);
                rest = &inner[end..];
            } else if let Some((uri, after)) = inner.split_once('>') {
                let old = self.uri(uri);
                out.push_str(old.as_deref().unwrap_or(uri));
                out.push('>');
                rest = after;
            }
        }
        out.push_str(rest);
        out
    }

    /// The old URI of a new one; `None` if it stays as it is.
    fn uri(&mut self, uri: &str) -> Option<String> {
        let (origin, rest) = self.divided(uri)?;
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Most URIs are fetched by GET.
        let (gets, others): (Vec<_>, Vec<_>) = self
            .operations
            .iter()
            .filter_map(|operation| operation.back.as_ref())
            .partition(|back| *back.method() == http::Method::GET);
        let mut ways = gets.into_iter().chain(others);
        // The first that has the path decides: another one would mean another thing by the query.
        let found = ways.find_map(|back| Some((back, back.variables(path)?)));
        let Some(old) = found.and_then(|(back, variables)| back.old(&variables, query)) else {
            self.left += 1;
            return None;
        };
        let fragment = fragment.map_or_else(String::new, |fragment| format!("#{fragment}"));
        Some(format!("{origin}{old}{fragment}"))
    }

    /// The part of a URI before its path, if it is one of the server that was asked, and the rest; relative paths have none.
    fn divided<'u>(&self, uri: &'u str) -> Option<(&'u str, &'u str)> {
        if uri.starts_with('/') && !uri.starts_with("//") {
            return Some(("", uri));
        }
        let (scheme, rest) = uri.split_once("://")?;
        let is_http = ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
        let length = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let asked = self.request.authority.as_ref()?;
        let is_asked = rest[..length].eq_ignore_ascii_case(asked.as_str());
        (is_http && is_asked).then(|| uri.split_at(scheme.len() + "://".len() + length))
    }
}

/// The bytes of a quoted text behind its first quote, with its last one.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

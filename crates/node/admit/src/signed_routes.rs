//! Routes whose requests need a signed URL: their keys, and the check.

use std::borrow::Cow;

use hermes_config::model::{DataSource, Document, SignedUrls};
use hermes_config::{Problem, child, element};
use hermes_http::{Kind, RequestHead};
use hermes_identity::signed_url::{BadSignature, SHORTEST_KEY, SignedText, UrlKey, take_signature};
use hermes_net::clock::unix_seconds;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::Phase;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use serde_json::Value;

/// The routes of a document that need a signed URL, each at its position.
pub(crate) struct SignedRoutes(Vec<Option<SignedRoute>>);

/// The keys and the parameter of a route's signatures.
struct SignedRoute {
    keys: Vec<UrlKey>,
    parameter: String,
    keeps: bool,
}

impl SignedRoutes {
    /// Those of a document, with their keys.
    pub(crate) fn read(document: &Document, problems: &mut Vec<Problem>) -> Self {
        let mut routes = Vec::new();
        for (index, route) in document.routes.iter().enumerate() {
            let Some(signed) = &route.signed else {
                continue;
            };
            let path = child(&child(&element("routes", index), "signed"), "key_file");
            routes.resize_with(index + 1, || None);
            routes[index] = Some(SignedRoute {
                keys: keys(signed, &path, problems),
                parameter: signed.parameter().to_owned(),
                keeps: signed.keep,
            });
        }
        Self(routes)
    }

    /// Takes the signature out of a request on the route at this position, and checks it there.
    ///
    /// # Errors
    /// The route needs a signed URL, and this is none.
    pub(crate) fn take(
        &self,
        route: usize,
        head: &mut RequestHead,
        target: &Target,
    ) -> Result<(), Refusal> {
        let Some(Some(signed)) = self.0.get(route) else {
            return Ok(());
        };
        signed.take(head, target).map_err(|reason| {
            let place = child(&element("routes", route), "signed");
            Refusal::new(ProxyError::HttpRequestDenied, reason)
                .status(StatusCode::FORBIDDEN)
                .at(Phase::Route, place)
        })
    }

    /// Leaves signatures out of the input of a decision that is logged, and adds the pointers to those that are left out.
    pub(crate) fn erase(&self, input: &mut Value, erased: &mut Vec<String>) {
        let parameters = self.0.iter().flatten();
        let parameters: Vec<_> = parameters.map(|signed| signed.parameter.as_str()).collect();
        if parameters.is_empty() {
            return;
        }
        let has_signature = |text: &str| {
            let has = |parameter: &&str| without(text, parameter) != text;
            parameters.iter().any(has)
        };
        if let Some(query) = input["query"].as_str()
            && has_signature(&format!("/?{query}"))
        {
            input["query"] = Value::Null;
            erased.push("/input/query".to_owned());
        }
        // A page at a signed URL tells it to whatever it includes.
        let referer = input.pointer("/fields/referer").map(Value::to_string);
        if referer.is_some_and(|referer| has_signature(referer.trim_matches('"')))
            && let Some(fields) = input["fields"].as_object_mut()
        {
            fields.remove("referer");
            erased.push("/input/fields/referer".to_owned());
        }
    }
}

impl SignedRoute {
    fn take(&self, head: &mut RequestHead, target: &Target) -> Result<(), Cow<'static, str>> {
        if head.kind() != Kind::Message {
            return Err("signed URLs are for requests, not for tunnels".into());
        }
        let signed = head.path.as_ref().map_or("/", PathAndQuery::as_str);
        let (rest, taken) = take_signature(signed, &self.parameter);
        let is_signed = rest != signed;
        let port = target.port().unwrap_or_default();
        let text = SignedText::new(target.host(), port, &rest);
        if is_signed && !self.keeps {
            // A part of a valid path and query is one.
            head.path = PathAndQuery::try_from(rest).ok();
        }

        if head.method != Method::GET && head.method != Method::HEAD {
            return Err("signed URLs are for GET and HEAD".into());
        }
        let checked = taken.check(&self.keys, &text, unix_seconds());
        checked.map_err(|bad: BadSignature| bad.to_string().into())
    }
}

/// A path and query without a parameter.
fn without(path_and_query: &str, parameter: &str) -> String {
    take_signature(path_and_query, parameter).0
}

fn keys(signed: &SignedUrls, path: &str, problems: &mut Vec<Problem>) -> Vec<UrlKey> {
    let mut keys = Vec::new();
    for source in &signed.key_file {
        match key(source) {
            Ok(key) => keys.push(key),
            Err(reason) => {
                let remedy = "make one by `hermes sign URL --key FILE`";
                problems.push(Problem::new(path, reason).remedy(remedy));
            }
        }
    }
    keys
}

fn key(source: &DataSource) -> Result<UrlKey, String> {
    let short = || format!("the key of {source} is shorter than {SHORTEST_KEY} characters");
    UrlKey::new(&source.secret()?).ok_or_else(short)
}

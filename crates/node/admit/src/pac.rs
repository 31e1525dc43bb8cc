//! `/proxy.pac`: tells browsers which names go through this proxy.
//!
//! The file is a function in JavaScript that browsers ask for every URL. It knows the names of routes, and
//! nothing of fields, users or paths: a browser decides before there is a request.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hermes_config::model::{Document, HostMatch, Pac, PacWord, Route, TargetMatch};
use hermes_http::{RequestHead, ResponseHead};
use hermes_net::StreamInfo;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Response};
use hermes_proto::fields::names::{CACHE_CONTROL, CONTENT_TYPE};
use hermes_proto::proxy_status::ProxyError;
use http::{HeaderValue, Method, StatusCode, Version};

use crate::snapshot::{ListenerRules, Snapshot};

/// Where the file is.
const PATH: &str = "/proxy.pac";

/// Writes the file for one browser.
pub struct ProxyPac {
    snapshot: Arc<Snapshot>,
    listener: Arc<ListenerRules>,
}

impl ProxyPac {
    /// If the request is for it: a GET or HEAD in origin form, as browsers ask for it, or over HTTP/2 one whose authority is
    /// this listener.
    pub fn of(
        snapshot: &Arc<Snapshot>,
        listener: &Arc<ListenerRules>,
        source: &StreamInfo,
        head: &RequestHead,
    ) -> Option<Self> {
        listener.config.http()?.pac.filter(|pac| pac.is_served())?;
        let is_asked = head.path() == PATH && [Method::GET, Method::HEAD].contains(&head.method);
        let is_here = head.origin_form || head.version == Version::HTTP_2 && is_own(head, source);

        if !is_asked || !is_here || head.protocol.is_some() {
            return None;
        }

        // A request that cannot be written is an ordinary one.
        proxy(head, source.tls.is_some())?;
        Some(Self {
            snapshot: snapshot.clone(),
            listener: listener.clone(),
        })
    }

    fn write(&self, proxy: &str) -> (ResponseHead, Bytes) {
        let script = match self.listener.config.http().and_then(|http| http.pac) {
            Some(Pac::Word(PacWord::All)) => {
                format!("function FindProxyForURL(url, host) {{\n  return \"{proxy}\";\n}}\n")
            }
            _ => script(proxy, &self.snapshot.document, &self.listener.name),
        };

        let mut answer = ResponseHead::new(StatusCode::OK);
        answer.fields.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-ns-proxy-autoconfig"),
        );
        answer
            .fields
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));

        (answer, Bytes::from(script))
    }
}

impl Handler for ProxyPac {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        let proxy = proxy(&request.head, request.source.tls.is_some());
        let answered = proxy.map_or_else(
            || Err(Refusal::new(ProxyError::HttpRequestError, "no authority")),
            |proxy| {
                let (head, script) = self.write(&proxy);
                Ok(Response::Whole(head, script))
            },
        );

        Box::pin(std::future::ready(answered))
    }
}

/// Whether a request that has no form is for this listener: its authority is the address that was dialled, or under TLS the name
/// that was asked for, at our port.
fn is_own(head: &RequestHead, source: &StreamInfo) -> bool {
    let (Some(authority), Some(local)) = (head.authority.as_ref(), source.local) else {
        return false;
    };
    let default = if source.tls.is_some() { 443 } else { 80 };
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let name = source
        .tls
        .as_ref()
        .and_then(|tls| tls.server_name.as_deref());
    let is_address = host
        .parse()
        .is_ok_and(|address: IpAddr| address == local.ip().to_canonical());
    let is_name = name.is_some_and(|name| name.eq_ignore_ascii_case(host));

    authority.port_u16().unwrap_or(default) == local.port() && (is_address || is_name)
}

/// This proxy as the browser reached it. The authority comes from the browser, so only characters that cannot leave the quotes are taken.
fn proxy(head: &RequestHead, tls: bool) -> Option<String> {
    let authority = head.authority.as_ref()?;
    let host = authority.host();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let (kind, default) = if tls { ("HTTPS", 443) } else { ("PROXY", 80) };
    let port = authority.port_u16().unwrap_or(default);
    (!host.is_empty() && host.bytes().all(plain)).then(|| format!("{kind} {host}:{port}"))
}

fn script(proxy: &str, document: &Document, listener: &str) -> String {
    let rules: Vec<String> = document
        .routes
        .iter()
        .filter(|route| is_for(route, listener))
        .flat_map(|route| names(route, document))
        .collect();
    let rules = rules.join("");
    format!(
        r#"function FindProxyForURL(url, host) {{
  host = host.toLowerCase().replace(/^\[|\]$/g, "");
  var authority = url.replace(/^[^:]*:\/\//, "").replace(/[\/?#].*$/, "");
  var port = /:([0-9]+)$/.exec(authority);
  port = port ? Number(port[1]) : /^(https|wss):/i.test(url) ? 443 : 80;
  function exact(name) {{ return host === name; }}
  function under(suffix) {{ return host.length > suffix.length && host.slice(-suffix.length) === suffix; }}
  function like(pattern) {{

    try {{ return new RegExp(pattern).test(host); }} catch (error) {{ return false; }}
  }}
{rules}  return "DIRECT";
}}
"#
    )
    .replace("@PROXY@", proxy)
}

fn is_for(route: &Route, listener: &str) -> bool {
    route
        .matches
        .listener
        .as_ref()
        .is_none_or(|names| names.iter().any(|name| name == listener))
}

/// A line for each name that the route knows; `*` names nothing.
fn names(route: &Route, document: &Document) -> Vec<String> {
    let listed = |target: &TargetMatch| match &target.host {
        HostMatch::Service(name) => document.services.get(name).cloned().unwrap_or_default(),
        _ => vec![target.clone()],
    };

    let targets = route
        .matches
        .target
        .iter()
        .flat_map(|targets| targets.iter());
    targets
        .flat_map(listed)
        .filter_map(|target| {
            condition(&target).map(|when| format!("  if ({when}) return \"@PROXY@\";\n"))
        })
        .collect()
}

fn condition(target: &TargetMatch) -> Option<String> {
    let host = match &target.host {
        HostMatch::Suffix(suffix) if suffix.is_empty() => return None,
        // A browser knows names; it would ask DNS for each.
        HostMatch::Net(_) | HostMatch::Service(_) => return None,
        HostMatch::Exact(name) => format!("exact({})", quoted(name)),
        HostMatch::Suffix(suffix) => format!("under({})", quoted(suffix)),
        HostMatch::Regex(pattern) => format!("like({})", quoted(pattern.as_str())),
    };
    Some(
        target
            .port
            .map_or(host.clone(), |port| format!("{host} && port === {port}")),
    )
}

/// A string of JavaScript: JSON's, in ASCII.
fn quoted(text: &str) -> String {
    let escape = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        ' '..='~' => character.to_string(),
        other => {
            let mut units = [0; 2];
            other
                .encode_utf16(&mut units)
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect()
        }
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

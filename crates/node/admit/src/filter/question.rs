//! The question to an authorisation server.

use aws_lc_rs::digest;
use bytes::Bytes;
use hermes_config::model::{AuthorizeBody, FieldPattern};
use hermes_http::RequestHead;
use hermes_identity::is_sent;
use hermes_net::CertificateNames;
use hermes_plug::Subject;
use hermes_plug::target::is_https;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use hermes_proto::upgrade::Protocol;
use hermes_rules::fields::is_reserved;
use hermes_rules::normalise;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Version};
use serde_json::{Map, Value, json};

use super::facts::kind;
use super::grpc;
use super::readings::path_of;

/// Fields that a pattern with a star never means, because they hold credentials.
const CREDENTIALS: [&str; 4] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
];

/// Fields that we write, and that no one else may: a server believes them.
const OWN: [&str; 9] = [
    "expect",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-forwarded-user",
    "x-hermes-kind",
    "x-hermes-listener",
];

/// The host of a question about nothing (RFC 6761, 6.4).
const OWN_HOST: &str = "hermes.invalid";

/// How questions are put.
pub(super) enum Form {
    /// Method and path of the exchange, the path behind a prefix.
    Http { prefix: String, body: AuthorizeBody },
    /// A POST to this path, with `input`.
    Opa { path: String },
    /// A call of `Check`.
    Grpc,
}

/// One question, ready to be sent.
pub struct Question {
    pub head: RequestHead,
    pub content: Bytes,
}

impl Question {
    /// Puts a question. Of the exchange's fields it has only those that `send` names.
    ///
    /// # Errors
    /// The exchange cannot be put into a request.
    pub fn new(form: &Form, send: &[FieldPattern], subject: &Subject<'_>) -> Result<Self, String> {
        let authority =
            Authority::try_from(subject.target.to_string()).map_err(|error| error.to_string())?;
        let shown = told(send, subject);

        let (method, path, fields, content) = match form {
            Form::Opa { path } => {
                let content = json!({ "input": described(subject, &shown) }).to_string();
                (Method::POST, path.clone(), Fields::new(), content.into())
            }
            Form::Grpc => {
                let content = grpc::question(subject, &shown);
                let path = grpc::PATH.to_owned();
                (Method::POST, path, Fields::new(), content)
            }
            Form::Http { prefix, body } => {
                let mut fields = forwarded(subject)?;
                let path = format!("{prefix}{}", path_of(subject.head));

                // Our own fields are not among them.
                fields.replace(&shown);
                match body {
                    AuthorizeBody::None => {
                        (question_method(subject.head), path, fields, Vec::new())
                    }
                    AuthorizeBody::Json => (
                        Method::POST,
                        path,
                        fields,
                        described(subject, &shown).to_string().into(),
                    ),
                }
            }
        };

        let mut head = RequestHead {
            method,
            scheme: Some(Scheme::HTTP),
            authority: Some(authority),
            path: Some(PathAndQuery::try_from(path).map_err(|error| error.to_string())?),
            protocol: None,
            fields,
            version: Version::HTTP_11,
            origin_form: false,
        };

        describe(&mut head, form, &content);
        Ok(Self {
            head,
            content: Bytes::from(content),
        })
    }

    /// A question about nothing, which the node asks by itself: any answer shows that the server is there.
    pub fn own(form: &Form) -> Self {
        let (method, path, content) = match form {
            Form::Opa { path } => (Method::POST, path.as_str(), b"{\"input\":{}}".to_vec()),
            Form::Grpc => (Method::POST, grpc::PATH, grpc::empty()),
            Form::Http { prefix, .. } => (Method::GET, prefix.as_str(), Vec::new()),
        };
        let mut head = RequestHead {
            method,
            scheme: Some(Scheme::HTTP),
            authority: Some(Authority::from_static(OWN_HOST)),
            path: PathAndQuery::try_from(path).ok(),
            protocol: None,
            fields: Fields::new(),
            version: Version::HTTP_11,
            origin_form: false,
        };
        head.path
            .get_or_insert_with(|| PathAndQuery::from_static("/"));

        describe(&mut head, form, &content);
        Self {
            head,
            content: Bytes::from(content),
        }
    }

    /// Its bytes, roughly as they are sent over HTTP/1.1.
    pub fn size(&self) -> usize {
        let path = self
            .head
            .path
            .as_ref()
            .map_or(0, |path| path.as_str().len());
        let fields = &self.head.fields;
        path + fields.size() + 4 * fields.len() + self.content.len()
    }

    /// The same for equal questions only; says nothing about them.
    pub(super) fn digest(&self) -> Vec<u8> {
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        };

        add(self.head.method.as_str().as_bytes());
        add(self
            .head
            .authority
            .as_ref()
            .map_or("", Authority::as_str)
            .as_bytes());

        add(self
            .head
            .path
            .as_ref()
            .map_or("", PathAndQuery::as_str)
            .as_bytes());

        for (name, value) in &self.head.fields {
            add(name.as_str().as_bytes());
            add(value.as_bytes());
        }

        add(&self.content);
        hash.finish().as_ref().to_vec()
    }
}

/// Names the asking node, and the type of the content.
fn describe(head: &mut RequestHead, form: &Form, content: &[u8]) {
    if !head.fields.contains_key(USER_AGENT) {
        head.fields
            .append(USER_AGENT, HeaderValue::from_static("hermes"));
    }
    if let Form::Grpc = form {
        grpc::call(head);
    } else if !content.is_empty() {
        let json = HeaderValue::from_static("application/json");
        head.fields.insert(CONTENT_TYPE, json.clone());
        head.fields.insert(ACCEPT, json);
    }
}

/// The fields for the server: those of the exchange, and credentials for this node.
fn told(send: &[FieldPattern], subject: &Subject<'_>) -> Fields {
    let mut shown = shown(send, &subject.head.fields);
    for (name, value) in subject
        .credentials
        .iter()
        .filter(|(name, _)| is_sent(send, name.as_str()))
    {
        // Credentials that the listener did not read are among the fields still.
        if !subject.head.fields.contains_key(name) {
            shown.append(name, value);
        }
    }
    shown
}

/// Fields of the exchange that the server sees.
fn shown(send: &[FieldPattern], fields: &Fields) -> Fields {
    let named = |name: &str| {
        let is_credential = CREDENTIALS.contains(&name);
        // Many servers take `_` for `-`.
        let is_own = OWN.contains(&name.replace('_', "-").as_str());
        !is_own
            && !is_reserved(name)
            && send
                .iter()
                .any(|pattern| pattern.matches(name) && !(pattern.wildcard && is_credential))
    };

    fields.iter().filter(|(name, _)| named(name)).collect()
}

/// A tunnel has a method that would open one at the server, too.
fn question_method(head: &RequestHead) -> Method {
    if head.method == Method::CONNECT {
        Method::GET
    } else {
        head.method.clone()
    }
}

/// Fields that servers for other proxies look for.
fn forwarded(subject: &Subject<'_>) -> Result<Fields, String> {
    let Subject {
        head,
        target,
        user,
        source,
        listener,
        ..
    } = *subject;

    let scheme = if is_https(head, source.tls.is_some()) {
        "https"
    } else {
        "http"
    };

    let address = source.peer.socket().map(|peer| peer.ip().to_string());
    let mut fields = Fields::new();
    let mut add = |name: &'static str, value: &str| {
        let value =
            HeaderValue::from_str(value).map_err(|_| format!("{name} cannot be written"))?;
        fields.insert(HeaderName::from_static(name), value);
        Ok::<_, String>(())
    };

    add("x-forwarded-method", head.wire_method().as_str())?;
    add("x-forwarded-host", &target.to_string())?;
    add("x-forwarded-uri", &path_of(head))?;
    add("x-forwarded-proto", scheme)?;
    add("x-hermes-listener", listener)?;
    add("x-hermes-kind", kind(head))?;

    if let Some(address) = address {
        add("x-forwarded-for", &address)?;
    }
    if let Some(user) = user {
        add("x-forwarded-user", user)?;
    }

    Ok(fields)
}

/// All that is known of the exchange, as JSON. Several lines of a field are joined as RFC 9110, 5.3 allows.
pub fn described(subject: &Subject<'_>, shown: &Fields) -> Value {
    let Subject {
        head,
        target,
        user,
        source,
        listener,
        ..
    } = *subject;

    json!({
        "target": target.to_string(),
        "host": target.host(),
        "port": target.port(),
        "kind": kind(head),
        "method": head.wire_method().as_str(),
        "path": normalise(head.path()),
        "query": head.path.as_ref().and_then(PathAndQuery::query),
        "protocol": head.protocol.as_ref().map(Protocol::as_str),
        "user": user,
        "source": source.peer.socket().map(|peer| peer.ip().to_string()),
        "listener": listener,
        "fields": joined(shown),
    })
}

/// The same, with values that stay in this program.
pub fn known(subject: &Subject<'_>, shown: &Fields) -> Value {
    let mut known = described(subject, shown);
    let certificate = subject.certificate().map(described_certificate);
    let destination = subject
        .destination()
        .map(|address| json!({ "address": address.ip().to_string(), "port": address.port() }));

    known["certificate"] = json!(certificate);
    known["destination"] = json!(destination);
    known["claims"] = json!(subject.claims);
    known["groups"] = json!(subject.groups);
    known
}

/// The names in a verified certificate.
pub(crate) fn described_certificate(names: &CertificateNames) -> Value {
    json!({
        "uris": names.uris,
        "emails": names.emails,
        "dns": names.dns,
        "common_name": names.common_name,
        "sha256": names.sha256,
    })
}

/// Names with their lines, joined with commas.
pub fn joined(fields: &Fields) -> Value {
    let mut joined = Map::new();
    for name in fields.names() {
        let lines: Vec<_> = fields
            .values(name)
            .map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned())
            .collect();
        joined.insert(name.to_string(), lines.join(", ").into());
    }
    Value::Object(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(names: &[&str]) -> Vec<FieldPattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn what_a_server_believes_from_us_is_taken_from_no_one_else() {
        let mut fields = Fields::new();
        for name in [
            "x-forwarded-user",
            "x_forwarded_user",
            "x-forwarded-host",
            "x-hermes-kind",
            "x-forwarded-other",
        ] {
            fields.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static("forged"),
            );
        }
        let all = shown(&patterns(&["*", "x-forwarded-user"]), &fields);
        assert_eq!(all.names().collect::<Vec<_>>(), ["x-forwarded-other"]);
    }

    #[test]
    fn credentials_are_shown_only_if_they_are_named_in_full() {
        let mut fields = Fields::new();
        for name in [
            "authorization",
            "cookie",
            "accept",
            "x-a",
            "via",
            "content-length",
        ] {
            fields.insert(name, HeaderValue::from_static("1"));
        }
        let names = |send: &[&str]| {
            let shown = shown(&patterns(send), &fields);
            let mut names: Vec<String> = shown.names().map(|name| name.to_string()).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names(&[]), "");
        assert_eq!(names(&["*"]), "accept x-a");
        assert_eq!(names(&["auth*", "cook*"]), "");
        assert_eq!(names(&["authorization", "x-*"]), "authorization x-a");
    }
}

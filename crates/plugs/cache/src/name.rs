//! The one name of a resource, by which its responses are stored and invalidated (RFC 9111, section 2).

use std::sync::Arc;

use hermes_http::RequestHead;
use hermes_plug::target::Target;
use hermes_proto::path;
use http::Uri;
use http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};

/// The name of a resource. Host, port and path have one spelling each, because the node gave them one when the request came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ResourceName {
    /// The space of the cache and the upstream of the route, which may see other resources under one URI.
    pub(crate) place: Arc<str>,
    /// `https://host:443`.
    origin: Arc<str>,
    /// Path and query.
    path: Arc<str>,
}

impl ResourceName {
    /// The resource of a request, asked of this upstream. A request to a gateway names no scheme: it is that of its connection, which
    /// `is_secure` or not.
    pub(crate) fn of(
        space: &str,
        upstream: &str,
        target: &Target,
        head: &RequestHead,
        is_secure: bool,
    ) -> Self {
        let scheme = match (&head.scheme, is_secure) {
            (Some(scheme), _) => scheme.as_str(),
            (None, true) => "https",
            (None, false) => "http",
        };
        Self {
            place: format!("{space} {upstream}").into(),
            origin: format!("{scheme}://{}", target.canonical()).into(),
            path: head.path.as_ref().map_or("", PathAndQuery::as_str).into(),
        }
    }

    /// Its URL, with the port of its origin.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// Whether this is its URL.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        url.strip_prefix(&*self.origin) == Some(&*self.path)
    }

    /// Whether its URL begins so.
    pub(crate) fn is_below(&self, prefix: &str) -> bool {
        let beginning = prefix.strip_prefix(&*self.origin);
        beginning.is_some_and(|beginning| self.path.starts_with(beginning))
    }

    /// The resource of the same origin to which `Location` or `Content-Location` leads; `None` for another origin (section 4.4).
    pub(crate) fn sibling(&self, location: &str) -> Option<Self> {
        let is_relative = location.starts_with('/') && !location.starts_with("//");
        let path = if is_relative {
            location.parse::<PathAndQuery>().ok()?
        } else {
            let uri: Uri = location.parse().ok()?;
            let scheme = uri.scheme_str()?;
            let default = if scheme == "https" { 443 } else { 80 };
            let port = uri.port_u16().unwrap_or(default);
            let host = uri.host()?.trim_matches(['[', ']']).to_owned();
            let target = Target::host_port(host, port);
            let origin = format!("{scheme}://{}", target.canonical());
            uri.path_and_query()
                .filter(|_| *origin == *self.origin)?
                .clone()
        };
        let path = path::check(path).ok()?;
        Some(Self {
            path: path.as_str().into(),
            ..self.clone()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hermes_proto::fields::Fields;
    use http::uri::Scheme;
    use http::{Method, Version};

    use super::*;

    /// A request for a path of `http://origin.example`.
    pub(crate) fn request(method: Method, path: &str) -> RequestHead {
        RequestHead {
            method,
            scheme: Some(Scheme::HTTP),
            authority: Some("origin.example".parse().unwrap()),
            path: Some(path.parse().unwrap()),
            protocol: None,
            fields: Fields::new(),
            version: Version::HTTP_11,
            origin_form: false,
        }
    }

    /// The name of a path there.
    pub(crate) fn name(path: &str) -> ResourceName {
        let target = Target::host_port("origin.example".to_owned(), 80);
        ResourceName::of("", "up", &target, &request(Method::GET, path), false)
    }

    #[test]
    fn section_2_host_case_and_upstream_decide_as_they_should() {
        let target = |host: &str| Target::host_port(host.to_owned(), 80);
        let head = request(Method::GET, "/a?b");
        let named = |upstream: &str, host: &str| {
            ResourceName::of("", upstream, &target(host), &head, false)
        };
        assert_eq!(named("up", "Origin.Example"), named("up", "origin.example"));
        assert_ne!(
            named("up", "origin.example"),
            named("other", "origin.example")
        );
        assert_ne!(name("/a?b"), name("/a"));
    }

    #[test]
    fn a_request_to_a_gateway_has_the_scheme_of_its_connection() {
        let target = Target::host_port("origin.example".to_owned(), 80);
        let mut head = request(Method::GET, "/a");
        head.scheme = None;
        let named = |is_secure| ResourceName::of("", "up", &target, &head, is_secure);
        assert_eq!(named(false), name("/a"));
        assert_eq!(named(true).url(), "https://origin.example:80/a");
    }

    #[test]
    fn section_4_4_only_resources_of_the_same_origin_are_invalidated_with_it() {
        let posted = name("/form");
        assert_eq!(posted.sibling("/list?a"), Some(name("/list?a")));
        assert_eq!(
            posted.sibling("http://ORIGIN.example/list"),
            Some(name("/list"))
        );
        for other in [
            "//evil.example/list",
            "https://origin.example/list",
            "http://o.example/",
            "list",
            "/\u{1}",
        ] {
            assert_eq!(posted.sibling(other), None, "{other}");
        }
    }
}

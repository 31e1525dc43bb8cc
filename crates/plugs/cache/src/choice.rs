//! Which stored responses an operator means: by URL, by the beginning of one, by a tag, by user.

use std::fmt;
use std::sync::Arc;

use hermes_plug::target::Target;
use hermes_proto::path;
use http::Uri;
use http::uri::PathAndQuery;
use serde::Deserialize;

use crate::name::ResourceName;
use crate::stored::Stored;

/// A choice of stored responses, as an operator writes it. All that it says has to be true of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChoiceQuestion {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    user: Option<String>,
}

/// A choice of stored responses, with URLs as the cache spells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    user: Option<Arc<str>>,
}

/// A text that is no URL to be compared with those of stored responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoUrl(String);

impl fmt::Display for NoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.escape_debug();
        write!(f, "`{text}` is no URL such as http://host/path")
    }
}

impl ChoiceQuestion {
    /// With URLs as the cache spells them.
    ///
    /// # Errors
    /// A URL that is none.
    pub(crate) fn read(self) -> Result<Choice, NoUrl> {
        Ok(Choice {
            url: self.url.as_deref().map(canonical).transpose()?,
            prefix: self.prefix.as_deref().map(canonical).transpose()?,
            tag: self.tag,
            user: self.user.map(Arc::from),
        })
    }
}

impl Choice {
    /// All responses of a resource.
    pub(crate) fn of(name: &ResourceName) -> Self {
        Self {
            url: Some(name.url()),
            ..Self::default()
        }
    }

    /// Whether it means everything.
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it means this response.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        let name = &stored.shelf.name;
        let is_user = |user: &Arc<str>| stored.shelf.user.as_ref() == Some(user);
        self.user.as_ref().is_none_or(is_user)
            && self.tag.as_ref().is_none_or(|tag| stored.tags.has(tag))
            && self.url.as_ref().is_none_or(|url| name.is_at(url))
            && self
                .prefix
                .as_ref()
                .is_none_or(|start| name.is_below(start))
    }
}

/// The one spelling of a URL: `http://host:80/path?query`, as [`ResourceName`] has it.
fn canonical(url: &str) -> Result<String, NoUrl> {
    let none = || NoUrl(url.chars().take(200).collect());
    let uri: Uri = url.parse().map_err(|_| none())?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(none());
    };
    let default = if scheme == "https" { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(default);
    let target = Target::host_port(host.trim_matches(['[', ']']).to_owned(), port);
    let root = || PathAndQuery::from_static("/");
    let path = uri.path_and_query().cloned().unwrap_or_else(root);
    let path = path::check(path).map_err(|_| none())?;
    Ok(format!(
        "{scheme}://{}{}",
        target.canonical(),
        path.as_str()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::tests::name;

    #[test]
    fn a_url_is_found_in_any_spelling_and_nothing_beside_it() {
        let url = |text: &str| canonical(text).unwrap();
        assert!(name("/a?b").is_at(&url("HTTP://Origin.Example:80/a?b")));
        assert!(name("/a?b").is_at(&url("http://origin.example/x/../a?b")));
        assert!(name("/").is_at(&url("http://origin.example")));
        for other in [
            "http://origin.example/a",
            "http://origin.example/a?b&c",
            "https://origin.example/a?b",
            "http://origin.example.evil/a?b",
            "http://origin.example:8080/a?b",
        ] {
            assert!(!name("/a?b").is_at(&url(other)), "{other}");
        }
    }

    #[test]
    fn a_prefix_ends_where_it_says_and_stays_with_its_origin() {
        let below = |path: &str, prefix: &str| name(path).is_below(&canonical(prefix).unwrap());
        assert!(below("/docs/a?b", "http://origin.example/docs/"));
        assert!(below("/docs/a?b", "http://origin.example"));
        assert!(below("/docs2", "http://origin.example/docs"));
        assert!(!below("/docs2", "http://origin.example/docs/"));
        assert!(!below("/docs/a", "http://origin.exampl"));
        assert!(!below("/docs/a", "http://origin.example:8/docs/"));
    }

    #[test]
    fn a_text_that_is_no_url_is_refused() {
        for wrong in ["", "/a", "origin.example/a", "http:///a", "a b"] {
            let question = ChoiceQuestion {
                url: Some(wrong.to_owned()),
                ..ChoiceQuestion::default()
            };
            assert!(question.read().is_err(), "{wrong}");
        }
    }
}

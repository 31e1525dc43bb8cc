//! URI templates of proxies: RFC 6570 as far as RFC 9298, section 2 allows it, which connect-tcp follows.
//!
//! A template holds `target_host` and `target_port`, once each, in its path or its query, by simple expansion
//! (`{target_host}`) or by form-style query expansion (`{?target_host,target_port}`, `{&target_port}`).

mod mistake;
mod parse;
mod variables;

use std::fmt;
use std::sync::LazyLock;

use http::uri::{Authority, Scheme};

pub use mistake::TemplateMistake;
pub use variables::TemplateError;
pub(crate) use variables::{decode, encode};

/// The default template of CONNECT-UDP: `/.well-known/masque/udp/{target_host}/{target_port}/` (RFC 9298, section 2).
pub static UDP: LazyLock<UriTemplate> = LazyLock::new(|| UriTemplate::well_known("udp"));

/// The default template of connect-tcp: `/.well-known/masque/tcp/{target_host}/{target_port}/` (draft-ietf-httpbis-connect-tcp,
/// section 8.2).
pub static TCP: LazyLock<UriTemplate> = LazyLock::new(|| UriTemplate::well_known("tcp"));

/// Scheme and authority of a template that is a whole URI.
pub type Origin = (Scheme, Authority);

/// A template that was parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    origin: Option<Origin>,
    /// Texts and variables in order; two texts never follow each other.
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
}

/// The variables of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// `target_host`.
    Host,
    /// `target_port`.
    Port,
}

impl Variable {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Host, Self::Port];

    /// Its name as written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "target_host",
            Self::Port => "target_port",
        }
    }
}

impl UriTemplate {
    /// Reads a template: a path with or without a query, or a whole `http` or `https` URI.
    ///
    /// # Errors
    /// [`TemplateMistake`], which knows the remedy.
    pub fn parse(text: &str) -> Result<Self, TemplateMistake> {
        parse::parse(text)
    }

    /// `/.well-known/masque/SEGMENT/{target_host}/{target_port}/`.
    fn well_known(segment: &str) -> Self {
        let text = |text: &str| Part::Text(text.to_owned());
        let before = format!("/.well-known/masque/{segment}/");
        Self {
            text: format!("{before}{{target_host}}/{{target_port}}/"),
            origin: None,
            parts: vec![
                Part::Text(before),
                Part::Variable(Variable::Host),
                text("/"),
                Part::Variable(Variable::Port),
                text("/"),
            ],
        }
    }

    /// Scheme and authority, where the template is a whole URI.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Path and query of the template, without scheme and authority.
    pub fn path(&self) -> &str {
        let authority = self
            .origin
            .as_ref()
            .map(|(scheme, authority)| scheme.as_str().len() + 3 + authority.as_str().len());
        self.text.get(authority.unwrap_or(0)..).unwrap_or_default()
    }

    /// Whether an expansion could be read in more than one way, as that of `/{target_host}-{target_port}`, so that the template is of
    /// use to a client only.
    pub fn is_ambiguous(&self) -> bool {
        let follows = self.parts.windows(2).filter_map(|pair| match pair {
            [Part::Variable(_), next] => Some(next),
            _ => None,
        });
        let ends = |next: &Part| match next {
            Part::Text(text) => text.bytes().next().is_some_and(variables::ends_a_value),
            Part::Variable(_) => false,
        };

        follows.into_iter().any(|next| !ends(next))
    }

    /// Path and query that ask for `host` (no brackets) and `port`.
    ///
    /// All but unreserved characters are percent-encoded, so the colons of an IPv6 address become `%3A`, which RFC 9298,
    /// section 2 requires.
    pub fn expand(&self, host: &str, port: u16) -> String {
        let mut path = String::with_capacity(self.text.len() + host.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Variable(Variable::Host) => encode(host, &mut path),
                Part::Variable(Variable::Port) => encode(&port.to_string(), &mut path),
            }
        }

        path
    }

    /// Path and query for any target: `*` in place of both (draft-ietf-masque-connect-udp-listen,
    /// section 2).
    pub fn expand_any(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(_) => "%2A".to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// Whether `path` and its query are such.
    pub fn matches_any(&self, path: &str) -> bool {
        let is_any = |value: &str| decode(value).is_ok_and(|value| value == "*");
        self.values(path)
            .is_ok_and(|values| values.into_iter().all(is_any))
    }

    /// The host, without brackets, and the port that `path` and its query ask for. A template
    /// without a query matches any query.
    ///
    /// # Errors
    /// [`TemplateError`], which knows the status to answer with. Zones, empty hosts, port 0, raw
    /// reserved characters and hosts that [`crate::host::parse`] refuses are errors.
    pub fn matches(&self, path: &str) -> Result<(String, u16), TemplateError> {
        let [host, port] = self.values(path)?;
        variables::target(host, port)
    }

    /// The values of both variables as they are written.
    fn values<'a>(&self, path: &'a str) -> Result<[&'a str; 2], TemplateError> {
        let has_query = self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if text.contains('?')));
        // A query that the template does not have is not part of the match.
        let mut rest = if has_query {
            path
        } else {
            path.split_once('?').map_or(path, |(path, _)| path)
        };

        let mut host = "";
        let mut port = "";
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(text) => {
                    rest = rest
                        .strip_prefix(text.as_str())
                        .ok_or(TemplateError::NotTemplate)?
                }
                Part::Variable(variable) => {
                    // Templates are checked to have one reading: a variable ends where the next
                    // text begins.
                    let end = match self.parts.get(index + 1) {
                        Some(Part::Text(text)) => text
                            .chars()
                            .next()
                            .and_then(|delimiter| rest.find(delimiter)),
                        _ => Some(rest.len()),
                    };

                    let (value, after) = rest.split_at(end.ok_or(TemplateError::NotTemplate)?);
                    match variable {
                        Variable::Host => host = value,
                        Variable::Port => port = value,
                    }

                    rest = after;
                }
            }
        }

        if rest.is_empty() {
            Ok([host, port])
        } else {
            Err(TemplateError::NotTemplate)
        }
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses arbitrary text as a template and, after a line feed, a path: an unambiguous template
/// matches its own expansions, and a matched path expands to one with the same meaning.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (template, path) = text.split_once('\n').unwrap_or((text, "/"));
    let Ok(template) = UriTemplate::parse(template) else {
        return;
    };

    assert_eq!(
        UriTemplate::parse(&template.to_string()).as_ref(),
        Ok(&template)
    );
    assert!(template.expand("::1", 443).starts_with('/'));
    if template.is_ambiguous() {
        return;
    }

    assert_eq!(
        template.matches(&template.expand("::1", 443)),
        Ok(("::1".to_owned(), 443))
    );

    if let Ok((host, port)) = template.matches(path) {
        assert_ne!(port, 0);
        assert_eq!(crate::host::parse(&host).as_ref(), Ok(&host));
        assert_eq!(
            template.matches(&template.expand(&host, port)),
            Ok((host, port))
        );
    }
}

#[cfg(test)]
mod tests;

//! Texts with variables, for fields that are set and for redirects.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};
use crate::nearest;

/// A text with variables: `text {peer.address} text`; `{{` is a brace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Texts and variables in order; two texts never follow each other.
    pub parts: Vec<TemplatePart>,
}

scalar!(
    Template,
    "hermes-template",
    "A text with variables in braces: {peer.address} {peer.port} {listener} {user} {tls.peer} {target} {target.host} {target.port} {node} {path} {query} {method}. A brace is written {{."
);

/// One part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as it is.
    Text(String),
    /// The value of the variable at that moment.
    Variable(Variable),
}

impl FromStr for Template {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        // RFC 9110, 5.5: a field value has no CR, LF or NUL; other control characters help no one.
        if let Some(letter) = text
            .chars()
            .find(|letter| letter.is_ascii_control() && *letter != '\t')
        {
            return Err(ScalarError::new(format!(
                "`{}` cannot stand in a field's value",
                letter.escape_debug()
            )));
        }

        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;

        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('{') {
                literal.push('{');
                rest = after;
                continue;
            }

            let (name, after) = after.split_once('}').ok_or_else(|| unclosed(text))?;
            if !literal.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
            }

            parts.push(TemplatePart::Variable(name.parse()?));
            rest = after;
        }

        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }

        Ok(Self { parts })
    }
}

fn unclosed(text: &str) -> ScalarError {
    ScalarError::new(format!("a `{{` in `{text}` is not closed")).remedy("write {{ for a brace")
}

impl fmt::Display for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.write_str(&text.replace('{', "{{"))?,
                TemplatePart::Variable(variable) => write!(out, "{{{variable}}}")?,
            }
        }
        Ok(())
    }
}

/// The properties of an exchange that a template can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `peer.address`: address of the other end of the connection.
    PeerAddress,
    /// `peer.port`: port of the other end of the connection.
    PeerPort,
    /// `listener`: name of the listener where the exchange entered.
    Listener,
    /// `user`: the user of the exchange.
    User,
    /// `tls.peer`: name in the certificate of the other end.
    TlsPeer,
    /// `target`: host and port that the exchange is for.
    Target,
    /// `target.host`: host that the exchange is for.
    TargetHost,
    /// `target.port`: port that the exchange is for.
    TargetPort,
    /// `node`: name of this node.
    Node,
    /// `path`: path of the request.
    Path,
    /// `query`: query of the request with its `?`; empty without a query.
    Query,
    /// `method`: method of the request.
    Method,
}

impl Variable {
    /// Every variable.
    pub const ALL: [Self; 12] = [
        Self::PeerAddress,
        Self::PeerPort,
        Self::Listener,
        Self::User,
        Self::TlsPeer,
        Self::Target,
        Self::TargetHost,
        Self::TargetPort,
        Self::Node,
        Self::Path,
        Self::Query,
        Self::Method,
    ];

    /// The name as written between the braces.
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerAddress => "peer.address",
            Self::PeerPort => "peer.port",
            Self::Listener => "listener",
            Self::User => "user",
            Self::TlsPeer => "tls.peer",
            Self::Target => "target",
            Self::TargetHost => "target.host",
            Self::TargetPort => "target.port",
            Self::Node => "node",
            Self::Path => "path",
            Self::Query => "query",
            Self::Method => "method",
        }
    }
}

impl FromStr for Variable {
    type Err = ScalarError;

    fn from_str(name: &str) -> Result<Self, ScalarError> {
        if let Some(variable) = Self::ALL
            .into_iter()
            .find(|variable| variable.name() == name)
        {
            return Ok(variable);
        }

        let names = Self::ALL.map(Self::name);
        let remedy = match nearest(name, names.into_iter()) {
            Some(near) => format!("did you mean `{{{near}}}`?"),
            None => format!("variables are {}", names.join(", ")),
        };

        Err(ScalarError::new(format!("there is no variable `{{{name}}}`")).remedy(remedy))
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Template, TemplatePart, Variable};

    #[test]
    fn a_template_is_text_and_variables() {
        let template: Template = "for={peer.address}:{peer.port}".parse().unwrap();
        assert_eq!(
            template.parts,
            [
                TemplatePart::Text("for=".into()),
                TemplatePart::Variable(Variable::PeerAddress),
                TemplatePart::Text(":".into()),
                TemplatePart::Variable(Variable::PeerPort),
            ]
        );
    }

    #[test]
    fn a_doubled_brace_is_a_brace() {
        let template: Template = "{{\"a\":{{}}".parse().unwrap();
        assert_eq!(template.parts, [TemplatePart::Text("{\"a\":{}}".into())]);
    }

    #[test]
    fn templates_print_as_written() {
        for text in ["", "plain", "{user}", "a {{b} {target}", "{node}{path}"] {
            assert_eq!(text.parse::<Template>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_nearest_name() {
        let error = "{peer.adress}".parse::<Template>().unwrap_err();
        assert_eq!(
            error.remedy.as_deref(),
            Some("did you mean `{peer.address}`?")
        );
    }

    #[test]
    fn broken_templates_are_refused() {
        for text in ["{", "{user", "a\r\nb: c", "{}"] {
            assert!(text.parse::<Template>().is_err(), "{text}");
        }
    }
}

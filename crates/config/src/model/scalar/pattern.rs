//! Patterns of field names, users and texts.

use std::fmt;
use std::str::FromStr;

use regex::Regex;

use super::{ScalarError, regex, scalar};

/// A field name, or the beginning of field names: `service`, `x-hermes-*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldPattern {
    /// The name, or what names begin with; in lower case.
    pub prefix: String,
    /// Whether other letters may follow.
    pub wildcard: bool,
}

scalar!(
    FieldPattern,
    "hermes-field-pattern",
    "A field name, or the beginning of field names: service, x-hermes-*."
);

impl FieldPattern {
    /// Whether a field of this name is meant.
    pub fn matches(&self, name: &str) -> bool {
        if self.wildcard {
            name.get(..self.prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(&self.prefix))
        } else {
            name.eq_ignore_ascii_case(&self.prefix)
        }
    }
}

impl FromStr for FieldPattern {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (name, wildcard) = match text.strip_suffix('*') {
            Some(name) => (name, true),
            None => (text, false),
        };

        if text.is_empty() {
            return Err(ScalarError::new("the field name is empty"));
        }
        if name.contains('*') {
            return Err(ScalarError::new(format!(
                "`{text}`: `*` may stand at the end only"
            )));
        }

        if let Some(letter) = name.chars().find(|letter| !is_token(*letter)) {
            return Err(ScalarError::new(format!(
                "`{}` cannot stand in the field name `{text}`",
                letter.escape_debug()
            )));
        }

        Ok(Self {
            prefix: name.to_ascii_lowercase(),
            wildcard,
        })
    }
}

impl fmt::Display for FieldPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}{}",
            self.prefix,
            if self.wildcard { "*" } else { "" }
        )
    }
}

/// Letters of a token (RFC 9110, 5.6.2), without `*`.
fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(letter)
}

/// A user, or a pattern with one star: `alice`, `*`, `*@example.com`, `team-*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserPattern {
    prefix: String,
    /// What follows the star; `None` without a star.
    suffix: Option<String>,
}

scalar!(
    UserPattern,
    "hermes-user-pattern",
    "A user, or a pattern with one star: alice, *@example.com, team-*."
);

impl UserPattern {
    /// Whether this user is meant. Users are compared letter by letter.
    pub fn matches(&self, user: &str) -> bool {
        match &self.suffix {
            None => user == self.prefix,
            Some(suffix) => user
                .strip_prefix(self.prefix.as_str())
                .is_some_and(|rest| rest.ends_with(suffix.as_str())),
        }
    }
}

impl FromStr for UserPattern {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text.is_empty() {
            return Err(ScalarError::new("the user is empty"));
        }
        let Some((prefix, suffix)) = text.split_once('*') else {
            return Ok(Self {
                prefix: text.to_owned(),
                suffix: None,
            });
        };

        if suffix.contains('*') {
            return Err(ScalarError::new(format!("`{text}` has more than one `*`")));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
            suffix: Some(suffix.to_owned()),
        })
    }
}

impl fmt::Display for UserPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.suffix {
            None => out.write_str(&self.prefix),
            Some(suffix) => write!(out, "{}*{suffix}", self.prefix),
        }
    }
}

/// A text, or `~regex`.
#[derive(Debug, Clone)]
pub enum TextMatch {
    /// This text, letter by letter.
    Exact(String),
    /// Texts in which the expression is found; it is not anchored.
    Regex(Regex),
}

scalar!(TextMatch, "hermes-text-match", "A text, or ~regex.");

impl TextMatch {
    /// Whether the text fulfils the condition.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

impl FromStr for TextMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text.strip_prefix('~') {
            Some(expression) => regex(expression, false).map(Self::Regex),
            None => Ok(Self::Exact(text.to_owned())),
        }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) => out.write_str(exact),
            Self::Regex(regex) => write!(out, "~{regex}"),
        }
    }
}

impl PartialEq for TextMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one == two,
            (Self::Regex(one), Self::Regex(two)) => one.as_str() == two.as_str(),
            _ => false,
        }
    }
}

impl Eq for TextMatch {}

#[cfg(test)]
mod tests {
    use super::{FieldPattern, TextMatch, UserPattern};

    #[test]
    fn field_names_match_in_any_case() {
        let exact: FieldPattern = "Service".parse().unwrap();
        assert!(exact.matches("service") && exact.matches("SERVICE") && !exact.matches("services"));
        let many: FieldPattern = "X-Hermes-*".parse().unwrap();
        assert!(
            many.matches("x-hermes-a")
                && many.matches("X-HERMES-")
                && !many.matches("x-herme")
                && !many.matches("üüüüüü")
        );
    }

    #[test]
    fn odd_field_names_are_refused() {
        for text in ["", "a b", "a:", "*a", "a*b", "**", "ü", "a\n"] {
            assert!(text.parse::<FieldPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_user_pattern_has_one_star_at_most() {
        let matches =
            |pattern: &str, user: &str| pattern.parse::<UserPattern>().unwrap().matches(user);
        assert!(
            matches("alice", "alice") && !matches("alice", "Alice") && !matches("alice", "alice2")
        );
        assert!(matches("*", "") && matches("*", "anybody"));
        assert!(
            matches("*@example.com", "a@example.com") && !matches("*@example.com", "a@example.org")
        );
        assert!(matches("team-*", "team-a") && !matches("team-*", "teams"));
        assert!(matches("ab*ba", "abba") && !matches("ab*ba", "aba"));
        assert!("a*b*".parse::<UserPattern>().is_err());
    }

    #[test]
    fn a_text_is_compared_whole_and_an_expression_is_searched() {
        let matches =
            |pattern: &str, text: &str| pattern.parse::<TextMatch>().unwrap().matches(text);
        assert!(matches("gold", "gold") && !matches("gold", "golden"));
        assert!(matches("~old", "golden") && !matches("~^old", "golden"));
        assert_eq!("~a+".parse::<TextMatch>().unwrap(), "~a+".parse().unwrap());
        assert_ne!("~a".parse::<TextMatch>().unwrap(), "a".parse().unwrap());
        let error = "~(".parse::<TextMatch>().unwrap_err();
        assert!(error.reason.contains("unclosed group"), "{error}");
    }
}

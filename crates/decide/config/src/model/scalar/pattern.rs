//! Patterns of field names, users and texts.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::certificate::USER;
use super::{ScalarError, regex, scalar};

/// A field name, or the beginning of field names: `service`, `x-hermes-*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldPattern {
    /// The name, or the beginning of names; in lower case.
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

/// A user, a pattern with one star, the users of a group, or those with a token that claims one:
/// `alice`, `*`, `*@example.com`, `team-*`, `group:admins`, `claim-group:admins`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserPattern(Form);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    /// This user.
    Exact(String),
    /// Users that begin and end so.
    Star { prefix: String, suffix: String },
    /// The users of this group.
    Group(String),
    /// The users with a token that claims this group.
    ClaimGroup(String),
}

/// The prefix of the name of a group.
const GROUP: &str = "group:";

/// The prefix of the name of a group that tokens claim.
const CLAIM_GROUP: &str = "claim-group:";

scalar!(
    UserPattern,
    "hermes-user-pattern",
    "A user, a pattern with one star, or a group: alice, *@example.com, team-*, group:admins."
);

impl UserPattern {
    /// Whether this user is meant. Users are compared letter by letter. The document defines the
    /// members of a group.
    pub fn matches(&self, user: &str) -> bool {
        match &self.0 {
            Form::Exact(exact) => user == exact,
            Form::Star { prefix, suffix } => user
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.ends_with(suffix.as_str())),
            Form::Group(_) | Form::ClaimGroup(_) => false,
        }
    }

    /// The user, if it is only one.
    pub fn exact(&self) -> Option<&str> {
        match &self.0 {
            Form::Exact(user) => Some(user),
            Form::Star { .. } | Form::Group(_) | Form::ClaimGroup(_) => None,
        }
    }

    /// Whether it stands for the user in a peer's certificate: `{user}`.
    pub fn is_certified_user(&self) -> bool {
        self.exact() == Some(USER)
    }

    /// The group, if it is one.
    pub fn group(&self) -> Option<&str> {
        match &self.0 {
            Form::Group(name) => Some(name),
            Form::Exact(_) | Form::Star { .. } | Form::ClaimGroup(_) => None,
        }
    }

    /// The group that tokens claim, if it is one.
    pub fn claim_group(&self) -> Option<&str> {
        match &self.0 {
            Form::ClaimGroup(name) => Some(name),
            Form::Exact(_) | Form::Star { .. } | Form::Group(_) => None,
        }
    }

    /// Whether `other` means every user that `self` means; groups are compared by name.
    pub fn implies(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Exact(user), _) => other.matches(user),
            (
                Form::Star { prefix, suffix },
                Form::Star {
                    prefix: start,
                    suffix: end,
                },
            ) => prefix.starts_with(start.as_str()) && suffix.ends_with(end.as_str()),
            _ => self == other,
        }
    }
}

impl FromStr for UserPattern {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text.is_empty() {
            return Err(ScalarError::new("the user is empty"));
        }
        let group = text.strip_prefix(GROUP);
        let claim_group = text.strip_prefix(CLAIM_GROUP);
        match (group, claim_group) {
            (Some(""), _) | (_, Some("")) => {
                return Err(ScalarError::new("the group has no name"));
            }
            (Some(name), _) => return Ok(Self(Form::Group(name.to_owned()))),
            (None, Some(name)) => return Ok(Self(Form::ClaimGroup(name.to_owned()))),
            (None, None) => {}
        }

        let Some((prefix, suffix)) = text.split_once('*') else {
            return Ok(Self(Form::Exact(text.to_owned())));
        };
        if suffix.contains('*') {
            return Err(ScalarError::new(format!("`{text}` has more than one `*`")));
        }

        Ok(Self(Form::Star {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
        }))
    }
}

impl fmt::Display for UserPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Exact(user) => out.write_str(user),
            Form::Star { prefix, suffix } => write!(out, "{prefix}*{suffix}"),
            Form::Group(name) => write!(out, "{GROUP}{name}"),
            Form::ClaimGroup(name) => write!(out, "{CLAIM_GROUP}{name}"),
        }
    }
}

/// Users: as a [`UserPattern`], or `~regex`; or no user at all.
#[derive(Debug, Clone)]
pub enum UserMatch {
    /// A user, a pattern or a group.
    Pattern(UserPattern),
    /// Users with a name in which the expression is found; it is not anchored.
    Regex(Regex),
    /// `false`: the user is unknown.
    Unknown,
}

impl<'de> Deserialize<'de> for UserMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Switch(bool),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Switch(false) => Ok(Self::Unknown),
            Form::Switch(true) => Err(D::Error::custom("write `*` for any user")),
            Form::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

impl Serialize for UserMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown => serializer.serialize_bool(false),
            named => serializer.collect_str(named),
        }
    }
}

impl JsonSchema for UserMatch {
    fn schema_name() -> Cow<'static, str> {
        "UserMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            {
                "type": "string",
                "format": "hermes-user-match",
                "description": "A user, a pattern with one star, a group, or ~regex: alice, *@example.com, group:admins.",
            },
            { "const": false, "description": "false: the user is unknown." },
        ] })
    }
}

impl FromStr for UserMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text.strip_prefix('~') {
            Some(expression) => regex(expression, false).map(Self::Regex),
            None => text.parse().map(Self::Pattern),
        }
    }
}

impl fmt::Display for UserMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.fmt(out),
            Self::Regex(regex) => write!(out, "~{regex}"),
            Self::Unknown => out.write_str("no user"),
        }
    }
}

impl PartialEq for UserMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pattern(one), Self::Pattern(two)) => one == two,
            (Self::Regex(one), Self::Regex(two)) => one.as_str() == two.as_str(),
            (Self::Unknown, Self::Unknown) => true,
            _ => false,
        }
    }
}

impl Eq for UserMatch {}

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
    fn a_group_means_no_one_until_the_document_says_who_is_in_it() {
        let group: UserPattern = "group:admins".parse().unwrap();
        assert_eq!(group.group(), Some("admins"));
        assert!(!group.matches("admins") && !group.matches("group:admins"));
        assert!("group:".parse::<UserPattern>().is_err());

        let claimed: UserPattern = "claim-group:admins".parse().unwrap();
        assert_eq!(
            (claimed.claim_group(), claimed.group()),
            (Some("admins"), None)
        );
        assert_eq!(claimed.to_string(), "claim-group:admins");
        assert!(!claimed.matches("claim-group:admins"));
        assert!("claim-group:".parse::<UserPattern>().is_err());
    }

    #[test]
    fn patterns_imply_those_that_mean_more_users() {
        let implies = |one: &str, two: &str| {
            let [one, two] = [one, two].map(|text| text.parse::<UserPattern>().unwrap());
            one.implies(&two)
        };
        assert!(implies("alice", "al*") && implies("alice", "*") && implies("al*e", "a*"));
        assert!(implies("group:a", "group:a") && !implies("group:a", "*"));
        assert!(!implies("a*", "al*") && !implies("*", "alice") && !implies("a*c", "a*b"));
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

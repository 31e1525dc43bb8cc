//! Values of expressions in a PAC file, as far as they are known without a request.

use std::collections::HashMap;

use super::condition::Predicate;

/// Characters that are said of something that is not understood.
#[doc(alias = "bound")]
const SAID: usize = 120;

/// Values of variables.
pub(super) type Variables = HashMap<String, Value>;

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Number(f64),
    Predicate(Predicate),
    /// The host of the request, or its address.
    Host,
    Url,
    /// The beginning of the URL.
    UrlStart,
    /// Where a text stands in the host.
    PlaceInHost(String),
    /// Where a text stands in the URL.
    PlaceInUrl(String),
    /// How many dots the host has.
    Dots,
    Regex {
        expression: String,
        folds_case: bool,
    },
    Choice(Box<Choice>),
    Unknown(Misunderstood),
}

#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) condition: Predicate,
    pub(super) then: Value,
    pub(super) otherwise: Value,
}

/// An expression that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misunderstood {
    pub(super) line: u32,
    pub(super) what: String,
}

impl Value {
    /// A value that is not understood, at this line.
    pub(super) fn unknown(line: u32, what: impl Into<String>) -> Self {
        let what = what.into().chars().take(SAID).collect();
        Self::Unknown(Misunderstood { line, what })
    }

    /// The first of these that is not understood.
    pub(super) fn first_unknown(values: &[Self]) -> Option<Self> {
        let mut unknown = values
            .iter()
            .filter(|value| matches!(value, Self::Unknown(_)));
        unknown.next().cloned()
    }

    /// Its bytes and parts, about: the cost of a copy.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::PlaceInHost(text) | Self::PlaceInUrl(text) => 1 + text.len(),
            Self::Regex { expression, .. } => 1 + expression.len(),
            Self::Predicate(condition) => condition.size(),
            Self::Choice(choice) => {
                choice.condition.size() + choice.then.size() + choice.otherwise.size()
            }
            Self::Unknown(unknown) => 1 + unknown.what.len(),
            Self::Number(_) | Self::Host | Self::Url | Self::UrlStart | Self::Dots => 1,
        }
    }

    /// Levels of parts in one another.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Predicate(condition) => condition.depth(),
            Self::Choice(choice) => {
                let parts = choice.then.depth().max(choice.otherwise.depth());
                1 + parts.max(choice.condition.depth())
            }
            _ => 1,
        }
    }
}

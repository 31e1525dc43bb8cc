//! Mistakes in a template, and their remedies.

use super::Variable;

/// Why a text is no template of a proxy (RFC 9298, section 2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateMistake {
    /// The template begins neither with a path nor with a scheme.
    #[error("`{0}` is neither a path nor a URI")]
    NoPath(String),
    /// Scheme and authority of a whole URI cannot be read.
    #[error("`{0}` is not the authority of a proxy")]
    Authority(String),
    /// A character that no URI has.
    #[error("`{}` cannot stand in a URI", .0.escape_debug())]
    Character(char),
    /// A `%` without two hexadecimal digits.
    #[error("a `%` is not followed by two hexadecimal digits")]
    Percent,
    /// A fragment never reaches the proxy.
    #[error("a fragment (`#`) never reaches a proxy")]
    Fragment,
    /// A brace that is not opened or not closed.
    #[error("a brace has no partner")]
    Brace,
    /// An operator that RFC 9298 forbids.
    #[error("`{{{0}...}}` is not allowed (RFC 9298, section 2)")]
    Operator(char),
    /// A prefix or explode modifier: those are level 4.
    #[error("`{0}` is of level 4, and only level 3 is allowed (RFC 9298, section 2)")]
    Modifier(String),
    /// A variable for which there is no value.
    #[error("there is no value for a variable `{0}`")]
    Unknown(String),
    /// A variable that stands there twice.
    #[error("`{}` stands there twice", .0.name())]
    Twice(Variable),
    /// A variable that is missing.
    #[error("`{}` is missing", .0.name())]
    Missing(Variable),
    /// `{?...}` where a query has begun.
    #[error("`{{?...}}` begins a query, and there is one already")]
    SecondQuery,
    /// `{&...}` where no query has begun.
    #[error("`{{&...}}` continues a query, and there is none")]
    NoQuery,
}

impl TemplateMistake {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoPath(_) => "begin it with `/`, `https://` or `http://`",
            Self::Authority(_) => {
                "write the host, and the port if it is another than the scheme's, without variables"
            }
            Self::Character(_) => "percent-encode it",
            Self::Percent => "write `%25` for a percent sign",
            Self::Fragment => "remove it",
            Self::Brace => "write variables like `{target_host}`",
            Self::Operator(_) => "write `{target_host}`, `{?target_host}` or `{&target_host}`",
            Self::Modifier(_) => "remove `:` or `*` after the name",
            Self::Unknown(_) => "the variables are `target_host` and `target_port`",
            Self::Twice(_) => "write it once",
            Self::Missing(Variable::Host) => "add `{target_host}`",
            Self::Missing(Variable::Port) => "add `{target_port}`",
            Self::SecondQuery => "write `{&...}`",
            Self::NoQuery => "write `{?...}`",
        }
    }
}

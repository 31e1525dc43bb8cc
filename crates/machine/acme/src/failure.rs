//! Why an order failed, and how that is mended.

use hermes_config::model::{Acme, AcmeChallenge};
use instant_acme::{Error, Problem};

use crate::folder::FolderError;

/// Characters that are kept of an authority's own words.
#[doc(alias = "bound")]
const WORDS: usize = 512;

/// The prefix of types of problems (RFC 8555 section 6.7).
const URN: &str = "urn:ietf:params:acme:error:";

/// Why an order failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) remedy: String,
    /// The authority says that it was asked too often.
    pub(crate) is_rate_limited: bool,
    /// The authority does not know the account that the folder holds.
    pub(crate) is_account_unknown: bool,
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
            is_rate_limited: false,
            is_account_unknown: false,
        }
    }

    /// The authority breaks ACME, or exceeds a bound.
    pub(crate) fn of_authority(reason: impl Into<String>) -> Self {
        Self::new(reason, "tell the authority, or name another `directory`")
    }

    /// A step of an order failed.
    pub(crate) fn of_step(step: &str, error: &Error, settings: &Acme) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(step, problem, settings),
            Error::Timeout(_) => Self::new(
                format!("{step}: the authority did not come to an end in time"),
                "nothing: it is tried again",
            ),
            other => Self::new(
                format!("{step}: {}", bounded(&other.to_string())),
                format!(
                    "check that this machine reaches {} and accepts its certificate (`ca_file`)",
                    settings.directory()
                ),
            ),
        }
    }

    /// The authority says why not.
    pub(crate) fn of_problem(step: &str, problem: &Problem, settings: &Acme) -> Self {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix(URN).unwrap_or(kind);
        let remedy = remedy(kind, settings);
        let reason = format!(
            "{step}: the authority says: {}",
            bounded(&problem.to_string())
        );

        Self {
            is_rate_limited: kind == "rateLimited",
            is_account_unknown: kind == "accountDoesNotExist",
            ..Self::new(reason, remedy)
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        Self::new(error.reason, error.remedy)
    }
}

fn remedy(kind: &str, settings: &Acme) -> String {
    let domains = settings.domains.join(", ");
    let port = match settings.challenge {
        AcmeChallenge::Http01 => "port 80 there an `http` listener without TLS of this node",
        AcmeChallenge::TlsAlpn01 => "port 443 there this listener, with no TLS proxy before it",
    };
    match kind {
        "dns" | "connection" | "unauthorized" | "tls" | "incorrectResponse" => {
            format!("let DNS say this machine's address for {domains}, and be {port}")
        }
        "rateLimited" => "nothing: it is tried again later".to_owned(),
        "caa" => format!("allow the authority in the CAA records of {domains}"),
        "userActionRequired" => {
            "read the authority's new terms of service, and agree to them as it says".to_owned()
        }
        "accountDoesNotExist" => "nothing: a new account is made".to_owned(),
        "externalAccountRequired" => {
            "name the account that you have there in `external_account`, or a `directory` that needs none".to_owned()
        }
        "rejectedIdentifier" | "unsupportedIdentifier" => {
            format!("remove from `domains` the name that it refuses; it was asked for {domains}")
        }
        "invalidContact" | "unsupportedContact" => "write another `email`, or none".to_owned(),
        _ => "see the authority's words; it is tried again".to_owned(),
    }
}

/// A text of a stranger, cut to a length and without control characters.
pub(crate) fn bounded(text: &str) -> String {
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_authority_are_cut_and_plain() {
        let long = format!("a\u{1b}[31m\r\nb{}", "x".repeat(1000));
        let kept = bounded(&long);
        assert_eq!(kept.chars().count(), WORDS);
        assert!(!kept.contains(['\u{1b}', '\r', '\n']));
    }
}

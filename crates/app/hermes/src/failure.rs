//! The failure of a command: its reason, its remedy, and its exit code.

use hermes_config::{Problem, Problems};
use serde_json::{Value, json};

/// A command's failure. The exit codes are documented in `hermes --help`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code: 1 failed, 2 invalid, 3 unreachable; of `exec` also others.
    pub code: u8,
    /// The reason; empty when the command has already printed it.
    pub reason: String,
    /// The remedy.
    pub remedy: Option<String>,
    /// The problems of a configuration, each with its place.
    pub problems: Vec<Problem>,
}

impl Failure {
    fn new(code: u8, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            remedy: None,
            problems: Vec::new(),
        }
    }

    /// It did not work.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(1, reason)
    }

    /// The arguments make no sense together.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::new(2, reason)
    }

    /// The running node does not answer.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::new(3, reason)
    }

    /// It did not work, and this code says why.
    pub fn coded(code: u8, reason: impl Into<String>) -> Self {
        Self::new(code, reason)
    }

    /// It did not work, and the command's output says why.
    pub fn told(code: u8) -> Self {
        Self::new(code, "")
    }

    /// Adds a remedy.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// As lines for people.
    pub fn text(&self) -> String {
        let mut text: String = self
            .problems
            .iter()
            .map(|problem| format!("{problem}\n"))
            .collect();
        if !self.reason.is_empty() {
            text.push_str("hermes: ");
            text.push_str(&self.reason);
            if let Some(remedy) = &self.remedy {
                text.push_str("; ");
                text.push_str(remedy);
            }
            text.push('\n');
        }

        text
    }

    /// As an object for scripts.
    pub fn json(&self) -> Value {
        let mut object = json!({ "error": self.reason, "code": self.code });
        if let Some(remedy) = &self.remedy {
            object["remedy"] = json!(remedy);
        }

        if !self.problems.is_empty() {
            object["problems"] = json!(self.problems);
        }
        object
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let count = problems.0.len();
        let reason = if count == 1 {
            "1 problem".to_owned()
        } else {
            format!("{count} problems")
        };

        Self {
            problems: problems.0,
            ..Self::invalid(reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        Problem {
            place: None,
            path: "routes[2].to".into(),
            reason: "no Upstream `ingres`".into(),
            remedy: Some("did you mean `ingress`?".into()),
        }
    }

    #[test]
    fn problems_are_listed_before_their_number() {
        let failure = Failure::from(Problems(vec![problem(), problem()]));
        let line = "routes[2].to: no Upstream `ingres`; did you mean `ingress`?\n";
        assert_eq!(failure.text(), format!("{line}{line}hermes: 2 problems\n"));
        assert_eq!(failure.code, 2);
    }

    #[test]
    fn a_remedy_follows_the_reason() {
        let failure =
            Failure::unreachable("no node is running").remedy("start one with `hermes run FILE`");
        assert_eq!(
            failure.text(),
            "hermes: no node is running; start one with `hermes run FILE`\n"
        );
        assert_eq!(failure.json()["remedy"], "start one with `hermes run FILE`");
    }

    #[test]
    fn what_was_already_told_is_not_told_again() {
        assert_eq!(Failure::told(1).text(), "");
    }
}

//! Pointers into the entries of a decision log.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// A part of a decision, as JSON Pointer writes it (RFC 6901): `/input/claims`, `/result/fields/x-role`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DecisionPointer(String);

scalar!(
    DecisionPointer,
    "hermes-decision-pointer",
    "A part of a decision's input or result: /input/claims, /input/fields/x-tenant, /result/fields/x-role."
);

/// The parts that may be named.
const PARTS: [&str; 2] = ["/input/", "/result/"];

/// Maps with names of fields as keys; the case of these does not matter.
const FIELDS: [&str; 3] = [
    "/input/fields/",
    "/result/fields/",
    "/result/answer_fields/",
];

impl DecisionPointer {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DecisionPointer {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let names_part = |part: &&str| text.len() > part.len() && text.starts_with(part);
        if !PARTS.iter().any(names_part) || text.ends_with('/') {
            let reason = format!("`{text}` names no part of a decision");
            return Err(ScalarError::new(reason).remedy(
                "write it like /input/claims, /input/fields/x-tenant or /result/fields/x-role",
            ));
        }

        let mut escapes = text.split('~').skip(1);
        if !escapes.all(|rest| rest.starts_with(['0', '1'])) {
            let reason = format!("`~` in `{text}` stands for nothing");
            return Err(ScalarError::new(reason).remedy("write ~0 for `~`, and ~1 for `/`"));
        }

        let is_field = FIELDS.iter().any(|fields| text.starts_with(fields));
        Ok(Self(if is_field {
            text.to_ascii_lowercase()
        } else {
            text.to_owned()
        }))
    }
}

impl fmt::Display for DecisionPointer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::DecisionPointer;

    #[test]
    fn parts_of_a_decision_round_trip() {
        for text in [
            "/input/claims",
            "/input/claims/a~1b/0",
            "/result/fields/x-role",
        ] {
            assert_eq!(text.parse::<DecisionPointer>().unwrap().as_str(), text);
        }
        let field: DecisionPointer = "/input/fields/X-Tenant".parse().unwrap();
        assert_eq!(field.to_string(), "/input/fields/x-tenant");
    }

    #[test]
    fn what_is_no_part_of_a_decision_is_refused() {
        for text in [
            "",
            "/",
            "claims",
            "/input",
            "/input/",
            "/input/a/",
            "/labels/id",
            "/inputs/a",
            "/input/a~",
            "/input/a~2b",
        ] {
            assert!(text.parse::<DecisionPointer>().is_err(), "{text}");
        }
    }
}

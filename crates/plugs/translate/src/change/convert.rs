//! Values that change their type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{Json, is_number};

/// Characters of a value that a reason shows.
const SHOWN: usize = 40;

/// A type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueType {
    /// A string: numbers and booleans as they are written.
    String,
    /// A number: of a string that is one.
    Number,
    /// A boolean: of `true` and `false`, `1` and `0`.
    Boolean,
    /// An array: of any other value the one element.
    Array,
}

impl ValueType {
    /// Gives a value this type; `null` stays.
    ///
    /// # Errors
    /// It has no such meaning.
    pub(super) fn convert(self, value: &mut Json) -> Result<(), String> {
        let is_right = matches!(
            (self, &*value),
            (_, Json::Null)
                | (Self::String, Json::Text(_))
                | (Self::Number, Json::Number(_))
                | (Self::Boolean, Json::Bool(_))
                | (Self::Array, Json::List(_))
        );
        if is_right {
            return Ok(());
        }
        let converted = match (self, value.plain()) {
            (Self::Array, _) => Some(Json::List(vec![value.clone()])),
            (Self::String, Some(plain)) => Some(Json::Text(plain.to_owned())),
            (Self::Number, Some(plain)) if is_number(plain.as_bytes()) => {
                Some(Json::Number(plain.into()))
            }
            (Self::Boolean, Some("true" | "1")) => Some(Json::Bool(true)),
            (Self::Boolean, Some("false" | "0")) => Some(Json::Bool(false)),
            _ => None,
        };
        let wrong = || {
            let shown: String = value
                .plain()
                .unwrap_or(value.kind())
                .escape_debug()
                .take(SHOWN)
                .collect();
            format!("`{shown}` is not {}", self.name())
        };
        *value = converted.ok_or_else(wrong)?;
        Ok(())
    }

    fn name(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Array => "an array",
        }
    }
}

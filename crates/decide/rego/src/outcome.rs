//! The outcome of an evaluation.

use serde_json::{Map, Value as Json};

use regorus::Value;

use crate::budget::Excess;
use crate::wrong::Wrong;

/// Values in a result, those within others included.
#[doc(alias = "bound")]
const VALUES: usize = 10_000;

/// Bytes of the texts in a result.
#[doc(alias = "bound")]
const TEXT: usize = 256 * 1024;

/// How deep values in a result may stand within others.
#[doc(alias = "bound")]
const DEPTH: usize = 64;

/// The value of a rule; `None` if it is undefined.
pub type Answer = Result<Option<Json>, Failure>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A bound was reached.
    #[error("the policy took {}", excess_words(*.0))]
    Excess(Excess),
    /// Too many questions wait.
    #[error("too many questions at once")]
    Crowded,
    /// Threads were lost to the policy, and it is asked no more.
    #[error("the policy is not asked any more: it took too much memory at once, several times")]
    Stopped,
    /// The policy cannot be evaluated for this input.
    #[error("{0}")]
    Broken(Wrong),
}

fn excess_words(excess: Excess) -> &'static str {
    match excess {
        Excess::Steps => "more steps than `steps` allows",
        Excess::Memory => "more memory than `memory` allows",
        Excess::Time => "too long",
    }
}

/// A value as JSON. One text can stand in a value a million times at no cost; as JSON it would, so there are bounds.
pub(crate) fn to_json(value: &Value) -> Answer {
    let mut room = Room {
        values: VALUES,
        text: TEXT,
    };
    match value {
        Value::Undefined => Ok(None),
        value => room.json(value, DEPTH).map(Some),
    }
}

/// The size that a result may still have.
struct Room {
    values: usize,
    text: usize,
}

impl Room {
    fn json(&mut self, value: &Value, depth: usize) -> Result<Json, Failure> {
        let too_large = || broken("the result is too large");
        self.values = self.values.checked_sub(1).ok_or_else(too_large)?;
        let below = depth.checked_sub(1).ok_or_else(too_large)?;

        Ok(match value {
            Value::Null => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Number(_) => number(value),
            Value::String(text) => {
                self.text = self.text.checked_sub(text.len()).ok_or_else(too_large)?;
                Json::String(text.to_string())
            }
            Value::Array(array) => {
                let values = array.iter().map(|value| self.json(value, below));
                Json::Array(values.collect::<Result<_, _>>()?)
            }
            Value::Set(set) => {
                let values = set.iter_sorted().map(|value| self.json(value, below));
                Json::Array(values.collect::<Result<_, _>>()?)
            }
            Value::Object(object) => {
                let mut map = Map::new();
                for (key, value) in object.iter_sorted() {
                    let key = match self.json(key, below)? {
                        Json::String(key) => key,
                        other => other.to_string(),
                    };
                    map.insert(key, self.json(value, below)?);
                }
                Json::Object(map)
            }
            Value::Undefined => return Err(broken("the result holds an undefined value")),
        })
    }
}

fn broken(reason: &str) -> Failure {
    Failure::Broken(Wrong {
        file: "result".to_owned(),
        place: None,
        reason: reason.to_owned(),
    })
}

fn number(value: &Value) -> Json {
    if let Ok(whole) = value.as_i64() {
        return whole.into();
    }
    if let Ok(whole) = value.as_u64() {
        return whole.into();
    }
    value.as_f64().map_or(Json::Null, Json::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_texts_and_sets_become_json() {
        let given = json!({ "a": [1, -1, 1.5, 18_446_744_073_709_551_615_u64], "b": null, "c": { "d": "e" } });
        assert_eq!(to_json(&Value::from(given.clone())), Ok(Some(given)));
        assert_eq!(to_json(&Value::Undefined), Ok(None));
    }

    #[test]
    fn a_small_value_that_is_large_as_json_is_no_result() {
        let mut value = Value::from("x".repeat(1000));
        for _ in 0..30 {
            value = Value::from(vec![value.clone(), value]);
        }
        assert!(to_json(&value).is_err());
    }
}

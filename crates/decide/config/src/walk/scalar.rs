//! Words, texts and numbers.

use std::path::Path;

use serde_json::Value as Json;

use super::{At, PathForm, Walk};
use crate::Problem;
use crate::model::scalar::{END, PATH, UNIX, check};
use crate::nearest;
use crate::tree::Value;

/// The values that a schema lists by `enum` or `const`.
pub(super) fn choices(schema: &Json) -> Vec<&Json> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Json::Array(all)), _) => all.iter().collect(),
        (_, Some(only)) => vec![only],
        _ => Vec::new(),
    }
}

/// Whether the schema lists its values.
pub(super) fn is_choice(schema: &Json) -> bool {
    !choices(schema).is_empty()
}

/// A listed value as written.
pub(super) fn written(choice: &Json) -> String {
    choice
        .as_str()
        .map_or_else(|| choice.to_string(), str::to_owned)
}

/// `1`, `1 or 2`, `1, 2 or 3`.
fn one_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

impl<'s> Walk<'s> {
    /// A value that must be one of those listed.
    pub(super) fn choice(&mut self, schemas: &[&'s Json], at: At<'_>) -> Json {
        let all: Vec<&Json> = schemas.iter().flat_map(|schema| choices(schema)).collect();
        let json = match &at.node.value {
            Value::Text(text) => Json::from(text.as_str()),
            Value::Int(number) => Json::from(*number),
            Value::Float(number) => Json::from(*number),
            Value::Bool(switch) => Json::from(*switch),
            _ => Json::Null,
        };

        if !all.contains(&&json) {
            let words: Vec<String> = all.iter().map(|choice| written(choice)).collect();
            let near = nearest(&written(&json), words.iter().map(String::as_str));
            let remedy = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write {}", one_of(&words)),
            };

            return self.wrong(
                at.problem(format!("`{}` is not allowed here", written(&json)))
                    .remedy(remedy),
            );
        }

        json
    }

    pub(super) fn text(&mut self, schema: &'s Json, text: &str, at: At<'_>) -> Json {
        let format = schema
            .get("format")
            .and_then(Json::as_str)
            .unwrap_or_default();
        if let Err(error) = check(format, text) {
            return self.wrong(Problem::scalar(at.place, at.path, error));
        }

        match self.paths {
            PathForm::Absolute => Json::from(absolute(format, text, &at.node.place.file)),
            PathForm::AsWritten => Json::from(text),
        }
    }

    pub(super) fn number(&mut self, schema: &'s Json, number: i64, at: At<'_>) -> Json {
        let bound = |name: &str| schema.get(name).and_then(Json::as_f64);
        let least = bound("minimum");
        let most = bound("maximum").or(widest(schema));

        if let Some(least) = least.filter(|least| (number as f64) < *least) {
            return self.wrong(
                at.problem(format!("{number} is too small"))
                    .remedy(format!("the least is {least}")),
            );
        }

        if let Some(most) = most.filter(|most| (number as f64) > *most) {
            return self.wrong(
                at.problem(format!("{number} is too large"))
                    .remedy(format!("the most is {most}")),
            );
        }

        Json::from(number)
    }
}

/// The largest number of an integer format that has no `maximum` beside it.
fn widest(schema: &Json) -> Option<f64> {
    match schema.get("format")?.as_str()? {
        "uint8" => Some(u8::MAX.into()),
        "uint16" => Some(u16::MAX.into()),
        "uint32" => Some(u32::MAX.into()),
        _ => None,
    }
}

/// A path, or the path of a Unix socket, made absolute from the folder of the file where it is written.
fn absolute(format: &str, text: &str, file: &Path) -> String {
    let whole = |path: &str| {
        let joined = file.parent().unwrap_or(Path::new("")).join(path);
        std::path::absolute(&joined)
            .unwrap_or(joined)
            .to_string_lossy()
            .into_owned()
    };
    match text.strip_prefix(UNIX) {
        Some(path)
            if !path.is_empty()
                && matches!(
                    format,
                    "hermes-listen-address" | "hermes-endpoint-address" | END
                ) =>
        {
            format!("{UNIX}{}", whole(path))
        }
        _ if format == PATH && !text.is_empty() => whole(text),
        _ => text.to_owned(),
    }
}

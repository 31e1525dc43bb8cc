//! From tree to JSON along the schema, collecting every violation.
//!
//! Understands the part of JSON Schema that the model's types use: `$ref`, `type`, `properties`,
//! `required`, `additionalProperties`, `minProperties`, `maxProperties`, `items`, `minItems`,
//! `enum`, `const`, `anyOf`, `oneOf`, `minimum`, `maximum`, `format`. Of several alternatives, the
//! one for the value's own kind is checked, so that a problem is about the intended one.
//!
//! A value that violates the schema becomes null.

mod collection;
mod mismatch;
mod scalar;

use serde_json::Value as Json;

use crate::tree::{Node, Value};
use crate::{Place, Problem};

/// Reads the tree along the schema; returns every violation as well.
pub(crate) fn read(schema: &Json, root: &Node) -> (Json, Vec<Problem>) {
    walk(schema, root, PathForm::Absolute)
}

/// Reads the tree like [`read`], with the paths of files as they are written: they are those of another machine.
pub(crate) fn read_as_written(schema: &Json, root: &Node) -> (Json, Vec<Problem>) {
    walk(schema, root, PathForm::AsWritten)
}

/// The form in which paths of files are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathForm {
    /// From the folder of the file that names them.
    Absolute,
    /// Unchanged.
    AsWritten,
}

fn walk(schema: &Json, root: &Node, paths: PathForm) -> (Json, Vec<Problem>) {
    let mut walk = Walk {
        root: schema,
        problems: Vec::new(),
        paths,
    };

    let json = walk.value(
        schema,
        At {
            node: root,
            path: "",
            place: &root.place,
        },
    );

    (json, walk.problems)
}

/// A value, with its path and place.
#[derive(Clone, Copy)]
struct At<'n> {
    node: &'n Node,
    path: &'n str,
    /// Where problems of the value as a whole are shown.
    place: &'n Place,
}

impl At<'_> {
    fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem::at(self.place, self.path, reason)
    }
}

/// The walk; every schema that it meets is part of `root`.
struct Walk<'s> {
    root: &'s Json,
    problems: Vec<Problem>,
    paths: PathForm,
}

impl<'s> Walk<'s> {
    fn value(&mut self, schema: &'s Json, at: At<'_>) -> Json {
        match at.node.value {
            Value::Null => self.wrong(
                at.problem("there is no value")
                    .remedy("write a value, or remove the key"),
            ),
            Value::Unread => Json::Null,
            _ => self.meant(schema, at),
        }
    }

    /// Reports a value that is wrong, which becomes null.
    fn wrong(&mut self, problem: Problem) -> Json {
        self.problems.push(problem);
        Json::Null
    }

    /// The value as the alternative that is meant for its kind.
    fn meant(&mut self, schema: &'s Json, at: At<'_>) -> Json {
        let mut branches = Vec::new();
        self.branches(schema, &mut branches);
        let fitting: Vec<&Json> = branches
            .iter()
            .copied()
            .filter(|branch| accepts(branch, &at.node.value))
            .collect();
        let problems = self.problems.len();
        let json = self.of_kind(&branches, &fitting, at);

        // An unknown word where a word or a map is wanted: probably the key of the map, so show its form.
        if let Value::Text(text) = &at.node.value
            && fitting.iter().all(|branch| scalar::is_choice(branch))
            && let Some(form) = self.map_form(&branches, text)
            && let [problem] = &mut self.problems[problems..]
            && problem.path == at.path
        {
            problem.remedy = Some(form);
        }

        json
    }

    /// The value as one of the alternatives that take its kind.
    fn of_kind(&mut self, branches: &[&'s Json], fitting: &[&'s Json], at: At<'_>) -> Json {
        match fitting {
            [] => self.mismatch(branches, at),
            [only] => self.typed(only, at),
            several => self.best(several, at),
        }
    }

    /// The alternatives of a schema, references followed.
    fn branches(&self, schema: &'s Json, out: &mut Vec<&'s Json>) {
        let schema = self.resolved(schema);
        match schema
            .get("anyOf")
            .or_else(|| schema.get("oneOf"))
            .and_then(Json::as_array)
        {
            Some(alternatives) => alternatives
                .iter()
                .for_each(|alternative| self.branches(alternative, out)),
            None => out.push(schema),
        }
    }

    /// The target of a `$ref`; any other schema is itself.
    fn resolved(&self, schema: &'s Json) -> &'s Json {
        let pointer = schema
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|name| name.strip_prefix('#'));
        pointer
            .and_then(|pointer| self.root.pointer(pointer))
            .unwrap_or(schema)
    }

    /// Reads a value that several alternatives accept. Words are one choice; of other alternatives, the one with the fewest problems
    /// was probably meant.
    fn best(&mut self, several: &[&'s Json], at: At<'_>) -> Json {
        if several.iter().all(|branch| scalar::is_choice(branch)) {
            return self.choice(several, at);
        }
        // Set aside, so that each alternative starts with an empty list.
        let kept = std::mem::take(&mut self.problems);
        let mut best: Option<(Vec<Problem>, Json)> = None;

        for branch in several {
            let json = self.typed(branch, at);
            let found = std::mem::take(&mut self.problems);
            if best
                .as_ref()
                .is_none_or(|(fewest, _)| found.len() < fewest.len())
            {
                best = Some((found, json));
            }
        }

        self.problems = kept;
        let (found, json) = best.unwrap_or_default();
        self.problems.extend(found);

        json
    }

    /// A value of a kind that the schema takes.
    fn typed(&mut self, schema: &'s Json, at: At<'_>) -> Json {
        match &at.node.value {
            Value::Map(entries) => self.map(schema, entries, at),
            Value::List(nodes) => self.list(schema, nodes, at),
            _ if scalar::is_choice(schema) => self.choice(&[schema], at),
            Value::Text(text) => self.text(schema, text, at),
            Value::Int(number) => self.number(schema, *number, at),
            Value::Float(number) => Json::from(*number),
            Value::Bool(switch) => Json::from(*switch),
            Value::Null | Value::Unread => Json::Null,
        }
    }
}

/// The types that a schema takes; empty if it takes every type.
fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(name)) => vec![name],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => scalar::choices(schema)
            .first()
            .map(|word| kind_of_json(word))
            .into_iter()
            .collect(),
    }
}

fn kind_of_json(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn accepts(schema: &Json, value: &Value) -> bool {
    let fits = |name: &&str| match value {
        Value::Null | Value::Unread => *name == "null",
        Value::Bool(_) => *name == "boolean",
        Value::Int(_) => *name == "integer" || *name == "number",
        Value::Float(_) => *name == "number",
        Value::Text(_) => *name == "string",
        Value::List(_) => *name == "array",
        Value::Map(_) => *name == "object",
    };

    let types = types(schema);
    types.is_empty() || types.iter().any(fits)
}

//! The parts of a mapping's file: changes to queries, fields and contents.

use std::collections::HashSet;
use std::sync::Arc;

use hermes_config::{Problem, child};
use http::HeaderName;
use indexmap::IndexMap;

use super::field_changes::{FieldChanges, FieldMove, field_name};
use super::file::{ConstantSpec, ContentSpec, PairsSpec};
use crate::change::{Allowed, Changes, Constant};
use crate::content::{ContentBounds, ContentForm, ContentPlan};
use crate::json::{Json, ScanBounds};
use crate::member_path::MemberPath;
use crate::template::Template;

/// The variables of an operation's path.
#[derive(Default)]
pub(super) struct Variables(pub(super) HashSet<String>);

impl Variables {
    /// Whether it is one of them, or of a query or of fields.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_other = ["query.", "field."].iter().any(|kind| {
            let rest = name.strip_prefix(kind);
            rest.is_some_and(|rest| !rest.is_empty())
        });
        is_other || self.0.contains(name)
    }
}

/// Reads the value at a path of the file.
pub(super) struct Parts<'r> {
    pub(super) path: String,
    pub(super) variables: &'r Variables,
    pub(super) bounds: ContentBounds,
    pub(super) problems: &'r mut Vec<Problem>,
}

/// A value of each of several names.
type Named<'s, T> = &'s IndexMap<String, T>;

impl Parts<'_> {
    /// Changes to a query.
    pub(super) fn query(&mut self, spec: &PairsSpec) -> Changes {
        // A name of a query is a name alone: dots and brackets in it mean nothing.
        let changes = ContentSpec {
            moves: spec.moves.clone(),
            only: spec.only.clone(),
            values: spec.values.clone(),
            set: spec.set.clone(),
            default: spec.default.clone(),
            remove: spec.remove.clone(),
            ..ContentSpec::default()
        };
        self.changes(&changes, &|name| Ok(MemberPath::of_name(name)))
    }

    /// Changes to a content.
    pub(super) fn content(&mut self, spec: &ContentSpec) -> Arc<ContentPlan> {
        let changes = self.changes(spec, &|path| path.parse());
        let take = self.names("take", spec.take.as_deref());
        let put = self.names("put", spec.put.as_deref());
        if spec.from == ContentForm::None && !take.is_empty() {
            self.wrong("take", "nothing comes that could be taken", "remove it");
        }
        let mut plan = ContentPlan {
            from: spec.from,
            to: spec.to,
            take,
            put,
            changes,
            element: None,
            bounds: self.bounds,
        };
        plan.element = plan.elements();
        Arc::new(plan)
    }

    /// Changes to fields.
    pub(super) fn fields(&mut self, spec: &PairsSpec) -> FieldChanges {
        if !spec.only.is_empty() {
            let remedy = "name those that are removed, under `remove`";
            self.wrong("only", "fields that no one names stay", remedy);
        }
        let mut moves = Vec::new();
        for (from, to) in &spec.moves {
            let from = self.field("move", from);
            let to = self.field("move", to);
            moves.extend(from.zip(to).map(|(from, to)| FieldMove { from, to }));
        }
        let mut values = Vec::new();
        for (name, table) in &spec.values {
            let texts = table.iter().filter_map(|(old, new)| {
                let text = self.text(&child("values", name), new)?;
                Some((old.clone(), text))
            });
            let texts = texts.collect();
            values.extend(self.field("values", name).map(|name| (name, texts)));
        }
        let remove = spec
            .remove
            .iter()
            .filter_map(|name| self.field("remove", name));
        let remove = remove.collect();
        FieldChanges {
            moves,
            values,
            set: self.field_texts("set", &spec.set),
            default: self.field_texts("default", &spec.default),
            remove,
        }
    }

    fn wrong(&mut self, key: &str, reason: impl Into<String>, remedy: &str) {
        let path = format!("{}.{key}", self.path);
        self.problems
            .push(Problem::new(path, reason).remedy(remedy));
    }

    fn changes(
        &mut self,
        spec: &ContentSpec,
        read: &dyn Fn(&str) -> Result<MemberPath, String>,
    ) -> Changes {
        let mut path = |key: &str, text: &str| {
            let path = read(text);
            let remedy = "write one as `name.first` or `users[].id`";
            path.map_err(|reason| self.wrong(key, reason, remedy)).ok()
        };
        let mut moves = Vec::new();
        for (from, to) in &spec.moves {
            moves.extend(path("move", from).zip(path("move", to)));
        }
        let only: Vec<_> = spec
            .only
            .iter()
            .filter_map(|text| path("only", text))
            .collect();
        let types = spec
            .types
            .iter()
            .filter_map(|(text, kind)| Some((path("types", text)?, *kind)));
        let types = types.collect();
        let remove = spec
            .remove
            .iter()
            .filter_map(|text| path("remove", text))
            .collect();

        let mut values = Vec::new();
        for (text, table) in &spec.values {
            let place = child("values", text);
            let table = table
                .iter()
                .filter_map(|(old, new)| Some((old.clone(), self.constant(&place, new)?)));
            let table = table.collect();
            values.extend(read(text).ok().map(|path| (path, table)));
        }
        let moves = Changes::moving(&moves).unwrap_or_else(|reason| {
            self.wrong("move", reason, "move it within its array");
            Vec::new()
        });
        Changes {
            moves,
            only: allowed(&only),
            values,
            types,
            set: self.constants("set", &spec.set, read),
            default: self.constants("default", &spec.default, read),
            remove,
        }
    }

    fn constants(
        &mut self,
        key: &str,
        specs: Named<'_, ConstantSpec>,
        read: &dyn Fn(&str) -> Result<MemberPath, String>,
    ) -> Vec<(MemberPath, Constant)> {
        let mut constants = Vec::new();
        for (text, spec) in specs {
            let constant = self.constant(&child(key, text), spec);
            match read(text) {
                Ok(path) => constants.extend(constant.map(|constant| (path, constant))),
                Err(reason) => self.wrong(key, reason, "write one as `name.first`"),
            }
        }
        constants
    }

    fn constant(&mut self, key: &str, spec: &ConstantSpec) -> Option<Constant> {
        match spec {
            ConstantSpec::Bool(switch) => Some(Constant::Json(Json::Bool(*switch))),
            ConstantSpec::Number(number) => {
                Some(Constant::Json(Json::Number(number.to_string().into())))
            }
            ConstantSpec::Text(_) => self.text(key, spec).map(Constant::Text),
            ConstantSpec::Json(written) => {
                let bounds = ScanBounds {
                    depth: self.bounds.depth,
                    string: self.bounds.bytes,
                };
                let json = Json::parse(written.json.as_bytes(), bounds);
                let remedy = "write JSON in quotes, as '[]'";
                json.map_err(|wrong| self.wrong(key, wrong.to_string(), remedy))
                    .ok()
                    .map(Constant::Json)
            }
        }
    }

    fn text(&mut self, key: &str, spec: &ConstantSpec) -> Option<Template> {
        let text = match spec {
            ConstantSpec::Bool(switch) => switch.to_string(),
            ConstantSpec::Number(number) => number.to_string(),
            ConstantSpec::Text(text) => text.clone(),
            ConstantSpec::Json(_) => {
                self.wrong(key, "a field has a text", "write it without `json`");
                return None;
            }
        };
        let template = match Template::parse(&text) {
            Ok(template) => template,
            Err(reason) => {
                self.wrong(key, reason, "write each variable as `{name}`");
                return None;
            }
        };
        let unknown = template.variables().find(|name| !self.variables.has(name));
        if let Some(name) = unknown.map(str::to_owned) {
            let reason = format!("`{{{name}}}` is no variable here");
            self.wrong(
                key,
                reason,
                "name one of `from`, or `{query.NAME}` or `{field.NAME}`",
            );
        }
        Some(template)
    }

    fn field(&mut self, key: &str, name: &str) -> Option<HeaderName> {
        let known = field_name(name);
        known
            .map_err(|reason| self.wrong(key, reason, "remove it here"))
            .ok()
    }

    fn field_texts(
        &mut self,
        key: &str,
        specs: Named<'_, ConstantSpec>,
    ) -> Vec<(HeaderName, Template)> {
        let mut texts = Vec::new();
        for (name, spec) in specs {
            let text = self.text(&child(key, name), spec);
            texts.extend(self.field(key, name).zip(text));
        }
        texts
    }

    /// The names of a path without `[]`.
    fn names(&mut self, key: &str, text: Option<&str>) -> Vec<String> {
        let Some(text) = text else {
            return Vec::new();
        };
        let path = text.parse::<MemberPath>().ok();
        path.and_then(|path| path.names()).unwrap_or_else(|| {
            let reason = format!("`{text}` is no path of names");
            self.wrong(key, reason, "write one as `data.items`");
            Vec::new()
        })
    }
}

/// The names that may stay, by the objects in which they are.
fn allowed(paths: &[MemberPath]) -> Vec<Allowed> {
    let mut places: IndexMap<MemberPath, Vec<String>> = IndexMap::new();
    for path in paths {
        let (around, names) = path.divided();
        let name = names.into_iter().next();
        places.entry(around).or_default().extend(name);
    }
    let places = places.into_iter();
    places
        .map(|(around, names)| Allowed { around, names })
        .collect()
}

//! Changes to a value: members that move, get other values or types, are set, or are removed.

mod convert;
mod groups;
mod walk;

use indexmap::IndexMap;

use crate::json::Json;
use crate::member_path::MemberPath;
use crate::template::{Scope, Template};

pub(crate) use convert::ValueType;
use groups::Moves;
use walk::{each_around, insert, remove};

/// Changes, in the order in which they are made: those of `moves` at once, by the paths of the old value; all others by the paths of the
/// new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    pub(crate) moves: Vec<Moves>,
    pub(crate) only: Vec<Allowed>,
    pub(crate) values: Vec<(MemberPath, IndexMap<String, Constant>)>,
    pub(crate) types: Vec<(MemberPath, ValueType)>,
    pub(crate) set: Vec<(MemberPath, Constant)>,
    pub(crate) default: Vec<(MemberPath, Constant)>,
    pub(crate) remove: Vec<MemberPath>,
}

/// The members that stay of the objects at a place.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    pub(crate) around: MemberPath,
    pub(crate) names: Vec<String>,
}

/// A value that a mapping sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Constant {
    /// This one.
    Json(Json),
    /// A text with variables; where one of them has no value, nothing is set.
    Text(Template),
}

impl Constant {
    fn value(&self, scope: &Scope) -> Option<Json> {
        match self {
            Self::Json(json) => Some(json.clone()),
            Self::Text(template) => template.plain(scope).map(Json::Text),
        }
    }
}

/// Why a value cannot be changed: the place in it, and the reason.
pub(crate) type Unchangeable = String;

impl Changes {
    /// Groups the moves of a mapping.
    ///
    /// # Errors
    /// A member would leave its array.
    pub(crate) fn moving(moves: &[(MemberPath, MemberPath)]) -> Result<Vec<Moves>, String> {
        groups::grouped(moves)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths().next().is_none()
    }

    /// All paths that it names, but for targets of moves, which lie beside their origins.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &MemberPath> {
        let moves = self.moves.iter().map(|moves| &moves.around);
        let only = self.only.iter().map(|allowed| &allowed.around);
        let values = self.values.iter().map(|(path, _)| path);
        let types = self.types.iter().map(|(path, _)| path);
        let set = self.set.iter().chain(&self.default).map(|(path, _)| path);
        let remove = self.remove.iter();
        moves
            .chain(only)
            .chain(values)
            .chain(types)
            .chain(set)
            .chain(remove)
    }

    /// The same changes for each element of the array that they are all in; `None` where they are not.
    pub(crate) fn of_element(&self) -> Option<Self> {
        let within = |path: &MemberPath| path.within_element();
        let pair = |(path, value): &(MemberPath, Constant)| Some((within(path)?, value.clone()));
        Some(Self {
            moves: self
                .moves
                .iter()
                .map(Moves::of_element)
                .collect::<Option<_>>()?,
            only: self
                .only
                .iter()
                .map(|allowed| {
                    Some(Allowed {
                        around: within(&allowed.around)?,
                        names: allowed.names.clone(),
                    })
                })
                .collect::<Option<_>>()?,
            values: self
                .values
                .iter()
                .map(|(path, values)| Some((within(path)?, values.clone())))
                .collect::<Option<_>>()?,
            types: self
                .types
                .iter()
                .map(|(path, kind)| Some((within(path)?, *kind)))
                .collect::<Option<_>>()?,
            set: self.set.iter().map(pair).collect::<Option<_>>()?,
            default: self.default.iter().map(pair).collect::<Option<_>>()?,
            remove: self.remove.iter().map(within).collect::<Option<_>>()?,
        })
    }

    /// Changes a value.
    ///
    /// # Errors
    /// Why it cannot be changed.
    pub(crate) fn apply(&self, value: &mut Json, scope: &Scope) -> Result<(), Unchangeable> {
        // Moves come first, so that a mapping names old places in one key only.
        for moves in &self.moves {
            moves.apply(value)?;
        }
        // An old client cannot reach members that only the new interface has: before values are set, which may be such members.
        for allowed in &self.only {
            each_around(value, allowed.around.steps(), &mut |value| {
                if let Json::Map(members) = value {
                    members.retain(|name, _| allowed.names.contains(name));
                }
                Ok(())
            })?;
        }
        for (path, values) in &self.values {
            each_around(value, path.steps(), &mut |value| {
                let constant = value.plain().and_then(|plain| values.get(plain));
                if let Some(new) = constant.and_then(|constant| constant.value(scope)) {
                    *value = new;
                }
                Ok(())
            })?;
        }
        for (path, kind) in &self.types {
            each_around(value, path.steps(), &mut |value| {
                kind.convert(value)
                    .map_err(|reason| format!("{path}: {reason}"))
            })?;
        }
        self.set(value, scope)?;
        for path in &self.remove {
            let (around, names) = path.divided();
            each_around(value, around.steps(), &mut |value| {
                remove(value, &names);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn set(&self, value: &mut Json, scope: &Scope) -> Result<(), Unchangeable> {
        let always = self.set.iter().map(|set| (true, set));
        let absent = self.default.iter().map(|set| (false, set));
        for (replaces, (path, constant)) in always.chain(absent) {
            let Some(new) = constant.value(scope) else {
                continue;
            };
            let (around, names) = path.divided();
            each_around(value, around.steps(), &mut |value| {
                let inserted = insert(value, &names, new.clone(), replaces);
                inserted.map_err(|reason| format!("{path}: {reason}"))
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

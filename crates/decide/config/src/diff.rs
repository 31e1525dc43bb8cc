//! The differences between two documents, by the paths of their keys.
//!
//! Lists are aligned first, so that an inserted route is one insertion, and the routes behind it are as they were.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::align::{Aligned, align};
use crate::load::Loaded;
use crate::path::{child, element};
use crate::withhold::Spot;
use crate::write::said;
use crate::{emit, withhold};

/// Columns of a line.
const WIDTH: usize = 80;

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind of change.
    pub kind: Kind,
    /// The path in the new document; for a removed value, in the old one.
    pub path: String,
    /// Where it was in the old document, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The old value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Json>,
    /// The new value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Json>,
}

/// How a document differs from another at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only the new document has it.
    Added,
    /// Only the old document has it.
    Removed,
    /// Both say something else.
    Changed,
    /// An element of a list stands elsewhere.
    Moved,
}

/// The differences between two documents, in the order of the new one. Secrets are compared, and
/// not shown.
pub fn diff(old: &Loaded, new: &Loaded) -> Vec<Change> {
    let mut changes = Changes::default();
    let old_root = said(&old.document);
    let new_root = said(&new.document);
    changes.maps(&old_root, &new_root, &Paths::default());
    let mut changes = changes.found;

    for change in &mut changes {
        change.conceal(old, new);
    }
    changes
}

impl Change {
    /// Replaces secrets in the shown values: by variables as they were written in either document,
    /// or by words that say so.
    pub fn conceal(&mut self, old: &Loaded, new: &Loaded) {
        let before = self.from.as_deref().unwrap_or(&self.path);
        if let Some(value) = &mut self.old {
            let instead = |spot: &Spot<'_>, text: &str| withhold::instead(&old.places, spot, text);
            withhold::replace(value, &Spot::At(before), &instead);
        }

        if let Some(value) = &mut self.new {
            let instead = |spot: &Spot<'_>, text: &str| withhold::instead(&new.places, spot, text);
            withhold::replace(value, &Spot::At(&self.path), &instead);
        }
    }
}

impl fmt::Display for Change {
    /// One line, such as `~ routes[2].to: a -> b`; values that are too long for it stand below.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<Json>| value.as_ref().map(emit::whole).unwrap_or_default();
        let old = value(&self.old);
        let new = value(&self.new);

        match self.kind {
            Kind::Moved => {
                let from = self.from.as_deref().unwrap_or_default();
                write!(out, "> {from} -> {}: moved", self.path)
            }
            Kind::Added => valued(out, '+', &self.path, &self.new),
            Kind::Removed => valued(out, '-', &self.path, &self.old),
            Kind::Changed => {
                if old == new {
                    return write!(out, "~ {}: another value, which is not shown", self.path);
                }
                let line = format!("~ {}: {old} -> {new}", self.path);
                if line.chars().count() <= WIDTH {
                    out.write_str(&line)
                } else {
                    write!(out, "~ {}:\n       {old}\n    -> {new}", self.path)
                }
            }
        }
    }
}

fn valued(
    out: &mut fmt::Formatter<'_>,
    sign: char,
    path: &str,
    value: &Option<Json>,
) -> fmt::Result {
    let Some(value) = value else {
        return write!(out, "{sign} {path}");
    };
    let line = format!("{sign} {path}: {}", emit::whole(value));
    if line.chars().count() <= WIDTH {
        return out.write_str(&line);
    }

    write!(out, "{sign} {path}:")?;
    for line in emit::block(value).lines() {
        write!(out, "\n    {line}")?;
    }

    Ok(())
}

/// Where two values stand.
#[derive(Clone, Default)]
struct Paths {
    old: String,
    new: String,
}

impl Paths {
    fn key(&self, key: &str) -> Self {
        Self {
            old: child(&self.old, key),
            new: child(&self.new, key),
        }
    }

    fn elements(&self, old: usize, new: usize) -> Self {
        Self {
            old: element(&self.old, old),
            new: element(&self.new, new),
        }
    }
}

#[derive(Default)]
struct Changes {
    found: Vec<Change>,
}

impl Changes {
    fn values(&mut self, old: &Json, new: &Json, at: &Paths) {
        match (old, new) {
            (old, new) if old == new => {}
            (Json::Object(old), Json::Object(new)) => self.maps(old, new, at),
            (Json::Array(old), Json::Array(new)) => self.lists(old, new, at),
            _ => self.found.push(Change {
                kind: Kind::Changed,
                path: at.new.clone(),
                from: (at.old != at.new).then(|| at.old.clone()),
                old: Some(old.clone()),
                new: Some(new.clone()),
            }),
        }
    }

    fn maps(&mut self, old: &Map<String, Json>, new: &Map<String, Json>, at: &Paths) {
        for (key, value) in new {
            let at = at.key(key);
            match old.get(key) {
                Some(before) => self.values(before, value, &at),
                None => self.added(at.new, value),
            }
        }
        for (key, value) in old {
            if !new.contains_key(key) {
                self.removed(at.key(key).old, value);
            }
        }
    }

    fn lists(&mut self, old: &[Json], new: &[Json], at: &Paths) {
        let steps = align(old, new);
        let moved = moved(&steps, old, new);
        for step in steps {
            match step {
                Aligned::Both(one, two) => {
                    self.values(&old[one], &new[two], &at.elements(one, two))
                }
                Aligned::Old(index) if moved.values().any(|from| *from == index) => {}
                Aligned::Old(index) => self.removed(element(&at.old, index), &old[index]),
                Aligned::New(index) => match moved.get(&index) {
                    Some(from) => self.found.push(Change {
                        kind: Kind::Moved,
                        path: element(&at.new, index),
                        from: Some(element(&at.old, *from)),
                        old: None,
                        new: None,
                    }),
                    None => self.added(element(&at.new, index), &new[index]),
                },
            }
        }
    }

    fn added(&mut self, path: String, value: &Json) {
        self.found.push(Change {
            kind: Kind::Added,
            path,
            from: None,
            old: None,
            new: Some(value.clone()),
        });
    }

    fn removed(&mut self, path: String, value: &Json) {
        self.found.push(Change {
            kind: Kind::Removed,
            path,
            from: None,
            old: Some(value.clone()),
            new: None,
        });
    }
}

/// Where the added maps come from that are removed elsewhere, as they are; by their indices in the new list.
fn moved(steps: &[Aligned], old: &[Json], new: &[Json]) -> BTreeMap<usize, usize> {
    let mut gone: HashMap<String, Vec<usize>> = HashMap::new();
    for step in steps.iter().rev() {
        if let Aligned::Old(index) = step
            && old[*index].is_object()
        {
            gone.entry(old[*index].to_string())
                .or_default()
                .push(*index);
        }
    }

    let mut moved = BTreeMap::new();
    for step in steps {
        if let Aligned::New(index) = step
            && let Some(from) = gone.get_mut(&new[*index].to_string()).and_then(Vec::pop)
        {
            moved.insert(*index, from);
        }
    }

    moved
}

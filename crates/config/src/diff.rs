//! What differs between two documents, by the paths of their keys.
//!
//! Lists are aligned first, so that an inserted route is one insertion, and the routes behind it are as they were.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::align::{Aligned, align};
use crate::load::Loaded;
use crate::path::{child, element};
use crate::write::said;
use crate::{emit, withhold};

/// Columns of a line.
const WIDTH: usize = 80;

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What happened.
    pub kind: Kind,
    /// Where, in the new document; of what was removed, where it was in the old one.
    pub path: String,
    /// Where it was in the old document, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What the old document says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Json>,
    /// What the new document says.
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

/// What differs between two documents, in the order of the new one. Secrets are compared, and not shown.
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
    /// Puts what is shown in the place of secrets: variables as they were written in either document, or words that say it.
    pub fn conceal(&mut self, old: &Loaded, new: &Loaded) {
        let shown = |loaded: &Loaded, path: &str, text: &str| match withhold::variables(
            &loaded.places,
            path,
            text,
        ) {
            Some(written) => written.to_owned(),
            None if withhold::is_secret(path, text) => withhold::placeholder(),
            None => text.to_owned(),
        };
        let before = self.from.as_deref().unwrap_or(&self.path);
        if let Some(value) = &mut self.old {
            withhold::replace(value, before, &|path, text| shown(old, path, text));
        }
        if let Some(value) = &mut self.new {
            withhold::replace(value, &self.path, &|path, text| shown(new, path, text));
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
        let is_gone = |index: usize| steps.contains(&Aligned::Old(index));
        let moved_from = |value: &Json| {
            let same = |index: &usize| old[*index] == *value && is_gone(*index);
            (0..old.len()).find(same).filter(|_| value.is_object())
        };
        let mut moved = Vec::new();
        for step in &steps {
            if let Aligned::New(index) = step
                && let Some(from) = moved_from(&new[*index])
                && !moved.iter().any(|(known, _)| *known == from)
            {
                moved.push((from, *index));
            }
        }
        for step in steps {
            match step {
                Aligned::Both(one, two) => {
                    self.values(&old[one], &new[two], &at.elements(one, two))
                }
                Aligned::Old(index) if moved.iter().any(|(from, _)| *from == index) => {}
                Aligned::Old(index) => self.removed(element(&at.old, index), &old[index]),
                Aligned::New(index) => match moved.iter().find(|(_, to)| *to == index) {
                    Some((from, _)) => self.found.push(Change {
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

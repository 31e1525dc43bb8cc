//! A content that is translated element by element: an array, at its top or within objects, of any length.

use std::collections::HashSet;
use std::sync::Arc;

use super::ContentPlan;
use crate::json::{Builder, Event, Malformed, Scanner, write_string};
use crate::template::Scope;
use crate::unfit::Unfit;

/// Names of the objects around the array: they are kept, because none may stand twice.
#[doc(alias = "bound")]
const NAMES: usize = 1_000;

/// An array whose elements go as they come.
pub(crate) struct Streamed {
    scanner: Scanner,
    elements: Elements,
    /// Bytes since the last element ended.
    since: usize,
}

/// The elements, as they are found.
struct Elements {
    plan: Arc<ContentPlan>,
    scope: Arc<Scope>,
    builder: Builder,
    at: At,
    /// Names in the objects around the array, by their depth.
    names: HashSet<(usize, String)>,
    count: u64,
    failed: Option<Unfit>,
}

/// The part of the text that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In as many objects on the way to the array; the member that was named last leads there, where `named`.
    Way { objects: usize, named: bool },
    /// In another member of an object on the way, this deep.
    Beside { objects: usize, depth: usize },
    /// In the array.
    Array,
    /// Behind it, in as many objects of the way, and this deep in another member of the last.
    Behind { objects: usize, depth: usize },
}

impl Streamed {
    pub(super) fn new(plan: Arc<ContentPlan>, scope: Arc<Scope>) -> Self {
        Self {
            scanner: Scanner::new(plan.bounds.of_scan()),
            elements: Elements {
                at: At::Way {
                    objects: 0,
                    named: plan.take.is_empty(),
                },
                plan,
                scope,
                builder: Builder::default(),
                names: HashSet::new(),
                count: 0,
                failed: None,
            },
            since: 0,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.scanner.kept() + self.elements.builder.held() + self.elements.names.len() * 64
    }

    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Unfit> {
        // Compared afterwards: a piece may hold many elements.
        let count = self.elements.count;
        let pushed = self
            .scanner
            .push(piece, &mut |event| self.elements.take(event, out));
        self.elements.failure(pushed)?;
        // Space between elements costs nothing but time, so only the text of one element is counted.
        let is_on = self.elements.count > count || !self.elements.builder.is_open();
        self.since = if is_on { 0 } else { self.since + piece.len() };
        let most = self.elements.plan.bounds.bytes;
        match self.since > most {
            true => Err(Unfit::too_long(most)),
            false => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let ended = self
            .scanner
            .finish(&mut |event| self.elements.take(event, out));
        self.elements.failure(ended)?;
        // A text may be whole, and never have come to the array.
        match self.elements.at {
            At::Behind { .. } => Ok(()),
            _ => {
                let place = self.elements.plan.take.join(".");
                Err(Unfit::content(format!("it has no array `{place}`")))
            }
        }
    }
}

impl Elements {
    /// The failure of an element says more than the place where it was found.
    fn failure(&mut self, read: Result<(), Malformed>) -> Result<(), Unfit> {
        match self.failed.take() {
            Some(unfit) => Err(unfit),
            None => read.map_err(Unfit::content),
        }
    }

    fn take(&mut self, event: Event, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self.at {
            At::Array => self.element(event, out),
            At::Beside { objects, depth } => self.beside(&event, objects, depth),
            At::Behind { objects, depth } => self.behind(event, [objects, depth]),
            At::Way { objects, named } => self.way(event, objects, named, out),
        }
    }

    fn way(
        &mut self,
        event: Event,
        objects: usize,
        named: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        // The array counts only at the end of its way: one of the same name further in is another.
        let is_there = objects == self.plan.take.len();
        match event {
            Event::BeginList if is_there && named => {
                self.begin(out);
                self.at = At::Array;
                Ok(())
            }
            Event::BeginMap if !is_there && (objects == 0 || named) => {
                self.at = At::Way {
                    objects: objects + 1,
                    named: false,
                };
                Ok(())
            }
            Event::Name(name) => self.name(name, objects),
            _ if named || objects == 0 => Err("no array is there"),
            Event::EndMap => Err("an object has not the array that is translated"),
            other => {
                self.at = At::Beside { objects, depth: 0 };
                self.beside(&other, objects, 0)
            }
        }
    }

    fn name(&mut self, name: String, objects: usize) -> Result<(), &'static str> {
        // The depth counts the objects, the first name of the way is that of the first.
        let named = self.plan.take.get(objects - 1) == Some(&name);
        self.note(name, objects)?;
        self.at = At::Way { objects, named };
        Ok(())
    }

    /// A value that no one needs, which is read to its end all the same.
    fn beside(&mut self, event: &Event, objects: usize, depth: usize) -> Result<(), &'static str> {
        let depth = match event {
            Event::BeginList | Event::BeginMap => depth + 1,
            Event::EndList | Event::EndMap => depth - 1,
            _ => depth,
        };
        self.at = match depth {
            0 => At::Way {
                objects,
                named: false,
            },
            _ => At::Beside { objects, depth },
        };
        Ok(())
    }

    fn behind(&mut self, event: Event, at: [usize; 2]) -> Result<(), &'static str> {
        let [mut objects, mut depth] = at;
        match event {
            Event::BeginMap | Event::BeginList => depth += 1,
            Event::EndMap | Event::EndList if depth > 0 => depth -= 1,
            Event::EndMap => objects = objects.saturating_sub(1),
            Event::Name(name) if depth == 0 => self.note(name, objects)?,
            _ => {}
        }
        self.at = At::Behind { objects, depth };
        Ok(())
    }

    /// A name of an object around the array.
    fn note(&mut self, name: String, objects: usize) -> Result<(), &'static str> {
        if self.names.len() >= NAMES {
            return Err("there are too many members around the array");
        }
        match self.names.insert((objects, name)) {
            true => Ok(()),
            false => Err("a name stands twice in an object"),
        }
    }

    fn element(&mut self, event: Event, out: &mut Vec<u8>) -> Result<(), &'static str> {
        if event == Event::EndList && !self.builder.is_open() {
            self.end(out);
            self.at = At::Behind {
                objects: self.plan.take.len(),
                depth: 0,
            };
            return Ok(());
        }
        let Some(mut value) = self.builder.take(event)? else {
            return Ok(());
        };
        let changes = self.plan.element.as_ref();
        let changed = changes.map_or(Ok(()), |changes| changes.apply(&mut value, &self.scope));
        if let Err(reason) = changed {
            let reason = format!("in element {}: {reason}", self.count);
            self.failed = Some(Unfit::content(reason));
            return Err("an element cannot be translated");
        }
        if self.count > 0 {
            out.push(b',');
        }
        self.count += 1;
        value.write(out);
        Ok(())
    }

    fn begin(&self, out: &mut Vec<u8>) {
        for name in &self.plan.put {
            out.push(b'{');
            write_string(name, out);
            out.push(b':');
        }
        out.push(b'[');
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.push(b']');
        out.extend(std::iter::repeat_n(b'}', self.plan.put.len()));
    }
}

//! A document that grows, with the notes on its gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value as Json, json};

use crate::converted::Converted;
use crate::discovered::Discovered;
use crate::new_file::NewFile;
use crate::note::{Loss, Note};
use crate::source::Node;

/// Where a route stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Of one listener with a fixed target.
    Fixed,
    /// Of tunnels.
    Tunnel,
    /// Refuses other tunnels.
    NoTunnel,
    /// Of requests.
    Request,
}

/// A route, and the line that it comes from.
#[derive(Debug)]
struct DraftRoute {
    rank: Rank,
    line: u32,
    json: Json,
}

#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) node: Option<String>,
    pub(crate) listeners: Map<String, Json>,
    pub(crate) upstreams: Map<String, Json>,
    pub(crate) authorize: Vec<Json>,
    /// Rules that deny, over a default of `allow`.
    pub(crate) denials: Vec<Json>,
    pub(crate) egress: Vec<String>,
    /// Other keys of the document's top.
    pub(crate) top: Map<String, Json>,
    pub(crate) files: Vec<NewFile>,
    /// Resources that the source defines in other places.
    pub(crate) discovered: Rc<Discovered>,
    routes: Vec<DraftRoute>,
    notes: Vec<Note>,
    /// Names that are taken, of listeners and upstreams.
    names: TakenNames,
}

impl Draft {
    /// An empty one, to try something that would be put into this one.
    pub(crate) fn trial(&self) -> Self {
        Self {
            discovered: Rc::clone(&self.discovered),
            ..Self::default()
        }
    }

    pub(crate) fn left_out(
        &mut self,
        line: u32,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.note(line, Loss::LeftOut, subject.into(), reason.into());
    }

    pub(crate) fn differs(
        &mut self,
        line: u32,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.note(line, Loss::Differs, subject.into(), reason.into());
    }

    fn note(&mut self, line: u32, loss: Loss, subject: String, reason: String) {
        self.notes.push(Note {
            line,
            loss,
            subject,
            reason,
        });
    }

    /// Notes every key that no one looked at.
    pub(crate) fn note_unread(&mut self, root: &Node) {
        for key in root.unread() {
            self.left_out(key.line, key.path, "has no counterpart here");
        }
    }

    /// Adds a route, which comes from this line.
    pub(crate) fn route(&mut self, rank: Rank, line: u32, json: Json) {
        self.routes.push(DraftRoute { rank, line, json });
    }

    /// Has origins see these fields of the overlay.
    pub(crate) fn expose(&mut self, fields: &[String]) {
        let routes = self.routes.iter_mut().map(|route| &mut route.json);
        let ends = routes.filter(|route| route.get("terminate").is_some());
        if !fields.is_empty() {
            ends.for_each(|route| put(route, "expose", json!(fields)));
        }
    }

    /// A name of ours for a listener or an upstream, like this one and not taken.
    pub(crate) fn name(&mut self, like: &str) -> String {
        self.names.take(plain(like))
    }

    pub(crate) fn finish(mut self) -> Converted {
        self.routes.sort_by_key(|route| route.rank);
        self.notes.sort_by_key(|note| note.line);
        self.notes.dedup();

        let mut document = Map::new();
        document.insert("version".to_owned(), json!(1));
        if let Some(node) = &self.node {
            document.insert("node".to_owned(), json!(plain(node)));
        }
        document.append(&mut self.top);
        document.insert("listeners".to_owned(), Json::Object(self.listeners));
        if !self.denials.is_empty() {
            let policy = json!({ "default": "allow", "rules": self.denials });
            document.insert("policy".to_owned(), policy);
        }
        if !self.authorize.is_empty() {
            document.insert("authorize".to_owned(), Json::Array(self.authorize));
        }

        let route_lines = self.routes.iter().map(|route| route.line).collect();
        let routes = self.routes.into_iter().map(|route| route.json).collect();
        document.insert("routes".to_owned(), Json::Array(routes));
        if !self.upstreams.is_empty() {
            document.insert("upstreams".to_owned(), Json::Object(self.upstreams));
        }
        if !self.egress.is_empty() {
            document.insert("egress".to_owned(), json!({ "allow": self.egress }));
        }

        Converted {
            document,
            route_lines,
            notes: self.notes,
            files: self.files,
        }
    }
}

/// Names that are taken.
#[derive(Debug, Default)]
struct TakenNames {
    taken: BTreeSet<String>,
    /// The last number that was given to names alike. A file may have tens of thousands of them.
    numbers: BTreeMap<String, u32>,
}

impl TakenNames {
    /// This name, or one with a number where it is taken.
    fn take(&mut self, base: String) -> String {
        let mut name = base.clone();
        let number = self.numbers.entry(base.clone()).or_insert(1);
        while !self.taken.insert(name.clone()) {
            *number += 1;
            name = format!("{base}-{number}");
        }
        name
    }
}

/// A name as keys, records and metrics may have it.
fn plain(like: &str) -> String {
    let letter = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '-',
    };
    let name: String = like.chars().take(64).map(letter).collect();
    let name = name.trim_matches(['-', '.']);
    match name {
        "" => "unnamed".to_owned(),
        // These are values of `terminate` and `to`.
        "true" | "false" | "null" => format!("{name}-1"),
        name => name.to_owned(),
    }
}

/// Puts a value under a key of an object.
pub(crate) fn put(object: &mut Json, key: &str, value: Json) {
    if let Json::Object(map) = object {
        map.insert(key.to_owned(), value);
    }
}

/// One value as it is, several as a list.
pub(crate) fn one_or_many(mut values: Vec<Json>) -> Json {
    match values.len() {
        1 => values.remove(0),
        _ => Json::Array(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_taken_once() {
        let mut draft = Draft::default();
        assert_eq!(
            draft.name("outbound|80||a.example"),
            "outbound-80--a.example"
        );
        assert_eq!(draft.name("a"), "a");
        assert_eq!(draft.name("a"), "a-2");
        assert_eq!(draft.name("\u{e9}"), "unnamed");
        assert_eq!(draft.name("true"), "true-1");
    }

    #[test]
    fn routes_stand_in_the_order_of_their_ranks() {
        let mut draft = Draft::default();
        draft.route(Rank::Request, 1, json!({ "to": "a" }));
        draft.route(Rank::Fixed, 2, json!({ "to": "b" }));
        draft.left_out(7, "x", "y");
        draft.left_out(3, "x", "y");
        let converted = draft.finish();
        assert_eq!(converted.document["routes"][0]["to"], "b");
        assert_eq!(converted.notes[0].line, 3);
        assert!(converted.is_partial());
    }

    #[test]
    fn a_route_that_never_matches_is_removed_with_a_note() {
        let mut draft = Draft::default();
        draft.route(Rank::Request, 4, json!({ "to": "a" }));
        draft.route(Rank::Request, 9, json!({ "to": "b" }));
        let mut converted = draft.finish();
        converted.remove_unreachable(&[1, 7]);
        assert_eq!(converted.document["routes"], json!([{ "to": "a" }]));
        assert_eq!(converted.notes[0].line, 9);
        assert!(!converted.is_partial());
    }
}

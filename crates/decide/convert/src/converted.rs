//! The result of a conversion.

use serde_json::{Map, Value as Json};

use crate::new_file::NewFile;
use crate::note::{Loss, Note};

/// The result of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// The document.
    pub(crate) document: Map<String, Json>,
    /// The line that each route comes from.
    pub(crate) route_lines: Vec<u32>,
    /// Parts that were left out or behave differently, by line.
    pub notes: Vec<Note>,
    /// Files that the document names and that have to be made.
    pub files: Vec<NewFile>,
}

impl Converted {
    /// The document as YAML.
    pub fn yaml(&self) -> String {
        hermes_config::format(&self.document)
    }

    /// Removes routes that can never match, which a document must not have: those before them take everything.
    pub fn remove_unreachable(&mut self, routes: &[usize]) {
        let Some(Json::Array(all)) = self.document.get_mut("routes") else {
            return;
        };
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            !routes.contains(&(index - 1))
        });
        for line in routes
            .iter()
            .filter_map(|route| self.route_lines.get(*route))
        {
            self.notes.push(Note {
                line: *line,
                loss: Loss::Differs,
                subject: "a rule".to_owned(),
                reason: "it never matches, as those before it take everything: it is left out"
                    .to_owned(),
            });
        }
        self.notes.sort_by_key(|note| note.line);
        self.notes.dedup();
    }

    /// Whether something was left out.
    pub fn is_partial(&self) -> bool {
        self.notes.iter().any(|note| note.loss == Loss::LeftOut)
    }
}

//! Files that a source names and its program reads: resources of file discovery, and secrets that stand apart.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::source::{self, Node};
use crate::text::text;

/// Reads a file that a source names, by its name there.
///
/// # Errors
/// Why it cannot be read, for people.
pub type ReadBeside<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Files that one source may name: each is read once.
#[doc(alias = "bound")]
const FILES: usize = 64;

/// Keys that say where a resource comes from.
const SOURCES: &[&str] = &[
    "cds_config",
    "lds_config",
    "eds_config",
    "sds_config",
    "config_source",
];

/// Resources that a file names and another place defines.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    files: BTreeMap<String, Vec<Node>>,
    /// Secrets of the source itself, which other parts refer to.
    pub(crate) secrets: Vec<Node>,
}

/// A file, and the line that names it.
struct Reference {
    path: String,
    line: u32,
}

impl Discovered {
    /// Reads the files that a source names, and those that they name.
    pub(crate) fn load(root: &Node, read: ReadBeside<'_>, draft: &mut Draft) -> Self {
        let mut found = Self::default();
        let mut waiting = Vec::new();
        references(root, &mut waiting);
        while let Some(reference) = waiting.pop() {
            if found.files.contains_key(&reference.path) {
                continue;
            }
            let resources = match found.files.len() < FILES {
                true => resources(&reference, read),
                false => Err(format!("more than {FILES} files are named")),
            };
            let resources = resources.unwrap_or_else(|reason| {
                draft.left_out(reference.line, reference.path.clone(), reason);
                Vec::new()
            });
            for resource in &resources {
                references(resource, &mut waiting);
            }
            found.files.insert(reference.path, resources);
        }
        found
    }

    /// The resources of a kind, such as `Cluster`, in the file of a `config_source`.
    pub(crate) fn all<'a>(&'a self, source: &Node, kind: &str) -> Vec<&'a Node> {
        source.skip(&["resource_api_version", "initial_fetch_timeout"]);
        let file = source.at(&["path_config_source"]).unwrap_or(source);
        file.skip(&["watched_directory"]);
        let path = file.text("path").unwrap_or_default();
        let ending = format!(".{kind}");
        let resources = self.files.get(path).into_iter().flatten();
        resources
            .filter(|resource| {
                let url = resource.text("@type").unwrap_or_default();
                url.ends_with(&ending)
            })
            .collect()
    }

    /// The resource of a kind that has this name, which stands under `key`.
    pub(crate) fn named<'a>(
        &'a self,
        source: &Node,
        kind: &str,
        key: &str,
        name: &str,
    ) -> Option<&'a Node> {
        let mut all = self.all(source, kind).into_iter();
        all.find(|resource| resource.text(key) == Some(name))
    }

    /// The secret that a `*_sds_secret_config` names.
    pub(crate) fn secret(&self, config: &Node) -> Option<&Node> {
        let name = config.text("name").unwrap_or_default();
        match config.field("sds_config") {
            Some(source) => self.named(source, "Secret", "name", name),
            None => self
                .secrets
                .iter()
                .find(|secret| secret.text("name") == Some(name)),
        }
    }

    /// Notes every key of these files that no one looked at.
    pub(crate) fn note_unread(&self, draft: &mut Draft) {
        for resource in self.files.values().flatten() {
            draft.note_unread(resource);
        }
        for secret in &self.secrets {
            draft.note_unread(secret);
        }
    }
}

/// Collects the files that are named below a value.
fn references(node: &Node, into: &mut Vec<Reference>) {
    for source in SOURCES.iter().filter_map(|key| node.peek(key)) {
        let file = source.peek("path_config_source").unwrap_or(source);
        if let Some(path) = file.peek("path").and_then(Node::as_text) {
            into.push(Reference {
                path: path.to_owned(),
                line: source.line,
            });
        }
    }
    for child in node.children() {
        references(child, into);
    }
}

/// The resources in a file. Their notes have the line that names the file.
fn resources(reference: &Reference, read: ReadBeside<'_>) -> Result<Vec<Node>, String> {
    let bytes = read(&reference.path)?;
    let text = text(&bytes).map_err(|error| error.to_string())?;
    let root = source::read(text).map_err(|error| error.to_string())?;
    let resources = root.list("resources").iter();
    Ok(resources
        .map(|node| node.clone().at_line(reference.line))
        .collect())
}

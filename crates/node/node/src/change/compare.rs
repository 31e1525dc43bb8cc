//! Documents for the administrator: the one in force, and the changes of another.

use std::path::Path;

use hermes_config::{Problems, diff, parse, to_json, write};
use hermes_rules::needs_restart;

use crate::answers::{Comparison, DocumentView, ReloadPreview};
use crate::check::check_with;
use crate::process::Node;

impl Node {
    /// The document in force, as text and as JSON.
    pub(crate) fn document(&self) -> Result<DocumentView, Problems> {
        let kept = self.changing.lock().documents.current.clone();
        let loaded = kept.loaded()?;
        let file = self.source.file();
        Ok(DocumentView {
            node: self.shared.snapshot.load().node.name.to_string(),
            revision: kept.number,
            file: file.map(|file| std::path::absolute(file).unwrap_or_default()),
            document: to_json(&loaded.document, &loaded.places),
            text: write(&loaded.document, &loaded.places),
        })
    }

    /// How the document in force differs from that in `text`, which is whole, and the effect of applying it.
    ///
    /// # Errors
    /// When the text is no document.
    pub(crate) fn compare(&self, text: &str) -> Result<Comparison, Problems> {
        // The text is whole: it names no variables of the node's environment.
        let new = parse(Path::new("document"), text, &|_| None)?;
        let kept = self.changing.lock().documents.current.clone();
        let old = kept.loaded()?;
        let changes = diff(&old, &new);
        let mut needs_restart = needs_restart(&old.document, &new.document);
        if let Ok(changes) = self.plugs.whole.prepare(&new.document, true) {
            needs_restart.extend(changes.restarts());
        }
        // Locked for the preview alone: checking reads files, and must not hold up a change.
        let reload = ReloadPreview {
            listeners: self.changing.lock().table.preview(&new.document),
            needs_restart,
        };
        let problems = check_with(new, &self.plugs)
            .err()
            .map_or_else(Vec::new, |Problems(found)| found);

        Ok(Comparison {
            same: changes.is_empty(),
            changes,
            reload,
            problems,
        })
    }
}

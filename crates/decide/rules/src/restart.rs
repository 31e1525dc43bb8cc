//! Keys of a document that a running process cannot follow.

use hermes_config::model::Document;

/// The sections in which these keys are.
pub const SECTIONS: [&str; 5] = ["node", "workers", "debug", "admin", "log"];

/// The keys that differ and are in force only after a restart.
pub fn needs_restart(old: &Document, new: &Document) -> Vec<String> {
    let changed = [
        ("node", old.node != new.node),
        ("workers", old.workers != new.workers),
        (
            "debug.core_dumps",
            old.debug.core_dumps != new.debug.core_dumps,
        ),
        ("admin.socket", old.admin.socket != new.admin.socket),
        ("log.file", old.log.file != new.log.file),
    ];
    changed
        .into_iter()
        .filter(|(_, changed)| *changed)
        .map(|(key, _)| key.to_owned())
        .collect()
}

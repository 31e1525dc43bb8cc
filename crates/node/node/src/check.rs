//! Checks of a configuration: its errors, and keys without effect.

use hermes_admit::snapshot::Snapshot;
use hermes_config::{Loaded, Places, Problem, Problems, child};
use hermes_listen::table::BindError;
use hermes_observe::{AccessSink, Telemetry};
use hermes_plug::Plugs;
use hermes_rules::{Finding, warn};

use crate::builtin;

/// Everything that is wrong with a configuration and the files it names, for a node without plugs of its own.
///
/// # Errors
/// The problems, each with its place, in their order.
pub fn check(loaded: Loaded) -> Result<(), Problems> {
    check_with(loaded, &Plugs::new())
}

/// As [`check`], for a node that has these plugs.
///
/// # Errors
/// As for [`check`].
pub fn check_with(loaded: Loaded, plugs: &Plugs) -> Result<(), Problems> {
    let files = loaded.files.clone();
    let telemetry = Telemetry::new("check", AccessSink::off());
    let plugs = builtin::beneath(plugs.clone());
    let built = Snapshot::build(loaded, None, &telemetry, &plugs);
    built
        .map(drop)
        .map_err(|problems| problems.in_order(&files))
}

/// Keys of a sound document that have no effect, each with its place. The document can run with them.
pub fn doubts(loaded: &Loaded) -> Vec<Problem> {
    let doubt = |Finding {
                     path,
                     reason,
                     remedy,
                 }| Problem {
        place: loaded.places.locate(&path),
        path,
        reason,
        remedy,
    };
    warn(&loaded.document).into_iter().map(doubt).collect()
}

/// Writes them into the log.
pub(crate) fn log_doubts(doubts: &[Problem]) {
    doubts.iter().for_each(|doubt| tracing::warn!("{doubt}"));
}

/// A problem that has no place in a file.
pub(crate) fn one(path: &str, error: &dyn std::fmt::Display) -> Problems {
    Problems(vec![Problem {
        place: None,
        path: path.to_owned(),
        reason: error.to_string(),
        remedy: None,
    }])
}

/// The listeners that could not be bound, each at its place in the document.
pub(crate) fn unbound(errors: Vec<BindError>, places: &Places) -> Problems {
    let problem = |error: BindError| {
        let path = child("listeners", &error.name);
        Problem {
            place: places.locate(&path),
            path,
            reason: format!("cannot be bound: {}", error.reason),
            remedy: None,
        }
    };
    Problems(errors.into_iter().map(problem).collect())
}

//! Checks of a configuration: its errors, and keys without effect.

use std::sync::Arc;

use hermes_admit::snapshot::{Draft, Snapshot};
use hermes_config::{Loaded, Places, Problem, Problems, SoundPart, Unsound};
use hermes_observe::{AccessSink, Telemetry};
use hermes_plug::{PlugChanges, Plugs};
use hermes_rules::warn;

use crate::builtin;

/// Everything that is wrong with a configuration and the files it names, for a node without plugs of its own.
///
/// # Errors
/// The problems, each with its place, in their order.
pub fn check(loaded: Loaded) -> Result<(), Problems> {
    check_with(loaded, &Plugs::new())
}

/// Everything that is wrong with a document whose form is not right, for a node that has these plugs: with its form, and with the meaning of
/// the part that can be read.
pub fn all_mistakes(unsound: Unsound, plugs: &Plugs) -> Problems {
    let Unsound {
        problems: Problems(mut problems),
        part,
        files,
    } = unsound;
    let Some(part) = part else {
        return Problems(problems);
    };

    let rest = Loaded {
        document: part.document.clone(),
        places: Places::nowhere(),
        files: files.clone(),
    };
    let found = check_with(rest, plugs).err();
    let found = found.into_iter().flat_map(|Problems(found)| found);
    problems.extend(found.filter_map(|problem| of_the_whole(problem, &part)));
    Problems(problems).in_order(&files)
}

/// A problem of the rest of a document at its place in the whole; `None` where it may follow from the part that could not be read.
fn of_the_whole(problem: Problem, part: &SoundPart) -> Option<Problem> {
    let remedy = problem.remedy.as_deref().unwrap_or_default();
    let said = format!("{} {remedy}", problem.reason);
    let path = part.locate(&problem.path, &said)?;
    let path = part.places.origin_of(&path);
    Some(Problem {
        place: part.places.locate(&path),
        path,
        ..problem
    })
}

/// As [`check`], for a node that has these plugs.
///
/// # Errors
/// As for [`check`].
pub fn check_with(loaded: Loaded, plugs: &Plugs) -> Result<(), Problems> {
    let files = loaded.files.clone();
    let telemetry = Telemetry::new("check", AccessSink::off());
    let plugs = builtin::beneath(plugs.clone());
    let proposal = Proposal::new(loaded, None, &telemetry, &plugs, true);
    proposal
        .map(drop)
        .map_err(|problems| problems.in_order(&files))
}

/// A document that could be put in force: all that can fail has not.
pub(crate) struct Proposal {
    /// The snapshot that would be in force.
    pub(crate) draft: Draft,
    /// The changes of plugs with it.
    pub(crate) plugs: PlugChanges,
}

impl Proposal {
    /// Has the rules and the plugs read a document; see [`Snapshot::build`]. `is_check`: it will not be put in force.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub(crate) fn new(
        loaded: Loaded,
        previous: Option<&Snapshot>,
        telemetry: &Arc<Telemetry>,
        plugs: &Plugs,
        is_check: bool,
    ) -> Result<Self, Problems> {
        let places = loaded.places.clone();
        let prepared = plugs.whole.prepare(&loaded.document, is_check);
        let draft = Snapshot::build(loaded, previous, telemetry, plugs);
        match (draft, prepared) {
            (Ok(draft), Ok(plugs)) => Ok(Self { draft, plugs }),
            (draft, prepared) => {
                let mut problems = draft.err().map_or_else(Vec::new, |Problems(found)| found);
                let of_plugs = prepared.err().into_iter().flatten();
                problems.extend(of_plugs.map(|problem| places.placed(problem)));
                Err(Problems(problems))
            }
        }
    }
}

/// Keys of a sound document that have no effect, each with its place. The document can run with them.
pub fn warnings(loaded: &Loaded) -> Vec<Problem> {
    let warnings = warn(&loaded.document).into_iter();
    warnings
        .map(|warning| loaded.places.placed(warning))
        .collect()
}

/// Writes warnings into the log.
pub(crate) fn log_warnings(warnings: &[Problem]) {
    warnings
        .iter()
        .for_each(|warning| tracing::warn!("{warning}"));
}

/// A problem that has no place in a file.
pub(crate) fn one(path: &str, error: &dyn std::fmt::Display) -> Problems {
    Problems(vec![Problem::new(path, error.to_string())])
}

/// The listeners that could not be bound, each at its place in the document.
pub(crate) fn unbound(errors: Vec<Problem>, places: &Places) -> Problems {
    let errors = errors.into_iter();
    Problems(errors.map(|error| places.placed(error)).collect())
}

//! What of a document could not be read, and what can be said of the rest all the same.

use std::collections::BTreeSet;

use crate::path::{Step, steps};

/// Parts of a document that could not be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lost(BTreeSet<Vec<Step>>);

impl Lost {
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        Self(paths.map(steps).collect())
    }

    /// Whether the part was lost, or something around it.
    fn covers(&self, part: &[Step]) -> bool {
        (0..=part.len()).any(|length| self.0.contains(&part[..length]))
    }

    /// Whether anything of the part was lost.
    fn is_within(&self, part: &[Step]) -> bool {
        self.covers(part) || self.0.range(part.to_vec()..).next().is_some_and(|lost| lost.starts_with(part))
    }

    /// Whether anything of the part at this path was lost.
    pub(crate) fn touches(&self, path: &str) -> bool {
        self.is_within(&steps(path))
    }

    /// Whether a finding about this path holds whatever was meant by what was lost.
    ///
    /// Most rest on the part itself. Those that rest on more, such as on the absence of a key beside it, are listed
    /// here; when in doubt a finding does not hold, for it will be made when the file is mended.
    pub(crate) fn leaves(&self, path: &str) -> bool {
        let steps = steps(path);
        let words: Vec<&str> = steps.iter().map(Step::key).collect();
        let is_whole = |path: &str| !self.touches(path);
        let is_known = |section: &str| !self.covers(&[Step::Key(section.to_owned())]);
        match words.as_slice() {
            // That it does nothing cannot be found: see `mend`. That it never matches rests on its conditions.
            ["routes", _] => return !self.is_within(&[&steps[..], &[Step::Key("match".to_owned())]].concat()),
            ["routes", _, "match", "listener", ..] if !is_known("listeners") => return false,
            ["routes", _, "to" | "terminate", ..] | ["upstreams", _, "via"] if !is_known("upstreams") => return false,
            ["routes", _, "expose", ..] | ["listeners", _, "accepts", _] if !is_whole("fields") => return false,
            ["upstreams", _, "send_token"] if !is_whole("identity") => return false,
            ["peers"] if !is_whole("listeners") => return false,
            // Two that claim one address do so whatever else they say. That one is open cannot be found: see `mend`.
            ["listeners", _, "http" | "tcp" | "udp" | "user"] | ["upstreams", _, "via"] => {}
            // How the keys of one entry, or of its TLS, go together.
            ["listeners" | "upstreams", _, _] | [_, _, "tls", _] => {
                return !self.is_within(&steps[..steps.len() - 1]);
            }
            _ => {}
        }
        !self.is_within(up_to_list(&steps))
    }
}

/// The part around the first list in it, whose elements have moved if one of them was lost. Routes stay where they are.
fn up_to_list(steps: &[Step]) -> &[Step] {
    let list = steps.iter().skip(2).position(|step| matches!(step, Step::Index(_)));
    let fields = matches!(steps, [Step::Key(section), Step::Index(_), ..] if section != "routes");
    match list {
        _ if fields => &steps[..1],
        Some(length) => &steps[..length + 2],
        None => steps,
    }
}

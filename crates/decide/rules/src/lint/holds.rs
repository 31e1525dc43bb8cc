//! What can be said of a document of which a part could not be read.

use hermes_config::{Lost, Step, steps};

/// Whether what [`lint`](super::lint) found about this path holds whatever was meant by what was lost.
///
/// Most rest on the part itself. Those that rest on more, such as on the absence of a key beside it, are listed
/// here; when in doubt a finding does not hold, for it will be made when the file is mended.
pub fn holds(lost: &Lost, path: &str) -> bool {
    let steps = steps(path);
    let words: Vec<&str> = steps.iter().map(Step::key).collect();
    let is_whole = |path: &str| !lost.touches(path);
    let is_known = |section: &str| !lost.covers(&[Step::Key(section.to_owned())]);

    // What an entry does not say, `defaults` may.
    if matches!(words.first(), Some(&("listeners" | "upstreams" | "peers")))
        && !is_whole("defaults")
    {
        return false;
    }

    match words.as_slice() {
        // That it does nothing cannot be found: see `mend`. That it never matches rests on its conditions.
        ["routes", _] => {
            return !lost.is_within(&[&steps[..], &[Step::Key("match".to_owned())]].concat());
        }
        ["routes" | "authorize", _, "match", "listener", ..] if !is_known("listeners") => {
            return false;
        }
        ["routes", _, "to" | "terminate", ..]
        | ["upstreams", _, "via"]
        | ["authorize", _, "upstream"]
            if !is_known("upstreams") =>
        {
            return false;
        }
        ["routes", _, "expose", ..] | ["listeners", _, "accepts", _] if !is_whole("fields") => {
            return false;
        }
        ["listeners", _, "accepts", _] if !is_whole("provenance") => return false,
        ["upstreams", _, "send_token"] if !is_whole("identity") => return false,
        ["peers"] if !is_whole("listeners") => return false,
        // Two that claim one address do so whatever else they say. That one is open cannot be found: see `mend`.
        ["listeners", _, "http" | "tcp" | "udp" | "user"] | ["upstreams", _, "via"] => {}
        // How the keys of one entry, or of its TLS, go together.
        ["trace", _] => return is_whole("trace"),
        ["log", "decisions", ..] => return is_whole("log.decisions"),
        ["listeners" | "upstreams", _, _] | [_, _, "tls", _] => {
            return !lost.is_within(&steps[..steps.len() - 1]);
        }
        _ => {}
    }

    !lost.is_within(up_to_list(&steps))
}

/// The part around the first list in it, whose elements have moved if one of them was lost. Routes stay where they are.
fn up_to_list(steps: &[Step]) -> &[Step] {
    let list = steps
        .iter()
        .skip(2)
        .position(|step| matches!(step, Step::Index(_)));
    let fields = matches!(steps, [Step::Key(section), Step::Index(_), ..] if section != "routes");
    match list {
        _ if fields => &steps[..1],
        Some(length) => &steps[..length + 2],
        None => steps,
    }
}

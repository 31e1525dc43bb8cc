//! Kinds of listeners: each listener has one, and the keys of this kind alone.

use std::sync::OnceLock;

use serde_json::{Map, Value as Json};

use crate::model::{KindKeys, ListenerKind, kinds_in};
use crate::path::child;
use crate::tree::Node;
use crate::{Places, Problem, schema};

/// The keys of every kind.
fn keys_of_kinds() -> &'static [KindKeys] {
    static KINDS: OnceLock<Vec<KindKeys>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let schema = schema::of::<ListenerKind>();
        kinds_in(schema.get("anyOf")).collect()
    })
}

/// Finds listeners without a kind or with several, and takes keys of other kinds out of the JSON of
/// a document; the `problems` so far may be why a listener seems to have no kind.
pub(crate) fn check(root: &mut Map<String, Json>, tree: &Node, problems: &mut Vec<Problem>) {
    let places = Places::new(tree.clone());
    let listeners = root.get_mut("listeners").and_then(Json::as_object_mut);
    for (name, listener) in listeners.into_iter().flatten() {
        let Json::Object(listener) = listener else {
            continue;
        };
        let path = child("listeners", name);
        let is_unclear = problems
            .iter()
            .any(|problem| is_within(&problem.path, &path));
        let mut report = |path: String, reason: String, remedy: String| {
            problems.push(places.placed(Problem::new(path, reason).remedy(remedy)));
        };

        match given(listener).as_slice() {
            // Its key may be mistyped, which is reported already.
            [] if is_unclear => {}
            [] => report(
                path,
                "the listener has no address".to_owned(),
                "give one of `http`, `socks`, `tcp`, `udp`, `attach`, `tun` and `capture`"
                    .to_owned(),
            ),
            [kind] => take_others(listener, kind, |key, reason, remedy| {
                report(child(&path, key), reason, remedy);
            }),
            [first, second, ..] => report(
                child(&path, &second.key),
                format!("the listener is {} and {} at once", first.key, second.key),
                "make a listener of each".to_owned(),
            ),
        }
    }
}

fn is_within(part: &str, path: &str) -> bool {
    let rest = part.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The kinds with a key of their own in this listener.
fn given(listener: &Map<String, Json>) -> Vec<&'static KindKeys> {
    let kinds = keys_of_kinds().iter();
    kinds
        .filter(|kind| listener.contains_key(&kind.key))
        .collect()
}

/// Takes the keys out of a listener that its kind does not have. A key with its default value is no
/// mistake.
fn take_others(
    listener: &mut Map<String, Json>,
    kind: &KindKeys,
    mut report: impl FnMut(&str, String, String),
) {
    listener.retain(|key, value| {
        if kind.properties.contains_key(key) {
            return true;
        }
        let having = || {
            keys_of_kinds()
                .iter()
                .filter_map(|kind| Some((kind, kind.properties.get(key)?)))
        };
        let Some((_, property)) = having().next() else {
            return true;
        };

        if !value.is_null() && property.get("default") != Some(value) {
            let kinds: Vec<_> = having()
                .map(|(kind, _)| format!("`{}`", kind.key))
                .collect();
            let reason = format!("`{key}` is for {} listeners", listed(&kinds));
            report(key, reason, remedy(&kind.key, key, &kinds[0]));
        }
        false
    });
}

/// The remedy for a key that a listener of this kind does not have; `other` is the first kind that
/// has it.
fn remedy(kind: &str, key: &str, other: &str) -> String {
    match (kind, key) {
        ("attach", "tls" | "versions") => {
            "remove it: the upstream that it attaches to says so".to_owned()
        }
        ("attach", "auth") => {
            "remove it: the proxy at the other end is known by its certificate, in `peers`"
                .to_owned()
        }
        ("http" | "attach", "target") => {
            "remove `target`, or make it a `tcp` listener: each request names its own".to_owned()
        }
        ("tun", "target") => "remove `target`: each packet names its own".to_owned(),
        (_, "auth") => "remove it, and name the user of the traffic with `user`".to_owned(),
        (_, "datagrams") => "remove it, or put it on a route".to_owned(),
        _ => {
            let article = if other == "`http`" { "an" } else { "a" };
            format!("remove it, or make it {article} {other} listener")
        }
    }
}

/// As a sentence lists them: `a`, `a and b`, `a, b and c`.
fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

//! Paths that are secrets: the text that is written in their place.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use hermes_config::model::{Document, Route};
use hermes_http::RequestHead;
use hermes_net::StreamInfo;
use hermes_observe::Exchange;
use hermes_plug::Plugs;
use hermes_plug::target::Target;
use hermes_rules::route::{HiddenPaths, Names, normalise};
use serde_json::Value;

use super::Snapshot;
use crate::filter::{KnownUser, facts};
use crate::next;

/// Bytes of the hash that are shown: an operator tells channels apart by it.
const SHOWN: usize = 6;

/// The hidden paths of a document: its routes say so, or their handlers do.
pub(super) fn of(document: &Document, plugs: &Plugs, names: &Arc<Names>) -> HiddenPaths {
    let routes = document.routes.iter();
    let hidden = routes.filter(|route| route.hide_path || is_handled(document, route, plugs));
    HiddenPaths::compile(hidden, names)
}

/// Whether a handler of the route hides the paths of its requests.
fn is_handled(document: &Document, route: &Route, plugs: &Plugs) -> bool {
    let between = route.through.iter();
    let between = between.map(|named| next::meant(document, named));
    let mut all = between.chain(&route.handle);
    all.any(|named| {
        let found = plugs.handlers.named("handle", named);
        found.is_ok_and(|handler| handler.hides_paths())
    })
}

impl Snapshot {
    /// Notes the target of an exchange, without a path that is a secret.
    pub fn note_target(
        &self,
        exchange: &Exchange,
        head: &RequestHead,
        target: &Target,
        source: &StreamInfo,
        listener: &str,
    ) {
        let hidden = &self.reports.hidden_paths;
        // Most nodes hide nothing, and compare nothing.
        let facts = (!hidden.is_empty())
            .then(|| facts(head, target, KnownUser::default(), source, listener));
        match facts.and_then(|facts| hidden.visible(&facts)) {
            Some(visible) => {
                let shown = shown(visible, head.path());
                exchange.target(target.with_path(&shown));
                exchange.hide_path(head.path(), shown);
            }
            None => exchange.target(target.with_path(head.path())),
        }
    }
}

/// The visible part of a path, and a hash of all of it.
fn shown(visible: &str, path: &str) -> String {
    let hash = digest(&SHA256, normalise(path).as_bytes());
    let hash = hash.as_ref()[..SHOWN].iter();
    let hash: String = hash.map(|byte| format!("{byte:02x}")).collect();
    format!("{visible}~{hash}")
}

/// Leaves a secret path out of the input of a decision that is logged, and adds the pointers to those that are left out.
pub(crate) fn erase(
    exchange: &Exchange,
    mut input: Value,
    mut erased: Vec<String>,
) -> (Value, Vec<String>) {
    let Some(shown) = exchange.shown_path() else {
        return (input, erased);
    };
    input["path"] = shown.into();
    input["query"] = Value::Null;
    erased.push("/input/path".to_owned());
    erased.push("/input/query".to_owned());
    let referer = input["fields"].as_object_mut();
    if referer
        .and_then(|fields| fields.remove("referer"))
        .is_some()
    {
        erased.push("/input/fields/referer".to_owned());
    }
    (input, erased)
}

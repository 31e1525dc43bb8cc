//! A check of a configuration before it runs: whether its upstreams can be reached.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::snapshot::{Draft, Snapshot};
use hermes_config::model::{Action, Authorize, Document, Terminate};
use hermes_config::{Loaded, Problems};
use hermes_net::Resolver;
use hermes_observe::{AccessSink, Telemetry};
use hermes_rules::route::hops_of;
use hermes_upstream::{Client, Directory, Question, Trial, Upstream};
pub use hermes_upstream::{PathReport, QuicAnswer, measure_path};
use http::HeaderValue;
use tokio_util::task::TaskTracker;

use crate::builtin;

/// Tries every upstream of a document that has endpoints of its own, and every authorisation server, each way to each endpoint no longer than `time`; by name, in
/// the order of the document.
///
/// # Errors
/// The problems of the document.
pub async fn try_upstreams(
    loaded: Loaded,
    time: Duration,
) -> Result<Vec<(String, Vec<Trial>)>, Problems> {
    let files = loaded.files.clone();
    let built = Snapshot::build(
        loaded,
        None,
        &Telemetry::new("check", AccessSink::off()),
        &builtin::plugs(),
    );

    let upstreams = Arc::new(TrialUpstreams(
        built.map_err(|problems| problems.in_order(&files))?,
    ));
    let resolver = Arc::new(Resolver::system());
    let client = Client::new(resolver, TaskTracker::new(), upstreams.clone());

    let document = upstreams.0.document();
    let http = proxies(document);
    let mut tried = Vec::new();

    let named = document.upstreams.keys().cloned();
    let filters = document.authorize.iter();
    let of_filters = filters.filter(|filter| filter.url.is_some());
    for name in named.chain(of_filters.map(Authorize::asked)) {
        let Some(upstream) = upstreams.upstream(&name) else {
            continue;
        };
        let question = if http.contains(&*name) {
            Question::Http
        } else {
            Question::Bare
        };

        let trials = client.try_out(&upstream, question, time).await;
        if !trials.is_empty() {
            tried.push((name, trials));
        }
    }

    client.close();
    Ok(tried)
}

/// The upstreams that are known to speak HTTP.
fn proxies(document: &Document) -> HashSet<Cow<'_, str>> {
    let to = document
        .routes
        .iter()
        .flat_map(|route| match route.action() {
            Some(Action::To(hops)) => hops_of(hops).collect::<Vec<_>>(),
            _ => Vec::new(),
        });

    let via = document
        .upstreams
        .values()
        .filter_map(|upstream| upstream.via.as_deref());
    let asked = document
        .authorize
        .iter()
        .filter(|filter| filter.url.is_some() || filter.upstream.is_some())
        .map(|filter| Cow::Owned(filter.asked()));
    let ends = document
        .routes
        .iter()
        .filter_map(|route| match &route.terminate {
            Some(Terminate::Upstream(name)) => Some(name.as_str()),
            _ => None,
        });

    let ends: HashSet<&str> = ends.collect();
    // An upstream that also ends tunnels is not asked: it may speak anything.
    to.chain(via)
        .map(Cow::Borrowed)
        .chain(asked)
        .filter(|name| !ends.contains(&**name))
        .collect()
}

/// The upstreams of a snapshot that is not in force.
struct TrialUpstreams(Draft);

impl Directory for TrialUpstreams {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.0.upstream(name).cloned()
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        self.0.token().cloned()
    }
}

//! The attachments of this node, as status shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hermes_upstream::Attached;
use parking_lot::Mutex;
use serde::Serialize;

/// The attachments of this node, in both directions.
#[derive(Default)]
pub struct Attachments {
    /// The nodes that are attached to this one.
    pub attached: Arc<Attached>,
    /// Its own attachments to others.
    pub joins: Joins,
}

/// The attachments that this node keeps, or tries to. Bounded by its listeners: each says how many.
#[derive(Debug, Default)]
pub struct Joins {
    open: Mutex<BTreeMap<u64, Arc<Mutex<State>>>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct State {
    listener: Arc<str>,
    upstream: String,
    name: String,
    endpoint: Option<(String, Instant)>,
    last_error: Option<String>,
}

/// One of them at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JoinView {
    /// The listener.
    pub listener: String,
    /// The upstream that it attaches to.
    pub upstream: String,
    /// The name.
    #[serde(rename = "as")]
    pub name: String,
    /// The endpoint that it is attached to; none while it tries.
    pub endpoint: Option<String>,
    /// Seconds since then.
    pub since_seconds: Option<u64>,
    /// Why it is not attached, or was not the last time.
    pub last_error: Option<String>,
}

impl Joins {
    /// All of them, in the order in which they began.
    pub fn views(&self) -> Vec<JoinView> {
        let all: Vec<_> = self.open.lock().values().cloned().collect();
        all.iter().map(|state| state.lock().view()).collect()
    }

    /// Begins to be shown, until the guard is dropped.
    pub fn begin(&self, listener: &Arc<str>) -> Join<'_> {
        let state = State {
            listener: listener.clone(),
            upstream: String::new(),
            name: String::new(),
            endpoint: None,
            last_error: None,
        };

        let state = Arc::new(Mutex::new(state));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, state.clone());

        Join {
            joins: self,
            state,
            number,
        }
    }
}

impl State {
    fn view(&self) -> JoinView {
        JoinView {
            listener: self.listener.to_string(),
            upstream: self.upstream.clone(),
            name: self.name.clone(),
            endpoint: self.endpoint.as_ref().map(|(endpoint, _)| endpoint.clone()),
            since_seconds: self
                .endpoint
                .as_ref()
                .map(|(_, since)| since.elapsed().as_secs()),
            last_error: self.last_error.clone(),
        }
    }
}

/// One attachment as it is seen.
pub struct Join<'a> {
    joins: &'a Joins,
    state: Arc<Mutex<State>>,
    number: u64,
}

impl Join<'_> {
    /// It is to lead there.
    pub fn leads(&self, upstream: &str, name: &str) {
        let mut state = self.state.lock();
        state.upstream = upstream.to_owned();
        state.name = name.to_owned();
    }

    /// It is attached.
    pub fn attached(&self, endpoint: &str) {
        self.state.lock().endpoint = Some((endpoint.to_owned(), Instant::now()));
    }

    /// It is not, or not any more; says whether that is news.
    pub fn failed(&self, reason: &str) -> bool {
        let mut state = self.state.lock();
        state.endpoint = None;
        state
            .last_error
            .replace(reason.to_owned())
            .is_none_or(|before| before != reason)
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        self.joins.open.lock().remove(&self.number);
    }
}

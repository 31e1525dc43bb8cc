//! One access record: a line of JSON.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use hermes_net::PeerAddress;
use hermes_net::memory::Owner;
use serde::Serialize;

use super::functions::{self, FunctionView};
use super::live::{Attempt, Facts, Live, PayloadWorks};
use super::recovery::RecoveryView;

/// Why a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Event {
    /// The exchange ended.
    End,
    /// A tunnel is still open.
    Long,
}

/// The content of an access record. Holds no field value, no query and no credential.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub time: String,
    pub id: String,
    pub trace: Option<String>,
    pub span: Option<String>,
    pub kind: &'static str,
    pub event: Event,
    pub node: String,
    pub listener: String,
    pub source: String,
    pub protocol: &'static str,
    pub user: Option<String>,
    pub method: String,
    pub target: String,
    pub route: Option<String>,
    pub upstream: Option<String>,
    pub endpoint: Option<String>,
    pub attempts: usize,
    /// The endpoint of each attempt, where there was more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
    /// The attempts, for spans.
    #[serde(skip)]
    pub made: Vec<Attempt>,
    #[serde(flatten)]
    pub passed: PassedBy,
    pub status: Option<u16>,
    #[serde(flatten)]
    pub refused: RefusedBy,
    /// How often its tunnel went on by another path.
    #[serde(skip_serializing_if = "is_zero")]
    pub resumed: u32,
    pub bytes: Moved,
    pub datagrams: Datagrams,
    #[serde(flatten)]
    pub times: Times,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The filters and functions on the way of an exchange.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PassedBy {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionView>,
    /// Recovery of its datagrams. Boxed, as it is rare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Box<RecoveryView>>,
}

impl PassedBy {
    fn of(filters: Vec<String>, worked: &PayloadWorks) -> Self {
        Self {
            filters,
            functions: functions::views(worked.functions.as_ref()),
            recovery: worked
                .recovery
                .as_ref()
                .map(|source| Box::new(source.view())),
        }
    }
}

/// The user, or the source of a stranger: an address and port, as it is shown.
pub(super) fn owner_of(user: Option<&str>, source: &str) -> Owner {
    let peer = match source.parse() {
        Ok(address) => PeerAddress::Ip(address),
        Err(_) => PeerAddress::Unix { uid: None },
    };
    Owner::of(user, &peer)
}

/// Bytes of texts that wait with their record.
pub(super) fn text_bytes<'a>(texts: impl IntoIterator<Item = &'a Option<String>>) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Who refused it, if it was refused.
#[derive(Debug, Serialize)]
pub(super) struct RefusedBy {
    /// The later proxy that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    /// The name of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// How long it took, and how far it went.
#[derive(Debug, Serialize)]
pub(super) struct Times {
    pub duration_ms: u64,
    /// Milliseconds of a round trip to the endpoint, as its upstream knows them when the record is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
}

impl Times {
    fn new(duration: Duration, facts: &Facts) -> Self {
        Self {
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            round_trip_ms: facts.round_trip_ms(),
        }
    }
}

/// Bytes of either direction.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    pub client_to_target: u64,
    pub target_to_client: u64,
}

/// Datagrams of either direction, and those that were not delivered.
#[derive(Debug, Serialize)]
pub(super) struct Datagrams {
    pub client_to_target: u64,
    pub target_to_client: u64,
    pub dropped: u64,
}

impl Record {
    /// Bytes of memory that it takes while it waits.
    pub(super) fn size(&self) -> usize {
        let Self { refused, .. } = self;
        let texts = text_bytes([
            &self.trace,
            &self.span,
            &self.user,
            &self.route,
            &self.upstream,
            &self.endpoint,
            &refused.refused_by,
            &refused.refusal,
        ]);
        let lists = self.tried.iter().chain(&self.passed.filters);
        let listed: usize = lists.map(|text| size_of::<String>() + text.len()).sum();
        let attempts = self.made.len() * size_of::<Attempt>();
        let chosen = self.method.len() + self.target.len() + self.reason.len();

        let functions = self.passed.functions.iter();
        let of_functions = functions.map(|view| size_of::<FunctionView>() + view.name.len());
        let listed = listed + of_functions.sum::<usize>();

        size_of::<Self>() + texts + listed + attempts + chosen
    }

    /// The owner of the exchange.
    pub(super) fn owner(&self) -> Owner {
        owner_of(self.user.as_deref(), &self.source)
    }

    /// The record of `live` at `time`, which is `now`.
    pub fn new(
        live: &Live,
        event: Event,
        node: &str,
        reason: &str,
        time: SystemTime,
        now: Instant,
    ) -> Self {
        let facts = live.facts.lock().clone();
        let counters = &live.counters;
        let times = Times::new(now.saturating_duration_since(live.since), &facts);

        Self {
            time: humantime::format_rfc3339_millis(time).to_string(),
            id: live.id.to_string(),
            trace: live.trace(),
            span: live.span.get().map(|span| span.context.parent.to_string()),
            kind: live.kind(),
            event,
            node: node.to_owned(),
            listener: live.begin.listener.to_string(),
            source: live.begin.source.to_string(),
            protocol: live.begin.protocol,
            method: facts.method(),
            upstream: facts.upstream().map(ToString::to_string),
            endpoint: facts.endpoint().map(ToString::to_string),
            user: facts.user,
            target: facts.target,
            route: facts.route.as_deref().map(str::to_owned),
            attempts: facts.tried.len() + facts.outlived.forgotten,
            tried: match facts.tried.as_slice() {
                several @ [_, _, ..] => several
                    .iter()
                    .map(|attempt| attempt.endpoint.to_string())
                    .collect(),
                _ => Vec::new(),
            },
            made: facts.tried,
            passed: PassedBy::of(facts.decided_by.filters, &facts.worked),
            status: live.status(),
            refused: RefusedBy {
                refused_by: facts.refused_by.map(|later| later.node),
                refusal: facts.names.refusal.map(|id| id.to_string()),
            },
            resumed: facts.outlived.resumed,
            bytes: Moved {
                client_to_target: counters.client_to_target.load(Ordering::Relaxed),
                target_to_client: counters.target_to_client.load(Ordering::Relaxed),
            },
            datagrams: Datagrams {
                client_to_target: counters.datagrams_in.load(Ordering::Relaxed),
                target_to_client: counters.datagrams_out.load(Ordering::Relaxed),
                dropped: counters.dropped.load(Ordering::Relaxed),
            },
            times,
            reason: reason.to_owned(),
        }
    }
}

//! The guard of one exchange: the facts that are learnt on its way.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use hermes_net::clock;
use hermes_net::shares::Share;
use hermes_proto::hop_report::HopReport;
use hermes_proto::refusal_id::RefusalId;
use hermes_upstream::Upstream;
use http::Method;
use tokio::sync::Notify;

use super::counters::Counters;
use super::flow_record::{FlowRecord, SeenFlow};
use super::functions::FunctionCounts;
use super::live::{Attempt, Hop, Id, LaterRefusal, Learnt, Live, MovedPath, TEXT_LIMIT, clip};
use super::recovery::RecoverySource;
use super::span::Span;
use super::{CLIENT_CLOSED, DropReason, Telemetry, class_of};
use crate::LOG;

/// Stands for the status of an exchange with a client that went away before the answer. It is never
/// sent: no such status is registered.
const CLIENT_GONE: u16 = 499;

/// A live exchange. Dropping it without [`Self::finish`] ends it as `abandoned`.
///
/// Attempts of an exchange that are listed; those between the first and the last ones are only counted.
#[doc(alias = "bound")]
const TRIED: usize = 64;

/// It must not be given secrets: a query is cut off a target, and credentials have no place here.
#[derive(Debug)]
pub struct Exchange {
    telemetry: Arc<Telemetry>,
    live: Arc<Live>,
    /// The descriptor that it holds of its user's share.
    held: OnceLock<Share>,
    eviction: Eviction,
    /// Its path, where that is a secret.
    hidden: OnceLock<Box<HiddenPath>>,
}

/// A path that is a secret.
#[derive(Debug)]
struct HiddenPath {
    path: String,
    /// The text in its place.
    shown: String,
}

/// Whether an exchange has to make room for another.
#[derive(Debug, Default)]
struct Eviction {
    asked: AtomicBool,
    changed: Notify,
    /// The exchange is carried, and follows this flag.
    carried: AtomicBool,
}

impl Exchange {
    pub(super) fn new(telemetry: Arc<Telemetry>, live: Arc<Live>) -> Self {
        Self {
            telemetry,
            live,
            held: OnceLock::new(),
            eviction: Eviction::default(),
            hidden: OnceLock::new(),
        }
    }

    /// Its path is a secret: `shown` is written in its place, also where a reason has it. To be called before anything else is noted.
    pub fn hide_path(&self, path: &str, shown: String) {
        let path = path.to_owned();
        let _ = self.hidden.set(Box::new(HiddenPath { path, shown }));
    }

    /// The text in the place of its path, if that is a secret.
    pub fn shown_path(&self) -> Option<&str> {
        self.hidden.get().map(|hidden| &*hidden.shown)
    }

    /// A text without the path, if that is a secret.
    pub fn without_secret<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.hidden.get() {
            // An empty one would be found everywhere.
            Some(hidden) if hidden.path.len() > 1 && text.contains(&hidden.path) => {
                text.replace(&hidden.path, &hidden.shown).into()
            }
            _ => text.into(),
        }
    }

    /// Whether it holds a descriptor.
    pub fn holds(&self) -> bool {
        self.held.get().is_some()
    }

    /// Holds a descriptor until it ends.
    pub fn hold(&self, share: Share) {
        // Of two at once, one is given back.
        let _ = self.held.set(share);
    }

    /// Tells its carrier to end it, because others need the room.
    pub fn evict(&self) {
        self.eviction.asked.store(true, Ordering::Relaxed);
        self.eviction.changed.notify_one();
    }

    /// Resolves when it has to make room; for its carrier. May be dropped and called again.
    pub async fn evicted(&self) {
        self.eviction.carried.store(true, Ordering::Relaxed);
        while !self.eviction.asked.load(Ordering::Relaxed) {
            self.eviction.changed.notified().await;
        }
    }

    /// Whether someone looks whether it has to make room.
    #[must_use]
    pub fn can_be_evicted(&self) -> bool {
        self.eviction.carried.load(Ordering::Relaxed)
    }

    /// Counts a flow of IP that begins in its tunnel.
    pub fn flow_began(&self, is_allowed: bool) {
        self.counters().flows.count(is_allowed);
    }

    /// Counts a flow of IP that has ended in its tunnel, and writes its access record.
    pub fn flow_ended(&self, flow: SeenFlow) {
        self.counters().flows.ended.fetch_add(1, Ordering::Relaxed);
        let telemetry = &self.telemetry;
        let now = clock::system_now();
        telemetry.write_flow(|| FlowRecord::new(&self.live, &telemetry.node, flow, now));
    }

    /// Its identifier in access records and in the table.
    #[must_use]
    pub fn id(&self) -> Id {
        self.live.id
    }

    /// The target: `host:port`, with a path if it has one. Neither user information nor a query is
    /// kept, and at most 1024 bytes.
    pub fn target(&self, mut target: String) {
        let is_end = |byte: u8| matches!(byte, b'?' | b'#');
        target.truncate(target.bytes().position(is_end).unwrap_or(target.len()));
        let authority = target.bytes().take_while(|byte| *byte != b'/');

        if let Some((at, _)) = authority
            .enumerate()
            .filter(|(_, byte)| *byte == b'@')
            .last()
        {
            target.drain(..=at);
        }

        target.truncate(target.floor_char_boundary(TEXT_LIMIT));
        // A long path that was cut off would cost its whole length for as long as the exchange lives.
        target.shrink_to(TEXT_LIMIT);
        tracing::debug!(target: LOG, exchange = %self.live.id, ?target, "is for");
        self.live.facts.lock().target = target;
    }

    /// The method.
    pub fn method(&self, method: &Method) {
        self.live.facts.lock().method = Some(method.clone());
    }

    /// The user.
    pub fn user(&self, user: &str) {
        tracing::debug!(target: LOG, exchange = %self.live.id, ?user, "belongs to");
        self.live.facts.lock().user = Some(user.to_owned());
    }

    /// The configured name of the route that decided. It becomes a label: never pass a text that a
    /// client chose.
    pub fn route(&self, route: &Arc<str>) {
        tracing::debug!(target: LOG, exchange = %self.live.id, %route, "takes the route");
        self.live.facts.lock().route = Some(Arc::clone(route));
    }

    /// The Upstream's configured name and the endpoint of the latest attempt; to be called once an attempt.
    /// `upstream` is `None` where the target itself is dialled.
    pub fn upstream(&self, name: &Arc<str>, endpoint: &Arc<str>, upstream: Option<&Arc<Upstream>>) {
        let at = clock::system_now();
        tracing::debug!(target: LOG, exchange = %self.live.id, upstream = %name, %endpoint, "goes to");
        let mut facts = self.live.facts.lock();
        let hop = Hop {
            upstream: Arc::clone(name),
            endpoint: Arc::clone(endpoint),
            measured_by: upstream.cloned(),
        };

        match &mut facts.ahead {
            Some(ahead) => *ahead = Some(hop),
            None => facts.goes_by(hop),
        }

        // Most exchanges have one attempt, and the list waits as long as its tunnel does.
        if facts.tried.len() >= TRIED {
            // The first says where it was to go, the last ones where it went.
            facts.tried.remove(1);
            facts.outlived.forgotten += 1;
        }
        facts.tried.reserve_exact(1);
        facts.tried.push(Attempt {
            at,
            endpoint: Arc::clone(endpoint),
            outcome: None,
        });
    }

    /// Attempts from now on are for another way, while it goes on by the one that it has.
    pub fn moves(&self) {
        self.live.facts.lock().ahead = Some(None);
    }

    /// Whether it goes by that other way now; without [`Self::moves`] before, nothing.
    pub fn moved(&self, there: bool) {
        let mut facts = self.live.facts.lock();
        if let Some(hop) = facts.ahead.take().flatten().filter(|_| there) {
            facts.goes_by(hop);
        }
    }

    /// The latest attempt was not the end of it; `outcome` is from a fixed set.
    pub fn attempt_ended(&self, outcome: &'static str) {
        tracing::debug!(target: LOG, exchange = %self.live.id, outcome, "an attempt ended");
        if let Some(attempt) = self.live.facts.lock().tried.last_mut() {
            attempt.outcome = Some(outcome);
        }
    }

    /// The later proxy of this name refused it.
    pub fn refused_by(&self, node: &str, id: Option<RefusalId>) {
        let mut facts = self.live.facts.lock();
        facts.names.refusal = id.or(facts.names.refusal);
        facts.refused_by = Some(Box::new(LaterRefusal {
            node: clip(node),
            id,
        }));
    }

    /// This node refuses or ends the exchange, under this name.
    pub fn refused(&self, id: RefusalId) {
        tracing::debug!(target: LOG, exchange = %self.live.id, refusal = %id, "is refused");
        self.live.facts.lock().names.refusal = Some(id);
    }

    /// An open tunnel is denied by the decision of this name, or by an unnamed one.
    pub fn denied(&self, by: Option<RefusalId>) {
        self.live.facts.lock().names.denial = by;
    }

    /// The decision that denies it.
    #[must_use]
    pub fn denial(&self) -> Option<RefusalId> {
        self.live.facts.lock().names.denial
    }

    /// Whether its refusal has a name.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.live.facts.lock().names.refusal.is_some()
    }

    /// The known facts.
    #[must_use]
    pub fn learnt(&self) -> Learnt {
        self.live.learnt(clock::now().into_std())
    }

    /// The way that it has taken so far, for a client that asks.
    #[must_use]
    pub fn way(&self) -> HopReport {
        let facts = self.live.facts.lock();
        let attempts = facts.tried.len() + facts.outlived.forgotten;
        let taken = Instant::now().saturating_duration_since(self.live.since);
        HopReport {
            rule: None,
            route: facts.route.as_ref().map(ToString::to_string),
            next_hop: facts.upstream().map(ToString::to_string),
            is_end: false,
            is_refused: facts.names.refusal.is_some() && facts.refused_by.is_none(),
            attempts: u64::try_from(attempts).ok().filter(|count| *count > 1),
            took: Some(taken),
        }
    }

    /// The exchange is a tunnel over POST.
    pub fn is_post(&self) {
        self.live.is_post();
    }

    /// The endpoint that answered, where several were asked.
    pub fn answered_by(&self, endpoint: &str) {
        if let Some(hop) = &mut self.live.facts.lock().hop {
            hop.endpoint = endpoint.into();
        }
    }

    /// The groups that its user's token claims, for who asks later why it was refused.
    pub fn claims<'a>(&self, groups: impl Iterator<Item = &'a str>) {
        let claimed: Vec<String> = groups.map(clip).collect();
        if !claimed.is_empty() {
            self.live.facts.lock().decided_by.claimed = claimed;
        }
    }

    /// Fields of its client that are not believed.
    pub fn removed(&self, names: Vec<String>) {
        self.live.facts.lock().decided_by.removed = names;
    }

    /// A filter's decision, and the reason.
    pub fn filtered(&self, decision: &str) {
        let decision = &*self.without_secret(decision);
        tracing::debug!(target: LOG, exchange = %self.live.id, ?decision, "was asked about");
        self.live
            .facts
            .lock()
            .decided_by
            .filters
            .push(clip(decision));
    }

    /// The functions on its way, which count there.
    pub fn functions(&self, counts: FunctionCounts) {
        self.live.facts.lock().worked.functions = Some(counts);
    }

    /// Lost datagrams of it are recovered now, or no longer.
    pub fn recovery(&self, source: Option<Arc<dyn RecoverySource>>) {
        self.live.facts.lock().worked.recovery = source;
    }

    /// Filters are asked about it again: earlier decisions do not count any more.
    pub fn refiltered(&self) {
        self.live.facts.lock().decided_by.filters.clear();
    }

    /// Its tunnel goes on by another path, for the `times`th time.
    pub fn resumed(&self, times: u32) {
        let outlived = &mut self.live.facts.lock().outlived;
        outlived.resumed = times;
        outlived.waits = None;
    }

    /// Its tunnel takes another path now, and this is why.
    pub fn moved_for(&self, why: String) {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let moved = MovedPath { time, why };
        self.live.facts.lock().outlived.moved = Some(Box::new(moved));
    }

    /// When its tunnel took another path last, and why.
    pub fn moved_path(&self) -> Option<MovedPath> {
        self.live.facts.lock().outlived.moved.as_deref().cloned()
    }

    /// The exchange waits for this; `None` ends the wait.
    pub fn waits(&self, what: Option<String>) {
        self.live.facts.lock().outlived.waits = what;
    }

    /// The reason why it waits.
    pub fn waits_for(&self) -> Option<String> {
        self.live.facts.lock().outlived.waits.clone()
    }

    /// Whether the client has a final response.
    pub fn is_answered(&self) -> bool {
        self.live.status().is_some()
    }

    /// The status of the final response to the client.
    pub fn status(&self, status: u16) {
        tracing::debug!(target: LOG, exchange = %self.live.id, status, "is answered");
        self.live.status.store(status, Ordering::Relaxed);
    }

    /// Its place in its trace; only the first counts.
    pub fn trace(&self, span: Span) {
        let _ = self.live.span.set(span);
    }

    /// Its place in its trace, once that is known.
    #[must_use]
    pub fn span(&self) -> Option<&Span> {
        self.live.span.get()
    }

    /// The counters for its traffic.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.live.counters
    }

    /// Counts datagrams of it that were not delivered.
    pub fn dropped(&self, reason: DropReason, count: u64) {
        if count > 0 {
            self.live
                .counters
                .dropped
                .fetch_add(count, Ordering::Relaxed);
            self.telemetry.datagrams_dropped(reason, count);
        }
    }

    /// Notes that datagrams of up to `largest` bytes are too large for the QUIC datagrams on the
    /// way, and their fate, `becomes`. A user of UDP only sees loss, or a changed order of
    /// datagrams; so the log reports it once for each listener.
    pub fn oversize(&self, largest: usize, fits: usize, becomes: &'static str) {
        if self
            .live
            .listener
            .oversize
            .count(1, clock::now().into_std())
            .is_none()
        {
            return;
        }
        let facts = self.live.facts.lock();
        let listener = &*self.live.begin.listener;
        let upstream = facts.upstream().map_or("", |name| &**name);
        tracing::warn!(target: LOG, listener,
            upstream,
            target = facts.target,
            largest,
            fits,
            "datagrams larger than {fits} bytes do not fit the QUIC datagrams of this path, and are {becomes}: let the sender use at most {fits} bytes (an MTU lower by {}), or see `datagrams.oversize`",
            largest.saturating_sub(fits)
        );
    }

    /// Ends it. `reason` is a word of [`super::class_of`]'s set, with details after a colon if there are any, e.g.
    /// `connection_refused: 192.0.2.1:80`. Only the first end counts.
    pub fn finish(&self, reason: &str) {
        if self.live.end_once() {
            let reason = &*self.without_secret(reason);
            if class_of(reason) == CLIENT_CLOSED {
                self.live.status.store(CLIENT_GONE, Ordering::Relaxed);
            }
            tracing::debug!(target: LOG, exchange = %self.live.id, status = self.live.status(), ?reason, "ended");
            self.telemetry.end(&self.live, reason);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.finish("abandoned");
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::PeerAddress;

    use super::*;
    use crate::{AccessSink, Begin};

    #[test]
    fn a_target_is_kept_without_secrets_and_not_at_any_length() {
        let telemetry = Telemetry::new("alice", AccessSink::off());
        let source = PeerAddress::Unix { uid: None };
        let begin = Begin {
            kind: "http",
            listener: "web".into(),
            source,
            protocol: "h1",
        };
        let exchange = telemetry.begin(begin);
        let long = "\u{e9}".repeat(TEXT_LIMIT);
        let cases = [
            ("db:5432", "db:5432"),
            ("video:80/a@b?token=x", "video:80/a@b"),
            ("bob:secret@video:80/a#b", "video:80/a"),
            ("?", ""),
            (&long, &long[..TEXT_LIMIT]),
        ];
        for (target, kept) in cases {
            exchange.target(target.to_owned());
            assert_eq!(telemetry.exchanges()[0].target, kept);
        }
    }
}

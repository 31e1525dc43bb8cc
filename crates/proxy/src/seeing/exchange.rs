//! The guard of one exchange: what is learnt about it on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::SystemTime;

use hermes_net::PeerAddress;
use http::Method;

use super::live::{Attempt, Id, Live};
use super::span::Span;
use super::{DropReason, Seeing};

/// Bytes of a text that a client chose, in records and views: the queue of records stays below some megabytes.
const TEXT_LIMIT: usize = 1024;

/// What is known when an exchange begins.
#[derive(Debug, Clone)]
pub struct Begin {
    /// `http`, `connect`, `connect-tcp`, `connect-udp` or `upgrade`; a tunnel over POST is known [later](Exchange::is_post).
    pub kind: &'static str,
    /// The listener's name.
    pub listener: Arc<str>,
    /// Where it comes from.
    pub source: PeerAddress,
    /// How it came: `h1`, `h2`, `tcp` or `udp`.
    pub protocol: &'static str,
}

/// What an exchange has moved so far; add with [`Ordering::Relaxed`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes of content or tunnel from the client.
    pub client_to_target: AtomicU64,
    /// Bytes of content or tunnel to the client.
    pub target_to_client: AtomicU64,
    /// Datagrams from the client.
    pub datagrams_in: AtomicU64,
    /// Datagrams to the client.
    pub datagrams_out: AtomicU64,
    /// Datagrams of either direction that were not delivered.
    pub dropped: AtomicU64,
    /// Bytes of the largest UDP payload that goes on as a QUIC datagram, from the client; 0: no limit is known.
    pub datagram_limit_in: AtomicU16,
    /// The same to the client.
    pub datagram_limit_out: AtomicU16,
}

impl Counters {
    /// Counts bytes from the client.
    pub fn from_client(&self, bytes: u64) {
        self.client_to_target.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes how large UDP payloads may be that go on in QUIC datagrams.
    pub fn datagram_limit(&self, from_client: bool, limit: usize) {
        let of = if from_client { &self.datagram_limit_in } else { &self.datagram_limit_out };
        of.store(u16::try_from(limit).unwrap_or(u16::MAX), Ordering::Relaxed);
    }

    /// Counts bytes to the client.
    pub fn to_client(&self, bytes: u64) {
        self.target_to_client.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A live exchange. Dropping it without [`Self::finish`] ends it as `abandoned`.
///
/// Nothing secret may be given to it: a query is cut off a target, credentials belong nowhere here.
#[derive(Debug)]
pub struct Exchange {
    seeing: Arc<Seeing>,
    live: Arc<Live>,
}

impl Exchange {
    pub(super) fn new(seeing: Arc<Seeing>, live: Arc<Live>) -> Self {
        Self { seeing, live }
    }

    /// Its identifier in access records and in the table.
    #[must_use]
    pub fn id(&self) -> Id {
        self.live.id
    }

    /// What it is for: `host:port`, with a path if it has one. Neither user information nor a query is kept, and at
    /// most 1024 bytes.
    pub fn target(&self, mut target: String) {
        let is_end = |byte: u8| matches!(byte, b'?' | b'#');
        target.truncate(target.bytes().position(is_end).unwrap_or(target.len()));
        let authority = target.bytes().take_while(|byte| *byte != b'/');
        if let Some((at, _)) = authority.enumerate().filter(|(_, byte)| *byte == b'@').last() {
            target.drain(..=at);
        }
        target.truncate(target.floor_char_boundary(TEXT_LIMIT));
        self.live.facts.lock().target = target;
    }

    /// The method.
    pub fn method(&self, method: &Method) {
        self.live.facts.lock().method = Some(method.clone());
    }

    /// Whose it is.
    pub fn user(&self, user: &str) {
        self.live.facts.lock().user = Some(user.to_owned());
    }

    /// The configured name of the route that decided. It becomes a label: never give a text that a client chose.
    pub fn route(&self, route: &Arc<str>) {
        self.live.facts.lock().route = Some(Arc::clone(route));
    }

    /// The Upstream's configured name and the endpoint of the latest attempt; to be called once an attempt.
    pub fn upstream(&self, name: &Arc<str>, endpoint: &Arc<str>) {
        let at = SystemTime::now();
        let mut facts = self.live.facts.lock();
        facts.upstream = Some(Arc::clone(name));
        facts.endpoint = Some(Arc::clone(endpoint));
        // Most exchanges have one attempt, and the list waits as long as its tunnel does.
        facts.tried.reserve_exact(1);
        facts.tried.push(Attempt { at, endpoint: Arc::clone(endpoint), outcome: None });
    }

    /// The latest attempt was not the end of it; `outcome` is from a fixed set.
    pub fn attempt_ended(&self, outcome: &'static str) {
        if let Some(attempt) = self.live.facts.lock().tried.last_mut() {
            attempt.outcome = Some(outcome);
        }
    }

    /// It is a tunnel over POST.
    pub fn is_post(&self) {
        self.live.is_post();
    }

    /// The endpoint that answered, where several were asked.
    pub fn answered_by(&self, endpoint: &str) {
        self.live.facts.lock().endpoint = Some(endpoint.into());
    }

    /// What a filter decided, and why.
    pub fn filtered(&self, decision: &str) {
        self.live.facts.lock().filters.push(clip(decision));
    }

    /// Filters are asked about it again: what they said before counts no more.
    pub fn refiltered(&self) {
        self.live.facts.lock().filters.clear();
    }

    /// Its UDP session goes on on another way, for the `times`th time.
    pub fn resumed(&self, times: u32) {
        self.live.facts.lock().resumed = times;
    }

    /// The status of the final response to the client.
    pub fn status(&self, status: u16) {
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

    /// Where to count what it moves.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.live.counters
    }

    /// Counts datagrams of it that were not delivered.
    pub fn dropped(&self, reason: DropReason, count: u64) {
        if count > 0 {
            self.live.counters.dropped.fetch_add(count, Ordering::Relaxed);
            self.seeing.datagrams_dropped(reason, count);
        }
    }

    /// Ends it. `reason` is a word of [`super::class_of`]'s set, with details after a colon if there are any, e.g.
    /// `connection_refused: 192.0.2.1:80`. Only the first end counts.
    pub fn finish(&self, reason: &str) {
        if self.live.end_once() {
            self.seeing.end(&self.live, reason);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.finish("abandoned");
    }
}

/// At most [`TEXT_LIMIT`] bytes of `text`.
pub(super) fn clip(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LIMIT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeing::AccessSink;

    #[test]
    fn a_target_is_kept_without_secrets_and_not_at_any_length() {
        let seeing = Seeing::new("alice", AccessSink::off());
        let source = PeerAddress::Unix { uid: None };
        let begin = Begin { kind: "http", listener: "web".into(), source, protocol: "h1" };
        let exchange = seeing.begin(begin);
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
            assert_eq!(seeing.exchanges()[0].target, kept);
        }
    }
}

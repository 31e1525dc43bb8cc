//! The copies of one request, and what comes back.

use std::sync::Arc;

use bytes::Bytes;
use hermes_config::model::{Action, Broadcast, Hops, Terminate};
use hermes_http::h1::client::Receiver;
use hermes_http::{RequestHead, ResponseHead};
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::{Client, Timeouts, Upstream};
use http::header::EXPECT;
use tokio::task::JoinSet;

use super::super::departure::{Next, depart};
use super::super::reach;
use super::COPIES;
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::whole;

/// Further tries of a copy that was certainly not processed: a kept connection may die just as it is used.
const AGAIN: usize = 2;

/// The copies of one request, not yet sent.
pub(super) struct Copies(Vec<Copy>);

/// One copy: the request as it leaves, and the endpoint that gets it.
struct Copy {
    number: usize,
    upstream: Arc<Upstream>,
    index: usize,
    receiver: Receiver,
    head: Arc<RequestHead>,
    timeouts: Timeouts,
}

/// What came back for one copy.
pub(super) struct Reply {
    /// Counts the copies from 0.
    pub(super) number: usize,
    /// The upstream and the number of its endpoint, as `shards/2`.
    pub(super) label: String,
    pub(super) upstream: String,
    pub(super) endpoint: String,
    /// The response; or why there is none.
    pub(super) outcome: Result<(ResponseHead, Bytes), String>,
}

impl Reply {
    pub(super) fn is_success(&self) -> bool {
        matches!(&self.outcome, Ok((head, _)) if head.status.is_success())
    }

    /// No reply came in time.
    pub(super) fn too_late(number: usize, label: String) -> Self {
        let outcome = Err("no reply came in time".to_owned());
        Self { number, label, upstream: String::new(), endpoint: String::new(), outcome }
    }
}

impl Copies {
    /// A copy for each endpoint, in the order of the configuration.
    ///
    /// # Errors
    /// There are more endpoints than copies allowed, or the request cannot be written.
    pub(super) fn plan(routed: &Routed, head: &RequestHead, rule: &Broadcast) -> Result<Self, Refusal> {
        let (names, receiver) = upstreams(routed, rule);
        let mut copies = Vec::new();
        for name in names {
            let missing = || Refusal::new(ProxyError::ProxyConfigurationError, format!("there is no upstream {name}"));
            let upstream = routed.snapshot.upstreams.get(name).cloned().ok_or_else(missing)?;
            let next = Next::Upstream { upstream: upstream.clone(), receiver };
            let (mut head, _) = depart(routed, head, &next)?;
            head.fields.remove(EXPECT);
            let (head, timeouts) = (Arc::new(head), reach::timeouts(routed, &next));
            copies.extend((0..upstream.endpoint_count()).map(|index| {
                let (upstream, head) = (upstream.clone(), head.clone());
                Copy { number: 0, upstream, index, receiver, head, timeouts }
            }));
        }
        let most = rule.copies.map_or(COPIES, usize::from);
        if copies.len() > most {
            let details = format!("the request would need {} copies, and may have {most}", copies.len());
            return Err(Refusal::new(ProxyError::ConnectionLimitReached, details));
        }
        copies.iter_mut().enumerate().for_each(|(number, copy)| copy.number = number);
        Ok(Self(copies))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What each copy is called.
    pub(super) fn labels(&self) -> Vec<String> {
        self.0.iter().map(Copy::label).collect()
    }

    /// Sends all of them at once. Dropping the set cancels those that are out.
    pub(super) fn send(self, client: &Client, content: Bytes, limit: usize) -> JoinSet<Reply> {
        let mut out = JoinSet::new();
        for copy in self.0 {
            let (client, content) = (client.clone(), content.clone());
            out.spawn(async move { copy.send(&client, content, limit).await });
        }
        out
    }
}

/// Where the copies go, and what is there.
fn upstreams<'a>(routed: &'a Routed, rule: &'a Broadcast) -> (Vec<&'a str>, Receiver) {
    let action = routed.snapshot.document.routes.get(routed.route).and_then(|route| route.action());
    let (own, receiver): (Vec<&str>, _) = match action {
        Some(Action::To(Hops::One(name))) => (vec![name], Receiver::Proxy),
        Some(Action::To(Hops::Split(split))) => (split.keys().map(String::as_str).collect(), Receiver::Proxy),
        Some(Action::Terminate(Terminate::Upstream(name))) => (vec![name], Receiver::Origin),
        _ => (Vec::new(), Receiver::Origin),
    };
    let named = rule.upstreams.as_ref().map(|names| names.iter().map(String::as_str).collect());
    (named.unwrap_or(own), receiver)
}

impl Copy {
    fn label(&self) -> String {
        format!("{}/{}", self.upstream.name(), self.index)
    }

    async fn send(self, client: &Client, content: Bytes, limit: usize) -> Reply {
        let (mut endpoint, mut again) = (String::new(), AGAIN);
        let outcome = loop {
            let checkout = match client.checkout_endpoint(&self.upstream, self.index, &self.timeouts).await {
                Ok(checkout) => checkout,
                Err(failure) => break Err(failure.reason),
            };
            endpoint.clone_from(&checkout.endpoint);
            let stale = checkout.reused && self.head.method.is_idempotent();
            match whole::message(checkout, &self.head, content.clone(), self.receiver, limit).await {
                Ok(response) => break Ok(response),
                Err(failure) if again > 0 && failure.may_repeat(stale) => again -= 1,
                Err(failure) => break Err(failure.to_string()),
            }
        };
        let upstream = self.upstream.name().to_owned();
        Reply { number: self.number, label: self.label(), upstream, endpoint, outcome }
    }
}

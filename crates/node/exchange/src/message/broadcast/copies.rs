//! The copies of one request, and their replies.

use std::sync::Arc;

use hermes_admit::buffered;
use hermes_admit::buffered::{Content, Failure, Limit, RequestBody, Stored};
use hermes_admit::routed::Routed;
use hermes_config::model::{Broadcast, Reply as Rule};
use hermes_http::h1::client::Receiver;
use hermes_http::{RequestHead, ResponseHead};
use hermes_net::shares::Share;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::names::EXPECT;
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::{Client, Timeouts, Upstream};
use http::StatusCode;
use tokio::task::JoinSet;

use super::COPIES;
use crate::reach::departure::depart;
use crate::reach::descriptor_share::ShareOwner;

/// Further tries of a copy that was certainly not processed: a kept connection may die just as it is used.
#[doc(alias = "bound")]
const AGAIN: usize = 2;

/// The copies of one request, not yet sent.
pub(super) struct Copies {
    copies: Vec<Copy>,
    /// Endpoints that get none, because they are not well.
    unfit: Vec<Reply>,
    /// Whose descriptors the copies take, and those that they will need for certain.
    owner: ShareOwner,
    held: Share,
}

/// One copy: the request as it leaves, and the endpoint that gets it.
struct Copy {
    number: usize,
    upstream: Arc<Upstream>,
    index: usize,
    receiver: Receiver,
    head: Arc<RequestHead>,
    timeouts: Timeouts,
}

/// The reply to one copy.
pub(super) struct Reply {
    /// Counts the copies from 0.
    pub(super) number: usize,
    /// The upstream and the number of its endpoint, as `shards/2`.
    pub(super) label: String,
    pub(super) upstream: Arc<str>,
    pub(super) endpoint: Arc<str>,
    /// The response; or why there is none.
    pub(super) outcome: Result<(ResponseHead, Content), NoReply>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoReply {
    /// The status that says so.
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

impl NoReply {
    fn failed(reason: String) -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            reason,
        }
    }

    /// A copy that was sent.
    fn of(failure: &Failure) -> Self {
        let status = match failure {
            Failure::Overdrawn(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self {
            status,
            reason: failure.to_string(),
        }
    }

    fn refused(refusal: &Refusal) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: refusal.reason(),
        }
    }
}

impl Reply {
    pub(super) fn is_success(&self) -> bool {
        matches!(&self.outcome, Ok((head, _)) if head.status.is_success())
    }

    /// No reply came in time.
    pub(super) fn too_late(number: usize, label: String) -> Self {
        let reason = "no reply came in time".to_owned();
        let outcome = Err(NoReply {
            status: StatusCode::GATEWAY_TIMEOUT,
            reason,
        });
        Self {
            number,
            label,
            upstream: "".into(),
            endpoint: "".into(),
            outcome,
        }
    }
}

impl Copies {
    /// A copy for each endpoint that is well, in the order of the configuration.
    ///
    /// # Errors
    /// There are more endpoints than copies allowed, whether they are well or not; none is well, or too few for a quorum; the
    /// request cannot be written; or there are not enough descriptors for its copies.
    pub(super) fn plan(
        routed: &Routed,
        head: &RequestHead,
        rule: &Broadcast,
    ) -> Result<Self, Refusal> {
        let mut copies = Vec::new();
        for next in &routed.route.copies {
            let Some(upstream) = next.upstream() else {
                continue;
            };
            let (mut head, _) = depart(routed, head.clone(), next)?;
            // The whole content is kept before a copy leaves, so none waits for a 100 (RFC 9110,
            // 10.1.1).
            head.fields.remove(EXPECT);
            let head = Arc::new(head);
            copies.extend((0..upstream.endpoint_count()).map(|index| Copy {
                number: 0,
                upstream: upstream.clone(),
                index,
                receiver: next.receiver(),
                head: head.clone(),
                timeouts: next.timeouts,
            }));
        }
        let most = rule.copies.map_or(COPIES, usize::from);
        if copies.len() > most {
            let details = format!(
                "the request would need {} copies, and may have {most}",
                copies.len()
            );
            return Err(Refusal::new(ProxyError::ConnectionLimitReached, details));
        }
        copies
            .iter_mut()
            .enumerate()
            .for_each(|(number, copy)| copy.number = number);
        let (unfit, copies): (Vec<_>, Vec<_>) = copies
            .into_iter()
            .partition(|copy| copy.upstream.unfit(copy.index).is_some());
        let unfit: Vec<_> = unfit.iter().map(Copy::unasked).collect();
        suffice(copies.len(), unfit.len(), rule.reply)?;
        // Each that cannot share a link has a connection of its own.
        let owner = ShareOwner::of(routed);
        let held = owner.take(
            copies
                .iter()
                .filter(|copy| !copy.upstream.may_share())
                .count(),
        )?;
        Ok(Self {
            copies,
            unfit,
            owner,
            held,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// The endpoints that get no copy.
    pub(super) fn take_unfit(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.unfit)
    }

    /// The number of each copy, and its name.
    pub(super) fn labels(&self) -> Vec<(usize, String)> {
        self.copies
            .iter()
            .map(|copy| (copy.number, copy.label()))
            .collect()
    }

    /// Sends all of them at once. Dropping the set cancels those that are out; their descriptors are held until then.
    pub(super) fn send(
        self,
        client: &Client,
        content: Stored,
        limit: &Limit,
    ) -> (JoinSet<Reply>, Share) {
        let mut out = JoinSet::new();
        for copy in self.copies {
            let client = client.clone();
            let content = content.clone();
            let owner = self.owner.clone();
            let limit = limit.clone();
            out.spawn(async move { copy.send(&client, &owner, content, &limit).await });
        }
        (out, self.held)
    }
}

/// Whether the rule can be fulfilled at all: a broadcast that cannot succeed has no effect anywhere.
fn suffice(fit: usize, unfit: usize, rule: Rule) -> Result<(), Refusal> {
    let wanted = match rule {
        Rule::First | Rule::All => 1,
        Rule::Quorum(wanted) => wanted.get(),
    };
    let all = fit + unfit;
    if fit >= wanted.min(all) && fit > 0 {
        return Ok(());
    }
    let details = format!("{fit} of {all} endpoints are healthy, {wanted} wanted");
    Err(Refusal::new(ProxyError::DestinationUnavailable, details))
}

impl Copy {
    fn label(&self) -> String {
        format!("{}/{}", self.upstream.name(), self.index)
    }

    /// Stands for the reply of an endpoint that is not asked.
    fn unasked(&self) -> Reply {
        let why = self.upstream.unfit(self.index).unwrap_or_default();
        let reason = format!("not asked, the endpoint is not healthy: {why}");
        let outcome = Err(NoReply {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason,
        });
        let upstream = self.upstream.shared_name().clone();
        Reply {
            number: self.number,
            label: self.label(),
            upstream,
            endpoint: "".into(),
            outcome,
        }
    }

    async fn send(
        self,
        client: &Client,
        owner: &ShareOwner,
        content: Stored,
        limit: &Limit,
    ) -> Reply {
        let mut endpoint = Arc::<str>::from("");
        let mut again = AGAIN;
        let outcome = loop {
            let checkout = match client
                .checkout_endpoint(&self.upstream, self.index, &self.timeouts)
                .await
            {
                Ok(checkout) => checkout,
                Err(failure) => break Err(NoReply::failed(failure.reason)),
            };
            endpoint.clone_from(&checkout.endpoint);
            // It might have shared a link, and does not.
            let own = self.upstream.may_share() && !checkout.is_link();
            let _held = match own.then(|| owner.take(1)).transpose() {
                Ok(held) => held,
                Err(refusal) => break Err(NoReply::refused(&refusal)),
            };
            // A kept connection may have been closed before the request came (RFC 9112, 9.3.1).
            let stale = checkout.reused && self.head.method.is_idempotent();
            let body = RequestBody::Stored(content.clone());
            match buffered::message(checkout, &self.head, body, self.receiver, limit).await {
                Ok(response) => break Ok(response),
                Err(failure) if again > 0 && failure.may_repeat(stale) => again -= 1,
                Err(failure) => break Err(NoReply::of(&failure)),
            }
        };
        let upstream = self.upstream.shared_name().clone();
        Reply {
            number: self.number,
            label: self.label(),
            upstream,
            endpoint,
            outcome,
        }
    }
}

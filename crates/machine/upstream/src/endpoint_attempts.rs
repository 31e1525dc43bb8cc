//! The endpoints that are tried for one exchange, one after the other, within its time.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::clock;
use tokio::time::Instant;

use crate::endpoint::{Active, Endpoint};
use crate::failure::{ConnectFailure, FailureKind};
use crate::limits::Room;
use crate::ring::Affinity;
use crate::upstream::Upstream;

/// Endpoints tried for one exchange, so that a dead upstream does not hold it for long.
#[doc(alias = "bound")]
const ATTEMPTS: usize = 3;

/// One exchange's way through the endpoints.
#[derive(Debug)]
pub(crate) struct EndpointAttempts<'a> {
    upstream: &'a Upstream,
    deadline: Instant,
    affinity: Option<Affinity>,
    /// The exchange's place under the bound of the upstream.
    room: Room,
    tried: Vec<usize>,
    /// Endpoints, as configured, that earlier attempts of the exchange had: taken only when there is no other.
    avoid: &'a [Arc<str>],
    last: Option<ConnectFailure>,
    /// The endpoint that is to be tried first.
    first: Option<usize>,
}

/// One endpoint to try, and until when.
#[derive(Debug)]
pub(crate) struct EndpointAttempt {
    pub(crate) index: usize,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) active: Active,
    pub(crate) until: Instant,
}

impl<'a> EndpointAttempts<'a> {
    /// Begins when there is room for an exchange.
    pub(crate) async fn begin(
        upstream: &'a Upstream,
        affinity: Option<Affinity>,
        deadline: Instant,
    ) -> Result<Self, ConnectFailure> {
        let room = upstream.limits.exchange(deadline, upstream.name()).await?;
        Ok(Self {
            upstream,
            deadline,
            affinity,
            room,
            tried: Vec::new(),
            avoid: &[],
            last: None,
            first: None,
        })
    }

    /// Prefers other endpoints to those that earlier attempts of the exchange had.
    pub(crate) fn avoiding(self, avoid: &'a [Arc<str>]) -> Self {
        Self { avoid, ..self }
    }

    /// Tries this endpoint first, if it is still the upstream's.
    pub(crate) fn prefer(&mut self, index: Option<usize>) {
        self.first = index.filter(|index| *index < self.upstream.endpoints.len());
    }

    /// The next endpoint. The remaining time is shared with the endpoints that could still follow,
    /// so that a silent one cannot use up all of it.
    pub(crate) fn next(&mut self) -> Option<EndpointAttempt> {
        let chances = ATTEMPTS.min(self.upstream.endpoints.len());
        let left = u32::try_from(chances.checked_sub(self.tried.len())?).ok()?;
        let time = self.deadline.saturating_duration_since(clock::now());

        if left == 0 || (time == Duration::ZERO && self.last.is_some()) {
            return None;
        }
        let index = self
            .first
            .take()
            .or_else(|| self.other())
            .or_else(|| self.upstream.pick(&self.tried, self.affinity))?;
        self.tried.push(index);
        let endpoint = self.upstream.endpoints[index].clone();
        let until = if left == 1 {
            self.deadline
        } else {
            clock::now() + time / left
        };

        let active = Active::on(&endpoint).in_rooms(Some(self.room.clone()), None);
        Some(EndpointAttempt {
            index,
            active,
            endpoint,
            until,
        })
    }

    /// An endpoint that no earlier attempt of the exchange had.
    fn other(&self) -> Option<usize> {
        if self.avoid.is_empty() {
            return None;
        }
        let endpoints = self.upstream.endpoints.iter().enumerate();
        let avoided = endpoints
            .filter(|(_, endpoint)| self.avoid.contains(&endpoint.text))
            .map(|(index, _)| index);
        let closed: Vec<usize> = self.tried.iter().copied().chain(avoided).collect();

        self.upstream.pick(&closed, self.affinity)
    }

    /// The endpoint failed, or did not answer in its time.
    pub(crate) fn failed(&mut self, endpoint: &Endpoint, failure: ConnectFailure) {
        tracing::debug!(
            upstream = self.upstream.name(),
            endpoint = &*endpoint.text,
            reason = failure.reason,
            "no connection"
        );

        endpoint.failed(&failure);
        // A failure that may soon pass says more about another attempt than a wrong certificate.
        let keeps = failure.kind.is_of_trust()
            && self
                .last
                .as_ref()
                .is_some_and(|last| !last.kind.is_of_trust());
        if !keeps {
            self.last = Some(failure);
        }
    }

    /// Why the attempts ended without success.
    pub(crate) fn failure(self) -> ConnectFailure {
        let nothing = || {
            ConnectFailure::new(
                FailureKind::NoEndpoint,
                self.upstream.name(),
                "no endpoint to try",
            )
        };
        let endpoint = |index: &usize| self.upstream.endpoints[*index].text.clone();
        let before = self.tried.iter().map(endpoint).collect();
        let last = self.last.unwrap_or_else(nothing);

        ConnectFailure { before, ..last }
    }
}

//! From an arrival to an admitted exchange, in typed phases:
//!
//! ```text
//! Entered -> Identified -> (permitted, authorized) -> Admitted -> Routed
//! ```

use std::sync::Arc;

use hermes_identity::AuthContext;
use hermes_net::clock;
use hermes_plug::Opener;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::entered::Entered;
use super::identify::{Identified, identify};
use super::permits::{Permits, admit_client, admit_connection, charge_head};
use crate::decide::{Candidate, Grant, Mode};
use crate::hop_report;
use crate::next::CompiledRoute;
use crate::routed::{Delegation, Routed};

/// An exchange that may go on, and its route.
pub struct Admitted {
    identified: Identified,
    route: Arc<CompiledRoute>,
    permits: Permits,
}

impl Entered {
    /// All that is decided before the exchange leaves.
    ///
    /// # Errors
    /// It goes no further.
    pub async fn decide(
        &self,
        arrival: &mut Arrival,
        too_early: bool,
    ) -> Result<Admitted, Refusal> {
        let mut identified = identify(self, arrival.head_mut()).await?;
        admit_connection(self, &identified)?;
        let client = admit_client(self, &identified)?;
        let charge = charge_head(self, arrival, &identified)?;
        if too_early {
            return Err(refuse_early());
        }

        let granted = self.grant(&mut identified, arrival).await;
        let rule = granted.inspect_err(|_| self.remember_claims(&identified))?;

        let permits = Permits::take(self, &mut identified, arrival.head(), charge)?.of(client);
        let candidate = self.candidate(&identified.auth, &identified.target);
        let route = candidate.route(arrival.head(), identified.user.as_deref());
        let route = route.inspect_err(|_| self.remember_claims(&identified))?;
        self.exchange.route(&route.name);
        let signed = candidate.take_signature(&route, arrival.head_mut());
        signed.inspect_err(|_| self.remember_claims(&identified))?;
        if identified.is_traced {
            arrival.add_late(hop_report::late(self, &route, rule));
        }

        Ok(Admitted {
            identified,
            route,
            permits,
        })
    }

    /// *Policy* and *authorize*: whether it may go on, and as whose. Returns the position of the rule that decided.
    async fn grant(
        &self,
        identified: &mut Identified,
        arrival: &mut Arrival,
    ) -> Result<Option<usize>, Refusal> {
        let Identified {
            user, auth, target, ..
        } = identified;
        let mut candidate = self.candidate(auth, target);
        let Grant {
            lasts,
            answer,
            rule,
        } = candidate.grant(arrival.head_mut(), user).await?;

        arrival.add_to_answer(answer);
        auth.authorized = lasts.map(|lasts| clock::now() + lasts);
        Ok(rule)
    }

    fn candidate<'a>(&'a self, auth: &'a AuthContext, target: &'a Target) -> Candidate<'a> {
        let logger = self.entrance.worker.logger(&self.exchange, auth);
        Candidate {
            entry: self.entry(),
            target,
            auth,
            mode: Mode::Arriving(logger),
        }
    }

    /// Keeps the claims of a client that is refused: its token is gone when someone asks why.
    fn remember_claims(&self, identified: &Identified) {
        let Identified { user, auth, .. } = identified;
        let known = self.listener.known_user(auth, user.as_deref());
        self.exchange.claims(known.claimed.iter());
    }
}

impl Admitted {
    /// The exchange on its route; the fields of a TRACE as the client sent them; and the permits of the exchange.
    /// Plugs open others on its behalf by `opener`.
    pub fn routed(
        self,
        entered: Entered,
        opener: fn(&Routed) -> Opener,
    ) -> (Routed, Fields, Permits) {
        let Identified {
            user,
            auth,
            target,
            asked,
            received,
            is_traced: _,
        } = self.identified;

        let routed = Routed {
            worker: entered.entrance.worker.clone(),
            entrance: entered.entrance,
            snapshot: entered.snapshot,
            listener: entered.listener,
            exchange: entered.exchange,
            source: entered.source,
            target,
            user,
            auth: Arc::new(auth),
            asked,
            route: self.route,
            delegation: Delegation {
                handlers: 0,
                opener,
            },
        };

        (routed, received, self.permits)
    }
}

/// The refusal of an unsafe request in early data (RFC 8470, 5.2).
fn refuse_early() -> Refusal {
    let details = "it came as early data, which can be replayed";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_EARLY)
}

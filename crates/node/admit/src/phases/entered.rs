//! An exchange before it is forwarded, in phases, each of which knows only what it needs:
//!
//! ```text
//! Entered -> Identified -> (permitted, authorized) -> Admitted -> Routed
//! ```

use std::sync::Arc;

use hermes_http::{Kind, RequestHead};
use hermes_identity::{AuthContext, Proof};
use hermes_net::StreamInfo;
use hermes_net::clock;
use hermes_observe::{Begin, Exchange};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::{StatusCode, Version};

use super::identify::{Identified, identify};
use super::permits::{Permits, admit_client, admit_connection, charge_head};
use crate::client_address::readdress;
use crate::decision_log::Witness;
use crate::entrance::Entrance;
use crate::entry::Entry;
use crate::explain::explains;
use crate::filter;
use crate::filter::{Denied, KnownUser, Stage};
use crate::next::CompiledRoute;
use crate::pac::ProxyPac;
use crate::permit::Permitting;
use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::trace;

/// An exchange in the table of live exchanges, by the rules of one snapshot.
pub struct Entered {
    /// Where it came in.
    pub entrance: Entrance,
    /// The rules that decide on it.
    pub snapshot: Arc<Snapshot>,
    /// Those of its listener.
    pub listener: Arc<ListenerRules>,
    /// Its record.
    pub exchange: Arc<Exchange>,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    /// Whether its client learns why it is refused.
    pub explained: bool,
    /// Whether its client is behind the other end of its connection.
    pub(crate) is_behind_proxy: bool,
}

/// An exchange that may go on, and its route.
pub struct Admitted {
    identified: Identified,
    route: Arc<CompiledRoute>,
    permits: Permits,
}

impl Entered {
    /// Enters an exchange in the table.
    pub fn new(entrance: &Entrance, arrival: &mut Arrival) -> Self {
        let snapshot = entrance.worker.snapshot();
        let listener = entrance.rules_in(&snapshot);
        // What this node wrote itself comes through no other proxy.
        let is_behind_proxy = entrance.carrier.is_none() && readdress(&listener, arrival);
        let telemetry = &entrance.worker.shared.telemetry;
        let mut begin = described(&listener, arrival);
        if entrance.carrier.is_some() {
            begin.protocol = "ip";
        }
        let begun = telemetry.begin_at(begin, listener.telemetry.clone());
        let exchange = Arc::new(begun);

        if let Some(session) = arrival.session() {
            session.is_exchange(&exchange);
        }

        let source = arrival.source().clone();
        let head = arrival.head_mut();
        trace::enter(&snapshot, &listener, &exchange, &source, head);

        Self {
            explained: explains(&snapshot, &listener, &source),
            entrance: entrance.clone(),
            snapshot,
            listener,
            exchange,
            source,
            is_behind_proxy,
        }
    }

    /// What writes the file that browsers ask for, if that is what this is.
    pub fn proxy_pac(&self, arrival: &Arrival) -> Option<ProxyPac> {
        ProxyPac::of(&self.snapshot, &self.listener, &self.source, arrival.head())
    }

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

        let permitted = self.permit(&mut identified, arrival.head_mut());
        permitted.inspect_err(|_| self.remember_claims(&identified))?;
        if !self.snapshot.filters.is_empty() {
            let authorized = self.authorize(&mut identified, arrival).await;
            authorized.inspect_err(|_| self.remember_claims(&identified))?;
        }

        let permits = Permits::take(self, &mut identified, arrival.head(), charge)?.of(client);
        let route = self.route(arrival.head(), &identified);
        let route = route.inspect_err(|_| self.remember_claims(&identified))?;
        self.exchange.route(&route.name);

        Ok(Admitted {
            identified,
            route,
            permits,
        })
    }

    /// Where it enters, and from whom.
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            snapshot: &self.snapshot,
            listener: &self.listener,
            source: &self.source,
        }
    }

    /// *Authorize*: the filters are asked.
    async fn authorize(
        &self,
        identified: &mut Identified,
        arrival: &mut Arrival,
    ) -> Result<(), Refusal> {
        let Identified {
            user, auth, target, ..
        } = identified;
        let stage = Stage {
            worker: &self.entrance.worker,
            entry: self.entry(),
            exchange: &self.exchange,
            target,
            auth,
        };

        // Boxed with its witness: few exchanges are asked about.
        let authorized = Box::pin(async {
            let mut witness = Witness::new(&self.entrance.worker, &self.exchange, auth);
            let granted = stage
                .authorize(arrival.head_mut(), user, &mut witness)
                .await?;
            arrival.add_to_answer(granted.answer);
            Ok(granted.lasts)
        });
        let authorized: Result<_, Denied> = authorized.await;
        let lasts = authorized.map_err(|denied| denied.refusal)?;
        let lasts = lasts.map(|lasts| clock::now() + lasts);
        auth.authorized = [auth.authorized, lasts].into_iter().flatten().min();

        Ok(())
    }

    /// *Policy*: whether it may go on.
    fn permit(&self, identified: &mut Identified, head: &mut RequestHead) -> Result<(), Refusal> {
        let Identified {
            user, auth, target, ..
        } = identified;
        let mut witness = Witness::new(&self.entrance.worker, &self.exchange, auth);
        let permitting = Permitting {
            target,
            whose: KnownUser::new(auth, &self.listener, user.as_deref()),
            witness: Some(&mut witness),
            at: None,
        };
        let permitted = self.entry().permit(head, permitting);
        let lasts = permitted.map_err(|refusal| self.asking_again(refusal, auth))?;
        auth.authorized = lasts.map(|lasts| clock::now() + lasts);

        Ok(())
    }

    /// A client that has shown nothing, and may not go on for that, is asked who it is.
    fn asking_again(&self, refusal: Refusal, auth: &AuthContext) -> Refusal {
        let is_anonymous = auth.proof == Proof::Nothing && !auth.peer;
        if !is_anonymous || refusal.code() != StatusCode::FORBIDDEN {
            return refusal;
        }
        let gateway = self.listener.config.gateway;
        match self.listener.authenticator.asks_again(gateway) {
            Some(challenge) => refusal.status(challenge.status).fields(challenge.fields),
            None => refusal,
        }
    }

    /// What is refused is told of later, when its token is gone.
    fn remember_claims(&self, identified: &Identified) {
        let Identified { user, auth, .. } = identified;
        let whose = KnownUser::new(auth, &self.listener, user.as_deref());
        self.exchange.claims(whose.claimed.iter());
    }

    /// *Route*: the first route that matches.
    fn route(
        &self,
        head: &RequestHead,
        identified: &Identified,
    ) -> Result<Arc<CompiledRoute>, Refusal> {
        let Identified {
            user, auth, target, ..
        } = identified;
        let listener = &self.listener.name;
        let whose = KnownUser::new(auth, &self.listener, user.as_deref());
        let facts = filter::facts(head, target, whose, &self.source, listener);
        let route = self.snapshot.rules.route(&facts, &mut ());

        route.cloned().map_err(|unmatched| {
            let details = || format!("no route for {target} from listener {listener}");
            filter::unmatched(&unmatched, details)
        })
    }
}

impl Admitted {
    /// The exchange on its route; the fields of a TRACE as the client sent them; and what the exchange holds.
    pub fn routed(self, entered: Entered) -> (Routed, Fields, Permits) {
        let Identified {
            user,
            auth,
            target,
            asked,
            received,
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
            handlers: 0,
        };

        (routed, received, self.permits)
    }
}

/// Why what came in early data and must not be repeated is refused.
fn refuse_early() -> Refusal {
    let details = "it came before the handshake had ended, and someone could have repeated it";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_EARLY)
}

fn described(listener: &ListenerRules, arrival: &Arrival) -> Begin {
    // Of a device, what is no tunnel of packets is made of packets.
    let is_flow = listener.config.tun.is_some() && arrival.head().kind() != Kind::ConnectIp;
    let protocol = match arrival {
        _ if is_flow => "ip",
        Arrival::Session { .. } => "udp",
        Arrival::Offered(_) if listener.config.tcp.is_some() => "tcp",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_3 => "h3",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_2 => "h2",
        Arrival::Offered(_) => "h1",
    };
    Begin {
        kind: filter::kind(arrival.head()),
        listener: listener.name.clone(),
        source: arrival.source().peer,
        protocol,
    }
}

//! Bounds of one user at a listener: connections, exchanges, sessions, and the memory of heads.

use std::net::IpAddr;

use hermes_http::{Kind, RequestHead};
use hermes_identity::{AuthContext, Proof};
use hermes_net::memory::ExchangeCharge;
use hermes_packet::Asked;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::RETRY_AFTER;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::Whom;
use http::{HeaderValue, StatusCode};

use super::entered::Entered;
use super::identify::Identified;
use crate::outliving::is_resumed;
use crate::shares::sessions::{Joined, SessionPermit};
use crate::shares::sources::Permit;
use crate::snapshot::{Counted, ListenerRules, SessionBound, UserBounds};

/// The key that bounds a user's connections.
const CONNECTIONS_PER_USER: &str = "limits.connections_per_user";

/// The key that bounds the open exchanges of one source.
const PER_SOURCE: &str = "limits.per_source";

/// The key that bounds a user's exchanges.
const PER_USER: &str = "limits.per_user";

/// The key that bounds a user's sessions.
const SESSIONS_PER_USER: &str = "limits.sessions_per_user";

/// The share that an exchange takes of its user's bounds; given back on drop.
#[derive(Default)]
pub struct Permits {
    _client: Option<Permit<IpAddr>>,
    _exchange: Option<Permit<String>>,
    _session: Option<SessionPermit>,
    head: Option<ExchangeCharge>,
}

/// Bytes of the head that is kept to be judged again.
fn kept(auth: &AuthContext) -> usize {
    auth.arrived.as_ref().map_or(0, |head| head.footprint())
}

/// Seconds after which there may be room again.
const AGAIN: HeaderValue = HeaderValue::from_static("1");

/// Charges the user of an exchange, or its source where there is none, for its head, and for that of a tunnel as it arrived.
///
/// # Errors
/// They have no memory left: it may be tried again.
pub(crate) fn charge_head(
    entered: &Entered,
    arrival: &mut Arrival,
    identified: &Identified,
) -> Result<Option<ExchangeCharge>, Refusal> {
    let Arrival::Offered(offered) = arrival else {
        return Ok(None);
    };
    let Some(mut charge) = offered.take_charge() else {
        return Ok(None);
    };

    let user = identified.user.as_deref();
    let behind = entered.is_behind_proxy && user.is_none();
    let passed = match behind {
        true => charge.is_of(&entered.source.peer),
        false => Ok(()),
    };
    passed
        .and_then(|()| charge.settle(user, kept(&identified.auth)))
        .map_err(|overdrawn| {
            let who = if user.is_some() { "user" } else { "source" };
            let details =
                format!("the {who} has no memory left for heads of requests: {overdrawn}");
            Refusal::new(ProxyError::ConnectionLimitReached, details)
                .status(StatusCode::SERVICE_UNAVAILABLE)
                .fields(Fields::from_iter([(RETRY_AFTER, AGAIN)]))
        })?;

    Ok(Some(charge))
}

/// A bound that was reached.
struct Bounded {
    what: &'static str,
    key: &'static str,
    most: usize,
}

/// Lets a connection go from the account of its source to that of its user, once that is known.
///
/// # Errors
/// The user has too many.
pub(crate) fn admit_connection(entered: &Entered, identified: &Identified) -> Result<(), Refusal> {
    let Some(admission) = &entered.entrance.admission else {
        return Ok(());
    };
    let user = match (&identified.auth.proof, &identified.user) {
        (Proof::Password(_) | Proof::Token(_) | Proof::Ingress(_), Some(user)) => user,
        _ => return Ok(()),
    };

    let shares = &entered.entrance.worker.shared.shares;
    let most = || bounds(entered, identified).connections;
    let known = admission.known(shares, &entered.listener, user, most);
    known.map_err(|most| {
        let bounded = Bounded {
            what: "connections",
            key: CONNECTIONS_PER_USER,
            most,
        };
        too_many(&entered.listener, user, &bounded)
    })
}

/// Counts an exchange of a client behind a proxy among those of its source, as connections are counted of clients that come by
/// themselves: until it is known whose it is.
///
/// # Errors
/// The source has too many.
pub(crate) fn admit_client(
    entered: &Entered,
    identified: &Identified,
) -> Result<Option<Permit<IpAddr>>, Refusal> {
    if !entered.is_behind_proxy {
        return Ok(None);
    }
    let Entered {
        listener, source, ..
    } = entered;
    let most = match listener.counted(&source.peer) {
        Counted::Never => return Ok(None),
        Counted::UntilKnown(_) if identified.auth.proof != Proof::Nothing => return Ok(None),
        Counted::UntilKnown(most) | Counted::Always(most) => most,
    };

    let sources = &entered.entrance.worker.shared.shares.sources;
    let permit = sources.enter(&listener.name, &source.peer, most);
    permit.map(Some).ok_or_else(|| {
        listener.source_refused(&source.peer);
        let details = format!(
            "the client's address has too many exchanges open here: {PER_SOURCE} is {most}"
        );
        Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_MANY_REQUESTS)
    })
}

impl Permits {
    /// And the permit of its client.
    pub fn of(self, client: Option<Permit<IpAddr>>) -> Self {
        Self {
            _client: client,
            ..self
        }
    }

    /// The tunnel is open: only its head as it arrived is still charged.
    pub fn opened(&mut self, auth: &AuthContext) {
        if let Some(charge) = &mut self.head {
            charge.shrink_to(kept(auth));
        }
    }

    /// Takes the permits that this exchange needs, where there are bounds.
    ///
    /// # Errors
    /// The user has too many.
    pub fn take(
        entered: &Entered,
        identified: &mut Identified,
        head: &RequestHead,
        charge: Option<ExchangeCharge>,
    ) -> Result<Self, Refusal> {
        let Some(user) = identified.user.clone() else {
            return Ok(Self {
                head: charge,
                ..Self::default()
            });
        };
        let bounds = bounds(entered, identified);
        let sessions = match head.kind() {
            Kind::ConnectUdp => bounds.sessions,
            _ => usize::MAX,
        };

        Ok(Self {
            _client: None,
            _exchange: exchange_of(entered, &user, head, bounds.exchanges)?,
            _session: session_of(entered, identified, &user, sessions)?,
            head: charge,
        })
    }
}

/// The bounds of the user of an exchange.
fn bounds(entered: &Entered, identified: &Identified) -> UserBounds {
    let Entered {
        snapshot, listener, ..
    } = entered;
    listener.user_bounds(|| {
        let known = listener.known_user(&identified.auth, identified.user.as_deref());
        Whom::new(&snapshot.rules.names, known.user, known.claimed)
    })
}

fn exchange_of(
    entered: &Entered,
    user: &str,
    head: &RequestHead,
    most: usize,
) -> Result<Option<Permit<String>>, Refusal> {
    let listener = &entered.listener;
    if most == usize::MAX {
        return Ok(None);
    }

    // A tunnel that is resumed counts twice until its old path has ended, and must not fail for that.
    let most = if is_resumed(head) {
        most.saturating_mul(2)
    } else {
        most
    };

    let users = &entered.entrance.worker.shared.shares.users.exchanges;
    let joined = users.join(&listener.name, user, most);
    let permit = joined.ok_or_else(|| {
        let bounded = Bounded {
            what: "exchanges",
            key: PER_USER,
            most,
        };
        too_many(listener, user, &bounded)
    })?;

    Ok(Some(permit))
}

fn session_of(
    entered: &Entered,
    identified: &mut Identified,
    user: &str,
    sessions: usize,
) -> Result<Option<SessionPermit>, Refusal> {
    let listener = &entered.listener;
    if sessions == usize::MAX {
        return Ok(None);
    }

    let shared = &entered.entrance.worker.shared;
    let known = match identified.asked {
        Some(Asked::Again(token)) if shared.outliving.datagrams.knows(&token, Some(user)) => {
            Some(token)
        }
        _ => None,
    };

    // One that is taken over counts twice until its old path has ended, and must not fail for that. A fresh one must.
    let most = if known.is_some() {
        sessions.saturating_mul(2)
    } else {
        sessions
    };

    let target = &identified.target;
    let sessions_of_users = &shared.shares.sessions;
    let joined = sessions_of_users.join(&listener.name, user, most, target, &entered.exchange);
    let Joined { permit, evicted } = joined.ok_or_else(|| {
        let bounded = Bounded {
            what: "sessions",
            key: SESSIONS_PER_USER,
            most,
        };
        too_many(listener, user, &bounded)
    })?;

    if evicted > 0 {
        let bound = SessionBound {
            key: SESSIONS_PER_USER,
            most,
        };
        listener.sessions_evicted(evicted, bound, Some(user));
    }
    if let Some(token) = known
        && sessions_of_users.count(&listener.name, user) > sessions
    {
        identified.asked = Some(Asked::Only(token));
    }

    Ok(Some(permit))
}

/// The user has as many as allowed.
fn too_many(listener: &ListenerRules, user: &str, bounded: &Bounded) -> Refusal {
    let Bounded { what, key, most } = bounded;
    listener.user_refused(user, key, *most);
    let details = format!("the user has too many {what} open here: {key} is {most}");
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_MANY_REQUESTS)
}

//! The one decision about an exchange: its user, its trusted fields, and its route.
//!
//! ```text
//! arrived -> identify -> tag -> policy -> (filters) -> route -> routed
//! ```
//!
//! Each phase is a function of [`Rules`] and the properties of the exchange. The pipeline of a node
//! calls them one by one, because filters may be asked in between; so does the re-evaluation of an
//! open tunnel; [`Rules::judge`] calls them all for a hypothetical exchange. Each can report its
//! comparisons, and the places of the compared keys: see [`Steps`].

mod packeting;
mod peers;
mod policing;
mod routing;
mod steps;

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_config::child;
use hermes_config::model::{Auth, AuthMode, Document, ExchangeKind, Listener};
use hermes_proto::fields::names::FORWARDED;
use hermes_proto::fields::{FieldName, Fields};
use http::Method;

use crate::UserAliases;
use crate::fields::{
    BadField, ControlledFields, OverlayFields, Provenance, USER, apply, field_value,
};
use crate::packets::PacketRules;
use crate::policy::{CompiledPolicy, Decision, Denial};
use crate::route::{ClaimedGroups, Facts, Hop, Names, Route, Table, Target, Unfit, Unmatched};
use crate::template::Values;
use crate::trust::{Believing, Refusal, Source};
pub use peers::Peers;
pub use routing::describe_action;
pub use steps::{Phase, RemovedFields, Step, Steps};

/// The parts of a document that decisions need, compiled once. `H` is the caller's handle of a next
/// hop.
pub struct Rules<H> {
    /// Name of the node.
    pub node: Arc<str>,
    /// Which fields are overlay fields.
    pub overlay: OverlayFields,
    /// Which fields say where a request came from.
    pub provenance: Provenance,
    /// Which fields the operator sets or removes in requests.
    pub controlled: ControlledFields,
    /// The same in answers.
    pub controlled_answers: ControlledFields,
    /// The peers, by the names in their certificates.
    pub peers: Peers,
    /// Other names of users.
    pub aliases: Arc<UserAliases>,
    /// Groups of users, and services.
    pub names: Arc<Names>,
    /// Whether an exchange may go on; `None` if every exchange with a route may.
    pub policy: Option<CompiledPolicy>,
    /// The policy on packets.
    pub packets: Option<PacketRules>,
    /// The routes.
    pub table: Table<H>,
}

/// Where an exchange enters.
#[derive(Debug, Clone, Copy)]
pub struct Entrance<'a> {
    /// Name of the listener.
    pub name: &'a str,
    /// The listener as it is configured.
    pub config: &'a Listener,
    /// The user without authentication.
    pub user: Option<&'a str>,
}

/// The result of authentication.
#[derive(Debug, Clone, Copy, Default)]
pub struct Authenticated<'a> {
    /// The user, under any of this user's names.
    pub user: Option<&'a str>,
    /// The groups that the token claims, if it was one.
    pub claimed: ClaimedGroups<'a>,
    /// Whether this rests on a certificate alone. A peer's certificate names the proxy, not the
    /// users of its exchanges.
    pub by_certificate: bool,
}

impl<'a> Authenticated<'a> {
    /// The groups that the token claims, if it is this user's; a user that a peer or a filter names
    /// is someone else.
    pub fn claimed_of(&self, user: Option<&str>, aliases: &UserAliases) -> ClaimedGroups<'a> {
        let found = self.user.map(|name| aliases.user_of(name));
        if found.is_some() && found == user {
            self.claimed
        } else {
            ClaimedGroups::default()
        }
    }
}

/// An exchange that is supposed to arrive.
#[derive(Debug, Clone)]
pub struct Arrived<'a> {
    /// Where it enters.
    pub entrance: Entrance<'a>,
    /// The source of the exchange.
    pub source: Source<'a>,
    /// The result of authentication.
    pub authenticated: Authenticated<'a>,
    /// The kind of exchange.
    pub kind: ExchangeKind,
    /// The target.
    pub target: Target<'a>,
    /// The host of the target, as templates write it.
    pub target_host: &'a str,
    /// The authority that names this proxy itself, with its port if it was given.
    pub authority: Option<(&'a str, Option<u16>)>,
    /// Method.
    pub method: &'a Method,
    /// Path and query.
    pub path: ArrivedPath<'a>,
    /// `:protocol` of an extended CONNECT, or the `Upgrade` token.
    pub protocol: Option<&'a str>,
    /// Where the connection came from; `None` for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Name in the client's certificate.
    pub tls_peer: Option<&'a str>,
}

/// The path of an exchange that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedPath<'a> {
    /// Without the query; empty for CONNECT.
    pub path: &'a str,
    /// The query without its `?`.
    pub query: Option<&'a str>,
}

impl<'a> Arrived<'a> {
    /// The facts that rules compare, once the exchange is this user's and has these fields.
    pub fn facts<'b>(
        &'b self,
        user: Option<&'b str>,
        fields: &'b Fields,
        aliases: &UserAliases,
    ) -> Facts<'b> {
        Facts {
            kind: self.kind,
            target: self.target,
            authority: self.authority,
            path: self.path.path,
            method: self.method,
            protocol: self.protocol,
            fields,
            user,
            claimed: self.authenticated.claimed_of(user, aliases),
            source: self.peer.map(|peer| peer.ip()),
            listener: self.entrance.name,
        }
    }
}

/// An exchange that the policy lets go on.
#[derive(Debug)]
pub struct Permitted {
    /// The user.
    pub user: Option<String>,
    /// Its fields by then.
    pub fields: Fields,
}

/// An exchange with a route.
#[derive(Debug)]
pub struct Judged<H> {
    /// The user.
    pub user: Option<String>,
    /// Its fields when the route is chosen.
    pub fields: Fields,
    /// The route that it takes.
    pub route: Arc<Route<H>>,
}

/// Why an exchange takes no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrouted {
    /// The claimed user is not accepted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The listener would add a field that cannot be written.
    #[error(transparent)]
    BadField(#[from] BadField),
    /// The policy denies it.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// No route matches, or servers that read the path differently would take different routes.
    #[error(transparent)]
    Unmatched(#[from] Unmatched),
}

impl<H> Rules<H> {
    /// Compiles a document that was linted. `find` is asked for each next hop that a route names.
    ///
    /// # Errors
    /// A route has no action or no next hop.
    pub fn compile(
        document: &Document,
        node: Arc<str>,
        find: impl FnMut(&hermes_config::model::Route, Hop<'_>) -> Option<H>,
    ) -> Result<Self, Unfit> {
        let names = Arc::new(Names::new(document));
        let aliases = Arc::new(UserAliases::new(&document.users));
        Ok(Self {
            node,
            overlay: OverlayFields::new(&document.fields),
            provenance: Provenance::new(&document.provenance),
            controlled: ControlledFields::of_requests(document),
            controlled_answers: ControlledFields::of_answers(document),
            peers: Peers::new(document, aliases.clone()),
            table: Table::with_names(document, names.clone(), find)?,
            policy: CompiledPolicy::compile(document),
            packets: PacketRules::new(document),
            aliases,
            names,
        })
    }

    /// *Identify*: the user of an exchange. Afterwards only trusted overlay fields are left.
    ///
    /// # Errors
    /// The exchange claims a user that it may not; see [`crate::believe`].
    pub fn identify(
        &self,
        entrance: &Entrance<'_>,
        source: &Source<'_>,
        authenticated: Authenticated<'_>,
        fields: &mut Fields,
        steps: &mut impl Steps,
    ) -> Result<Option<String>, Refusal> {
        let is_client = matches!(source, Source::Client);
        // A copy for the explanation alone: live exchanges do not pay for it.
        let before = steps.is_wanted().then(|| fields.clone());
        if let Some(accepts) = source.accepts(entrance.config.accepts()) {
            fields.remove(FORWARDED);
            self.provenance
                .strip_telling(fields, accepts, |name| steps.removes(name));
        }

        self.controlled
            .strip_alike(fields, |name| steps.removes(name));

        // A peer's certificate names the proxy, not the user of its exchanges.
        let user = authenticated
            .user
            .filter(|_| is_client || !authenticated.by_certificate);
        let config = entrance.config;
        let believing = Believing {
            authenticated: user.map(|user| self.aliases.user_of(user)),
            aliases: &self.aliases,
            forged: config.forged,
            accepts: config.accepts(),
            overlay: &self.overlay,
        };
        let believed = believing.believe(source, fields, |name| steps.removes(name));

        let believed =
            believed.inspect_err(|refusal| steps::refused(steps, entrance, source, refusal))?;

        // The listener's user stands for its clients. A peer without a user speaks for no one.
        let user = match (believed, entrance.user) {
            (None, Some(own)) if is_client => {
                fields.insert(USER, of_listener(own)?);
                Some(own.to_owned())
            }
            (believed, _) => believed,
        };

        steps::identified(steps, entrance, source, user.as_deref());
        if let Some(before) = before {
            steps::removed(steps, entrance, &before, fields);
        }

        Ok(user)
    }

    /// *Tag*: the fields that the listener adds.
    ///
    /// # Errors
    /// One cannot be written; the exchange is to be refused.
    pub fn tag(
        &self,
        entrance: &Entrance<'_>,
        values: &Values<'_>,
        fields: &mut Fields,
        steps: &mut impl Steps,
    ) -> Result<(), BadField> {
        let config = entrance.config;
        apply(&config.set, &config.append, &config.remove, fields, values)?;
        steps::tagged(steps, entrance, fields);
        Ok(())
    }

    /// *Policy*: whether an exchange may go on; `None` without a policy. The decision is for `now`, in Unix
    /// time.
    pub fn decide(
        &self,
        facts: &Facts<'_>,
        now: u64,
        steps: &mut impl Steps,
    ) -> Option<Decision<'_>> {
        let policy = self.policy.as_ref()?;
        policing::compared(policy, &self.names, facts, now, steps);
        Some(policy.decide(&self.names, facts, now))
    }

    /// *Policy*: the fields that it sets.
    ///
    /// # Errors
    /// One cannot be written; the exchange is to be refused.
    pub fn apply(
        &self,
        decision: &Decision<'_>,
        values: &Values<'_>,
        fields: &mut Fields,
        steps: &mut impl Steps,
    ) -> Result<(), BadField> {
        decision.apply(fields, values)?;
        policing::applied(decision, fields, steps);
        Ok(())
    }

    /// *Route*: the first route that matches, however the path is read.
    ///
    /// # Errors
    /// There is no route.
    pub fn route(
        &self,
        facts: &Facts<'_>,
        steps: &mut impl Steps,
    ) -> Result<&Arc<Route<H>>, Unmatched> {
        routing::compared(&self.table, facts, steps);
        self.table.find(facts)
    }

    /// The steps about removed fields of an exchange.
    pub fn recount_removed(
        &self,
        entrance: &Entrance<'_>,
        removed: &[String],
        steps: &mut impl Steps,
    ) {
        for name in removed {
            steps::not_believed(steps, entrance, name);
        }
    }

    /// The steps of an exchange that took this route, and whose fields, authority and protocol are no longer known.
    pub fn recount_routes(&self, taken: usize, facts: &Facts<'_>, steps: &mut impl Steps) {
        routing::compared_partly(&self.table, taken, facts, steps);
    }

    /// The steps up to the phase `reached`, for an exchange of this user with these fields, decided at `now` in Unix time. Filters are not
    /// among them.
    pub fn recount(
        &self,
        arrived: &Arrived<'_>,
        user: Option<&str>,
        fields: &Fields,
        reached: Phase,
        now: u64,
        steps: &mut impl Steps,
    ) {
        steps::identified(steps, &arrived.entrance, &arrived.source, user);
        steps::tagged(steps, &arrived.entrance, fields);

        let facts = arrived.facts(user, fields, &self.aliases);
        if reached >= Phase::Policy
            && let Some(policy) = &self.policy
        {
            policing::compared(policy, &self.names, &facts, now, steps);
        }
        if reached >= Phase::Route {
            routing::compared(&self.table, &facts, steps);
        }
    }

    /// All phases, for an exchange that is supposed to arrive at `now`, in Unix time; filters are not asked.
    ///
    /// # Errors
    /// No route matches.
    pub fn judge(
        &self,
        arrived: &Arrived<'_>,
        fields: Fields,
        now: u64,
        steps: &mut impl Steps,
    ) -> Result<Judged<H>, Unrouted> {
        let permitted = self.permit(arrived, fields, now, steps)?;
        self.take_route(arrived, permitted, steps)
    }

    /// The phases before the filters.
    ///
    /// # Errors
    /// The exchange goes no further.
    pub fn permit(
        &self,
        arrived: &Arrived<'_>,
        mut fields: Fields,
        now: u64,
        steps: &mut impl Steps,
    ) -> Result<Permitted, Unrouted> {
        let Arrived {
            entrance,
            source,
            authenticated,
            ..
        } = arrived;

        let user = self.identify(entrance, source, *authenticated, &mut fields, steps)?;

        let values = Values {
            peer: arrived.peer,
            listener: entrance.name,
            user: user.as_deref(),
            tls_peer: arrived.tls_peer,
            target_host: arrived.target_host,
            target_port: arrived.target.port(),
            node: &self.node,
            path: arrived.path.path,
            query: arrived.path.query,
            method: arrived.method.as_str(),
        };

        self.tag(entrance, &values, &mut fields, steps)?;

        // After *tag*: rules match the fields that the listener has set.
        let facts = arrived.facts(user.as_deref(), &fields, &self.aliases);
        if let Some(mut decision) = self.decide(&facts, now, steps) {
            if let Some(denied) = decision.denied.take() {
                return Err(denied.into());
            }
            self.apply(&decision, &values, &mut fields, steps)?;
        }

        Ok(Permitted { user, fields })
    }

    /// The phases after the filters.
    ///
    /// # Errors
    /// No route matches.
    pub fn take_route(
        &self,
        arrived: &Arrived<'_>,
        permitted: Permitted,
        steps: &mut impl Steps,
    ) -> Result<Judged<H>, Unrouted> {
        let Permitted { user, fields } = permitted;
        // Facts anew: the policy and the filters may have changed the fields.
        let facts = arrived.facts(user.as_deref(), &fields, &self.aliases);
        let route = self.route(&facts, steps)?.clone();
        Ok(Judged {
            route,
            user,
            fields,
        })
    }
}

/// The user of exchanges at a listener without authentication.
pub fn listener_user(document: &Document, listener: &Listener) -> Option<String> {
    // The users of an attachment belong to the proxy at its other end.
    if is_identified(listener) || listener.attach().is_some() {
        return None;
    }
    let of_node = document.identity.as_ref().map(|identity| &identity.user);
    listener.user.as_ref().or(of_node).cloned()
}

/// Whether a listener authenticates its clients.
pub fn is_identified(listener: &Listener) -> bool {
    !matches!(listener.auth(), None | Some(Auth::Word(AuthMode::None)))
}

/// The status that asks a client without credentials to authenticate, when the policy denies its
/// request (RFC 9110, 15.5.2 and 15.5.8); `None` if no credentials in a field would help.
pub fn asks_again(listener: &Listener) -> Option<u16> {
    match listener.auth() {
        Some(Auth::Methods(methods)) => {
            let asks = methods.optional && (methods.basic.is_some() || methods.bearer.is_some());
            let status = if listener.is_gateway() { 401 } else { 407 };
            asks.then_some(status)
        }
        Some(Auth::Word(_)) | None => None,
    }
}

/// The configured user of a listener, as a field.
fn of_listener(user: &str) -> Result<http::HeaderValue, Refusal> {
    field_value(user).ok_or_else(|| Refusal::of_configuration(user))
}

/// The place of the configuration that defines the trust in a source.
pub fn place_of_source(source: &Source<'_>, entrance: &Entrance<'_>) -> String {
    steps::place_of(source, entrance)
}

/// Where a key of a listener is written.
fn key_of(entrance: &Entrance<'_>, key: &str) -> String {
    child(&child("listeners", entrance.name), key)
}

/// The names of fields, once each and in order.
fn names(fields: &Fields) -> Vec<FieldName<'_>> {
    let mut names: Vec<_> = fields.names().collect();
    names.sort_unstable();
    names.dedup();
    names
}

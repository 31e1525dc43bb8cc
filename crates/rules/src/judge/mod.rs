//! The one decision about an exchange: whose it is, what its fields say, and which route it takes.
//!
//! ```text
//! arrived -> identify -> tag -> (filters) -> route -> routed
//! ```
//!
//! Each phase is a function of [`Rules`] and of what the exchange brings. The pipeline of a node calls them one by one, because
//! filters may be asked in between; so does the re-evaluation of an open tunnel; [`Rules::judge`] calls them all for an exchange
//! that is only supposed. Each can say what it compared, and where that is written: see [`Steps`].

mod peers;
mod routing;
mod steps;

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_config::child;
use hermes_config::model::{Auth, AuthMode, Document, ExchangeKind, Listener};
use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, Method};

use crate::fields::{BadField, OverlayFields, Provenance, USER, apply, field_value};
use crate::route::{Facts, Hop, Route, Table, Target, Unfit};
use crate::template::Values;
use crate::trust::{Refusal, Source, believe};
pub use peers::Peers;
pub use routing::describe_action;
pub use steps::{Phase, Step, Steps};

/// What decisions need of a document, compiled once. `H` is what its user holds of a next hop.
pub struct Rules<H> {
    /// Name of the node.
    pub node: Arc<str>,
    /// Which fields are overlay fields.
    pub overlay: OverlayFields,
    /// Which fields say where a request came from.
    pub provenance: Provenance,
    /// The peers, by the names in their certificates.
    pub peers: Peers,
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
    /// Whose traffic it is without authentication.
    pub user: Option<&'a str>,
}

/// What authentication found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Authenticated<'a> {
    /// The user.
    pub user: Option<&'a str>,
    /// Whether a certificate is all that this rests on. That of a peer says which proxy it is, not whose its exchanges are.
    pub by_certificate: bool,
}

/// An exchange that is supposed to arrive.
#[derive(Debug, Clone)]
pub struct Arrived<'a> {
    /// Where it enters.
    pub entrance: Entrance<'a>,
    /// Who hands it over.
    pub source: Source<'a>,
    /// What authentication found.
    pub authenticated: Authenticated<'a>,
    /// What it carries.
    pub kind: ExchangeKind,
    /// What it is for.
    pub target: Target<'a>,
    /// The host of the target, as templates write it.
    pub target_host: &'a str,
    /// The authority that names this proxy itself, with its port if it was given.
    pub authority: Option<(&'a str, Option<u16>)>,
    /// Method.
    pub method: &'a Method,
    /// Path without the query; empty for CONNECT.
    pub path: &'a str,
    /// `:protocol` of an extended CONNECT, or the `Upgrade` token.
    pub protocol: Option<&'a str>,
    /// Where the connection came from; `None` for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Name in the client's certificate.
    pub tls_peer: Option<&'a str>,
}

/// An exchange whose route is known.
#[derive(Debug)]
pub struct Judged<H> {
    /// Whose it is.
    pub user: Option<String>,
    /// Its fields when the route is chosen.
    pub fields: HeaderMap,
    /// The route that it takes.
    pub route: Arc<Route<H>>,
}

/// Why an exchange takes no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrouted {
    /// It is not believed whose it is.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The listener would add a field that cannot be written.
    #[error(transparent)]
    BadField(#[from] BadField),
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
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
        Ok(Self {
            node,
            overlay: OverlayFields::new(&document.fields),
            provenance: Provenance::new(&document.provenance),
            peers: Peers::new(&document.peers),
            table: Table::compile(document, find)?,
        })
    }

    /// *Identify*: whose an exchange is. Afterwards only the overlay fields are left that are believed.
    ///
    /// # Errors
    /// It claims to be someone else's; see [`believe`].
    pub fn identify(
        &self,
        entrance: &Entrance<'_>,
        source: &Source<'_>,
        authenticated: Authenticated<'_>,
        fields: &mut HeaderMap,
        steps: &mut impl Steps,
    ) -> Result<Option<String>, Refusal> {
        let is_client = matches!(source, Source::Client);
        let before = steps.is_wanted().then(|| fields.clone());
        if is_client {
            fields.remove(FORWARDED);
            self.provenance.strip(fields, &entrance.config.accepts);
        }

        let user = authenticated
            .user
            .filter(|_| is_client || !authenticated.by_certificate);
        let config = entrance.config;
        let believed = believe(
            source,
            user,
            config.forged,
            &config.accepts,
            &self.overlay,
            fields,
        );

        let believed =
            believed.inspect_err(|refusal| steps::refused(steps, entrance, source, refusal))?;

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
        fields: &mut HeaderMap,
        steps: &mut impl Steps,
    ) -> Result<(), BadField> {
        let config = entrance.config;
        apply(&config.set, &config.append, &config.remove, fields, values)?;
        steps::tagged(steps, entrance, fields);
        Ok(())
    }

    /// *Route*: the first route that matches.
    pub fn route(&self, facts: &Facts<'_>, steps: &mut impl Steps) -> Option<&Arc<Route<H>>> {
        routing::compared(&self.table, facts, steps);
        self.table.decide(facts)
    }

    /// All phases, for an exchange that is only supposed; filters are not asked.
    ///
    /// # Errors
    /// It takes no route.
    pub fn judge(
        &self,
        arrived: &Arrived<'_>,
        mut fields: HeaderMap,
        steps: &mut impl Steps,
    ) -> Result<Judged<H>, Unrouted> {
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
            path: arrived.path,
            method: arrived.method.as_str(),
        };

        self.tag(entrance, &values, &mut fields, steps)?;

        let facts = Facts {
            kind: arrived.kind,
            target: arrived.target,
            authority: arrived.authority,
            path: arrived.path,
            method: arrived.method,
            protocol: arrived.protocol,
            fields: &fields,
            user: user.as_deref(),
            source: arrived.peer.map(|peer| peer.ip()),
            listener: entrance.name,
        };

        let route = self.route(&facts, steps).cloned();
        Ok(Judged {
            route: route.ok_or(Unrouted::NoRoute)?,
            user,
            fields,
        })
    }
}

/// Whose traffic enters at a listener without authentication.
pub fn listener_user(document: &Document, listener: &Listener) -> Option<String> {
    // What comes over an attachment is someone else's, even where no one says whose.
    if is_identified(listener) || listener.attach.is_some() {
        return None;
    }
    let of_node = document.identity.as_ref().map(|identity| &identity.user);
    listener.user.as_ref().or(of_node).cloned()
}

/// Whether clients of a listener are asked who they are: all are strangers until then.
pub fn is_identified(listener: &Listener) -> bool {
    !matches!(listener.auth, None | Some(Auth::Word(AuthMode::None)))
}

/// The user whom the configuration names for a listener, as a field.
fn of_listener(user: &str) -> Result<http::HeaderValue, Refusal> {
    field_value(user).ok_or_else(|| Refusal::of_configuration(user))
}

/// Where a key of a listener is written.
fn key_of(entrance: &Entrance<'_>, key: &str) -> String {
    child(&child("listeners", entrance.name), key)
}

/// The names of fields, once each and in order.
fn names(fields: &HeaderMap) -> Vec<&HeaderName> {
    let mut names: Vec<_> = fields.keys().collect();
    names.sort_by_key(|name| name.as_str());
    names
}

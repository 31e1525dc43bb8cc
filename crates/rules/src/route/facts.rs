//! What is known of an exchange when its route is chosen.

use std::net::IpAddr;

use http::{HeaderMap, Method};

use super::host::Host;

/// What an exchange is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Host name or address; an IPv6 address with or without brackets, a name with or without its last dot.
    pub host: &'a str,
    /// Port.
    pub port: u16,
}

/// The facts of one exchange that routes can match.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What the exchange is for.
    pub target: Target<'a>,
    /// The authority that names this proxy itself, with its port if it was given.
    pub authority: Option<(&'a str, Option<u16>)>,
    /// Path without the query, as `hermes_proto::path` made it; empty for CONNECT.
    pub path: &'a str,
    /// Method.
    pub method: &'a Method,
    /// `:protocol` of an extended CONNECT, or the `Upgrade` token.
    pub protocol: Option<&'a str>,
    /// Fields, as they are after identification.
    pub fields: &'a HeaderMap,
    /// The user whose exchange this is.
    pub user: Option<&'a str>,
    /// Address that the connection came from; `None` for a Unix socket.
    pub source: Option<IpAddr>,
    /// Name of the listener.
    pub listener: &'a str,
}

/// Facts with everything prepared that several routes ask for; borrows, never allocates.
pub(super) struct View<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) target: Host<'a>,
    pub(super) authority: Option<(Host<'a>, Option<u16>)>,
    pub(super) source: Option<IpAddr>,
}

impl<'a> View<'a> {
    pub(super) fn new(facts: &'a Facts<'a>) -> Self {
        Self {
            facts,
            target: Host::new(facts.target.host),
            authority: facts.authority.map(|(host, port)| (Host::new(host), port)),
            source: facts.source.map(|address| address.to_canonical()),
        }
    }
}

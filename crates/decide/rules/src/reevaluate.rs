//! The fate of an open tunnel when the rules change: the same decision again, with the facts of its
//! opening.
//!
//! A route says afresh where the tunnel's exchange would go. Compared with where it goes, there are five answers:
//!
//! | the new rules | TCP and upgraded connections | UDP, IP |
//! |---|---|---|
//! | send it where it goes already | kept | kept |
//! | send it elsewhere, to another proxy or another endpoint | outlives the change: bytes cannot move | moved |
//! | send it there with other fields than it was opened with | outlives the change | moved |
//! | end the overlay where they went on, or the other way round | ended | moved |
//! | answer it, or have no route for it | ended | ended |
//! | (IP) end the overlay at a device here | | ended, by who carries it |
//! | do not believe it any more, or take it for another user's | ended | ended |
//! | have a filter that denies it | ended | ended |

use std::fmt;
use std::sync::Arc;

use hermes_config::model::HostPort;

use crate::Source;
use crate::route::{Act, Facts, Route, Table, Unmatched};

/// Where a tunnel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Through another proxy, or out of the overlay.
    pub end: End,
    /// The target after the route's rewriting; `None` if it was not rewritten.
    pub rewritten: Option<HostPort>,
}

/// The end of a tunnel's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The next proxy.
    Proxy,
    /// A socket towards the target: the overlay ends here.
    Socket,
    /// This node, to which its client is attached.
    Attachment,
    /// A handler of this node.
    Handler,
}

/// An open tunnel.
#[derive(Debug, Clone)]
pub struct Tunnel<'a> {
    /// The facts when its route was chosen.
    pub facts: Facts<'a>,
    /// Where it leads.
    pub destination: &'a Destination,
    /// Whether it can be moved without loss: it carries datagrams.
    pub movable: bool,
    /// Whether it would have other fields now than those that the next proxy was told.
    pub relabelled: bool,
}

/// The fate of a tunnel.
#[derive(Debug, Clone)]
pub enum Verdict<H> {
    /// The tunnel goes on unchanged; this is its route now.
    Kept(Arc<Route<H>>),
    /// Others like it go elsewhere now, but it is allowed and cannot be moved: it goes on to its own end.
    Outlives(Arc<Route<H>>),
    /// The tunnel is opened anew on this route, and then leaves the old path.
    Moved(Arc<Route<H>>),
    /// The tunnel ends.
    Ended(Reason),
}

/// Why a tunnel may not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No route matches any more.
    NoRoute,
    /// The named route matches now and does something else.
    OtherAction(String),
    /// The credential that it was opened with has expired.
    Expired,
    /// The claimed user would not be accepted any more; in words.
    Identity(String),
    /// The address that it reaches may not be chosen any more; in words.
    Egress(String),
    /// A filter denies it; in words.
    Denied(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("no route allows it any more"),
            Self::OtherAction(route) => write!(f, "route {route} does something else with it"),
            Self::Expired => f.write_str("the credential has expired"),
            Self::Identity(reason) | Self::Egress(reason) | Self::Denied(reason) => {
                f.write_str(reason)
            }
        }
    }
}

/// Decides again on a tunnel by the routes now in force. `same` says whether a next hop is the one that the tunnel goes to: there,
/// and its configuration did not change.
pub fn reevaluate<H>(
    tunnel: &Tunnel<'_>,
    table: &Table<H>,
    same: impl Fn(&H) -> bool,
) -> Verdict<H> {
    let route = match table.find(&tunnel.facts) {
        Ok(route) => route,
        Err(Unmatched::NoRoute) => return Verdict::Ended(Reason::NoRoute),
        Err(Unmatched::Ambiguous(path)) => {
            return Verdict::Ended(Reason::Denied(path.to_string()));
        }
    };
    let other = || Verdict::Ended(Reason::OtherAction(route.name.to_string()));

    let destination = tunnel.destination;
    let (end, same_hop) = match &route.act {
        Act::Proxy(hops) => (End::Proxy, hops.iter().any(&same)),
        Act::Origin(origin) => (End::Socket, same(origin)),
        // Whether it may under that name, the caller decides.
        Act::Attach(_) if destination.end == End::Attachment => {
            return Verdict::Kept(route.clone());
        }
        Act::Handle(handler) if destination.end == End::Handler && same(handler) => {
            return Verdict::Kept(route.clone());
        }
        Act::Attach(_) | Act::Respond(_) | Act::Redirect(_) | Act::Handle(_) => return other(),
    };

    let rewrite = route.config.rewrite.as_ref();
    let rewritten = rewrite.and_then(|rewrite| rewrite.target.as_ref());

    // An origin was told nothing.
    let as_told = end == End::Socket || !tunnel.relabelled;
    let unchanged = as_told && same_hop && rewritten == destination.rewritten.as_ref();
    // A movable tunnel follows the routes wherever they lead; others stay only where they end
    // alike.
    match (end == destination.end, unchanged, tunnel.movable) {
        (true, true, _) => Verdict::Kept(route.clone()),
        (_, _, true) => Verdict::Moved(route.clone()),
        (true, false, false) => Verdict::Outlives(route.clone()),
        (false, _, false) => other(),
    }
}

/// Whether who handed an exchange over would still be believed that it is `user`'s. `was_peer` says whether it was a peer then.
///
/// # Errors
/// Why not.
pub fn still_believed(
    source: &Source<'_>,
    was_peer: bool,
    user: Option<&str>,
) -> Result<(), Reason> {
    match (source, user) {
        (Source::Client, Some(user)) if was_peer => Err(Reason::Identity(format!(
            "its sender is not a peer any more, and cannot speak for user {user}"
        ))),
        (
            Source::Peer {
                name, speaks_for, ..
            },
            Some(user),
        ) if !speaks_for.covers(user) => Err(Reason::Identity(format!(
            "peer {name} does not speak for user {user} any more"
        ))),
        _ => Ok(()),
    }
}

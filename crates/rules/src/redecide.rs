//! What becomes of an open tunnel when the rules change: the same decision again, with the facts of its opening.
//!
//! A route says afresh where the tunnel's exchange would go. Compared with where it goes, there are five answers:
//!
//! | the new rules | TCP and upgraded connections | UDP |
//! |---|---|---|
//! | send it where it goes already | kept | kept |
//! | send it elsewhere, to another proxy or another endpoint | outlives the change: bytes cannot move | moved |
//! | send it there with other fields than it was opened with | outlives the change | moved |
//! | end the overlay where they went on, or the other way round | ended | moved |
//! | answer it, or have no route for it | ended | ended |
//! | do not believe it any more, or take it for another user's | ended | ended |
//! | have a filter that denies it | ended | ended |

use std::fmt;

use hermes_config::model::{Action, Document, HostPort, Terminate};

use crate::Source;
use crate::route::{Facts, Table, hops_of};

/// Where a tunnel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Through another proxy, or out of the overlay.
    pub end: End,
    /// Upstream that it goes to; none where the overlay ends at the target itself.
    pub upstream: Option<String>,
    /// What the route made of the target; none where it left that as it was.
    pub rewritten: Option<HostPort>,
}

/// What there is at the end of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The next proxy.
    Proxy,
    /// A socket towards the target: the overlay ends here.
    Socket,
    /// This node, to which its client is attached.
    Attachment,
}

/// An open tunnel.
#[derive(Debug, Clone)]
pub struct Tunnel<'a> {
    /// What was known when its route was chosen.
    pub facts: Facts<'a>,
    /// Where it leads.
    pub way: &'a Way,
    /// Whether it can be moved without loss: it carries datagrams.
    pub movable: bool,
    /// Whether it would have other fields now than those that the next proxy was told.
    pub relabelled: bool,
}

/// The rules now in force, as far as they concern tunnels.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Their document.
    pub document: &'a Document,
    /// Its routes.
    pub table: &'a Table,
    /// Whether an upstream of this name is the one that the tunnel goes to: there, and its configuration did not change.
    pub same_upstream: &'a dyn Fn(&str) -> bool,
}

/// What becomes of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is; this is its route now.
    Kept {
        /// Index into the document's routes.
        route: usize,
    },
    /// Others like it go elsewhere now, but it is allowed and cannot be moved: it goes on to its own end.
    Outlives {
        /// Index into the document's routes.
        route: usize,
    },
    /// It is to be opened anew on this route, and the old way left then.
    Moved {
        /// Index into the document's routes.
        route: usize,
    },
    /// It ends.
    Ended(Reason),
}

/// Why a tunnel may not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing matches it any more.
    NoRoute,
    /// The named route matches now and does something else.
    OtherAction(String),
    /// The credential that it was opened with has expired.
    Expired,
    /// It would not be believed any more whose it is; in words.
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

/// Decides again on a tunnel.
pub fn redecide(tunnel: &Tunnel<'_>, rules: &Rules<'_>) -> Verdict {
    let Some(route) = rules.table.decide(&tunnel.facts) else {
        return Verdict::Ended(Reason::NoRoute);
    };
    let other = || {
        Verdict::Ended(Reason::OtherAction(
            rules.table.name(route).unwrap_or_default().to_owned(),
        ))
    };
    let Some(configured) = rules.document.routes.get(route) else {
        return other();
    };
    let rewritten = configured
        .rewrite
        .as_ref()
        .and_then(|rewrite| rewrite.target.as_ref());
    let way = tunnel.way;
    let same = |upstream: &str| {
        way.upstream.as_deref() == Some(upstream) && (rules.same_upstream)(upstream)
    };
    let (end, same_hop) = match configured.action() {
        Some(Action::To(hops)) => (End::Proxy, hops_of(hops).any(same)),
        Some(Action::Terminate(Terminate::Target(_))) => (End::Socket, way.upstream.is_none()),
        Some(Action::Terminate(Terminate::Upstream(upstream))) => (End::Socket, same(upstream)),
        // Whether under that name it may, whoever does it decides.
        Some(Action::Attach(_)) if way.end == End::Attachment => return Verdict::Kept { route },
        Some(Action::Attach(_) | Action::Respond(_) | Action::Redirect(_)) | None => {
            return other();
        }
    };
    // An origin was told nothing.
    let as_told = end == End::Socket || !tunnel.relabelled;
    match (
        end == way.end,
        as_told && same_hop && rewritten == way.rewritten.as_ref(),
        tunnel.movable,
    ) {
        (true, true, _) => Verdict::Kept { route },
        (_, _, true) => Verdict::Moved { route },
        (true, false, false) => Verdict::Outlives { route },
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
            "who handed it over is no peer any more, and cannot speak for user {user}"
        ))),
        (Source::Peer { name, speaks_for }, Some(user))
            if !speaks_for.iter().any(|pattern| pattern.matches(user)) =>
        {
            Err(Reason::Identity(format!(
                "peer {name} does not speak for user {user} any more"
            )))
        }
        _ => Ok(()),
    }
}

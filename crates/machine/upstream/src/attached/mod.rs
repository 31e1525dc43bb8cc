//! Nodes that are attached to this one: links on which they are the servers, although they opened
//! the carriers.
//!
//! One table serves all workers, because an exchange may arrive on another one than the attachment did.

mod attachment;
mod join;
mod lent;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::checkout::Checkout;
use crate::endpoint::Active;
use crate::failure::{ConnectFailure, FailureKind};
use crate::link_use::Counted;
use crate::pool::{Carrier, Link, Taken};
use crate::shares::Shares;
use crate::{Timeouts, Upstream};
use attachment::Attachment;
pub use attachment::{ATTACHMENT_KEEPALIVE, Carried, Detached};
pub use join::{Joined, NotJoined};
pub use lent::{Count, Rest};

/// Attachments under one name: a node opens one or two, and a few nodes may share a name.
#[doc(alias = "bound")]
const OF_NAME: usize = 32;

/// Attachments in all: ten thousand users with two each; each costs a stream, a task and some
/// buffers. A user can have half of those that the others leave.
#[doc(alias = "bound")]
const ALL: usize = 20_000;

/// The nodes that are attached, by name.
#[derive(Debug, Default)]
pub struct Attached {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    names: HashMap<String, Name>,
    /// Places that are taken, by user.
    taken: Shares,
    /// The last attachment's number.
    last: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            taken: Shares::new(ALL),
            last: 0,
        }
    }
}

/// The attachments of one name.
#[derive(Debug, Default)]
struct Name {
    /// Places that are taken: those of attachments that are beginning, too.
    taken: usize,
    attachments: Vec<Arc<Attachment>>,
}

/// A bound of the table that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Under that name.
    #[error("there are {OF_NAME} attachments under that name already")]
    Name,
    /// Attachments of this node, or of one user's share of them.
    #[error(
        "there are too many attachments already: {ALL} in all, of which a user has half of those that others leave"
    )]
    All,
}

/// An attachment at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentView {
    /// The name, and the attachment's number, as `alice#7`.
    pub attachment: String,
    /// Where it came from.
    pub peer: String,
    /// The version of its carrier: `h1`, `h2` or `h3`.
    pub carrier: &'static str,
    /// The user of the request.
    pub user: Option<String>,
    /// Seconds since it was opened.
    pub since_seconds: u64,
    /// Exchanges that it carries.
    pub active: usize,
    /// Exchanges that began on it.
    pub exchanges: u64,
}

impl Attached {
    /// How many attachments there are.
    pub fn count(&self) -> usize {
        self.table.lock().taken.taken()
    }

    /// The attachments, by name, at most `most` of them.
    pub fn views(&self, most: usize) -> Vec<AttachmentView> {
        let table = self.table.lock();
        let all = table.names.values().flat_map(|name| &name.attachments);
        // Bounded before it is sorted: a node may have thousands.
        let mut some: Vec<Arc<Attachment>> = all.take(most).cloned().collect();
        drop(table);
        some.sort_by_key(|one| (one.name.clone(), one.number));
        some.iter().map(|one| one.view()).collect()
    }

    /// Takes a place under `name` for a user, or for all who are no one; it is given back when it is dropped.
    ///
    /// # Errors
    /// A bound is reached.
    pub fn reserve(self: &Arc<Self>, name: &str, user: Option<&str>) -> Result<Place, Full> {
        let mut table = self.table.lock();
        if table
            .names
            .get(name)
            .is_some_and(|under| under.taken >= OF_NAME)
        {
            return Err(Full::Name);
        }

        let user = user.unwrap_or_default();
        if !table.taken.take(user) {
            return Err(Full::All);
        }

        table.names.entry(name.to_owned()).or_default().taken += 1;
        table.last += 1;
        Ok(Place {
            attached: self.clone(),
            name: name.to_owned(),
            user: user.to_owned(),
            number: table.last,
        })
    }

    /// A link to a node that is attached as `name`, for one exchange of `upstream`: the least busy one, and not one of `avoid`,
    /// named as in [`Checkout`], if there is another.
    ///
    /// # Errors
    /// No node is attached under that name, or there is no room under the limits of the upstream.
    pub async fn checkout(
        &self,
        upstream: &Upstream,
        name: &str,
        timeouts: &Timeouts,
        avoid: &[Arc<str>],
    ) -> Result<Checkout, ConnectFailure> {
        let room = upstream
            .limits
            .exchange(Instant::now() + timeouts.connect, upstream.name())
            .await?;
        let Some(attachment) = self.pick(name, avoid) else {
            let reason = format!("no one is attached as {name}");
            return Err(ConnectFailure::new(FailureKind::NoEndpoint, name, reason));
        };

        attachment.begun.fetch_add(1, Ordering::Relaxed);
        let carrier = Carrier::Shared(
            Link::H2(attachment.link.clone()),
            Counted::on(&attachment.uses),
        );
        let taken = Taken {
            carrier,
            address: attachment.peer.socket(),
            reused: true,
            room: None,
        };

        let active = Active::default().in_rooms(Some(room), None);
        Ok(Checkout::new(None, taken, attachment.text.clone(), active))
    }

    fn pick(&self, name: &str, avoid: &[Arc<str>]) -> Option<Arc<Attachment>> {
        let table = self.table.lock();
        let alive = table
            .names
            .get(name)?
            .attachments
            .iter()
            .filter(|one| one.link.is_alive());

        alive
            .min_by_key(|one| (avoid.contains(&one.text), one.is_worn(), one.load()))
            .cloned()
    }
}

/// A place in the table.
#[derive(Debug)]
pub struct Place {
    attached: Arc<Attached>,
    name: String,
    user: String,
    number: u64,
}

impl Place {
    fn enter(&self, attachment: Arc<Attachment>) {
        let mut table = self.attached.table.lock();
        table
            .names
            .entry(self.name.clone())
            .or_default()
            .attachments
            .push(attachment);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.attached.table.lock();
        table.taken.give(&self.user);
        let Some(under) = table.names.get_mut(&self.name) else {
            return;
        };

        under.taken -= 1;
        under.attachments.retain(|one| one.number != self.number);
        // Names come from outside: one without attachments leaves nothing behind.
        if under.taken == 0 {
            table.names.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_bounds_and_gives_places_back() {
        let attached = Arc::new(Attached::default());
        let held: Vec<_> = (0..OF_NAME)
            .map(|_| attached.reserve("alice", None).unwrap())
            .collect();
        assert_eq!(
            attached.reserve("alice", Some("eve")).unwrap_err(),
            Full::Name
        );
        assert!(attached.reserve("bob", Some("bob")).is_ok());
        assert_eq!(attached.count(), OF_NAME);
        drop(held);
        assert_eq!(attached.count(), 0);
        assert!(attached.table.lock().names.is_empty());
        let names = (0..).map(|number| attached.reserve(&format!("name {number}"), Some("eve")));
        let held: Vec<_> = names.take_while(Result::is_ok).collect();
        assert!(held.len() < ALL / 2, "{}", held.len());
        assert_eq!(
            attached.reserve("another", Some("eve")).unwrap_err(),
            Full::All
        );
        assert!(
            attached.reserve("alice", Some("alice")).is_ok(),
            "others are not kept out"
        );
    }
}

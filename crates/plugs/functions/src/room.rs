//! The room of a function outside: how much it does at once, and how much of that for one user.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use parking_lot::Mutex;

/// Those who share a part of the room.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RoomOwner {
    User(Arc<str>),
    /// Who has no user, by the address it comes from.
    Source(Option<IpAddr>),
}

impl RoomOwner {
    pub(crate) fn of(user: Option<&str>, source: Option<IpAddr>) -> Self {
        match user {
            Some(user) => Self::User(user.into()),
            None => Self::Source(source),
        }
    }
}

/// The room of one function.
pub(crate) struct Room {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<RoomOwner, usize>,
}

/// A part of the room that is taken, until this is dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    owner: RoomOwner,
}

impl Room {
    /// For so many at once.
    pub(crate) fn new(most: u16) -> Arc<Self> {
        Arc::new(Self {
            most: usize::from(most),
            taken: Mutex::default(),
        })
    }

    /// Takes a place. One owner has at most half of them, so that those of one who hangs there are not all.
    ///
    /// # Errors
    /// There is none left.
    pub(crate) fn take(self: &Arc<Self>, owner: RoomOwner) -> Result<Place, Refusal> {
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(full("the function has no room left"));
        }
        let own = taken.by.entry(owner.clone()).or_default();
        if *own >= self.most.div_ceil(2) {
            return Err(full(
                "the function has no room left for this user or source",
            ));
        }
        *own += 1;
        taken.all += 1;
        Ok(Place {
            room: self.clone(),
            owner,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.owner) {
            *own -= 1;
            // Owners who are gone leave nothing behind.
            if *own == 0 {
                taken.by.remove(&self.owner);
            }
        }
    }
}

fn full(details: &str) -> Refusal {
    Refusal::new(ProxyError::ConnectionLimitReached, details)
        .status(StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others_and_nothing_behind() {
        let room = Room::new(4);
        let of = |user: &str| RoomOwner::of(Some(user), None);
        let held: Vec<_> = (0..2)
            .map(|_| room.take(of("ann")).unwrap_or_else(|_| panic!()))
            .collect();
        assert!(room.take(of("ann")).is_err());
        let other = room.take(of("bob"));
        let last = room.take(RoomOwner::of(None, None));
        assert!(other.is_ok() && last.is_ok());
        assert!(room.take(of("cid")).is_err(), "there are four");
        drop((held, other, last));
        assert!(room.take(of("ann")).is_ok());
        let taken = room.taken.lock();
        assert!(taken.all == 0 && taken.by.is_empty());
    }
}

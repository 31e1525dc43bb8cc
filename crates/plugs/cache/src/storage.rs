//! The stored responses of a node, in one account by owner.
//!
//! An owner who needs room gives up responses of his own, unless another one has more: then that one gives up some. So no user
//! evicts the share of another, however much he asks for. Within a share, a response that was asked for again gets a second chance.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::Owner;
use hermes_proto::fields::Fields;
use parking_lot::Mutex;

use crate::name::ResourceName;
use crate::stored::Stored;

/// Bytes of stored responses of a node, where its settings do not say.
#[doc(alias = "bound")]
pub(crate) const MEMORY: usize = 64 << 20;

/// Responses of one resource that are stored for one user, or for everyone, at once: a `Vary` that makes more loses the oldest.
#[doc(alias = "bound")]
const VARIANTS: usize = 16;

/// The stored responses.
pub(crate) struct Storage(Mutex<Shelves>);

struct Shelves {
    resources: HashMap<ResourceName, Users>,
    owners: HashMap<Owner, Share>,
    bytes: usize,
    memory: usize,
    responses: usize,
}

/// The variants of a resource, by the user whose they are.
type Users = HashMap<Option<Arc<str>>, Vec<Arc<Stored>>>;

/// The responses of an owner, the oldest first. Those that are gone may still be in it.
#[derive(Default)]
struct Share {
    bytes: usize,
    responses: usize,
    queue: VecDeque<Arc<Stored>>,
}

/// How much is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) responses: usize,
    pub(crate) bytes: usize,
    pub(crate) memory: usize,
}

/// A request, as a stored response is looked for by it.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a ResourceName,
    pub(crate) user: Option<&'a Arc<str>>,
    pub(crate) fields: &'a Fields,
    pub(crate) keyed: &'a str,
}

impl Default for Storage {
    fn default() -> Self {
        Self(Mutex::new(Shelves {
            resources: HashMap::new(),
            owners: HashMap::new(),
            bytes: 0,
            memory: MEMORY,
            responses: 0,
        }))
    }
}

impl Storage {
    /// The response that was stored last for such a request: the user's own one before everyone's.
    pub(crate) fn find(&self, wanted: Wanted<'_>) -> Option<Arc<Stored>> {
        let shelves = self.0.lock();
        let users = shelves.resources.get(wanted.name)?;
        let own = wanted.user.map(|user| Some(user.clone()));
        for user in own.into_iter().chain([None]) {
            let variants = users.get(&user).into_iter().flatten().rev();
            for stored in variants {
                if stored.selection.matches(wanted.fields, wanted.keyed) {
                    stored.is_used.store(true, Ordering::Relaxed);
                    return Some(stored.clone());
                }
            }
        }
        None
    }

    /// Stores a response in place of those for the same requests; whether there was room.
    pub(crate) fn insert(&self, stored: &Arc<Stored>) -> bool {
        self.0.lock().insert(stored)
    }

    /// Removes a response.
    pub(crate) fn remove(&self, stored: &Arc<Stored>) {
        self.0.lock().remove(stored);
    }

    /// Removes all responses of a resource, whose they may be; how many (RFC 9111, section 4.4).
    pub(crate) fn invalidate(&self, name: &ResourceName) -> usize {
        let mut shelves = self.0.lock();
        let users = shelves
            .resources
            .get(name)
            .into_iter()
            .flat_map(HashMap::values);
        let stored: Vec<_> = users.flatten().cloned().collect();
        for one in &stored {
            shelves.remove(one);
        }
        stored.len()
    }

    /// Holds all to so many bytes from now on.
    pub(crate) fn limit(&self, memory: usize) {
        let mut shelves = self.0.lock();
        shelves.memory = memory;
        while shelves.bytes > memory {
            let Some(largest) = shelves.largest() else {
                break;
            };
            shelves.evict(&largest);
        }
    }

    /// How much is stored.
    pub(crate) fn extent(&self) -> Extent {
        let shelves = self.0.lock();
        Extent {
            responses: shelves.responses,
            bytes: shelves.bytes,
            memory: shelves.memory,
        }
    }
}

impl Shelves {
    fn insert(&mut self, stored: &Arc<Stored>) -> bool {
        let shelf = &stored.shelf;
        let variants = self
            .resources
            .get(&shelf.name)
            .and_then(|users| users.get(&shelf.user));
        let variants = variants.map_or(&[][..], Vec::as_slice);
        let mut replaced: Vec<_> = variants
            .iter()
            .filter(|other| other.selection == stored.selection)
            .cloned()
            .collect();
        if replaced.is_empty() && variants.len() >= VARIANTS {
            // One who asks in many ways gives up his own variants, where all of them are everyone's.
            let own = variants
                .iter()
                .find(|other| other.shelf.owner == shelf.owner);
            let Some(own) = own else {
                return false;
            };
            replaced.push(own.clone());
        }
        for other in &replaced {
            self.remove(other);
        }

        if !self.make_room(&shelf.owner, stored.size) {
            return false;
        }
        self.bytes += stored.size;
        self.responses += 1;
        let share = self.owners.entry(shelf.owner.clone()).or_default();
        share.bytes += stored.size;
        share.responses += 1;
        share.queue.push_back(stored.clone());
        let users = self.resources.entry(shelf.name.clone()).or_default();
        users
            .entry(shelf.user.clone())
            .or_default()
            .push(stored.clone());
        true
    }

    /// Evicts until `size` more bytes of this owner have room; whether they have.
    fn make_room(&mut self, owner: &Owner, size: usize) -> bool {
        if size > self.memory {
            return false;
        }
        while self.bytes + size > self.memory {
            let own = self.owners.get(owner).map_or(0, |share| share.bytes);
            let Some(largest) = self.largest() else {
                return false;
            };
            let most = self.owners[&largest].bytes;
            let victim = if most > own + size { &largest } else { owner };
            if !self.evict(victim) {
                return false;
            }
        }
        true
    }

    /// The owner with most bytes.
    fn largest(&self) -> Option<Owner> {
        let largest = self.owners.iter().max_by_key(|(_, share)| share.bytes);
        largest.map(|(owner, _)| owner.clone())
    }

    /// Evicts a response of this owner; whether there was one.
    fn evict(&mut self, owner: &Owner) -> bool {
        while let Some(share) = self.owners.get_mut(owner) {
            let Some(oldest) = share.queue.pop_front() else {
                return false;
            };
            if !oldest.is_there() {
                continue;
            }
            if oldest.is_used.swap(false, Ordering::Relaxed) {
                share.queue.push_back(oldest);
                continue;
            }
            self.remove(&oldest);
            return true;
        }
        false
    }

    fn remove(&mut self, stored: &Arc<Stored>) {
        let shelf = &stored.shelf;
        let Some(users) = self.resources.get_mut(&shelf.name) else {
            return;
        };
        let Some(variants) = users.get_mut(&shelf.user) else {
            return;
        };
        let Some(at) = variants.iter().position(|other| Arc::ptr_eq(other, stored)) else {
            return;
        };

        variants.remove(at);
        if variants.is_empty() {
            users.remove(&shelf.user);
        }
        if users.is_empty() {
            self.resources.remove(&shelf.name);
        }
        stored.is_gone.store(true, Ordering::Relaxed);
        self.bytes -= stored.size;
        self.responses -= 1;
        self.settle(&shelf.owner, stored.size);
    }

    /// Takes a response out of its owner's share.
    fn settle(&mut self, owner: &Owner, size: usize) {
        let Some(share) = self.owners.get_mut(owner) else {
            return;
        };
        share.bytes -= size;
        share.responses -= 1;
        if share.responses == 0 {
            self.owners.remove(owner);
        } else if share.queue.len() > 2 * share.responses + 16 {
            // Those that are gone hold their content, until they are looked at.
            share.queue.retain(|one| one.is_there());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant, SystemTime};

    use hermes_http::ResponseHead;
    use hermes_net::memory::{Memory, Purpose};
    use http::StatusCode;

    use super::*;
    use crate::body::Body;
    use crate::control::Directives;
    use crate::freshness::{Exchanged, Freshness};
    use crate::name::tests::name;
    use crate::selection::Selection;
    use crate::stored::Shelf;

    /// A response of this user for a path, by the value of a field that its key has.
    fn stored(user: &str, path: &str, keyed: &str, size: usize) -> Arc<Stored> {
        let charge = Memory::node()
            .owner(Owner::Local)
            .empty_charge(Purpose::Cached);
        let fields = Fields::new();
        let exchanged = Exchanged {
            response_time: SystemTime::UNIX_EPOCH,
            delay: Duration::ZERO,
        };
        Arc::new(Stored {
            shelf: Shelf {
                name: name(path),
                user: None,
                owner: Owner::User(user.into()),
            },
            selection: Selection::of(&fields, keyed.to_owned(), &fields).unwrap(),
            head: ResponseHead::new(StatusCode::OK),
            freshness: Freshness::of(&fields, &Directives::of_response(&fields), exchanged),
            body: Arc::new(Body::new(charge, 0)),
            length: None,
            stored_at: Instant::now(),
            size,
            is_used: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        })
    }

    fn finds(storage: &Storage, path: &str, keyed: &str) -> bool {
        let wanted = Wanted {
            name: &name(path),
            user: None,
            fields: &Fields::new(),
            keyed,
        };
        storage.find(wanted).is_some()
    }

    #[test]
    fn one_user_does_not_evict_the_share_of_another() {
        let storage = Storage::default();
        storage.limit(1000);
        for path in ["/a", "/b", "/c"] {
            assert!(storage.insert(&stored("modest", path, "", 100)));
        }
        for at in 0..1000 {
            storage.insert(&stored("greedy", &format!("/{at}"), "", 100));
        }
        assert_eq!(storage.extent().bytes, 1000);
        assert!(
            ["/a", "/b", "/c"]
                .iter()
                .all(|path| finds(&storage, path, ""))
        );
    }

    #[test]
    fn one_who_has_most_makes_room_for_the_others() {
        let storage = Storage::default();
        storage.limit(1000);
        for at in 0..10 {
            storage.insert(&stored("greedy", &format!("/{at}"), "", 100));
        }
        for path in ["/a", "/b", "/c"] {
            assert!(storage.insert(&stored("modest", path, "", 100)));
        }
        assert!(finds(&storage, "/a", "") && !finds(&storage, "/0", ""));
        assert!(!storage.insert(&stored("modest", "/large", "", 1001)));
    }

    #[test]
    fn a_response_that_is_asked_for_outlives_one_that_is_not() {
        let storage = Storage::default();
        storage.limit(300);
        for path in ["/a", "/b", "/c"] {
            storage.insert(&stored("u", path, "", 100));
        }
        assert!(finds(&storage, "/a", ""));
        storage.insert(&stored("u", "/d", "", 100));
        assert!(finds(&storage, "/a", "") && !finds(&storage, "/b", ""));
    }

    #[test]
    fn variants_of_one_user_take_no_place_of_another() {
        let storage = Storage::default();
        assert!(storage.insert(&stored("modest", "/a", "x: modest", 100)));
        for at in 0..100 {
            storage.insert(&stored("greedy", "/a", &format!("x: {at}"), 100));
        }
        assert_eq!(storage.extent().responses, VARIANTS);
        assert!(finds(&storage, "/a", "x: modest") && finds(&storage, "/a", "x: 99"));
    }

    #[test]
    fn section_4_4_invalidation_removes_every_response_of_a_resource_and_gives_room_back() {
        let storage = Storage::default();
        storage.insert(&stored("u", "/a", "x: 1", 100));
        storage.insert(&stored("v", "/a", "x: 2", 100));
        storage.insert(&stored("u", "/b", "", 100));
        assert_eq!(storage.invalidate(&name("/a")), 2);
        let extent = storage.extent();
        assert_eq!((extent.responses, extent.bytes), (1, 100));
    }

    #[test]
    fn one_response_replaces_another_for_the_same_requests() {
        let storage = Storage::default();
        for _ in 0..100 {
            assert!(storage.insert(&stored("u", "/a", "", 100)));
        }
        let shelves = storage.0.lock();
        assert_eq!((shelves.responses, shelves.bytes), (1, 100));
        assert!(shelves.owners.values().all(|share| share.queue.len() < 32));
    }
}

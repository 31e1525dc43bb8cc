//! The stored responses of a node, in one account by owner ([`ledger`](crate::ledger)).
//!
//! Within a share, a response that was asked for again gets a second chance.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::Owner;
use hermes_proto::fields::Fields;
use parking_lot::Mutex;

use crate::choice::Choice;
use crate::ledger::{Ledger, Room};
use crate::name::ResourceName;
use crate::stored::Stored;

/// Bytes of stored responses of a node, where its settings do not say.
#[doc(alias = "bound")]
pub(crate) const MEMORY: u64 = 64 << 20;

/// Responses of one resource that are stored for one user, or for everyone, at once: a `Vary` that makes more loses the oldest.
#[doc(alias = "bound")]
const VARIANTS: usize = 16;

/// Purges that are remembered for answers on their way. An answer that was asked for before all of these is not stored.
#[doc(alias = "bound")]
const PURGES: usize = 64;

/// Responses that are looked at in one go, while requests wait.
#[doc(alias = "bound")]
const GLANCE: usize = 512;

/// The stored responses.
pub(crate) struct Storage(Mutex<Shelves>);

struct Shelves {
    resources: HashMap<ResourceName, Users>,
    /// All of them, in the order in which they came.
    all: BTreeMap<u64, Arc<Stored>>,
    memory: Ledger,
    purges: Purges,
}

/// The variants of a resource, by the user whose they are.
type Users = HashMap<Option<Arc<str>>, Vec<Arc<Stored>>>;

/// The purges so far, of which the last are remembered.
#[derive(Default)]
struct Purges {
    count: u64,
    last: VecDeque<Choice>,
}

/// The number of purges before a request was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PurgeEpoch(u64);

/// How much is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) responses: usize,
    pub(crate) bytes: u64,
    pub(crate) memory: u64,
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
            all: BTreeMap::new(),
            memory: Ledger::new(MEMORY),
            purges: Purges::default(),
        }))
    }
}

impl Purges {
    fn add(&mut self, choice: Choice) {
        self.count += 1;
        self.last.push_back(choice);
        if self.last.len() > PURGES {
            self.last.pop_front();
        }
    }

    /// Whether a response was purged that was asked for at this moment.
    fn hit(&self, stored: &Stored, asked: PurgeEpoch) -> bool {
        let since = usize::try_from(self.count - asked.0).unwrap_or(usize::MAX);
        if since > self.last.len() {
            return true;
        }
        let later = self.last.iter().rev().take(since);
        later.into_iter().any(|choice| choice.matches(stored))
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

    /// The moment at which a request is sent on, as far as purges go.
    pub(crate) fn epoch(&self) -> PurgeEpoch {
        PurgeEpoch(self.0.lock().purges.count)
    }

    /// Stores a response in place of those for the same requests; whether there was room. One that was purged since it was asked for
    /// has none.
    pub(crate) fn insert(&self, stored: &Arc<Stored>, asked: PurgeEpoch) -> bool {
        let mut shelves = self.0.lock();
        !shelves.purges.hit(stored, asked) && shelves.insert(stored)
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

    /// Removes the responses of a choice, those that are on their way too; how many were stored.
    pub(crate) fn purge(&self, choice: &Choice) -> usize {
        self.0.lock().purges.add(choice.clone());
        let mut purged = 0;
        self.each(|stored| {
            if choice.matches(stored) {
                self.remove(stored);
                purged += 1;
            }
            ControlFlow::Continue(())
        });
        purged
    }

    /// Shows all responses, in the order in which they came. It holds requests up for a glance at a time.
    pub(crate) fn each(&self, mut see: impl FnMut(&Arc<Stored>) -> ControlFlow<()>) {
        let mut from = 0;
        loop {
            let glance = {
                let shelves = self.0.lock();
                let rest = shelves.all.range(from..).take(GLANCE);
                rest.map(|(_, stored)| stored.clone()).collect::<Vec<_>>()
            };
            let Some(last) = glance.last() else {
                return;
            };
            from = last.serial + 1;
            for stored in &glance {
                if see(stored).is_break() {
                    return;
                }
            }
        }
    }

    /// Holds all to so many bytes from now on.
    pub(crate) fn limit(&self, memory: u64) {
        let mut shelves = self.0.lock();
        shelves.memory.set_limit(memory);
        while let Some(largest) = shelves.memory.overdrawn() {
            if !shelves.evict(&largest) {
                break;
            }
        }
    }

    /// How much is stored.
    pub(crate) fn extent(&self) -> Extent {
        let shelves = self.0.lock();
        Extent {
            responses: shelves.all.len(),
            bytes: shelves.memory.bytes(),
            memory: shelves.memory.limit(),
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

        if !self.make_room(&shelf.owner, stored.held()) {
            return false;
        }
        self.memory.add(stored, stored.held());
        self.all.insert(stored.serial, stored.clone());
        let users = self.resources.entry(shelf.name.clone()).or_default();
        users
            .entry(shelf.user.clone())
            .or_default()
            .push(stored.clone());
        true
    }

    /// Evicts until so many more bytes of this owner have room; whether they have.
    fn make_room(&mut self, owner: &Owner, bytes: u64) -> bool {
        loop {
            match self.memory.room(owner, bytes) {
                Room::Free => return true,
                Room::Never => return false,
                Room::Behind(victim) => {
                    if !self.evict(&victim) {
                        return false;
                    }
                }
            }
        }
    }

    /// Evicts a response of this owner; whether there was one.
    fn evict(&mut self, owner: &Owner) -> bool {
        while let Some(oldest) = self.memory.oldest(owner) {
            if !oldest.is_there() {
                continue;
            }
            if oldest.is_used.swap(false, Ordering::Relaxed) {
                self.memory.put_back(oldest);
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
        self.all.remove(&stored.serial);
        stored.is_gone.store(true, Ordering::Relaxed);
        self.memory
            .settle(&shelf.owner, stored.held(), Stored::is_there);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::{Duration, Instant, SystemTime};

    use hermes_http::ResponseHead;
    use hermes_net::memory::{Memory, Purpose};
    use http::StatusCode;

    use super::*;
    use crate::body::Body;
    use crate::choice::ChoiceQuestion;
    use crate::control::Directives;
    use crate::freshness::{Exchanged, Freshness};
    use crate::name::tests::name;
    use crate::selection::Selection;
    use crate::stored::{Shelf, next_serial};
    use crate::tags::Tags;

    /// A response of this user for a path, by the value of a field that its key has.
    fn stored(user: &str, path: &str, keyed: &str, size: u64) -> Arc<Stored> {
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
            held: AtomicU64::new(size),
            serial: next_serial(),
            tags: Tags::default(),
            is_used: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        })
    }

    fn insert(storage: &Storage, stored: &Arc<Stored>) -> bool {
        storage.insert(stored, storage.epoch())
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
            assert!(insert(&storage, &stored("modest", path, "", 100)));
        }
        for at in 0..1000 {
            insert(&storage, &stored("greedy", &format!("/{at}"), "", 100));
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
            insert(&storage, &stored("greedy", &format!("/{at}"), "", 100));
        }
        for path in ["/a", "/b", "/c"] {
            assert!(insert(&storage, &stored("modest", path, "", 100)));
        }
        assert!(finds(&storage, "/a", "") && !finds(&storage, "/0", ""));
        assert!(!insert(&storage, &stored("modest", "/large", "", 1001)));
    }

    #[test]
    fn a_response_that_is_asked_for_outlives_one_that_is_not() {
        let storage = Storage::default();
        storage.limit(300);
        for path in ["/a", "/b", "/c"] {
            insert(&storage, &stored("u", path, "", 100));
        }
        assert!(finds(&storage, "/a", ""));
        insert(&storage, &stored("u", "/d", "", 100));
        assert!(finds(&storage, "/a", "") && !finds(&storage, "/b", ""));
    }

    #[test]
    fn variants_of_one_user_take_no_place_of_another() {
        let storage = Storage::default();
        assert!(insert(&storage, &stored("modest", "/a", "x: modest", 100)));
        for at in 0..100 {
            insert(&storage, &stored("greedy", "/a", &format!("x: {at}"), 100));
        }
        assert_eq!(storage.extent().responses, VARIANTS);
        assert!(finds(&storage, "/a", "x: modest") && finds(&storage, "/a", "x: 99"));
    }

    #[test]
    fn section_4_4_invalidation_removes_every_response_of_a_resource_and_gives_room_back() {
        let storage = Storage::default();
        insert(&storage, &stored("u", "/a", "x: 1", 100));
        insert(&storage, &stored("v", "/a", "x: 2", 100));
        insert(&storage, &stored("u", "/b", "", 100));
        assert_eq!(storage.invalidate(&name("/a")), 2);
        let extent = storage.extent();
        assert_eq!((extent.responses, extent.bytes), (1, 100));
    }

    #[test]
    fn one_response_replaces_another_for_the_same_requests() {
        let storage = Storage::default();
        for _ in 0..100 {
            assert!(insert(&storage, &stored("u", "/a", "", 100)));
        }
        let extent = storage.extent();
        assert_eq!((extent.responses, extent.bytes), (1, 100));
        assert!(storage.0.lock().memory.longest_queue() < 32);
    }

    fn choice(question: &str) -> Choice {
        let question: ChoiceQuestion = serde_json::from_str(question).unwrap();
        question.read().unwrap()
    }

    #[test]
    fn a_purge_removes_what_it_means_and_nothing_else() {
        let storage = Storage::default();
        for at in 0..2 * GLANCE {
            insert(&storage, &stored("u", &format!("/a/{at}"), "", 100));
            insert(&storage, &stored("u", &format!("/b/{at}"), "", 100));
        }
        let below = choice(r#"{ "prefix": "http://origin.example/a/" }"#);
        assert_eq!(storage.purge(&below), 2 * GLANCE);
        assert_eq!(storage.extent().responses, 2 * GLANCE);
        assert!(finds(&storage, "/b/7", "") && !finds(&storage, "/a/7", ""));
        assert_eq!(storage.purge(&Choice::default()), 2 * GLANCE);
        assert_eq!(storage.extent().bytes, 0);
    }

    #[test]
    fn an_answer_that_was_asked_for_before_its_purge_is_not_stored() {
        let storage = Storage::default();
        let asked = storage.epoch();
        storage.purge(&choice(r#"{ "url": "http://origin.example/a" }"#));
        assert!(!storage.insert(&stored("u", "/a", "", 100), asked));
        assert!(storage.insert(&stored("u", "/b", "", 100), asked));
        assert!(insert(&storage, &stored("u", "/a", "", 100)));

        for _ in 0..=PURGES {
            storage.purge(&choice(r#"{ "url": "http://origin.example/x" }"#));
        }
        assert!(
            !storage.insert(&stored("u", "/c", "", 100), asked),
            "too long ago"
        );
    }
}

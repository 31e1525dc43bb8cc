//! The stored responses of a node, in one account by owner ([`ledger`](crate::ledger)).
//!
//! Within a share, a response that was asked for again gets a second chance.

mod promotion;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::Owner;
use hermes_proto::fields::Fields;
use parking_lot::Mutex;

use crate::choice::Choice;
use crate::disk::{Disk, FileId, Keeping};
use crate::kept::KeptHead;
use crate::ledger::{Candidate, Ledger, Room};
use crate::name::ResourceName;
use crate::stored::{FilePlace, Stored};

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
    files: Ledger,
    disk: Option<Arc<Disk>>,
    /// Responses of the disk are still being read.
    is_loading: bool,
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
    /// Bytes on disk, and bytes that may be there.
    pub(crate) files: u64,
    pub(crate) disk: u64,
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
            files: Ledger::new(0),
            disk: None,
            is_loading: false,
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
                    stored.marks.is_used.store(true, Ordering::Relaxed);
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
        if shelves.is_loading {
            // Those that are not read yet, too.
            shelves.purges.add(Choice::of(name));
        }
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

    /// Holds all to so many bytes of memory and of disk from now on.
    pub(crate) fn limit(&self, memory: u64, disk: u64) {
        let mut shelves = self.0.lock();
        shelves.memory.set_limit(memory);
        while let Some(largest) = shelves.memory.overdrawn() {
            if !shelves.evict(&largest) {
                break;
            }
        }
        shelves.files.set_limit(disk);
        while let Some(largest) = shelves.files.overdrawn() {
            if !shelves.evict_file(&largest) {
                break;
            }
        }
    }

    /// Keeps responses on this disk, too, from now on.
    pub(crate) fn set_disk(&self, disk: Arc<Disk>) {
        let mut shelves = self.0.lock();
        shelves.disk = Some(disk);
        shelves.is_loading = true;
    }

    /// The responses of the disk are all there.
    pub(crate) fn loaded(&self) {
        self.0.lock().is_loading = false;
    }

    /// Keeps a whole response that is stored on disk, too, if there is room.
    pub(crate) fn keep(self: &Arc<Self>, stored: &Arc<Stored>) {
        let disk = self.0.lock().disk.clone();
        let (Some(disk), Some(content)) = (disk, stored.body.whole()) else {
            return;
        };
        let Some(id) = disk.next().filter(|_| !stored.has_file()) else {
            return;
        };
        let keeping = Keeping {
            id,
            head: KeptHead::of(stored, content.len() as u64).encode(id),
            content,
        };
        let place = FilePlace {
            id,
            bytes: keeping.bytes(),
        };

        let mut shelves = self.0.lock();
        let is_wanted = stored.is_there() && !stored.has_file();
        if is_wanted && shelves.make_file_room(&stored.shelf.owner, place.bytes) {
            shelves.put_file(stored, place);
            let storage = Arc::downgrade(self);
            let stored = stored.clone();
            let then = move |written: io::Result<_>| match (written, storage.upgrade()) {
                (Ok(content), _) if stored.has_place(id) => stored.body.on_disk(content),
                // Removed meanwhile, its files go by a later job.
                (Ok(_), _) | (_, None) => {}
                (Err(_), Some(storage)) => storage.not_kept(&stored, id),
            };
            disk.keep(keeping, Box::new(then));
        }
    }

    /// A response was not written.
    pub(crate) fn not_kept(&self, stored: &Arc<Stored>, id: FileId) {
        let mut shelves = self.0.lock();
        if stored.has_place(id) {
            shelves.take_file(stored);
        }
    }

    /// Stores a response that was read from disk, unless a newer one is here, it was purged meanwhile, or there is no room.
    pub(crate) fn adopt(&self, stored: &Arc<Stored>, place: FilePlace, asked: PurgeEpoch) -> bool {
        let mut shelves = self.0.lock();
        let shelf = &stored.shelf;
        let users = shelves.resources.get(&shelf.name);
        let variants = users.and_then(|users| users.get(&shelf.user));
        let variants = variants.map_or(&[][..], Vec::as_slice);
        let has_newer = variants
            .iter()
            .any(|other| other.selection == stored.selection);
        let has_room = variants.len() < VARIANTS
            && shelves.memory.room(&shelf.owner, stored.weigh()) == Room::Free
            && shelves.files.room(&shelf.owner, place.bytes) == Room::Free;
        if has_newer || !has_room || shelves.purges.hit(stored, asked) {
            return false;
        }
        shelves.place(stored);
        shelves.put_file(stored, place);
        true
    }

    /// How much is stored.
    pub(crate) fn extent(&self) -> Extent {
        let shelves = self.0.lock();
        Extent {
            responses: shelves.all.len(),
            bytes: shelves.memory.bytes(),
            memory: shelves.memory.limit(),
            files: shelves.files.bytes(),
            disk: shelves.files.limit(),
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
        // A response with newer fields has the content of the older one, and its file.
        let same = replaced
            .iter()
            .find(|other| Arc::ptr_eq(&other.body, &stored.body));
        let file = same.and_then(|same| self.take_file(same));
        for other in &replaced {
            self.remove(other);
        }

        let is_placed = self.make_room(&shelf.owner, stored.weigh());
        if is_placed {
            self.place(stored);
        }
        if let (Some(file), Some(disk)) = (file, self.disk.clone()) {
            if is_placed {
                self.put_file(stored, file);
                let length = stored.length.unwrap_or(0);
                let head = KeptHead::of(stored, length).encode(file.id);
                disk.renew(file.id, head);
            } else {
                disk.remove(file.id);
            }
        }
        is_placed
    }

    fn place(&mut self, stored: &Arc<Stored>) {
        self.memory.add(stored, stored.weigh());
        self.all.insert(stored.serial, stored.clone());
        let shelf = &stored.shelf;
        let users = self.resources.entry(shelf.name.clone()).or_default();
        let variants = users.entry(shelf.user.clone()).or_default();
        variants.push(stored.clone());
    }

    /// Counts the files of a response.
    fn put_file(&mut self, stored: &Arc<Stored>, place: FilePlace) {
        *stored.marks.file.lock() = Some(place);
        self.files.add(stored, place.bytes);
    }

    /// Counts them no longer.
    fn take_file(&mut self, stored: &Arc<Stored>) -> Option<FilePlace> {
        let place = stored.marks.file.lock().take()?;
        self.files
            .settle(&stored.shelf.owner, place.bytes, Stored::has_file);
        Some(place)
    }

    /// Removes the files of a response.
    fn drop_file(&mut self, stored: &Arc<Stored>) {
        if let (Some(place), Some(disk)) = (self.take_file(stored), &self.disk) {
            disk.remove(place.id);
        }
    }

    /// Evicts until files of so many bytes have room; whether they have.
    fn make_file_room(&mut self, owner: &Owner, bytes: u64) -> bool {
        loop {
            match self.files.room(owner, bytes) {
                Room::Free => return true,
                Room::Never => return false,
                Room::Behind(victim) => {
                    if !self.evict_file(&victim) {
                        return false;
                    }
                }
            }
        }
    }

    /// Removes the files of a response of this owner; whether there was one. It stays as long as its content is in memory.
    fn evict_file(&mut self, owner: &Owner) -> bool {
        while let Some(Candidate { stored: oldest, .. }) = self.files.oldest(owner) {
            if !oldest.has_file() {
                continue;
            }
            if oldest.marks.is_used.swap(false, Ordering::Relaxed) {
                self.files.put_back(oldest);
                continue;
            }
            self.drop_file(&oldest);
            if !oldest.body.forget_disk() {
                self.remove(&oldest);
            }
            return true;
        }
        false
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

    /// Frees memory of a response of this owner; whether there was one. Contents that are on disk, too, go first; then responses.
    fn evict(&mut self, owner: &Owner) -> bool {
        while let Some(candidate) = self.memory.oldest(owner) {
            let Candidate { stored, is_lean } = candidate;
            if !stored.is_there() {
                continue;
            }
            if stored.marks.is_used.swap(false, Ordering::Relaxed) {
                self.memory.put_back(stored);
                continue;
            }
            if is_lean || !stored.has_file() {
                self.remove(&stored);
                return true;
            }

            let freed = stored.release();
            if freed == 0 && stored.body.disk().is_none() {
                // It is still to be written.
                self.remove(&stored);
                return true;
            }
            self.memory.slim(stored, freed);
            if freed > 0 {
                return true;
            }
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
        stored.marks.is_gone.store(true, Ordering::Relaxed);
        self.memory
            .settle(&shelf.owner, stored.held(), Stored::is_there);
        self.drop_file(stored);
    }
}

#[cfg(test)]
mod tests {
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
    use crate::stored::{Marks, Shelf, next_serial};
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
            beside: size,
            marks: Marks::new(size),
            serial: next_serial(),
            tags: Tags::default(),
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
        storage.limit(1000, 0);
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
        storage.limit(1000, 0);
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
        storage.limit(300, 0);
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

    /// Has a response take so many bytes on disk, if there is room.
    fn on_disk(storage: &Storage, stored: &Arc<Stored>, bytes: u64) -> bool {
        insert(storage, stored);
        let mut shelves = storage.0.lock();
        let has_room = shelves.make_file_room(&stored.shelf.owner, bytes);
        if has_room {
            let id = FileId(stored.serial);
            shelves.put_file(stored, FilePlace { id, bytes });
        }
        has_room
    }

    #[test]
    fn one_user_does_not_evict_the_share_of_another_on_disk_either() {
        let storage = Storage::default();
        storage.limit(MEMORY, 1000);
        let modest = ["/a", "/b", "/c"].map(|path| stored("modest", path, "", 1));
        for one in &modest {
            assert!(on_disk(&storage, one, 100));
        }
        for at in 0..1000 {
            on_disk(&storage, &stored("greedy", &format!("/{at}"), "", 1), 100);
        }
        assert_eq!(storage.extent().files, 1000);
        assert!(modest.iter().all(|one| one.has_file()));
        assert!(!on_disk(&storage, &stored("modest", "/large", "", 1), 1001));

        storage.limit(MEMORY, 300);
        assert_eq!(storage.extent().files, 300);
        storage.purge(&Choice::default());
        assert_eq!(storage.extent().files, 0);
    }
}

//! Parts of contents, until they make up a whole one (RFC 9111, section 3.4).
//!
//! Parts are of one content where they have the same strong entity tag and the same complete length. No request is answered by them before they
//! make up all of it, but one for all of it asks the next hop only for what its beginning lacks (`rest`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::memory::{Charge, Memory, Owner, Purpose};
use hermes_proto::fields::Fields;
use parking_lot::Mutex;

use crate::control::joined;
use crate::name::ResourceName;
use crate::selection::Selection;
use crate::storage::MEMORY;
use crate::stored::Stored;

/// Of the memory of stored responses, the share that parts may take beside them.
#[doc(alias = "bound")]
const SHARE: u64 = 4;

/// Contents of which there are parts.
#[doc(alias = "bound")]
const CONTENTS: usize = 256;

/// Pieces of one content: one that is asked for in smaller ones is not put together.
#[doc(alias = "bound")]
const PIECES: usize = 256;

/// Bytes that a piece takes beside its own.
const BESIDE: u64 = 128;

/// Changed resources that are remembered for parts on their way.
#[doc(alias = "bound")]
const CHANGES: usize = 64;

/// The parts of a node.
pub(crate) struct Parts(Mutex<PartTable>);

struct PartTable {
    /// The oldest first.
    contents: VecDeque<PartialContent>,
    bytes: u64,
    limit: u64,
    /// Changes of resources so far, of which the last are remembered.
    changes: u64,
    changed: VecDeque<ResourceName>,
}

/// How many resources had changed before a part was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartEpoch(u64);

/// The content that a part is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeContent {
    name: ResourceName,
    user: Option<Arc<str>>,
    owner: Owner,
    selection: Selection,
    /// A strong entity tag.
    tag: String,
    length: u64,
}

struct PartialContent {
    whole: WholeContent,
    pieces: Pieces,
    bytes: u64,
    charge: Charge,
}

/// A request for a content.
pub(crate) struct PartAsked<'a> {
    pub(crate) name: &'a ResourceName,
    pub(crate) user: Option<&'a Arc<str>>,
    pub(crate) owner: &'a Owner,
    pub(crate) fields: &'a Fields,
    /// The fields that are part of its key.
    pub(crate) keyed: &'a str,
}

/// The beginning of a content.
pub(crate) struct Beginning {
    pub(crate) pieces: Vec<Bytes>,
    /// A strong entity tag.
    pub(crate) tag: String,
    /// The length of the whole.
    pub(crate) of: u64,
}

impl Beginning {
    /// Bytes that are there.
    pub(crate) fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// The content after a part was added.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AddedPart {
    /// It is kept, or there was no room for it.
    Partial,
    /// The content is whole.
    Whole(Bytes),
}

impl WholeContent {
    /// That of a response of so many bytes; `None` if parts of it cannot be told from those of another.
    pub(crate) fn of(stored: &Stored, length: u64) -> Option<Self> {
        let tag = joined(&stored.head.fields, "etag");
        let is_strong = tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"');
        is_strong.then(|| Self {
            name: stored.shelf.name.clone(),
            user: stored.shelf.user.clone(),
            owner: stored.shelf.owner.clone(),
            selection: stored.selection.clone(),
            tag,
            length,
        })
    }

    /// Whether this is the content that a request of its owner asks for.
    fn is_for(&self, asked: &PartAsked<'_>) -> bool {
        let is_readable = self.user.is_none() || self.user.as_ref() == asked.user;
        let is_same_place = self.name == *asked.name && self.owner == *asked.owner;
        is_readable && is_same_place && self.selection.matches(asked.fields, asked.keyed)
    }

    /// Whether both answer the same requests of the same owner.
    fn is_for_same(&self, other: &Self) -> bool {
        let is_same_place = self.name == other.name && self.user == other.user;
        is_same_place && self.owner == other.owner && self.selection == other.selection
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self(Mutex::new(PartTable {
            contents: VecDeque::new(),
            bytes: 0,
            limit: MEMORY / SHARE,
            changes: 0,
            changed: VecDeque::new(),
        }))
    }
}

impl Parts {
    /// Holds parts to a share of this memory from now on.
    pub(crate) fn limit(&self, memory: u64) {
        let mut table = self.0.lock();
        table.limit = memory / SHARE;
        while table.bytes > table.limit && table.evict() {}
    }

    /// The moment at which a part is asked for.
    pub(crate) fn epoch(&self) -> PartEpoch {
        PartEpoch(self.0.lock().changes)
    }

    /// A resource has changed: its parts are those of an older content, those on their way, too.
    pub(crate) fn invalidate(&self, name: &ResourceName) {
        let mut table = self.0.lock();
        table.drop_if(|whole| whole.name == *name);
        table.changes += 1;
        table.changed.push_back(name.clone());
        if table.changed.len() > CHANGES {
            table.changed.pop_front();
        }
    }

    /// Nothing that came before this counts.
    pub(crate) fn clear(&self) {
        let mut table = self.0.lock();
        table.drop_if(|_| true);
        table.changes += 1;
        table.changed.clear();
    }

    /// Keeps a part that begins at this place; the content, once it is whole. One that contradicts others of the same tag was made up, as were
    /// they: none is kept.
    pub(crate) fn add(
        &self,
        whole: &WholeContent,
        begin: u64,
        part: &Bytes,
        asked: PartEpoch,
    ) -> AddedPart {
        let mut table = self.0.lock();
        if part.is_empty() || table.has_changed(&whole.name, asked) {
            return AddedPart::Partial;
        }

        // Taken out, so that the room that is made for it is never its own.
        let mut content = table.take(whole);
        let Ok(added) = content.pieces.missing(begin, part) else {
            tracing::debug!(url = %whole.name.url(), "parts of one entity tag differ");
            return AddedPart::Partial;
        };
        let bytes: u64 = added
            .iter()
            .map(|(_, piece)| piece.len() as u64 + BESIDE)
            .sum();
        if !table.make_room(bytes + content.bytes) || !content.grow(bytes) {
            return AddedPart::Partial;
        }

        content.pieces.extend(added);
        if content.pieces.length() == whole.length {
            return AddedPart::Whole(content.pieces.joined());
        }
        // A client that asks for every second byte would fill the table with places.
        if content.pieces.0.len() <= PIECES {
            table.put(content);
        }
        AddedPart::Partial
    }

    /// The beginning of the content that a request asks for; `None` without its first byte.
    pub(crate) fn beginning(&self, asked: &PartAsked<'_>) -> Option<Beginning> {
        let table = self.0.lock();
        let mut contents = table.contents.iter();
        let content = contents.find(|content| content.whole.is_for(asked))?;
        let pieces = content.pieces.beginning();
        (!pieces.is_empty()).then(|| Beginning {
            pieces,
            tag: content.whole.tag.clone(),
            of: content.whole.length,
        })
    }

    /// Forgets the parts of responses to the same requests, of all owners: this one is newer.
    pub(crate) fn forget(&self, newer: &Stored) {
        let shelf = &newer.shelf;
        self.0.lock().drop_if(|whole| {
            let is_same_place = whole.name == shelf.name && whole.user == shelf.user;
            is_same_place && whole.selection == newer.selection
        });
    }
}

impl PartTable {
    fn has_changed(&self, name: &ResourceName, asked: PartEpoch) -> bool {
        // A change that is older than the list may have been of this one.
        let since = usize::try_from(self.changes - asked.0).unwrap_or(usize::MAX);
        since > self.changed.len() || self.changed.iter().rev().take(since).any(|one| one == name)
    }

    /// Takes the parts of this content out, which are none if there are only those of another one.
    fn take(&mut self, whole: &WholeContent) -> PartialContent {
        let place = self
            .contents
            .iter()
            .position(|content| content.whole.is_for_same(whole));
        let content = place.and_then(|place| self.contents.remove(place));
        if let Some(content) = content {
            // Those of an older version are of no more use, and go.
            self.bytes -= content.bytes;
            if content.whole == *whole {
                return content;
            }
        }

        let account = Memory::node().owner(whole.owner.clone());
        PartialContent {
            whole: whole.clone(),
            pieces: Pieces::default(),
            bytes: 0,
            charge: account.empty_charge(Purpose::Cached),
        }
    }

    fn put(&mut self, content: PartialContent) {
        self.bytes += content.bytes;
        self.contents.push_back(content);
        if self.contents.len() > CONTENTS {
            self.evict();
        }
    }

    fn drop_if(&mut self, is_dropped: impl Fn(&WholeContent) -> bool) {
        self.contents.retain(|content| !is_dropped(&content.whole));
        self.bytes = self.contents.iter().map(|content| content.bytes).sum();
    }

    fn make_room(&mut self, bytes: u64) -> bool {
        while self.bytes + bytes > self.limit {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    /// Drops the oldest content of the owner who has most; whether there was one.
    fn evict(&mut self) -> bool {
        let mut shares: HashMap<&Owner, u64> = HashMap::new();
        for content in &self.contents {
            *shares.entry(&content.whole.owner).or_default() += content.bytes;
        }
        let Some((largest, _)) = shares.into_iter().max_by_key(|(_, bytes)| *bytes) else {
            return false;
        };

        let place = self
            .contents
            .iter()
            .position(|content| content.whole.owner == *largest);
        let evicted = place.and_then(|place| self.contents.remove(place));
        self.bytes -= evicted.as_ref().map_or(0, |content| content.bytes);
        evicted.is_some()
    }
}

impl PartialContent {
    fn grow(&mut self, bytes: u64) -> bool {
        let has_room = self
            .charge
            .grow_if_free(usize::try_from(bytes).unwrap_or(usize::MAX));
        if has_room {
            self.bytes += bytes;
        }
        has_room
    }
}

/// Bytes of one content by their places, none of them twice.
#[derive(Debug, Default)]
struct Pieces(BTreeMap<u64, Bytes>);

/// Two parts have other bytes at one place.
#[derive(Debug, PartialEq, Eq)]
struct Contradiction;

impl Pieces {
    /// The pieces of a part that are not here.
    fn missing(&self, begin: u64, part: &Bytes) -> Result<Vec<(u64, Bytes)>, Contradiction> {
        let end = begin + part.len() as u64;
        let within = |places: Range<u64>| {
            let from = (places.start - begin) as usize;
            let to = (places.end - begin) as usize;
            part.slice(from..to)
        };

        let mut missing = Vec::new();
        let mut at = begin;
        let before = self.0.range(..begin).next_back();
        for (&start, piece) in before.into_iter().chain(self.0.range(begin..end)) {
            let stop = start + piece.len() as u64;
            let common = start.max(begin)..stop.min(end);
            if common.is_empty() {
                continue;
            }
            let known = (common.start - start) as usize..(common.end - start) as usize;
            if piece.slice(known) != within(common.clone()) {
                return Err(Contradiction);
            }
            if at < common.start {
                missing.push((at, within(at..common.start)));
            }
            at = common.end;
        }
        if at < end {
            missing.push((at, within(at..end)));
        }
        Ok(missing)
    }

    fn extend(&mut self, pieces: Vec<(u64, Bytes)>) {
        let own = |(at, piece): (u64, Bytes)| (at, Bytes::copy_from_slice(&piece));
        self.0.extend(pieces.into_iter().map(own));
    }

    /// The pieces from the first byte on, up to the first that is missing.
    fn beginning(&self) -> Vec<Bytes> {
        let mut end = 0;
        let pieces = self.0.iter().take_while(|(at, piece)| {
            let follows = **at == end;
            end += piece.len() as u64;
            follows
        });
        pieces.map(|(_, piece)| piece.clone()).collect()
    }

    fn length(&self) -> u64 {
        self.0.values().map(|piece| piece.len() as u64).sum()
    }

    fn joined(&self) -> Bytes {
        let length = usize::try_from(self.length()).unwrap_or_default();
        let mut all = BytesMut::with_capacity(length);
        for piece in self.0.values() {
            all.extend_from_slice(piece);
        }
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::tests::name;

    fn whole(owner: &str, path: &str, tag: &str, length: u64) -> WholeContent {
        let none = Fields::new();
        WholeContent {
            name: name(path),
            user: None,
            owner: Owner::User(owner.into()),
            selection: Selection::of(&none, String::new(), &none).unwrap(),
            tag: tag.to_owned(),
            length,
        }
    }

    fn add(parts: &Parts, whole: &WholeContent, begin: u64, part: &str) -> AddedPart {
        let part = Bytes::copy_from_slice(part.as_bytes());
        parts.add(whole, begin, &part, parts.epoch())
    }

    #[test]
    fn section_3_4_parts_of_one_content_make_it_whole_in_any_order() {
        let parts = Parts::default();
        let film = whole("alice", "/film", "\"a\"", 10);
        assert_eq!(add(&parts, &film, 7, "789"), AddedPart::Partial);
        assert_eq!(add(&parts, &film, 0, "0123"), AddedPart::Partial);
        assert_eq!(add(&parts, &film, 0, "0123"), AddedPart::Partial);
        let all = AddedPart::Whole("0123456789".into());
        assert_eq!(add(&parts, &film, 2, "23456"), all);
        assert_eq!(parts.0.lock().bytes, 0, "it is elsewhere now");
    }

    #[test]
    fn section_3_4_parts_of_another_content_take_the_place_of_the_older_ones() {
        let parts = Parts::default();
        add(&parts, &whole("alice", "/", "\"a\"", 10), 0, "01234");
        let other = whole("alice", "/", "\"b\"", 10);
        assert_eq!(add(&parts, &other, 5, "fghij"), AddedPart::Partial);
        let longer = whole("alice", "/", "\"b\"", 11);
        assert_eq!(add(&parts, &longer, 0, "abcde"), AddedPart::Partial);
        assert_eq!(parts.0.lock().contents.len(), 1);
        let all = AddedPart::Whole("abcdefghijk".into());
        assert_eq!(add(&parts, &longer, 5, "fghijk"), all);
    }

    #[test]
    fn section_3_4_a_beginning_is_for_its_owner_and_ends_before_the_first_gap() {
        let parts = Parts::default();
        let film = whole("alice", "/film", "\"a\"", 10);
        let none = Fields::new();
        let length_for = |owner: &str, path: &str, keyed: &str| {
            let (name, owner) = (name(path), Owner::User(owner.into()));
            let asked = PartAsked {
                name: &name,
                user: None,
                owner: &owner,
                fields: &none,
                keyed,
            };
            parts.beginning(&asked).map(|found| found.length())
        };
        add(&parts, &film, 2, "23");
        assert_eq!(length_for("alice", "/film", ""), None);
        add(&parts, &film, 0, "01");
        add(&parts, &film, 6, "67");
        assert_eq!(length_for("alice", "/film", ""), Some(4));
        assert_eq!(length_for("bob", "/film", ""), None);
        assert_eq!(length_for("alice", "/other", ""), None);
        assert_eq!(length_for("alice", "/film", "cookie: a"), None);
    }

    #[test]
    fn parts_that_contradict_each_other_are_all_forgotten() {
        let parts = Parts::default();
        let film = whole("alice", "/", "\"a\"", 10);
        add(&parts, &film, 0, "01234");
        assert_eq!(add(&parts, &film, 4, "x5678"), AddedPart::Partial);
        assert_eq!(add(&parts, &film, 5, "56789"), AddedPart::Partial);
        assert_eq!(parts.0.lock().contents.len(), 1, "the last one alone");
    }

    #[test]
    fn section_4_4_a_part_of_before_a_change_is_not_kept() {
        let parts = Parts::default();
        let film = whole("alice", "/film", "\"a\"", 10);
        let asked = parts.epoch();
        add(&parts, &film, 0, "01234");
        parts.invalidate(&name("/film"));
        let late = Bytes::from_static(b"56789");
        parts.add(&film, 5, &late, asked);
        assert!(parts.0.lock().contents.is_empty());

        let other = whole("alice", "/other", "\"a\"", 10);
        parts.add(&other, 5, &late, asked);
        assert_eq!(parts.0.lock().contents.len(), 1, "of another resource");
        parts.clear();
        parts.add(&other, 5, &late, asked);
        assert!(parts.0.lock().contents.is_empty());
    }

    #[test]
    fn one_who_asks_for_many_parts_takes_no_place_of_another() {
        let parts = Parts::default();
        parts.limit(SHARE * 10_000);
        let film = whole("alice", "/film", "\"a\"", 2000);
        add(&parts, &film, 0, &"a".repeat(1000));
        for at in 0..1000 {
            let other = whole("mallory", &format!("/{at}"), "\"a\"", 2000);
            add(&parts, &other, 0, &"m".repeat(1000));
        }
        assert!(parts.0.lock().bytes <= 10_000);
        let rest = add(&parts, &film, 1000, &"b".repeat(1000));
        assert!(matches!(rest, AddedPart::Whole(_)));
    }

    #[test]
    fn a_content_in_pieces_of_a_byte_is_given_up() {
        let parts = Parts::default();
        let film = whole("mallory", "/", "\"a\"", 10_000);
        for at in 0..=PIECES as u64 {
            add(&parts, &film, 2 * at, "m");
        }
        assert!(parts.0.lock().contents.is_empty());
        assert_eq!(parts.0.lock().bytes, 0);
    }

    proptest! {
        #[test]
        fn a_content_is_whole_exactly_when_all_of_it_came(
            ranges in prop::collection::vec((0_usize..40, 1_usize..20), 1..20)
        ) {
            let content: Bytes = (0..40_u8).collect();
            let film = whole("alice", "/", "\"a\"", 40);
            let parts = Parts::default();
            let mut came = [false; 40];
            for (begin, length) in ranges {
                let end = (begin + length).min(40);
                came[begin..end].fill(true);
                let added = parts.add(&film, begin as u64, &content.slice(begin..end), parts.epoch());
                match added {
                    AddedPart::Whole(all) => {
                        prop_assert!(came.iter().all(|came| *came));
                        prop_assert_eq!(&all, &content);
                        came.fill(false);
                    }
                    AddedPart::Partial => prop_assert!(!came.iter().all(|came| *came)),
                }
            }
        }
    }
}

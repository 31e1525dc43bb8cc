//! The messages that wait for the subscriptions of one worker, without input or output.
//!
//! A message is kept once, until the last member that is to have it has taken it. Each member has a limit of its own; a message that
//! does not fit is lost for it alone, and the member is told how many it has lost at the place where they would have come.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::relay::{Gap, GapReason, Stripe};

use crate::account::Account;
use crate::message::{Message, Part};

/// Receivers that one relay may say it has: sums of them stay numbers.
#[doc(alias = "bound")]
const MOST_RECEIVERS: u64 = 1_000_000_000;

/// The messages for the members of one worker.
#[derive(Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    /// The index of the first of them.
    first: u64,
    /// Bytes of them.
    bytes: usize,
    members: HashMap<MemberId, Member>,
    /// Members that are relays.
    relays: usize,
    /// Members that get a share of the messages alone.
    striped: usize,
    /// The index of the latest message of each topic that waits.
    topics: HashMap<Bytes, u64>,
    next_member: u64,
}

/// The name of a member within its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemberId(u64);

/// The messages that a member loses where it has no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// Those that come.
    #[default]
    Newest,
    /// Those that have waited longest.
    Oldest,
}

/// A member's bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberBounds {
    /// Bytes that may wait for it; one message may in any case.
    pub(crate) bytes: usize,
    /// The messages that it loses beyond them.
    pub(crate) overflow: Overflow,
}

/// The next thing for a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Messages that it has lost.
    Gap(Gap),
    /// The messages of these indices, to be [taken](Queue::taken).
    Messages(Range<u64>),
}

/// Whether all members are known to have room for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// They have: it goes to all.
    Checked,
    /// It is lost for those who have none.
    Unknown,
}

/// The members that a message was for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Enqueued {
    /// All.
    pub(crate) receivers: u64,
    /// Those that will get it.
    pub(crate) enqueued: u64,
    /// Whether some of them are receivers of another relay.
    pub(crate) has_relays: bool,
}

struct Entry {
    message: Arc<Message>,
    /// Members that have yet to take it.
    left: usize,
    /// A later message of its topic has taken its place.
    is_replaced: bool,
}

struct Member {
    bounds: MemberBounds,
    /// Whose it is: the bytes that wait for all members of one owner are bounded too.
    owner: Arc<Account>,
    /// Receivers that a relay has told of, of which this member is one; `None` for one that is a receiver itself.
    receivers: Option<u64>,
    /// The index of the message that it gets next.
    next: u64,
    /// Bytes that wait for it.
    bytes: usize,
    /// Messages that it has lost, in their order.
    skips: VecDeque<Skip>,
    /// Whether it takes long messages, in pieces.
    takes_pieces: bool,
    /// The long message of which it gets the pieces that come.
    follows: Option<u64>,
    /// The only messages that are for it.
    stripe: Option<Stripe>,
}

/// Messages that a member has lost.
#[derive(Debug, Clone, Copy)]
struct Skip {
    /// The index of the first of those that the queue has for others, or would have.
    at: u64,
    /// Indices that it passes over.
    span: u64,
    /// `None`: pieces of a message whose loss was told, or that it has never had.
    gap: Option<Gap>,
}

impl Queue {
    /// A new member, which gets what comes from now on.
    pub(crate) fn join(&mut self, bounds: MemberBounds, owner: Arc<Account>) -> MemberId {
        self.next_member += 1;
        let id = MemberId(self.next_member);
        let member = Member {
            bounds,
            owner,
            receivers: None,
            next: self.end(),
            bytes: 0,
            skips: VecDeque::new(),
            takes_pieces: false,
            follows: None,
            stripe: None,
        };
        self.members.insert(id, member);
        id
    }

    /// The member gets nothing any more.
    pub(crate) fn leave(&mut self, id: MemberId) {
        let Some(member) = self.members.remove(&id) else {
            return;
        };
        self.relays -= usize::from(member.receivers.is_some());
        self.striped -= usize::from(member.stripe.is_some());
        member.owner.remove(member.bytes);
        for index in member.next..self.end() {
            if member.awaits(index) {
                self.release(index);
            }
        }
        self.drop_taken();
    }

    /// Whether each member that is to get the message of this number has room for its cost.
    pub(crate) fn has_room(&self, sequence: u64, cost: usize) -> bool {
        let mut members = self.members.values();
        members.all(|member| !member.wants(sequence) || member.has_room(cost))
    }

    /// Adds a message for all members that have room for it, or for all.
    pub(crate) fn push(&mut self, message: &Arc<Message>, room: Room) -> Enqueued {
        if let Some(topic) = &message.topic {
            self.replace(topic);
        }

        let cost = message.cost();
        let index = self.end();
        let mut dropped = Vec::new();
        let mut without_room = Vec::new();
        let mut not_for = Vec::new();
        for (&id, member) in &mut self.members {
            if !member.wants(message.sequence) {
                not_for.push(id);
                continue;
            }
            if room == Room::Unknown
                && !member.has_room(cost)
                && member.bounds.overflow == Overflow::Oldest
            {
                member.drop_oldest(cost, &self.entries, self.first, &mut dropped);
            }
            // Members of one owner take its room from each other: all had some before the first of them took it.
            match room == Room::Checked || member.has_room(cost) {
                true => member.add(cost),
                false => without_room.push(id),
            }
        }
        for index in dropped {
            self.release(index);
        }

        let left = self.members.len() - without_room.len() - not_for.len();
        let mut enqueued = self.receivers_of(message.sequence);
        // A message that no one gets has no index, so that there is none to pass over.
        let span = u64::from(left > 0);
        for id in without_room {
            if let Some(member) = self.members.get_mut(&id) {
                enqueued.enqueued -= member.weight();
                member.skip(index, span);
            }
        }
        for id in not_for {
            if let Some(member) = self.members.get_mut(&id) {
                member.pass_over(index, span);
            }
        }
        if left > 0 {
            self.keep(message, left);
        }
        self.drop_taken();
        enqueued
    }

    /// The receivers of a message for which all have room; of one who has several ways, each counts.
    pub(crate) fn receivers(&self) -> Enqueued {
        self.receivers_where(|_| true)
    }

    /// The receivers of the message of this number, if all have room.
    fn receivers_of(&self, sequence: u64) -> Enqueued {
        match self.striped {
            0 => self.receivers(),
            _ => self.receivers_where(|member| member.wants(sequence)),
        }
    }

    fn receivers_where(&self, is_one: impl Fn(&Member) -> bool) -> Enqueued {
        let receivers = match self.relays + self.striped {
            0 => self.members.len() as u64,
            _ => {
                let members = self.members.values();
                members
                    .filter(|member| is_one(member))
                    .map(Member::weight)
                    .sum()
            }
        };
        Enqueued {
            receivers,
            enqueued: receivers,
            has_relays: self.relays > 0,
        }
    }

    /// A relay has said how many receivers it has.
    pub(crate) fn weigh(&mut self, id: MemberId, receivers: u64) {
        if let Some(member) = self.members.get_mut(&id) {
            let before = member.receivers.replace(receivers.min(MOST_RECEIVERS));
            self.relays += usize::from(before.is_none());
        }
    }

    /// All members have lost messages behind those that wait.
    pub(crate) fn lose(&mut self, gap: Gap) {
        let at = self.end();
        for member in self.members.values_mut() {
            member.lose(at, gap);
        }
    }

    /// Says whether the stream of a member takes long messages. It gets none of one that is under way: the stream has not its beginning.
    pub(crate) fn takes_pieces(&mut self, id: MemberId, takes: bool) {
        if let Some(member) = self.members.get_mut(&id) {
            member.takes_pieces = takes;
            member.follows = None;
        }
    }

    /// The member gets these messages alone from here on; all, if there is no share.
    pub(crate) fn stripe(&mut self, id: MemberId, stripe: Option<Stripe>) {
        if let Some(member) = self.members.get_mut(&id) {
            let before = std::mem::replace(&mut member.stripe, stripe);
            self.striped -= usize::from(before.is_some());
            self.striped += usize::from(stripe.is_some());
        }
    }

    /// Whether each member that is to get this piece has room for it.
    pub(crate) fn has_room_for(&self, piece: &Message) -> bool {
        let cost = piece.cost();
        let mut members = self.members.values();
        members.all(|member| !member.is_to_get(piece) || member.has_room(cost))
    }

    /// Adds a piece of a long message, for those who have had all before it. Others lose the message, and are told so once.
    pub(crate) fn push_piece(&mut self, piece: &Arc<Message>) -> Enqueued {
        let index = self.end();
        let mut enqueued = self.receivers_of(piece.sequence);
        let is_to_get = |member: &&Member| member.is_to_get(piece);
        let left = self.members.values().filter(is_to_get).count();
        let span = u64::from(left > 0);
        for member in self.members.values_mut() {
            if member.is_to_get(piece) {
                member.add(piece.cost());
                member.follows = match piece.part {
                    Part::First | Part::Further => Some(piece.sequence),
                    Part::Whole | Part::Last | Part::Abort => None,
                };
            } else if !member.wants(piece.sequence) {
                member.pass_over(index, span);
            } else {
                enqueued.enqueued -= member.weight();
                match piece.part {
                    Part::First => member.lose_long(index, span),
                    _ => member.pass_over(index, span),
                }
            }
        }
        if left > 0 {
            self.keep(piece, left);
        }
        enqueued
    }

    fn keep(&mut self, message: &Arc<Message>, left: usize) {
        if let Some(topic) = &message.topic
            && message.part == Part::Whole
        {
            self.topics.insert(topic.clone(), self.end());
        }
        self.bytes += message.cost();
        self.entries.push_back(Entry {
            message: message.clone(),
            left,
            is_replaced: false,
        });
    }

    /// The next thing for a member: a gap, which is thereby told, or messages of `limit` bytes in all, at least one; `None` if
    /// nothing waits.
    pub(crate) fn next(&mut self, id: MemberId, limit: usize, now: Instant) -> Option<Step> {
        loop {
            let expired = self.pass(id, now);
            let member = self.members.get_mut(&id)?;
            if expired > 0 {
                return Some(Step::Gap(Gap {
                    count: expired,
                    reason: GapReason::Expired,
                }));
            }
            let Some(skip) = member.take_skip() else {
                break;
            };
            if let Some(gap) = skip.gap {
                return Some(Step::Gap(gap));
            }
        }
        let range = self.run(id, limit, now);
        (!range.is_empty()).then_some(Step::Messages(range))
    }

    /// The member passes over messages that were replaced, or are worth nothing any more; how many of the latter there were.
    fn pass(&mut self, id: MemberId, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some(member) = self.members.get_mut(&id)
            && member
                .skips
                .front()
                .is_none_or(|skip| skip.at > member.next)
            && let Some(entry) = self.entries.get((member.next - self.first) as usize)
        {
            // A publisher that replaces a message wants it gone: nothing is lost.
            if !entry.is_replaced {
                if !entry.message.is_expired(now) {
                    break;
                }
                member.remove(entry.message.cost());
                expired += 1;
            }
            let index = member.next;
            member.next += 1;
            self.release(index);
        }
        self.drop_taken();
        expired
    }

    /// The messages of these indices.
    pub(crate) fn messages(&self, range: &Range<u64>) -> impl Iterator<Item = &Arc<Message>> {
        let from = (range.start - self.first) as usize;
        let to = (range.end - self.first) as usize;
        self.entries.range(from..to).map(|entry| &entry.message)
    }

    /// The member has taken these messages.
    pub(crate) fn taken(&mut self, id: MemberId, range: &Range<u64>) {
        let cost: usize = self.messages(range).map(|message| message.cost()).sum();
        if let Some(member) = self.members.get_mut(&id) {
            member.next = range.end;
            member.remove(cost);
            for index in range.clone() {
                self.release(index);
            }
            self.drop_taken();
        }
    }

    /// Tells the member of messages that it has lost before those that wait.
    pub(crate) fn tell(&mut self, id: MemberId, gap: Gap) {
        if let Some(member) = self.members.get_mut(&id) {
            let at = member.next;
            let gap = Some(gap);
            member.skips.push_front(Skip { at, span: 0, gap });
        }
    }

    /// When the first message came that waits for the member.
    pub(crate) fn waits_since(&self, id: MemberId) -> Option<Instant> {
        let member = self.members.get(&id)?;
        let at = member.next.checked_sub(self.first)?;
        self.entries
            .get(at as usize)
            .map(|entry| entry.message.came)
    }

    /// Bytes that wait for the member.
    pub(crate) fn waiting(&self, id: MemberId) -> usize {
        self.members.get(&id).map_or(0, |member| member.bytes)
    }

    /// Members.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// Bytes of all messages that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The index of the message that comes next.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The messages from the next one of the member on, until the limit, a gap, or one that it does not get.
    fn run(&self, id: MemberId, limit: usize, now: Instant) -> Range<u64> {
        let member = &self.members[&id];
        let start = member.next;
        let stop = member.skips.front().map_or(self.end(), |skip| skip.at);
        let mut bytes = 0;
        let mut end = start;
        for entry in self.entries.range((start - self.first) as usize..) {
            let length = entry.message.data.len();
            let is_first = end == start;
            let fits = is_first || bytes + length <= limit;
            if end == stop || entry.is_replaced || entry.message.is_expired(now) || !fits {
                break;
            }
            bytes += length;
            end += 1;
        }
        start..end
    }

    /// The message of this topic that waits is not to be had any more: a later one takes its place.
    fn replace(&mut self, topic: &Bytes) {
        let Some(index) = self.topics.remove(topic) else {
            return;
        };
        let entry = &mut self.entries[(index - self.first) as usize];
        entry.is_replaced = true;
        let cost = entry.message.cost();
        for member in self.members.values_mut() {
            if member.awaits(index) {
                member.remove(cost);
            }
        }
    }

    /// One member fewer is to take this message.
    fn release(&mut self, index: u64) {
        if let Some(at) = index.checked_sub(self.first)
            && let Some(entry) = self.entries.get_mut(at as usize)
        {
            entry.left -= 1;
        }
    }

    fn drop_taken(&mut self) {
        while self.entries.front().is_some_and(|front| front.left == 0) {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= entry.message.cost();
            if let Some(topic) = &entry.message.topic
                && self.topics.get(topic) == Some(&self.first)
            {
                self.topics.remove(topic);
            }
            self.first += 1;
        }
    }
}

impl Member {
    fn weight(&self) -> u64 {
        self.receivers.unwrap_or(1)
    }

    /// It loses messages that would have come at this index, and that the queue has never had.
    fn lose(&mut self, at: u64, gap: Gap) {
        if let Some(last) = self.skips.back_mut()
            && last.at + last.span == at
            && let Some(earlier) = &mut last.gap
        {
            // One of an unknown number makes the sum unknown.
            let is_known = earlier.count > 0 && gap.count > 0;
            let sum = earlier.count.saturating_add(gap.count);
            earlier.count = if is_known { sum } else { 0 };
            return;
        }
        let gap = Some(gap);
        self.skips.push_back(Skip { at, span: 0, gap });
    }

    fn has_room(&self, cost: usize) -> bool {
        let fits = self.bytes == 0 || self.bytes + cost <= self.bounds.bytes;
        fits && self.owner.has_room(cost)
    }

    fn add(&mut self, cost: usize) {
        self.bytes += cost;
        self.owner.add(cost);
    }

    fn remove(&mut self, cost: usize) {
        self.bytes -= cost;
        self.owner.remove(cost);
    }

    /// Whether it is to get the message of this index, and has not yet.
    fn awaits(&self, index: u64) -> bool {
        let passes = |skip: &Skip| (skip.at..skip.at + skip.span).contains(&index);
        self.next <= index && !self.skips.iter().any(passes)
    }

    /// Whether the message of this number is for it.
    fn wants(&self, sequence: u64) -> bool {
        self.stripe.is_none_or(|stripe| stripe.has(sequence))
    }

    /// Whether a piece of a long message is for it.
    fn is_to_get(&self, piece: &Message) -> bool {
        match piece.part {
            Part::First | Part::Whole => self.takes_pieces && self.wants(piece.sequence),
            Part::Further | Part::Last | Part::Abort => self.follows == Some(piece.sequence),
        }
    }

    /// It loses a message that comes at this index, and passes over so many indices.
    fn skip(&mut self, at: u64, span: u64) {
        self.skip_for(GapReason::Full, at, span);
    }

    /// It loses a long message that begins at this index.
    fn lose_long(&mut self, at: u64, span: u64) {
        self.skip_for(GapReason::Long, at, span);
    }

    fn skip_for(&mut self, reason: GapReason, at: u64, span: u64) {
        if let Some(last) = self.skips.back_mut()
            && last.at + last.span == at
            && let Some(gap) = &mut last.gap
            && gap.reason == reason
        {
            last.span += span;
            gap.count += 1;
            return;
        }
        let gap = Some(Gap { count: 1, reason });
        self.skips.push_back(Skip { at, span, gap });
    }

    /// It passes over a message that comes by another way, or a piece of one whose beginning it has not.
    fn pass_over(&mut self, at: u64, span: u64) {
        match self.skips.back_mut() {
            Some(last) if last.at + last.span == at => last.span += span,
            _ if span == 0 => {}
            _ => self.skips.push_back(Skip {
                at,
                span,
                gap: None,
            }),
        }
    }

    /// The loss that it has to pass now.
    fn take_skip(&mut self) -> Option<Skip> {
        let skip = *self.skips.front()?;
        if skip.at != self.next {
            return None;
        }
        self.skips.pop_front();
        self.next += skip.span;
        Some(skip)
    }

    /// Gives up what has waited longest, until there is room or nothing waits; `dropped` gets the indices.
    fn drop_oldest(
        &mut self,
        cost: usize,
        entries: &VecDeque<Entry>,
        first: u64,
        dropped: &mut Vec<u64>,
    ) {
        let mut lost = 0;
        while !self.has_room(cost) {
            if let Some(earlier) = self.take_skip() {
                lost += earlier.gap.map_or(0, |gap| gap.count);
                continue;
            }
            let Some(entry) = entries.get((self.next - first) as usize) else {
                break;
            };
            // A message of which some pieces are gone is none: the one that comes is lost instead.
            if entry.message.part != Part::Whole {
                break;
            }
            if !entry.is_replaced {
                self.remove(entry.message.cost());
                lost += 1;
            }
            dropped.push(self.next);
            self.next += 1;
        }
        if lost > 0 {
            let gap = Some(Gap {
                count: lost,
                reason: GapReason::Full,
            });
            let at = self.next;
            self.skips.push_front(Skip { at, span: 0, gap });
        }
    }
}

#[cfg(test)]
mod tests;

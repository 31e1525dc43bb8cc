//! The side that answers: objects that are kept for a neighbour, and the ranges that it has asked for.
//!
//! It remembers nothing of the path. A REQ is answered with the bytes that are there; the rest of it is an interest, which is answered
//! when bytes come, and which the next REQ for the same bytes replaces.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use hermes_proto::custody::{CustodyFrame, CustodyRange, ErrCode, Extent, ObjectId};

use crate::owner::Owner;
use crate::ranges::range;
use crate::room::Room;
use crate::spool::Spool;
use crate::window::PIECE;

/// Ranges that a neighbour waits for in one object.
#[doc(alias = "bound")]
const INTERESTS: usize = 64;

/// Answers that wait to be sent to a neighbour.
#[doc(alias = "bound")]
const REPLIES: usize = 4096;

/// Bytes of answers that wait to be sent to a neighbour: more than it may have on their way, of what is there and of what it waited for. A
/// neighbour that asks for more asks again.
#[doc(alias = "bound")]
const DUE: u64 = 16 * 1024 * 1024;

/// Bytes of one object that are kept before its writer has to wait.
#[doc(alias = "bound")]
pub const KEPT: usize = 8 * 1024 * 1024;

/// How long a REQ may wait in this machine so that its answer says how long the path is: little beside the queue that a window allows.
const PROMPT: Duration = Duration::from_millis(5);

/// An object that is kept for a neighbour.
#[derive(Debug, Default)]
pub struct Offer {
    spool: Spool,
    interests: Vec<Interest>,
    broken: Option<ErrCode>,
    /// The last REQ that came before the file of the exchange was made: an answer would say that the exchange is in custody.
    early: Option<Asking>,
}

/// Bytes that were asked for and are not here yet.
#[derive(Debug, Clone, Copy)]
struct Interest {
    serial: u64,
    range: CustodyRange,
}

/// An answer that is due.
#[derive(Debug, Clone, Copy)]
enum Reply {
    Data {
        object: ObjectId,
        serial: u64,
        range: CustodyRange,
        prompt: bool,
    },
    Status {
        object: ObjectId,
        serial: u64,
    },
    Err {
        object: ObjectId,
        code: ErrCode,
    },
}

/// A REQ.
#[derive(Debug, Clone)]
pub struct Asking {
    /// For which object.
    pub object: ObjectId,
    /// Its number.
    pub serial: u64,
    /// The bytes, from the first on, that the receiver has in custody.
    pub taken: u64,
    /// Bytes that may be sent for it.
    pub limit: u64,
    /// The ranges that are asked for.
    pub ranges: Vec<CustodyRange>,
    /// How long it waited in this machine.
    pub waited: Duration,
}

/// The answering side of a neighbour.
#[derive(Debug, Default)]
pub struct Sender {
    offers: BTreeMap<ObjectId, Offer>,
    replies: VecDeque<Reply>,
    /// Bytes of them.
    due: u64,
}

impl Sender {
    /// Keeps an object from now on, with the bytes of this spool.
    pub fn offer(&mut self, object: ObjectId, spool: Spool) {
        self.offers.entry(object).or_insert(Offer {
            spool,
            ..Offer::default()
        });
    }

    /// Bytes of an object from `offset` on, as many as lie together there, if any.
    pub fn peek(&self, object: ObjectId, offset: u64) -> Bytes {
        let offer = self.offers.get(&object);
        offer.map_or(Bytes::new(), |offer| offer.spool.read(offset, usize::MAX))
    }

    /// Whether an object is kept.
    pub fn has(&self, object: ObjectId) -> bool {
        self.offers.contains_key(&object)
    }

    /// The bytes of an object that are available, and its length once that is known.
    pub fn extent(&self, object: ObjectId) -> Option<Extent> {
        self.offers.get(&object).map(|offer| offer.spool.extent())
    }

    /// Whether an object is complete, and still kept for its reader.
    pub fn is_finished(&self, object: ObjectId) -> bool {
        let offer = self.offers.get(&object);
        offer.is_some_and(|offer| offer.broken.is_none() && offer.spool.extent().total.is_some())
    }

    /// Whether an object still has its first byte, so that it can be offered from the beginning.
    pub fn is_intact(&self, object: ObjectId) -> bool {
        let offer = self.offers.get(&object);
        offer.is_some_and(|offer| offer.spool.begin() == 0)
    }

    /// Counts an object for this owner.
    pub fn belongs(&mut self, object: ObjectId, owner: Owner) {
        if let Some(offer) = self.offers.get_mut(&object) {
            offer.spool.belongs(owner);
        }
    }

    /// Bytes that can be written to an object before its reader lets some go, where so many are free for all. A little can
    /// always be: those who read slowly cannot stop the rest.
    pub fn room(&self, object: ObjectId, room: Room) -> usize {
        self.offers.get(&object).map_or(0, |offer| {
            let held = offer.spool.held();
            let guaranteed = room.guaranteed.saturating_sub(held as u64);
            let free = match room.is_disk_full && offer.spool.is_on_disk() {
                true => guaranteed,
                false => room.free.max(guaranteed),
            };
            KEPT.saturating_sub(held)
                .min(usize::try_from(free).unwrap_or(usize::MAX))
        })
    }

    /// Adds bytes, and sends them where they are waited for.
    pub fn write(&mut self, object: ObjectId, bytes: Bytes) {
        let offer = self.offers.get_mut(&object);
        let Some(offer) = offer.filter(|offer| offer.broken.is_none()) else {
            return;
        };
        offer.spool.append(bytes);
        self.answer_interests(object);
    }

    /// Marks the end of an object.
    pub fn finish(&mut self, object: ObjectId) {
        let Some(offer) = self.offers.get_mut(&object) else {
            return;
        };
        let end = offer.spool.end();
        offer.spool.set_total(end);
        self.answer_interests(object);
    }

    /// Sends bytes of an object that were written to disk meanwhile.
    pub fn settle(&mut self, object: ObjectId) {
        let Some(offer) = self.offers.get_mut(&object) else {
            return;
        };
        offer.spool.settle();
        if offer.early.is_some()
            && !offer.spool.is_beginning()
            && let Some(asking) = offer.early.take()
        {
            self.handle_req(&asking);
        }
        self.answer_interests(object);
    }

    /// Gives an object up: its reader is told this code.
    pub fn break_off(&mut self, object: ObjectId, code: ErrCode) {
        if let Some(offer) = self.offers.get_mut(&object) {
            // Its bytes are freed at once. The offer stays, so that a later REQ hears the code, too.
            offer.spool = offer.spool.begun_again();
            offer.interests.clear();
            offer.broken = Some(code);
            self.reply(Reply::Err { object, code });
        }
    }

    /// Lets an object go. Whether it was kept.
    pub fn let_go(&mut self, object: ObjectId) -> bool {
        self.offers.remove(&object).is_some()
    }

    /// Tells the neighbour that an object is not here.
    pub fn refuse(&mut self, object: ObjectId, code: ErrCode) {
        self.reply(Reply::Err { object, code });
    }

    /// Answers a REQ. Whether bytes were let go, so that there is room for others.
    pub fn handle_req(&mut self, asking: &Asking) -> bool {
        let object = asking.object;
        let Some(offer) = self.offers.get_mut(&object) else {
            self.reply(Reply::Err {
                object,
                code: ErrCode::Unknown,
            });
            return false;
        };
        if let Some(code) = offer.broken {
            self.reply(Reply::Err { object, code });
            return false;
        }

        // Any answer would tell the neighbour that the exchange is in custody, which it is once its file is made.
        if offer.spool.is_beginning() {
            offer.early = Some(asking.clone());
            return false;
        }

        // These bytes are in the receiver's custody now, and are asked for no more.
        let freed = offer.spool.release(asking.taken) > 0;
        let serial = asking.serial;
        let available = offer.spool.available();
        let end = offer.spool.extent().total.unwrap_or(u64::MAX);
        let mut limit = asking.limit;
        let mut due = Vec::new();
        for asked in &asking.ranges {
            // Bytes that were let go are in the receiver's custody: a REQ for them is an old one.
            let begin = asked.offset.max(offer.spool.begin()).min(asked.end());
            let asked = range(begin, asked.end());
            let to = asked.end().min(end).min(asked.offset.saturating_add(limit));
            let there = available.clamp(asked.offset, to.max(asked.offset));
            if there > asked.offset {
                due.push(range(asked.offset, there));
            }
            if to > there {
                offer.wait(serial, range(there, to));
            }
            limit = limit.saturating_sub(to.saturating_sub(asked.offset));
        }

        // An answer without bytes shows that the link is up, and how much there is to ask for.
        if due.is_empty() {
            self.reply(Reply::Status { object, serial });
        }
        for range in due {
            self.reply(Reply::Data {
                object,
                serial,
                range,
                prompt: asking.waited < PROMPT,
            });
        }
        freed
    }

    /// Whether answers are due.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Bytes that the next answer carries.
    pub fn next_size(&self) -> Option<usize> {
        self.replies.front().map(|reply| match reply {
            Reply::Data { range, .. } => range.length.min(PIECE) as usize,
            Reply::Status { .. } | Reply::Err { .. } => 0,
        })
    }

    /// The beginning of an object that was not asked for yet, if there is one and it fits.
    pub fn inline(&self, object: ObjectId, room: usize) -> Option<CustodyFrame> {
        let spool = &self.offers.get(&object)?.spool;
        let most = usize::try_from(spool.available()).ok()?;
        if most == 0 || most > room || spool.begin() > 0 {
            return None;
        }
        Some(CustodyFrame::Data {
            object,
            serial: 0,
            extent: spool.extent(),
            prompt: false,
            offset: 0,
            bytes: join(spool, 0, spool.read(0, most), most),
        })
    }

    /// The next answer, if its bytes fit into `room`; 0 bytes are always fitting.
    pub fn poll_reply(&mut self, room: usize) -> Option<CustodyFrame> {
        loop {
            let reply = self.replies.pop_front()?;
            self.due -= reply.bytes();
            let frame = match reply {
                Reply::Data {
                    object,
                    serial,
                    range,
                    prompt,
                } => self.data(object, serial, range, prompt, room),
                Reply::Status { object, serial } => {
                    self.extent(object).map(|extent| CustodyFrame::Status {
                        object,
                        serial,
                        extent,
                    })
                }
                Reply::Err { object, code } => Some(CustodyFrame::Err { object, code }),
            };
            // An object that was let go meanwhile is not wanted any more.
            if frame.is_some() {
                return frame;
            }
        }
    }

    fn data(
        &mut self,
        object: ObjectId,
        serial: u64,
        due: CustodyRange,
        prompt: bool,
        room: usize,
    ) -> Option<CustodyFrame> {
        let spool = &self.offers.get(&object)?.spool;
        let most = room.min(PIECE as usize).min(due.length as usize);
        let bytes = spool.read(due.offset, most);
        if spool.is_damaged() {
            self.break_off(object, ErrCode::Broken);
            return None;
        }
        if bytes.is_empty() {
            return None;
        }
        // Small pieces are joined: a datagram costs the same, whatever is in it.
        let bytes = join(spool, due.offset, bytes, most);
        let extent = spool.extent();
        let length = bytes.len() as u64;
        if length < due.length {
            let rest = range(due.offset + length, due.end());
            self.due += rest.length;
            self.replies.push_front(Reply::Data {
                object,
                serial,
                range: rest,
                prompt,
            });
        }

        Some(CustodyFrame::Data {
            object,
            serial,
            extent,
            prompt,
            offset: due.offset,
            bytes,
        })
    }

    fn answer_interests(&mut self, object: ObjectId) {
        let Some(offer) = self.offers.get_mut(&object) else {
            return;
        };
        let available = offer.spool.available();
        let mut due = Vec::new();
        offer.interests.retain_mut(|interest| {
            let Interest {
                serial,
                range: asked,
            } = *interest;
            let there = available.clamp(asked.offset, asked.end());
            if there > asked.offset {
                due.push(Reply::Data {
                    object,
                    serial,
                    range: range(asked.offset, there),
                    prompt: false,
                });
            }
            interest.range = range(there, asked.end());
            interest.range.length > 0
        });
        if offer.spool.is_whole()
            && let Some(Interest { serial, .. }) = offer.interests.drain(..).next_back()
        {
            // A reader that waits for more is told that there is no more.
            due.push(Reply::Status { object, serial });
        }
        due.into_iter().for_each(|reply| self.reply(reply));
    }

    /// Queues an answer. Beyond the bounds it is dropped, and the receiver asks again.
    fn reply(&mut self, reply: Reply) {
        let due = self.due + reply.bytes();
        if self.replies.len() < REPLIES && due <= DUE {
            self.due = due;
            self.replies.push_back(reply);
        }
    }
}

impl Reply {
    /// Bytes of the object that it carries.
    fn bytes(&self) -> u64 {
        match self {
            Self::Data { range, .. } => range.length,
            Self::Status { .. } | Self::Err { .. } => 0,
        }
    }
}

impl Offer {
    /// Waits for bytes, of which older interests do not wait any more.
    fn wait(&mut self, serial: u64, asked: CustodyRange) {
        let mut rest = Vec::new();
        for known in self.interests.drain(..) {
            let CustodyRange { offset, .. } = known.range;
            let end = known.range.end();
            let before = (offset, end.min(asked.offset));
            let behind = (offset.max(asked.end()), end);
            let left = [before, behind].into_iter().filter(|(from, to)| from < to);
            let left = left.map(|(from, to)| range(from, to));
            rest.extend(left.map(|range| Interest { range, ..known }));
        }
        rest.push(Interest {
            serial,
            range: asked,
        });
        // Where there are too many, the receiver asks again.
        rest.truncate(INTERESTS);
        self.interests = rest;
    }
}

fn join(spool: &Spool, offset: u64, first: Bytes, most: usize) -> Bytes {
    if first.len() >= most {
        return first;
    }
    let mut joined = Vec::with_capacity(most);
    joined.extend_from_slice(&first);
    while joined.len() < most {
        let next = spool.read(offset + joined.len() as u64, most - joined.len());
        if next.is_empty() {
            break;
        }
        joined.extend_from_slice(&next);
    }
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_proto::custody::ObjectPart;

    #[test]
    fn bytes_that_are_asked_for_anew_before_they_are_here_are_sent_once() {
        let object = ObjectId {
            exchange: [7; 16],
            part: ObjectPart::Response,
        };
        let mut sender = Sender::default();
        sender.offer(object, Spool::default());
        for (serial, asked) in [(1, range(0, 5000)), (2, range(1000, 2000))] {
            sender.handle_req(&Asking {
                object,
                serial,
                taken: 0,
                limit: asked.length,
                ranges: vec![asked],
                waited: Duration::ZERO,
            });
        }
        sender.write(object, vec![7; 6000].into());

        let mut sent = Vec::new();
        while let Some(frame) = sender.poll_reply(usize::MAX) {
            if let CustodyFrame::Data { offset, bytes, .. } = frame {
                sent.push((offset, offset + bytes.len() as u64));
            }
        }
        sent.sort_unstable();
        let ends: Vec<_> = sent.iter().map(|(_, end)| *end).collect();
        let mut begins: Vec<_> = sent.iter().map(|(begin, _)| *begin).collect();
        begins.push(5000);
        assert_eq!(begins[0], 0);
        assert_eq!(begins[1..], ends, "no gap and no byte twice");
    }
}

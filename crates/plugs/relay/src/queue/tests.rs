//! Queues beside the simplest model of what a member must get.

use std::time::Duration;

use super::*;

fn owner() -> Arc<Account> {
    Arc::new(Account::new("user".into(), Arc::default()))
}

fn message(sequence: u64, length: usize) -> Message {
    Message {
        sequence,
        content_type: None,
        topic: None,
        expires: None,
        is_reliable: false,
        proof: None,
        came: Instant::now(),
        data: Bytes::from(vec![0; length]),
        part: Part::Whole,
    }
}

fn bounds(messages: usize) -> MemberBounds {
    MemberBounds {
        bytes: messages * message(0, 100).cost(),
        overflow: Overflow::Newest,
    }
}

/// All that waits for the member: sequences, and gaps as negative counts.
fn drain(queue: &mut Queue, id: MemberId, now: Instant) -> Vec<i64> {
    let mut all = Vec::new();
    while let Some(step) = queue.next(id, 250, now) {
        match step {
            Step::Gap(gap) => all.push(-gap.count.cast_signed()),
            Step::Messages(range) => {
                let sequences = queue.messages(&range);
                all.extend(sequences.map(|message| message.sequence.cast_signed()));
                queue.taken(id, &range);
            }
        }
    }
    all
}

fn push(queue: &mut Queue, message: Message) -> Enqueued {
    queue.push(&Arc::new(message), Room::Unknown)
}

#[test]
fn a_member_gets_what_comes_after_it_joined_and_nothing_is_kept_then() {
    let mut queue = Queue::default();
    let early = queue.join(bounds(9), owner());
    push(&mut queue, message(1, 100));
    let late = queue.join(bounds(9), owner());
    let enqueued = push(&mut queue, message(2, 100));
    let both = Enqueued {
        receivers: 2,
        enqueued: 2,
        has_relays: false,
    };
    assert_eq!(enqueued, both);
    let now = Instant::now();
    assert_eq!(drain(&mut queue, early, now), [1, 2]);
    assert_ne!(queue.bytes(), 0);
    assert_eq!(drain(&mut queue, late, now), [2]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn a_member_without_room_is_told_how_many_it_lost_and_where() {
    let mut queue = Queue::default();
    let slow = queue.join(bounds(2), owner());
    let fast = queue.join(bounds(9), owner());
    for sequence in 1..=4 {
        push(&mut queue, message(sequence, 100));
    }
    let now = Instant::now();
    assert_eq!(drain(&mut queue, fast, now), [1, 2, 3, 4]);
    push(&mut queue, message(5, 100));
    assert_eq!(drain(&mut queue, slow, now), [1, 2, -3]);
    push(&mut queue, message(6, 100));
    assert_eq!(drain(&mut queue, slow, now), [6]);
    assert_eq!(drain(&mut queue, fast, now), [5, 6]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn the_oldest_messages_are_lost_where_that_is_wanted() {
    let mut queue = Queue::default();
    let oldest = MemberBounds {
        overflow: Overflow::Oldest,
        ..bounds(2)
    };
    let member = queue.join(oldest, owner());
    for sequence in 1..=5 {
        push(&mut queue, message(sequence, 100));
    }
    assert_eq!(drain(&mut queue, member, Instant::now()), [-3, 4, 5]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn a_message_that_is_too_old_is_a_gap() {
    let mut queue = Queue::default();
    let member = queue.join(bounds(9), owner());
    let now = Instant::now();
    let short = |sequence| Message {
        expires: Some(now + Duration::from_secs(2)),
        ..message(sequence, 100)
    };
    push(&mut queue, message(1, 100));
    push(&mut queue, short(2));
    push(&mut queue, short(3));
    push(&mut queue, message(4, 100));
    let later = now + Duration::from_secs(3);
    assert_eq!(drain(&mut queue, member, later), [1, -2, 4]);
}

#[test]
fn a_later_message_of_a_topic_replaces_the_one_that_waits() {
    let mut queue = Queue::default();
    let slow = queue.join(bounds(2), owner());
    let fast = queue.join(bounds(9), owner());
    let about = |sequence| Message {
        topic: Some(Bytes::from_static(b"t")),
        ..message(sequence, 100)
    };
    let now = Instant::now();
    push(&mut queue, about(1));
    assert_eq!(drain(&mut queue, fast, now), [1]);
    push(&mut queue, about(2));
    push(&mut queue, message(3, 100));
    push(&mut queue, about(4));
    assert_eq!(drain(&mut queue, fast, now), [3, 4]);
    assert_eq!(drain(&mut queue, slow, now), [3, 4]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn a_member_that_leaves_takes_its_share_with_it() {
    let mut queue = Queue::default();
    let leaving = queue.join(bounds(2), owner());
    let staying = queue.join(bounds(9), owner());
    for sequence in 1..=4 {
        push(&mut queue, message(sequence, 100));
    }
    queue.leave(leaving);
    assert_eq!(drain(&mut queue, staying, Instant::now()), [1, 2, 3, 4]);
    assert_eq!(queue.bytes(), 0);
}

/// What a member must get, kept in the simplest way.
struct Model {
    id: MemberId,
    bounds: MemberBounds,
    waiting: VecDeque<(i64, usize, Option<u8>)>,
    got: Vec<i64>,
    wanted: Vec<i64>,
}

impl Model {
    fn lose(&mut self) {
        match self.waiting.back_mut() {
            Some((count, 0, None)) if *count < 0 => *count -= 1,
            _ => self.waiting.push_back((-1, 0, None)),
        }
    }

    fn bytes(&self) -> usize {
        self.waiting.iter().map(|(_, cost, _)| cost).sum()
    }

    fn push(&mut self, sequence: i64, cost: usize, topic: Option<u8>) {
        self.waiting
            .retain(|(_, _, other)| topic.is_none() || *other != topic);
        if self.bytes() == 0 || self.bytes() + cost <= self.bounds.bytes {
            self.waiting.push_back((sequence, cost, topic));
        } else {
            self.lose();
        }
    }
}

#[test]
fn whatever_happens_a_member_gets_its_messages_in_order_or_hears_of_each_loss() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queue = Queue::default();
        let mut models: Vec<Model> = Vec::new();
        let now = Instant::now();
        for sequence in 1..60 {
            match random.u8(0..8) {
                0 => {
                    let bounds = bounds(random.usize(1..6));
                    models.push(Model {
                        id: queue.join(bounds, owner()),
                        bounds,
                        waiting: VecDeque::new(),
                        got: Vec::new(),
                        wanted: Vec::new(),
                    });
                }
                1 if !models.is_empty() => {
                    let model = models.swap_remove(random.usize(0..models.len()));
                    queue.leave(model.id);
                }
                2 | 3 if !models.is_empty() => {
                    let at = random.usize(0..models.len());
                    let model = &mut models[at];
                    model.got.extend(drain(&mut queue, model.id, now));
                    let waiting = model.waiting.drain(..);
                    model.wanted.extend(waiting.map(|(number, _, _)| number));
                }
                _ => {
                    let topic = random.u8(0..4);
                    let topic = (topic < 2).then_some(topic);
                    let sent = Message {
                        topic: topic.map(|topic| Bytes::copy_from_slice(&[topic])),
                        ..message(sequence, random.usize(0..200))
                    };
                    let cost = sent.cost();
                    push(&mut queue, sent);
                    for model in &mut models {
                        model.push(sequence.cast_signed(), cost, topic);
                    }
                }
            }
        }
        for model in &mut models {
            model.got.extend(drain(&mut queue, model.id, now));
            let waiting = model.waiting.drain(..);
            model.wanted.extend(waiting.map(|(number, _, _)| number));
            assert_eq!(summed(&model.got), summed(&model.wanted), "seed {seed}");
        }
        assert_eq!(queue.bytes(), 0, "seed {seed}");
    }
}

/// With neighbouring gaps as one: where a message between them was replaced, they may be told apart.
fn summed(all: &[i64]) -> Vec<i64> {
    let mut summed: Vec<i64> = Vec::new();
    for &number in all {
        match summed.last_mut() {
            Some(last) if *last < 0 && number < 0 => *last += number,
            _ => summed.push(number),
        }
    }
    summed
}

#[test]
fn a_relay_counts_for_its_receivers_until_it_leaves() {
    let mut queue = Queue::default();
    let relay = queue.join(bounds(9), owner());
    let _own = queue.join(bounds(9), owner());
    queue.weigh(relay, 20);
    queue.weigh(relay, 7);
    let enqueued = push(&mut queue, message(1, 100));
    assert_eq!((enqueued.receivers, enqueued.enqueued), (8, 8));
    assert!(enqueued.has_relays);
    queue.weigh(relay, u64::MAX);
    assert_eq!(queue.receivers().receivers, MOST_RECEIVERS + 1);
    queue.leave(relay);
    let enqueued = push(&mut queue, message(2, 100));
    assert_eq!(enqueued.receivers, 1);
    assert!(!enqueued.has_relays);
}

#[test]
fn a_loss_on_the_way_stands_where_the_messages_would_have_come() {
    let mut queue = Queue::default();
    let member = queue.join(bounds(9), owner());
    push(&mut queue, message(1, 100));
    let gap = |count| Gap {
        count,
        reason: GapReason::Full,
    };
    // However many there are, they take the room of one.
    for _ in 0..1000 {
        queue.lose(gap(2));
    }
    push(&mut queue, message(2003, 100));
    queue.lose(gap(0));
    let now = Instant::now();
    assert_eq!(drain(&mut queue, member, now), [1, -2000, 2003, 0]);
}

/// A piece of the long message of this number.
fn piece(sequence: u64, part: Part) -> Arc<Message> {
    let message = Message {
        part,
        ..message(sequence, 100)
    };
    Arc::new(message)
}

#[test]
fn only_those_who_take_pieces_and_had_the_first_get_a_long_message() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let follows = queue.join(bounds(9), owner());
    queue.takes_pieces(follows, true);
    let lines = queue.join(bounds(9), owner());
    push(&mut queue, message(1, 100));
    let begun = queue.push_piece(&piece(2, Part::First));
    assert_eq!((begun.receivers, begun.enqueued), (2, 1));
    let late = queue.join(bounds(9), owner());
    queue.takes_pieces(late, true);
    queue.push_piece(&piece(2, Part::Further));
    queue.push_piece(&piece(2, Part::Last));
    push(&mut queue, message(3, 100));
    assert_eq!(drain(&mut queue, follows, now), [1, 2, 2, 2, 3]);
    // Told of once, before the next message.
    assert_eq!(drain(&mut queue, lines, now), [1, -1, 3]);
    assert_eq!(drain(&mut queue, late, now), [3]);
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn a_stream_that_takes_the_place_in_the_midst_gets_no_further_piece() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let member = queue.join(bounds(9), owner());
    queue.takes_pieces(member, true);
    queue.push_piece(&piece(1, Part::First));
    assert_eq!(drain(&mut queue, member, now), [1]);
    queue.takes_pieces(member, true);
    queue.push_piece(&piece(1, Part::Further));
    queue.push_piece(&piece(1, Part::Abort));
    assert_eq!(drain(&mut queue, member, now), [0; 0]);
    push(&mut queue, message(2, 100));
    assert_eq!(drain(&mut queue, member, now), [2]);
    queue.push_piece(&piece(3, Part::First));
    assert_eq!(drain(&mut queue, member, now), [3]);
}

#[test]
fn pieces_wait_for_those_who_follow_alone_and_none_of_them_is_dropped() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let oldest = MemberBounds {
        overflow: Overflow::Oldest,
        ..bounds(2)
    };
    let member = queue.join(oldest, owner());
    queue.takes_pieces(member, true);
    let full = queue.join(bounds(1), owner());
    push(&mut queue, message(1, 100));
    assert!(!queue.has_room(2, message(2, 100).cost()));
    let first = piece(2, Part::First);
    assert!(queue.has_room_for(&first));
    queue.push_piece(&first);
    assert!(!queue.has_room_for(&piece(2, Part::Last)));
    // The message before it makes room, its piece does not: then the one that comes is lost.
    push(&mut queue, message(3, 100));
    push(&mut queue, message(4, 100));
    assert_eq!(drain(&mut queue, member, now), [-1, 2, 3, -1]);
    assert_eq!(drain(&mut queue, full, now), [1, -1, -2]);
}

#[test]
fn members_with_shares_get_each_message_once_between_them() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let share = |text: &str| text.parse().ok();
    let odd = queue.join(bounds(2), owner());
    queue.stripe(odd, share("1/2"));
    let even = queue.join(bounds(9), owner());
    queue.stripe(even, share("2/2"));
    for sequence in 1..=6 {
        let enqueued = push(&mut queue, message(sequence, 100));
        assert_eq!(enqueued.receivers, 1);
        assert_eq!(enqueued.enqueued, u64::from(sequence != 5));
    }
    // The first has no room for the seventh, and the second need not have any for it.
    assert!(!queue.has_room(7, message(7, 100).cost()));
    assert!(queue.has_room(8, message(8, 100).cost()));
    assert_eq!(drain(&mut queue, odd, now), [1, 3, -1]);
    assert_eq!(drain(&mut queue, even, now), [2, 4, 6]);
    assert_eq!(queue.bytes(), 0);

    // A way that is gone leaves its share to another one, which gets all from then on.
    queue.leave(odd);
    queue.stripe(even, None);
    push(&mut queue, message(7, 100));
    assert_eq!(drain(&mut queue, even, now), [7]);
}

#[test]
fn pieces_of_a_long_message_come_by_the_way_that_has_its_number() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let ways = ["1/2", "2/2"].map(|share| {
        let member = queue.join(bounds(9), owner());
        queue.takes_pieces(member, true);
        queue.stripe(member, share.parse().ok());
        member
    });
    for part in [Part::First, Part::Further, Part::Last] {
        let enqueued = queue.push_piece(&piece(1, part));
        assert_eq!((enqueued.receivers, enqueued.enqueued), (1, 1));
    }
    push(&mut queue, message(2, 100));
    assert_eq!(drain(&mut queue, ways[0], now), [1, 1, 1]);
    assert_eq!(drain(&mut queue, ways[1], now), [2]);
}

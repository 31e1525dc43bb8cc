//! A week of a relay in simulated time: subscribers come, lose their streams, come again and leave, publishers publish, channels go from relay
//! to relay. Whatever happens, each subscriber sees each message once or hears of its loss, and what the relays hold does not grow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::relay::fields::Publish;
use hermes_proto::relay::{Position, RelayFrame};

use crate::channel::{Draft, Unpublished};
use crate::form::Form;
use crate::settings::{RelaySettings, Rules};
use crate::share::{Sending, Sent};
use crate::space::{Asking, Space};
use crate::subscription::{Subscription, missed};

/// The simulated time.
const WEEK: Duration = Duration::from_hours(7 * 24);

/// The time between two events.
const STEP: Duration = Duration::from_secs(5);

/// Channels, each with a relay that it is at.
const CHANNELS: usize = 6;

/// Subscribers that there are at most.
const SUBSCRIBERS: usize = 24;

/// A subscriber as a program: it knows what it has seen, and what it was told to have missed.
struct SimulatedReader {
    channel: usize,
    subscription: Arc<Subscription>,
    /// The number of its stream; `None` while it is away.
    stream: Option<u64>,
    at: Position,
    /// Messages that it heard of as lost, and how often it could not know how many.
    lost: u64,
    seen: u64,
    begun: u64,
    /// Whether it was told of losses when it came again. A relay knows the position of its last message only, and tells again of losses behind that.
    has_resumed: bool,
}

/// Two relays, of which each channel is at one.
struct Week {
    random: Rng,
    now: Instant,
    relays: [Arc<Space>; 2],
    rules: Arc<Rules>,
    /// The relay of each channel.
    homes: [usize; CHANNELS],
    readers: Vec<SimulatedReader>,
    published: [u64; CHANNELS],
    counts: BTreeMap<&'static str, u64>,
    peak: usize,
}

impl Week {
    fn new(seed: u64) -> Self {
        let settings: RelaySettings = serde_json::from_value(serde_json::json!({
            "timeout": "2h", "max_timeout": "24h", "queue": "8KiB", "grace": "30s"
        }))
        .unwrap();
        Self {
            random: Rng::with_seed(seed),
            now: Instant::now(),
            relays: [Arc::default(), Arc::default()],
            rules: Arc::new(settings.rules().unwrap()),
            homes: [0; CHANNELS],
            readers: Vec::new(),
            published: [0; CHANNELS],
            counts: BTreeMap::new(),
            peak: 0,
        }
    }

    fn count(&mut self, event: &'static str) {
        *self.counts.entry(event).or_default() += 1;
    }

    fn key(channel: usize) -> String {
        format!("hub:80/c/{channel}")
    }

    /// Subscribes at a relay, behind a position where the channel comes from another one.
    fn subscribe(
        &self,
        relay: usize,
        channel: usize,
        begins: Option<Position>,
    ) -> Option<Arc<Subscription>> {
        let space = &self.relays[relay];
        let owner = space.account(&format!("user {channel}"));
        let asking = Asking {
            key: &Self::key(channel),
            owner: &owner,
            user: None,
            rules: &self.rules,
            mirror: None,
            begins,
        };
        space
            .subscribe(&asking, self.now + self.rules.timeout, self.now)
            .ok()
    }

    fn join(&mut self) {
        if self.readers.len() >= SUBSCRIBERS {
            return;
        }
        let channel = self.random.usize(..CHANNELS);
        let Some(subscription) = self.subscribe(self.homes[channel], channel, None) else {
            return;
        };
        let sequence = subscription
            .share
            .lock()
            .position(subscription.member)
            .unwrap();
        let at = Position {
            epoch: subscription.channel.epoch,
            sequence,
        };
        let stream = subscription.attach();
        self.readers.push(SimulatedReader {
            channel,
            subscription,
            stream,
            at,
            lost: 0,
            seen: 0,
            begun: sequence,
            has_resumed: false,
        });
        self.count("joined");
    }

    fn publish(&mut self) {
        let channel = self.random.usize(..CHANNELS);
        let length = self.random.usize(1..2000);
        let draft = Draft {
            how: Publish {
                is_reliable: self.random.u8(..4) == 0,
                max_age: (self.random.u8(..8) == 0).then_some(5),
                ..Publish::default()
            },
            content_type: None,
            data: Bytes::from(vec![0; length]),
            proof: None,
            publisher: None,
        };
        let space = &self.relays[self.homes[channel]];
        let Some(to) = space.channel(&Self::key(channel)) else {
            return;
        };
        match to.publish(&draft, self.now) {
            Ok(delivered) => {
                assert_eq!(delivered.receivers, delivered.enqueued + delivered.dropped);
                assert!(!draft.how.is_reliable || delivered.dropped == 0);
                self.published[channel] += 1;
                self.count("published");
            }
            Err(Unpublished::NoRoom(_)) => self.count("without room"),
            Err(Unpublished::Stopped | Unpublished::Gone) => panic!("the channel is at home"),
            Err(Unpublished::Passing) => panic!("no long message is published here"),
        }
    }

    /// A subscriber takes some of its waiting messages, or all; whether it is still there.
    fn read(&mut self, index: usize, pieces: usize) -> bool {
        let now = self.now;
        let reader = &mut self.readers[index];
        let Some(stream) = reader.stream else {
            return true;
        };
        let sending = Sending {
            member: reader.subscription.member,
            stream,
            form: Form::Native,
            events: None,
        };
        let mut decoder = CapsuleDecoder::new(1 << 20);
        let mut ended = false;
        for _ in 0..pieces {
            let mut taken = Vec::new();
            let mut share = reader.subscription.share.lock();
            let cx = Context::from_waker(Waker::noop());
            let sent = share.pieces(&sending, &cx, now, &mut taken);
            drop(share);
            taken.into_iter().for_each(|piece| decoder.push(piece));
            match sent {
                Sent::Open => {}
                Sent::Nothing => break,
                Sent::Ended | Sent::Replaced | Sent::Lost(_) => {
                    ended = true;
                    break;
                }
            }
        }
        while let Some(capsule) = decoder.next().unwrap() {
            match RelayFrame::decode(&capsule).unwrap() {
                RelayFrame::Adu(adu) => {
                    assert!(adu.sequence > reader.at.sequence, "a message came twice");
                    reader.at.sequence = adu.sequence;
                    reader.seen += 1;
                }
                RelayFrame::Gap(gap) => {
                    assert_ne!(
                        gap.count, 0,
                        "no channel begins anew while it has subscribers"
                    );
                    reader.lost += gap.count;
                }
                _ => {}
            }
        }
        if ended {
            self.leave(index);
        }
        !ended
    }

    /// A subscriber has heard of all when it has seen, or was told of, each message since it began.
    fn check(&mut self, index: usize) {
        if !self.read(index, 10_000) {
            return;
        }
        let reader = &self.readers[index];
        let channel = &reader.subscription.channel;
        let since = channel.sequence() - reader.begun;
        let heard = reader.seen + reader.lost;
        assert!(
            reader.seen <= since && heard >= since,
            "a loss was not told: {heard} of {since}"
        );
        assert!(reader.has_resumed || heard == since, "{heard} of {since}");
    }

    fn leave(&mut self, index: usize) {
        let reader = self.readers.swap_remove(index);
        self.relays[self.homes[reader.channel]].remove(&reader.subscription);
        self.count("left");
    }

    /// The stream of a subscriber breaks off; messages on their way may be lost.
    fn break_off(&mut self, index: usize) {
        let now = self.now;
        let reader = &mut self.readers[index];
        if let Some(stream) = reader.stream.take() {
            let member = reader.subscription.member;
            reader.subscription.share.lock().gone(member, stream);
            reader.subscription.detach(stream, now);
            self.count("broken");
        }
    }

    /// A subscriber comes again, in time or too late.
    fn come_again(&mut self, index: usize) {
        let reader = &mut self.readers[index];
        if reader.stream.is_some() {
            return;
        }
        match reader.subscription.attach() {
            Some(stream) => {
                reader.has_resumed |= !reader.subscription.recover(Some(reader.at), None);
                reader.stream = Some(stream);
                self.count("came again");
            }
            None => {
                let channel = reader.channel;
                let before = reader.at;
                // Another subscription, which tells of the messages since.
                let anew = self.subscribe(self.homes[channel], channel, None).unwrap();
                let mut share = anew.share.lock();
                let sequence = share.position(anew.member).unwrap();
                let at = Position {
                    epoch: anew.channel.epoch,
                    sequence,
                };
                let gap = missed(before, at, None);
                drop(share.take_others());
                drop(share);
                let reader = &mut self.readers[index];
                match gap {
                    Some(gap) if gap.count > 0 => {
                        reader.lost += gap.count;
                        reader.has_resumed = true;
                    }
                    Some(_) => {
                        // The channel had no one else, and begins anew.
                        reader.lost = 0;
                        reader.seen = 0;
                        reader.begun = sequence;
                    }
                    None => {}
                }
                reader.at = Position {
                    epoch: anew.channel.epoch,
                    sequence,
                };
                reader.stream = anew.attach();
                reader.subscription = anew;
                self.count("began anew");
            }
        }
    }

    /// A channel goes to the other relay, as `moves` has it: it stops, subscriptions are held, the last messages are read here.
    fn hand_over(&mut self) {
        let channel = self.random.usize(..CHANNELS);
        let home = self.homes[channel];
        let Some(here) = self.relays[home].channel(&Self::key(channel)) else {
            return;
        };
        // Those who are away are not told where it goes, in this simulation: they come before.
        for index in 0..self.readers.len() {
            if self.readers[index].channel == channel {
                self.come_again(index);
            }
        }
        // From behind: one whose time is over leaves its place to the last one.
        for index in (0..self.readers.len()).rev() {
            if self.readers[index].channel == channel {
                let _ = self.read(index, 10_000);
            }
        }
        if self.readers.iter().all(|reader| reader.channel != channel) {
            return;
        }
        let Some(at) = here.stop() else {
            return;
        };
        let there = 1 - home;
        for index in 0..self.readers.len() {
            if self.readers[index].channel != channel {
                continue;
            }
            let held = self.subscribe(there, channel, Some(at)).unwrap();
            held.detach(0, self.now);
            let reader = &mut self.readers[index];
            let before = std::mem::replace(&mut reader.subscription, held);
            reader.stream = reader.subscription.attach();
            let is_whole = reader.subscription.recover(Some(reader.at), None);
            // All had been read: behind the last message there are only losses, if anything.
            reader.has_resumed |= !is_whole;
            self.relays[home].remove(&before);
        }
        here.is_gone();
        self.homes[channel] = there;
        self.count("handed over");
    }

    fn step(&mut self) {
        self.now += STEP;
        for relay in &self.relays {
            relay.tick(self.now);
        }
        let any = (!self.readers.is_empty()).then(|| self.random.usize(..self.readers.len()));
        match (self.random.u8(..20), any) {
            (0, _) => self.join(),
            (1..10, _) => self.publish(),
            (10..15, Some(index)) => {
                let pieces = self.random.usize(1..4);
                let _ = self.read(index, pieces);
            }
            (15, Some(index)) => self.break_off(index),
            (16 | 17, Some(index)) => self.come_again(index),
            (18, Some(index)) if self.random.u8(..4) == 0 => self.leave(index),
            (19, _) if self.random.u8(..8) == 0 => self.hand_over(),
            (_, Some(index)) if self.readers[index].stream.is_some() => self.check(index),
            _ => {}
        }
        let held: usize = self
            .relays
            .iter()
            .map(|relay| relay.held.load(Ordering::Relaxed))
            .sum();
        self.peak = self.peak.max(held);
    }
}

#[test]
fn a_week_of_joins_losses_and_moves_loses_no_message_unsaid_and_holds_no_more() {
    let weeks = std::env::var("HERMES_WEEKS").map_or(1, |weeks| weeks.parse().unwrap());
    (37..37 + weeks).for_each(live);
}

/// One week, and the end of it.
fn live(seed: u64) {
    let mut week = Week::new(seed);
    let end = week.now + WEEK;
    while week.now < end {
        week.step();
    }
    for event in [
        "joined",
        "published",
        "without room",
        "broken",
        "came again",
        "began anew",
        "handed over",
        "left",
    ] {
        let count = week.counts.get(event).copied().unwrap_or_default();
        assert!(count > 100, "{event}: {count}");
    }
    // A queue for each subscriber, and a message beyond it.
    let most = SUBSCRIBERS * (8 << 10) + SUBSCRIBERS * 2200;
    assert!(week.peak <= most, "{} bytes", week.peak);

    // When all have left, nothing is left of the week.
    while !week.readers.is_empty() {
        week.leave(0);
    }
    week.now += Duration::from_mins(5);
    for relay in &week.relays {
        relay.tick(week.now);
        let sizes = relay.sizes();
        assert_eq!((sizes.channels, sizes.subscriptions), (0, 0));
        assert_eq!(relay.held.load(Ordering::Relaxed), 0);
    }
}

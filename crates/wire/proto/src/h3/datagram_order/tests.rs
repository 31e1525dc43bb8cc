//! Datagrams whose payloads are their numbers.

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const WITHIN: Duration = Duration::from_millis(100);

struct Stage {
    order: DatagramOrder,
    start: Instant,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        let start = Instant::now();
        let mut order = DatagramOrder::default();
        order.wait(WITHIN);
        Self {
            order,
            start,
            now: start,
        }
    }

    /// Datagrams whose payloads are their numbers.
    fn take(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<bool> {
        let numbers = numbers.into_iter();
        let taken = numbers.map(|number| {
            let payload = Bytes::copy_from_slice(&number.to_be_bytes());
            self.order.handle_datagram(number, payload, self.now)
        });
        taken.collect()
    }

    /// Lets time pass until so long after the start.
    fn at(&mut self, time: Duration) {
        self.now = self.start + time;
        self.order.handle_time(self.now);
    }

    fn left(&mut self) -> Vec<u64> {
        let left = std::iter::from_fn(|| self.order.poll_datagram());
        left.map(|payload| u64::from_be_bytes(payload[..].try_into().unwrap()))
            .collect()
    }
}

#[test]
fn a_group_that_is_sent_again_leaves_before_those_that_came_ahead_of_it() {
    let mut stage = Stage::new();
    stage.take([0, 1, 4, 5]);
    assert_eq!(stage.left(), [0, 1]);
    assert_eq!(stage.order.due(), Some(stage.start + WITHIN));
    stage.at(40 * MS);
    stage.take([2]);
    assert_eq!(stage.left(), [2]);
    stage.take([3]);
    assert_eq!(stage.left(), [3, 4, 5]);
    assert_eq!(stage.order.due(), None);
}

#[test]
fn what_does_not_come_in_time_is_given_up_and_holds_no_other_back_for_longer() {
    let mut stage = Stage::new();
    stage.take([1]);
    stage.at(60 * MS);
    stage.take([2, 4]);
    stage.at(99 * MS);
    assert_eq!(stage.left(), Vec::<u64>::new());
    stage.at(WITHIN);
    assert_eq!(stage.left(), [1, 2]);
    assert_eq!(stage.order.due(), Some(stage.start + 60 * MS + WITHIN));
    stage.at(60 * MS + WITHIN);
    assert_eq!(stage.left(), [4]);
    assert_eq!(stage.take([0, 3, 4, 5]), [false, false, false, true]);
    assert_eq!(stage.left(), [5], "late ones, and repeats, are dropped");
}

#[test]
fn datagrams_leave_as_they_come_until_they_are_to_wait() {
    let mut stage = Stage::new();
    stage.order = DatagramOrder::default();
    stage.take([3, 1, 1]);
    assert_eq!(stage.left(), [3, 1, 1]);
    stage.order.wait(WITHIN);
    stage.take([4]);
    assert_eq!(stage.left(), [4], "none waits for those before");
}

#[test]
fn numbers_far_ahead_and_without_end_wait_within_bounds() {
    let mut stage = Stage::new();
    let last = (1 << 62) - 1;
    stage.take([last, u64::MAX, 0]);
    assert_eq!(stage.left(), [0]);
    stage.take((1..3000).map(|number| 2 * number));
    assert!(stage.order.waiting.len() <= WAITING);
    let large = Bytes::from(vec![0; 60_000]);
    for number in 4000..4100 {
        stage
            .order
            .handle_datagram(2 * number, large.clone(), stage.now);
    }
    assert!(stage.order.waiting_bytes <= WAITING_BYTES);

    stage.order.end();
    assert_eq!((stage.order.waiting_bytes, stage.order.due()), (0, None));
    while stage.order.poll_datagram().is_some() {}
    assert_eq!(stage.take([last, 9000]), [false, false]);
}

#[test]
fn those_that_have_left_behind_one_that_waits_for_long_are_forgotten() {
    let mut stage = Stage::new();
    stage.take([1 << 62]);
    for number in 0..4 * WAITING as u64 {
        stage.take([2 * number + 1, 2 * number]);
        assert_eq!(stage.left(), [2 * number, 2 * number + 1]);
    }
    assert!(stage.order.arrivals.len() <= 2 * WAITING);
    assert_eq!(stage.order.due(), Some(stage.start + WITHIN));
}

/// A path on which each packet of a group may be lost, until QUIC notices that by an acknowledgement of a later one and sends it again.
struct LossyPath {
    random: fastrand::Rng,
    /// Thousandths of packets that are lost.
    loss: u32,
    one_way: Duration,
}

impl LossyPath {
    /// When a packet arrives that leaves at this time first.
    fn arrival(&mut self, leaves: Duration) -> Duration {
        let mut leaves = leaves;
        while self.random.u32(..1000) < self.loss {
            leaves += 2 * self.one_way * 9 / 8 + 10 * MS;
        }
        leaves + self.one_way
    }
}

/// The numbers of the datagrams of a film of 20 s that leave, with their delays: a picture of six packets each 33 ms.
fn film(mut path: LossyPath) -> Vec<(u64, Duration)> {
    let mut arrivals = Vec::new();
    for number in 0..3600 {
        let leaves = 33 * MS * (number / 6);
        arrivals.push((path.arrival(leaves), u64::from(number)));
    }
    arrivals.sort_unstable();

    let mut stage = Stage::new();
    let mut left = Vec::new();
    for (arrival, number) in arrivals {
        while let Some(due) = stage.order.due().map(|due| due - stage.start)
            && due <= arrival
        {
            stage.at(due);
            left.extend(stage.delays(due));
        }
        stage.at(arrival);
        stage.take([number]);
        left.extend(stage.delays(arrival));
    }
    left
}

impl Stage {
    /// The datagrams that leave now, and their delays on the way.
    fn delays(&mut self, now: Duration) -> Vec<(u64, Duration)> {
        let delay = |number| now - 33 * MS * u32::try_from(number / 6).unwrap();
        let left = self.left().into_iter();
        left.map(|number| (number, delay(number))).collect()
    }
}

#[test]
fn a_film_over_a_path_that_loses_packets_leaves_whole_and_in_order_within_the_bound() {
    for loss in [10, 30, 50] {
        let one_way = 10 * MS;
        let left = film(LossyPath {
            random: fastrand::Rng::with_seed(1),
            loss,
            one_way,
        });
        assert!(left.iter().map(|(number, _)| *number).eq(0..3600));
        let late = left.iter().filter(|(_, delay)| *delay > one_way).count();
        let longest = left.iter().map(|(_, delay)| *delay).max().unwrap();
        assert!(late > 0 && longest <= one_way + WITHIN, "{longest:?}");
    }
}

#[test]
fn a_film_over_a_path_that_is_too_long_to_send_again_is_in_order_and_not_later_than_the_bound() {
    let one_way = 80 * MS;
    let left = film(LossyPath {
        random: fastrand::Rng::with_seed(1),
        loss: 30,
        one_way,
    });
    assert!(left.is_sorted_by(|one, other| one.0 < other.0));
    assert!((3400..3550).contains(&left.len()), "{}", left.len());
    let longest = left.iter().map(|(_, delay)| *delay).max().unwrap();
    assert!(longest <= one_way + WITHIN, "{longest:?}");
}

proptest! {
    #[test]
    fn however_groups_come_each_datagram_leaves_once_and_in_order(
        numbers in proptest::collection::vec(0_u64..200, 0..300),
        steps in proptest::collection::vec(0_u32..30, 300),
    ) {
        let mut stage = Stage::new();
        let mut time = Duration::ZERO;
        let mut taken = 0;
        let mut left = Vec::new();
        for (number, step) in numbers.iter().zip(steps) {
            time += MS * step / 10;
            stage.at(time);
            taken += stage.take([*number]).iter().filter(|taken| **taken).count();
            left.extend(stage.left());
            prop_assert!(stage.order.due().is_none_or(|due| due > stage.now));
            prop_assert!(stage.order.waiting.is_empty() == stage.order.due().is_none());
        }
        stage.at(time + WITHIN);
        left.extend(stage.left());
        prop_assert!(left.is_sorted_by(|one, other| one < other));
        prop_assert_eq!(left.len(), taken);
    }
}

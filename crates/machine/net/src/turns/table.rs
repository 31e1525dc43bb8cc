//! The next turn: a machine without clocks, tasks or locks.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use super::Asker;

/// Bounds of turns.
#[derive(Debug, Clone, Copy)]
pub struct TurnBounds {
    /// Turns at once.
    pub at_once: usize,
    /// Turns at once within a group.
    pub of_group: usize,
    /// Whether an asker has at most as many turns as are free, so that there is always one for another. Otherwise one who is alone
    /// has all of them, and another waits for the end of one: right where turns are short.
    pub spare: bool,
    /// Waiting for a turn, of all askers.
    pub waiting: usize,
    /// Waiting for a turn, of one asker.
    pub waiting_of_asker: usize,
}

/// The queue is so long that another waiter would be of no use, or would take a place of askers who
/// wait for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many wait for their turn")]
pub struct NoTurn;

/// A waiter for a turn.
pub trait Waiter {
    /// Whether it waits still. From the moment that it does not, [`TurnTable::leave`] has to know.
    fn is_waiting(&self) -> bool;
}

/// A turn that was granted.
#[derive(Debug)]
pub struct Granted<T, G = ()> {
    /// Its asker.
    pub asker: Asker,
    /// The group that it asked for.
    pub group: Option<G>,
    /// Its waiter.
    pub waiter: T,
}

/// The turns in use, and the waiters.
///
/// Waiting askers take turns, regardless of how much each waits for. If the queue is full, the last
/// waiter of the asker with the most is displaced: a flood displaces itself.
#[derive(Debug)]
pub struct TurnTable<T, G = ()> {
    bounds: TurnBounds,
    running: usize,
    waiting: usize,
    askers: HashMap<Asker, AskerLine<T, G>>,
    /// Turns of each asker in each group.
    groups: HashMap<G, HashMap<Asker, usize>>,
    /// Askers in the order in which they are next.
    order: VecDeque<Asker>,
}

/// The turns and waiters of one asker.
#[derive(Debug)]
struct AskerLine<T, G> {
    running: usize,
    /// Entries of `queue` that still wait.
    waiting: usize,
    queue: VecDeque<(Option<G>, T)>,
    /// Whether the asker stands in the order.
    is_next: bool,
}

impl<T, G> Default for AskerLine<T, G> {
    fn default() -> Self {
        Self {
            running: 0,
            waiting: 0,
            queue: VecDeque::new(),
            is_next: false,
        }
    }
}

impl<T: Waiter, G: Clone + Eq + Hash> TurnTable<T, G> {
    /// Without turns.
    #[must_use]
    pub fn new(bounds: TurnBounds) -> Self {
        Self {
            bounds,
            running: 0,
            waiting: 0,
            askers: HashMap::new(),
            groups: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Sets how many have a turn at once.
    pub fn set_at_once(&mut self, at_once: usize) {
        self.bounds.at_once = at_once;
    }

    /// Turns that are taken.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// The number of waiters.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a turn if it can be had without waiting.
    pub fn try_begin(&mut self, asker: Asker, group: Option<&G>) -> bool {
        let own = self.askers.get(&asker).map_or(0, |line| line.running);
        let may = self.has_turn(own) && self.has_turn_in(group, asker);
        if may {
            self.begin(asker, group);
        }
        may
    }

    /// Waits for a turn. Returns who has to go instead, if anyone.
    ///
    /// # Errors
    /// No more may wait.
    pub fn enter(
        &mut self,
        asker: Asker,
        group: Option<G>,
        waiter: T,
    ) -> Result<Option<T>, NoTurn> {
        let own = self.askers.get(&asker).map_or(0, |line| line.waiting);
        if own >= self.bounds.waiting_of_asker {
            return Err(NoTurn);
        }
        let displaced = if self.waiting >= self.bounds.waiting {
            Some(self.displace(own).ok_or(NoTurn)?)
        } else {
            None
        };

        let line = self.askers.entry(asker).or_default();
        line.queue.push_back((group, waiter));
        line.waiting += 1;
        self.waiting += 1;
        if !line.is_next {
            line.is_next = true;
            self.order.push_back(asker);
        }
        Ok(displaced)
    }

    /// A waiting question of this asker is given up; it says so itself when its turn comes.
    pub fn leave(&mut self, asker: Asker) {
        let Some(line) = self.askers.get_mut(&asker) else {
            return;
        };
        line.waiting = line.waiting.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);

        // Waiters that have left are swept when they are half of the queue: a constant cost for
        // each.
        if line.queue.len() > 2 * line.waiting {
            line.queue.retain(|(_, waiter)| waiter.is_waiting());
        }
        if self.order.len() > 2 * self.waiting {
            self.sweep_order();
        }
        self.forget(asker);
    }

    /// Gives the next turn that is free to one who waits.
    pub fn grant(&mut self) -> Option<Granted<T, G>> {
        for _ in 0..self.order.len() {
            if self.running >= self.bounds.at_once {
                return None;
            }
            let asker = self.order.pop_front()?;
            let found = self.take_first(asker);
            self.stand(asker);

            if let Some((group, waiter)) = found {
                self.begin(asker, group.as_ref());
                return Some(Granted {
                    asker,
                    group,
                    waiter,
                });
            }
        }
        None
    }

    /// A turn is over.
    pub fn end(&mut self, asker: Asker, group: Option<&G>) {
        self.running = self.running.saturating_sub(1);
        if let Some(line) = self.askers.get_mut(&asker) {
            line.running = line.running.saturating_sub(1);
        }
        self.forget(asker);

        let Some(group) = group else { return };
        let Some(turns) = self.groups.get_mut(group) else {
            return;
        };
        if let Some(own) = turns.get_mut(&asker) {
            *own -= 1;
            if *own == 0 {
                turns.remove(&asker);
            }
        }
        if turns.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Takes out all that wait.
    pub fn clear_waiting(&mut self) -> Vec<T> {
        let mut waiters = Vec::new();
        for asker in std::mem::take(&mut self.order) {
            if let Some(line) = self.askers.get_mut(&asker) {
                let queue = std::mem::take(&mut line.queue);
                waiters.extend(queue.into_iter().map(|(_, waiter)| waiter));
                line.waiting = 0;
                line.is_next = false;
            }
            self.forget(asker);
        }
        self.waiting = 0;
        waiters
    }

    /// Whether an asker who has `own` turns may have one more.
    fn has_turn(&self, own: usize) -> bool {
        let free = self.bounds.at_once.saturating_sub(self.running);
        if self.bounds.spare {
            own < free
        } else {
            free > 0
        }
    }

    fn has_turn_in(&self, group: Option<&G>, asker: Asker) -> bool {
        let Some(turns) = group.and_then(|group| self.groups.get(group)) else {
            return true;
        };
        let own = turns.get(&asker).copied().unwrap_or_default();
        let free = self.bounds.of_group.saturating_sub(turns.values().sum());
        own < free
    }

    fn begin(&mut self, asker: Asker, group: Option<&G>) {
        self.running += 1;
        self.askers.entry(asker).or_default().running += 1;
        if let Some(group) = group {
            let turns = self.groups.entry(group.clone()).or_default();
            *turns.entry(asker).or_default() += 1;
        }
    }

    /// Takes out the first of an asker who may have a turn now.
    fn take_first(&mut self, asker: Asker) -> Option<(Option<G>, T)> {
        let line = self.askers.get_mut(&asker)?;
        let own = line.running;
        let mut queue = std::mem::take(&mut line.queue);
        while queue
            .front()
            .is_some_and(|(_, waiter)| !waiter.is_waiting())
        {
            queue.pop_front();
        }

        let found = if self.has_turn(own) {
            let mut waiting = queue.iter();
            let may = |(group, waiter): &(Option<G>, T)| {
                waiter.is_waiting() && self.has_turn_in(group.as_ref(), asker)
            };
            waiting.position(may)
        } else {
            None
        };
        let taken = found.and_then(|at| queue.remove(at));

        let line = self.askers.get_mut(&asker)?;
        line.queue = queue;
        if taken.is_some() {
            line.waiting -= 1;
            self.waiting -= 1;
        }
        taken
    }

    /// The asker is the last in the order, if something of it waits.
    fn stand(&mut self, asker: Asker) {
        let Some(line) = self.askers.get_mut(&asker) else {
            return;
        };
        line.is_next = line.waiting > 0;
        if line.is_next {
            self.order.push_back(asker);
        } else {
            self.forget(asker);
        }
    }

    /// Removes askers without waiters from the order.
    fn sweep_order(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|asker| {
            let waits = self.askers.get(asker).is_some_and(|line| line.waiting > 0);
            if !waits && let Some(line) = self.askers.get_mut(asker) {
                line.is_next = false;
                self.forget(*asker);
            }
            waits
        });
        self.order = order;
    }

    /// Takes out the last of the asker who waits for most, if that is clearly more than `own`.
    fn displace(&mut self, own: usize) -> Option<T> {
        let lines = self.askers.values_mut();
        let longest = lines.max_by_key(|line| line.waiting)?;
        if longest.waiting <= own + 1 {
            return None;
        }

        while let Some((_, waiter)) = longest.queue.pop_back() {
            if waiter.is_waiting() {
                longest.waiting -= 1;
                self.waiting -= 1;
                return Some(waiter);
            }
        }
        None
    }

    /// Forgets an asker who has nothing, and does not stand in the order.
    fn forget(&mut self, asker: Asker) {
        let is_idle =
            |line: &AskerLine<T, G>| line.running == 0 && line.waiting == 0 && !line.is_next;
        if self.askers.get(&asker).is_some_and(is_idle) {
            self.askers.remove(&asker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A number, and whether it waits.
    #[derive(Debug, Clone)]
    struct Number(usize, Rc<Cell<bool>>);

    impl Waiter for Number {
        fn is_waiting(&self) -> bool {
            self.1.get()
        }
    }

    fn number(number: usize) -> Number {
        Number(number, Rc::new(Cell::new(true)))
    }

    const BOUNDS: TurnBounds = TurnBounds {
        at_once: 8,
        of_group: 4,
        spare: true,
        waiting: 16,
        waiting_of_asker: 12,
    };

    type Numbers = TurnTable<Number, &'static str>;

    fn take_all(table: &mut Numbers, asker: Asker, group: Option<&'static str>) -> usize {
        let mut taken = 0;
        while table.try_begin(asker, group.as_ref()) {
            taken += 1;
        }
        taken
    }

    fn is_empty(table: &Numbers) -> bool {
        table.askers.is_empty()
            && table.groups.is_empty()
            && table.order.is_empty()
            && table.waiting == 0
            && table.running == 0
    }

    #[test]
    fn one_who_takes_all_leaves_as_much_to_the_next() {
        let mut table = Numbers::new(BOUNDS);
        let takes: Vec<_> = (0..5)
            .map(|asker| take_all(&mut table, Asker::of(asker), None))
            .collect();
        assert_eq!(takes, [4, 2, 1, 1, 0]);
    }

    #[test]
    fn without_spare_turns_one_who_is_alone_has_all_and_another_the_next() {
        let bounds = TurnBounds {
            spare: false,
            ..BOUNDS
        };
        let (mut table, alice, bob) = (Numbers::new(bounds), Asker::of("alice"), Asker::of("bob"));
        assert_eq!(take_all(&mut table, alice, None), 8);
        for at in 0..10 {
            assert!(table.enter(alice, None, number(at)).unwrap().is_none());
        }
        table.enter(bob, None, number(100)).unwrap();
        let mut order = Vec::new();
        for _ in 0..3 {
            table.end(alice, None);
            order.push(table.grant().unwrap().waiter.0);
        }
        assert_eq!(order, [0, 100, 1]);
    }

    #[test]
    fn a_group_takes_a_part_of_the_turns_and_one_asker_a_part_of_that() {
        let (mut table, alice, bob) = (Numbers::new(BOUNDS), Asker::of("alice"), Asker::of("bob"));
        assert_eq!(take_all(&mut table, alice, Some("mute")), 2);
        assert_eq!(take_all(&mut table, bob, Some("mute")), 1);
        assert!(table.try_begin(alice, Some(&"other")));
        table.enter(alice, Some("mute"), number(1)).unwrap();
        table.enter(alice, Some("other"), number(2)).unwrap();
        let granted = table.grant().unwrap();
        assert_eq!((granted.waiter.0, granted.group), (2, Some("other")));
        assert!(table.grant().is_none());
    }

    #[test]
    fn a_flood_displaces_itself() {
        let (mut table, alice, bob) = (Numbers::new(BOUNDS), Asker::of("alice"), Asker::of("bob"));
        take_all(&mut table, alice, None);
        for at in 0..12 {
            table.enter(alice, None, number(at)).unwrap();
        }
        assert_eq!(table.enter(alice, None, number(12)).unwrap_err(), NoTurn);
        for at in 0..4 {
            assert!(table.enter(bob, None, number(at)).unwrap().is_none());
        }
        assert_eq!(table.waiting(), 16);
        let displaced = table.enter(bob, None, number(4)).unwrap();
        assert_eq!(displaced.unwrap().0, 11);
        // Where all wait for as much, no one makes room.
        for asker in 0..5 {
            let _ = table.enter(Asker::of(asker), None, number(0)).unwrap();
        }
        while table.enter(bob, None, number(9)).is_ok() {}
        assert_eq!(table.waiting(), 16);
    }

    #[test]
    fn those_who_leave_hold_nothing() {
        let (mut table, alice) = (Numbers::new(BOUNDS), Asker::of("alice"));
        let taken = take_all(&mut table, alice, None);
        for _ in 0..1000 {
            let waiters: Vec<_> = (0..12).map(number).collect();
            for waiter in &waiters {
                table.enter(alice, None, waiter.clone()).unwrap();
            }
            for (at, waiter) in waiters.iter().enumerate() {
                waiter.1.set(false);
                table.leave(alice);
                let line = &table.askers[&alice];
                assert!(
                    line.queue.len() <= 2 * (11 - at) + 1,
                    "{}",
                    line.queue.len()
                );
            }
            for other in 0..10 {
                let waiter = number(other);
                table.enter(Asker::of(other), None, waiter.clone()).unwrap();
                waiter.1.set(false);
                table.leave(Asker::of(other));
            }
        }
        assert!(
            table.askers.len() <= 2 && table.order.len() <= 1,
            "{table:?}"
        );
        for _ in 0..taken {
            table.end(alice, None);
            assert!(table.grant().is_none());
        }
        assert!(is_empty(&table), "{table:?}");
    }

    #[test]
    fn fewer_at_once_are_fewer_from_now_on() {
        let (mut table, alice, bob) = (Numbers::new(BOUNDS), Asker::of("alice"), Asker::of("bob"));
        take_all(&mut table, alice, None);
        table.set_at_once(2);
        assert!(!table.try_begin(bob, None));
        (0..3).for_each(|_| table.end(alice, None));
        assert!(table.try_begin(bob, None));
        assert!(!table.try_begin(alice, None));
        assert_eq!(table.clear_waiting().len(), 0);
    }
}

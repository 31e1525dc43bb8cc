//! Turns by user, and by source for strangers, at shared and scarce resources.
//!
//! Name servers, authorisation servers and the threads of a policy take few questions at once. One
//! heavy asker must not keep others out: askers take turns, each has a share, and the queue is
//! bounded. [`TurnTable`] decides; [`Turns`] is for tasks that wait.

mod asker;
mod table;

use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use asker::Asker;
pub use table::{Granted, NoTurn, TurnBounds, TurnTable, Waiter};

/// Turns that tasks wait for. Clones are the same.
#[derive(Debug)]
pub struct Turns<G: Clone + Eq + Hash = ()> {
    table: Arc<Mutex<TurnTable<oneshot::Sender<Turn<G>>, G>>>,
}

impl<G: Clone + Eq + Hash> Clone for Turns<G> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
        }
    }
}

/// A turn; given back when it is dropped.
#[derive(Debug)]
pub struct Turn<G: Clone + Eq + Hash = ()> {
    of: Turns<G>,
    /// `None` once it was given back.
    held: Option<(Asker, Option<G>)>,
}

impl<G: Clone + Eq + Hash> Waiter for oneshot::Sender<Turn<G>> {
    fn is_waiting(&self) -> bool {
        !self.is_closed()
    }
}

impl<G: Clone + Eq + Hash> Turns<G> {
    /// Turns within these bounds.
    #[must_use]
    pub fn new(bounds: TurnBounds) -> Self {
        Self {
            table: Arc::new(Mutex::new(TurnTable::new(bounds))),
        }
    }

    /// Sets how many have a turn at once.
    pub fn set_at_once(&self, at_once: usize) {
        let mut table = self.table.lock();
        table.set_at_once(at_once);
        self.admit(&mut table);
    }

    /// Turns that are taken.
    #[must_use]
    pub fn running(&self) -> usize {
        self.table.lock().running()
    }

    /// A turn, as soon as there is one. Dropping the future gives up the wait.
    ///
    /// # Errors
    /// Too many wait already.
    pub async fn take(&self, asker: Asker, group: Option<G>) -> Result<Turn<G>, NoTurn> {
        let told = {
            let mut table = self.table.lock();
            if table.try_begin(asker, group.as_ref()) {
                return Ok(self.turn(asker, group));
            }
            let (tell, told) = oneshot::channel();
            // A displaced waiter learns it when this sender is dropped.
            let displaced = table.enter(asker, group, tell)?;
            drop(table);
            drop(displaced);
            told
        };

        let mut wait = TurnWait {
            of: self,
            asker,
            told: Some(told),
        };
        wait.turn().await
    }

    fn turn(&self, asker: Asker, group: Option<G>) -> Turn<G> {
        Turn {
            of: self.clone(),
            held: Some((asker, group)),
        }
    }

    /// Gives free turns to those who wait.
    fn admit(&self, table: &mut TurnTable<oneshot::Sender<Turn<G>>, G>) {
        while let Some(granted) = table.grant() {
            let Granted {
                asker,
                group,
                waiter,
            } = granted;
            if let Err(mut unwanted) = waiter.send(self.turn(asker, group.clone())) {
                // Given back here, where the lock is held.
                unwanted.held = None;
                table.end(asker, group.as_ref());
            }
        }
    }
}

impl<G: Clone + Eq + Hash> Drop for Turn<G> {
    fn drop(&mut self) {
        let Some((asker, group)) = self.held.take() else {
            return;
        };
        let mut table = self.of.table.lock();
        table.end(asker, group.as_ref());
        self.of.admit(&mut table);
    }
}

/// A task that waits.
struct TurnWait<'a, G: Clone + Eq + Hash> {
    of: &'a Turns<G>,
    asker: Asker,
    /// `None` once it has a turn, or was displaced.
    told: Option<oneshot::Receiver<Turn<G>>>,
}

impl<G: Clone + Eq + Hash> TurnWait<'_, G> {
    async fn turn(&mut self) -> Result<Turn<G>, NoTurn> {
        let Some(told) = &mut self.told else {
            return Err(NoTurn);
        };
        let turn = told.await.map_err(|_| NoTurn);
        self.told = None;
        turn
    }
}

impl<G: Clone + Eq + Hash> Drop for TurnWait<'_, G> {
    fn drop(&mut self) {
        let Some(mut told) = self.told.take() else {
            return;
        };
        let mut table = self.of.table.lock();
        let unused = match told.try_recv() {
            Ok(turn) => Some(turn),
            Err(oneshot::error::TryRecvError::Empty) => {
                told.close();
                table.leave(self.asker);
                None
            }
            // Displaced.
            Err(oneshot::error::TryRecvError::Closed) => None,
        };

        // Dropping it gives the turn back, which takes the lock.
        drop(table);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TurnBounds = TurnBounds {
        at_once: 4,
        of_group: 4,
        spare: true,
        waiting: 4,
        waiting_of_asker: 4,
    };

    async fn waiting(turns: &Turns, asker: Asker) -> tokio::task::JoinHandle<Result<Turn, NoTurn>> {
        let of = turns.clone();
        let task = tokio::spawn(async move { of.take(asker, None).await });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn those_who_wait_have_the_turns_that_end() {
        let (turns, alice) = (Turns::<()>::new(BOUNDS), Asker::of("alice"));
        let held = [turns.take(alice, None).await, turns.take(alice, None).await];
        let waits = [waiting(&turns, alice).await, waiting(&turns, alice).await];
        assert_eq!(turns.table.lock().waiting(), 2);
        drop(held);
        for wait in waits {
            assert!(wait.await.unwrap().is_ok());
        }
        let table = turns.table.lock();
        assert_eq!((table.running(), table.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing_also_if_its_turn_came() {
        let (turns, alice) = (Turns::<()>::new(BOUNDS), Asker::of("alice"));
        let held = [turns.take(alice, None).await, turns.take(alice, None).await];
        let gone = waiting(&turns, alice).await;
        gone.abort();
        assert!(gone.await.is_err());
        assert_eq!(turns.table.lock().waiting(), 0);

        let late = waiting(&turns, alice).await;
        drop(held);
        late.abort();
        let _ = late.await;
        let table = turns.table.lock();
        assert_eq!((table.running(), table.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_is_displaced_is_told() {
        let (turns, alice, bob) = (
            Turns::<()>::new(BOUNDS),
            Asker::of("alice"),
            Asker::of("bob"),
        );
        let held = [turns.take(alice, None).await, turns.take(alice, None).await];
        let other = turns.take(bob, None).await.unwrap();
        let mut waits = Vec::new();
        for _ in 0..4 {
            waits.push(waiting(&turns, alice).await);
        }
        let bobs = waiting(&turns, bob).await;
        assert!(waits.pop().unwrap().await.unwrap().is_err());
        drop((held, other));
        assert!(bobs.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn more_at_once_lets_in_those_who_wait() {
        let (turns, alice) = (Turns::<()>::new(BOUNDS), Asker::of("alice"));
        turns.set_at_once(1);
        let held = turns.take(alice, None).await.unwrap();
        let wait = waiting(&turns, alice).await;
        turns.set_at_once(4);
        assert!(wait.await.unwrap().is_ok());
        drop(held);
        assert_eq!(turns.running(), 0);
    }
}

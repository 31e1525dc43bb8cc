//! Items on their way to a service, in batches: how they are gathered, how often a batch is tried, and whether the service takes messages.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use crate::post::Refused;

/// Attempts to send one batch; then it is dropped, so that the sent ones are not old.
#[doc(alias = "bound")]
const TRIES: u32 = 5;

/// Pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// A queue, and the batch that was taken from it.
pub(crate) struct Batches<T> {
    queue: Receiver<T>,
    /// Items of one message.
    size: usize,
    batch: Vec<T>,
    tries: u32,
    not_before: Instant,
    /// Whether the service took the last message, so that the log says each change once.
    is_taken: bool,
}

/// The fate of a batch after an attempt, with the number of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchFate {
    /// The service has it.
    Sent(usize),
    /// It is given up.
    Dropped(usize),
    /// It is tried again later.
    Kept,
}

impl<T> Batches<T> {
    pub fn new(queue: Receiver<T>, size: usize) -> Self {
        Self {
            queue,
            size,
            batch: Vec::with_capacity(size),
            tries: 0,
            not_before: Instant::now(),
            is_taken: true,
        }
    }

    /// Takes items until the batch is full or the tick comes. May be dropped at any time.
    pub async fn gather(&mut self, tick: impl Future<Output = Instant>) {
        let mut tick = pin!(tick);
        while self.batch.len() < self.size {
            let room = self.size - self.batch.len();
            tokio::select! {
                _ = self.queue.recv_many(&mut self.batch, room) => {}
                _ = &mut tick => return,
            }
        }

        // A full batch does not wait above: without this, a collector that is away would keep the caller spinning.
        if Instant::now() < self.not_before {
            tick.await;
        }
    }

    /// Whether there is a batch that may be sent now.
    pub fn is_due(&self) -> bool {
        !self.batch.is_empty() && Instant::now() >= self.not_before
    }

    /// The batch.
    pub fn items(&self) -> &[T] {
        &self.batch
    }

    /// Takes note of an attempt: the batch stays only if the same message may be sent again.
    pub fn settle(&mut self, sent: &Result<(), Refused>) -> BatchFate {
        match sent {
            Ok(()) => BatchFate::Sent(self.discard()),
            Err(refused) if refused.again && self.tries + 1 < TRIES => {
                self.not_before = Instant::now() + PAUSE * 2_u32.pow(self.tries);
                self.tries += 1;
                BatchFate::Kept
            }
            Err(_) => BatchFate::Dropped(self.discard()),
        }
    }

    /// Drops the batch, and returns the number of its items.
    pub fn discard(&mut self) -> usize {
        let items = self.batch.len();
        self.batch.clear();
        self.tries = 0;
        items
    }

    /// Fills the batch for its only attempt, as the process ends; false once no item is left.
    pub fn fill_last(&mut self) -> bool {
        while self.batch.len() < self.size
            && let Ok(item) = self.queue.try_recv()
        {
            self.batch.push(item);
        }

        // The process ends: there is no time for another try.
        self.tries = TRIES;
        !self.batch.is_empty()
    }

    /// Whether the service has begun or ceased to take messages with this one.
    pub fn has_turned(&mut self, is_taken: bool) -> bool {
        std::mem::replace(&mut self.is_taken, is_taken) != is_taken
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;

    fn refused(again: bool) -> Result<(), Refused> {
        Err(Refused {
            reason: "503".to_owned(),
            again,
        })
    }

    fn full(items: u8) -> Batches<u8> {
        let (near, queue) = channel(usize::from(items));
        for item in 0..items {
            near.try_send(item).unwrap();
        }
        let mut batches = Batches::new(queue, 2);
        assert!(batches.fill_last());
        batches.tries = 0;
        batches
    }

    #[test]
    fn a_batch_is_tried_until_it_is_too_old() {
        let mut batches = full(2);
        assert!(batches.is_due());
        for _ in 1..TRIES {
            assert_eq!(batches.settle(&refused(true)), BatchFate::Kept);
            assert!(!batches.is_due(), "it waits");
        }
        assert_eq!(batches.settle(&refused(true)), BatchFate::Dropped(2));
        assert!(batches.items().is_empty());
    }

    #[test]
    fn a_message_that_no_service_takes_is_not_sent_again() {
        assert_eq!(full(2).settle(&refused(false)), BatchFate::Dropped(2));
        assert_eq!(full(2).settle(&Ok(())), BatchFate::Sent(2));
    }

    #[test]
    fn the_last_batches_have_one_attempt_each() {
        let mut batches = full(3);
        assert!(batches.fill_last());
        assert_eq!(batches.settle(&refused(true)), BatchFate::Dropped(2));
        assert!(batches.fill_last());
        assert_eq!(batches.items(), [2]);
        assert_eq!(batches.settle(&Ok(())), BatchFate::Sent(1));
        assert!(!batches.fill_last());
    }

    #[test]
    fn only_a_change_of_the_service_is_told() {
        let mut batches = full(1);
        let turns = [true, false, false, true].map(|is_taken| batches.has_turned(is_taken));
        assert_eq!(turns, [false, true, false, true]);
    }
}

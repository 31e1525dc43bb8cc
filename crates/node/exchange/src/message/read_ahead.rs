//! The heads of a response, read on while a client is slow to take the interim ones.
//!
//! Over HTTP/2 no window bounds them: those that are not read wait in memory, however many there are. So the stream is read while an
//! interim response is on its way to the client, and [`Pending`] bounds how many there can be.

use std::collections::VecDeque;
use std::pin::pin;

use hermes_http::{Event, Pending, StreamError};

/// Events that have come.
#[derive(Default)]
pub(crate) struct ReadAhead {
    come: VecDeque<Event>,
    /// A final one has come: nothing is left to read.
    is_over: bool,
}

impl ReadAhead {
    /// The next one. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Those of [`Pending::event`].
    pub(crate) async fn next(&mut self, pending: &mut Pending) -> Result<Event, StreamError> {
        match self.come.pop_front() {
            Some(event) => Ok(event),
            None => pending.event(None).await,
        }
    }

    /// The result of `work`. Heads that come meanwhile are kept.
    ///
    /// # Errors
    /// Those of [`Pending::event`]: then the work was not finished.
    pub(crate) async fn ahead<T>(
        &mut self,
        pending: &mut Pending,
        work: impl Future<Output = T>,
    ) -> Result<T, StreamError> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = work.as_mut() => return Ok(done),
                event = pending.event(None), if !self.is_over => {
                    let event = event?;
                    self.is_over = !matches!(event, Event::Interim(_));
                    self.come.push_back(event);
                }
            }
        }
    }
}

//! A tunnel of datagrams that is to move, and cannot because a capsule that has begun does not end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use hermes_http::Reset;
use hermes_observe::Exchange;

use super::Broken;
use super::datagrams::Path;
use crate::redecide::{Opened, Place};

/// A way that could not be left.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// It is decided on again when the capsule has ended.
    pub(super) waits: bool,
    /// The log says so: the writer of capsules chooses how often that happens.
    told: bool,
}

impl Stalled {
    /// A capsule does not end. The tunnel goes on where it is until then, if the rules allow it for what cannot be moved.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn stay(
        &mut self,
        exchange: &Exchange,
        place: &Place,
        (path, opened): (Path, Opened),
    ) -> Result<(), Broken> {
        path.ends.sink.reset(Reset::Cancel);
        if let Some(reason) = place.forbids(&opened) {
            return Err(
                Broken::policy(&reason).note("and a capsule that had begun kept it from moving")
            );
        }

        self.waits = true;
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                exchange = %exchange.id(),
                "not moved; a capsule that has begun does not end, and it goes on as it was until then"
            );
        }
        Ok(())
    }
}

/// Carries until the lanes are left, or, with `None`, until they wait and what is between them is `between`.
pub(super) async fn carried<T>(
    mut lanes: Pin<&mut impl Future<Output = T>>,
    between: impl Fn() -> bool,
) -> Option<T> {
    poll_fn(|cx| match lanes.as_mut().poll(cx) {
        Poll::Ready(left) => Poll::Ready(Some(left)),
        Poll::Pending if between() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

//! The side that an end of a tunnel serves: the client at the near end, the target at the far one.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_admit::outliving::SharedEnd;
use hermes_http::{Duplex, Frame, Incoming, Outgoing, Reset};
use hermes_observe::Counters;
use hermes_packet::{Broken, Side};
use hermes_proto::resumable::Delivery;

use crate::pump::{Source, meanwhile};

/// How a tunnel ends on the side that its end serves.
pub(super) enum SideEnd {
    /// That side broke.
    Broken(Broken),
    /// The peer says that the tunnel is over.
    Reset(Reset, String),
}

/// Carries both directions of that side; resolves only if the tunnel is over.
pub(super) async fn carry(
    streams: &mut Duplex,
    shared: &SharedEnd,
    side: Side,
    counters: &Counters,
) -> SideEnd {
    let Duplex { incoming, outgoing } = streams;
    let (from, to) = match side {
        Side::Client => (&counters.client_to_target, &counters.target_to_client),
        Side::Target => (&counters.target_to_client, &counters.client_to_target),
    };

    tokio::select! {
        broken = fill(incoming, shared, side, from) => SideEnd::Broken(broken),
        end = deliver(outgoing, shared, side, to) => end,
    }
}

/// Reads as far as there is room. Nothing is lost if this is dropped.
async fn fill(
    incoming: &mut Incoming,
    shared: &SharedEnd,
    side: Side,
    counter: &AtomicU64,
) -> Broken {
    loop {
        let room = pin!(poll_fn(|cx| shared.poll_room(cx)));
        let room = match meanwhile(incoming, room).await {
            Ok(room) => room,
            Err(error) => return Broken::read(side, &error),
        };

        // Bytes beyond the room could not be sent again on another path.
        Source::limit(incoming, room);
        match incoming.frame().await {
            Some(Ok(Frame::Data(data))) => {
                counter.fetch_add(data.len() as u64, Ordering::Relaxed);
                // No await between the read and this: dropping the future loses no byte.
                shared.keep(&data);
            }
            Some(Ok(Frame::Trailers(_))) | None => {
                // A half-close: the other direction goes on, and the end travels behind the last byte.
                shared.end();
                return pending().await;
            }
            Some(Err(error)) => return Broken::read(side, &error),
        }
    }
}

/// Writes the bytes of the path. A plain connection keeps the piece that was being written if this is dropped.
async fn deliver(
    outgoing: &mut Outgoing,
    shared: &SharedEnd,
    side: Side,
    counter: &AtomicU64,
) -> SideEnd {
    loop {
        let delivery = match shared.delivery() {
            Some(delivery) => delivery,
            None => match wait(outgoing, shared).await {
                Ok(delivery) => delivery,
                Err(end) => return SideEnd::Broken(end(side)),
            },
        };

        let written = match delivery {
            Delivery::Data(data) => {
                counter.fetch_add(data.len() as u64, Ordering::Relaxed);
                outgoing.data(data, false).await
            }
            Delivery::End => match outgoing.finish(None).await {
                Ok(()) => {
                    shared.delivered();
                    return pending().await;
                }
                Err(error) => Err(error),
            },
            Delivery::Reset(code, reason) => {
                let code = u32::try_from(code).unwrap_or(u32::MAX);
                return SideEnd::Reset(hermes_proto::h2::Reason::from(code).into(), reason);
            }
        };
        if let Err(error) = written {
            return SideEnd::Broken(Broken::write(side, &error));
        }
    }
}

type Why = Box<dyn FnOnce(Side) -> Broken + Send>;

/// Waits for more to write.
async fn wait(outgoing: &mut Outgoing, shared: &SharedEnd) -> Result<Delivery, Why> {
    let flushed = outgoing.flush().await;
    flushed.map_err(|error| -> Why { Box::new(move |side| Broken::write(side, &error)) })?;

    tokio::select! {
        biased;
        delivery = poll_fn(|cx| shared.poll_delivery(cx)) => Ok(delivery),
        reset = outgoing.broken() => Err(Box::new(move |side| Broken::reset(side, reset))),
    }
}

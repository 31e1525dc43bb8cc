//! The two directions of a tunnel of datagrams, which run and stop together.

use std::pin::pin;

use hermes_observe::Exchange;
use hermes_packet::{
    Broken, DeviceUpkeep, Left, Limits, PacketDirection, Side, Sink, Source, Steering, Stop,
};

use crate::reach::datagram_path::Ends;

/// Both directions. Where UDP is on a side, the end of one is the end of both.
pub(crate) async fn both(
    exchange: &Exchange,
    client: &mut Ends,
    path: &mut Ends,
    stop: &Stop,
    alone: bool,
    limits: &Limits,
    steering: Option<&Steering>,
) -> Result<Left, Broken> {
    let streams = !client.source.is_end() && !path.source.is_end();
    let up = PacketDirection {
        exchange,
        from: Side::Client,
        stop,
        alone: true,
        limits,
        steering,
    };

    let down = PacketDirection {
        exchange,
        from: Side::Target,
        stop,
        alone,
        limits,
        steering: None,
    };

    let mut upkeep = client.sink.upkeep(|| limits.carries(Side::Target));
    let up = run(&up, &mut client.source, &path.sink, streams);
    let down = run(&down, &mut path.source, &client.sink, streams);
    let mut up = pin!(up);
    let mut down = pin!(down);

    // Streams end each direction by itself: a half-close passes through.
    let (side, left) = tokio::select! {
        left = &mut up => (Side::Client, left),
        left = &mut down => (Side::Target, left),
        // The device ends it.
        _ = due(&mut upkeep) => return Ok(Left::Ended),
    };

    let first = left?;
    if first == Left::Ended && !streams {
        return Ok(Left::Ended);
    }
    let second = match side {
        Side::Client => down.await?,
        Side::Target => up.await?,
    };

    Ok(if [first, second].contains(&Left::Ended) {
        Left::Ended
    } else {
        Left::Stopped
    })
}

/// What a device does beside both directions, if one is on the client's side.
async fn due(upkeep: &mut Option<DeviceUpkeep<'_>>) -> &'static str {
    match upkeep {
        Some(upkeep) => upkeep.await,
        None => std::future::pending().await,
    }
}

/// One direction; its end goes on where both sides are streams. It has stopped once the other one has, too.
async fn run(
    direction: &PacketDirection<'_>,
    source: &mut Source,
    sink: &Sink,
    passes_end: bool,
) -> Result<Left, Broken> {
    loop {
        let left = direction.run(source, sink).await?;
        if left == Left::Ended {
            if passes_end {
                sink.finish()
                    .await
                    .map_err(|error| Broken::write(direction.from.other(), &error))?;
            }
            direction.stop.ended();
            return Ok(left);
        }

        if direction.stop.rest().await {
            return Ok(left);
        }
    }
}

//! The two directions of a tunnel of datagrams, which run and stop together.

use std::pin::pin;

use hermes_observe::Exchange;
use hermes_packet::{
    Broken, ConnectionPins, DatagramChanges, DeviceUpkeep, Left, Limits, PacketDirection, Side,
    Sink, Source, Stop,
};

use crate::reach::datagram_path::Ends;
use crate::reach::transforms::Changes;

/// Both directions of a tunnel along one path.
pub(crate) struct Directions<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) client: &'a mut Ends,
    pub(crate) path: &'a mut Ends,
    pub(crate) changes: Option<&'a mut Changes>,
    pub(crate) stop: &'a Stop,
    /// Whether no other path leads to the client.
    pub(crate) alone: bool,
    pub(crate) limits: &'a Limits,
    pub(crate) pins: Option<&'a ConnectionPins>,
}

impl Directions<'_> {
    /// Carries both. Where UDP is on a side, the end of one is the end of both.
    pub(crate) async fn carry(self) -> Result<Left, Broken> {
        let Self {
            client,
            path,
            limits,
            ..
        } = self;
        let passes_end = !client.source.is_end() && !path.source.is_end();
        let (to_target, to_client) = match self.changes {
            Some(changes) => (Some(&mut changes.to_target), Some(&mut changes.to_client)),
            None => (None, None),
        };

        let up = OneWay {
            direction: PacketDirection {
                exchange: self.exchange,
                from: Side::Client,
                stop: self.stop,
                alone: true,
                limits,
                pins: self.pins,
            },
            changes: to_target,
            passes_end,
        };
        let down = OneWay {
            direction: PacketDirection {
                exchange: self.exchange,
                from: Side::Target,
                stop: self.stop,
                alone: self.alone,
                limits,
                pins: None,
            },
            changes: to_client,
            passes_end,
        };

        let mut upkeep = client.sink.upkeep(|| limits.carries(Side::Target));
        let mut up = pin!(up.run(&mut client.source, &path.sink));
        let mut down = pin!(down.run(&mut path.source, &client.sink));

        // Streams end each direction by itself: a half-close passes through.
        let (side, left) = tokio::select! {
            left = &mut up => (Side::Client, left),
            left = &mut down => (Side::Target, left),
            // The device ends it.
            _ = due(&mut upkeep) => return Ok(Left::Ended),
        };

        let first = left?;
        if first == Left::Ended && !passes_end {
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
}

/// The upkeep of the device on the client's side, if there is one.
async fn due(upkeep: &mut Option<DeviceUpkeep<'_>>) -> &'static str {
    match upkeep {
        Some(upkeep) => upkeep.await,
        None => std::future::pending().await,
    }
}

/// One of the directions.
struct OneWay<'a> {
    direction: PacketDirection<'a>,
    changes: Option<&'a mut DatagramChanges>,
    /// Both sides are streams, so that its end goes on.
    passes_end: bool,
}

impl OneWay<'_> {
    /// Carries until the end, or until it is stopped. It has stopped once the other direction has, too.
    async fn run(mut self, source: &mut Source, sink: &Sink) -> Result<Left, Broken> {
        let direction = &self.direction;
        loop {
            let left = match &mut self.changes {
                None => direction.run(source, sink).await?,
                // Few tunnels have any: each would have room for it.
                Some(changes) => Box::pin(direction.run_changed(source, sink, changes)).await?,
            };
            if left == Left::Ended {
                if self.passes_end {
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
}

//! Captured datagrams: those of one client for one destination are a session.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_net::host_capture::{CapturedSocket, DestinedDatagram};
use hermes_net::memory::{Memory, Owner};
use hermes_net::{ErrorSockets, Watch};
use hermes_observe::DropReason;
use hermes_packet::{Hold, SessionKey, SessionTarget, Sessions};
use tokio::time::Instant;

use crate::answering_sockets::AnsweringSockets;
use crate::udp::{AnswerWay, ArrivedFlow, Share, drained};

/// Bytes of the largest datagram.
const LARGEST: usize = 65_536;

/// Datagrams that one turn takes, so that a flood leaves turns to others.
#[doc(alias = "bound")]
const TURN: usize = 64;

/// Pause after an error of the socket itself, such as a lack of memory.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// Takes datagrams until told to stop, and lets sessions that are open end.
pub(super) async fn serve(
    mut entrance: Entrance,
    socket: UdpSocket,
    watch: &Watch,
) -> io::Result<()> {
    let socket = CapturedSocket::new(socket)?;
    let owner = Owner::Listener(entrance.rules.name.as_ref().into());
    let share = Share {
        sessions: Sessions::default(),
        hold: Hold::new(Memory::node().owner(owner)),
        answers: AnswerWay::OfTargets {
            sockets: AnsweringSockets::default(),
            errors: Arc::new(errors(&entrance.rules.name)),
        },
        own: None,
        watch: watch.clone(),
    };

    let mut room = vec![0; LARGEST];
    loop {
        tokio::select! {
            ready = socket.readable() => ready?,
            () = watch.graceful() => break,
        }
        entrance.renew();
        if let Err(error) = take(&share, &entrance, &socket, &mut room) {
            tracing::warn!(listener = %entrance.rules.name, %error, "cannot receive; trying again");
            tokio::time::sleep(AFTER_ERROR).await;
        }
        // The tunnels take these datagrams before more are received: the kernel's buffer is the larger one.
        tokio::task::yield_now().await;
    }

    tokio::select! {
        () = drained(&share.sessions) => {}
        () = watch.forced() => {}
    }
    Ok(())
}

/// The sockets by which clients are told errors, as far as this process may have them.
fn errors(listener: &str) -> ErrorSockets {
    ErrorSockets::open().unwrap_or_else(|error| {
        tracing::warn!(listener, %error, "clients are not told of datagrams that are too large for the way: give the process CAP_NET_RAW");
        ErrorSockets::default()
    })
}

/// Takes the datagrams that are there, up to a turn's.
fn take(
    share: &Share,
    entrance: &Entrance,
    socket: &CapturedSocket,
    room: &mut [u8],
) -> io::Result<()> {
    let now = Instant::now();
    for _ in 0..TURN {
        let datagram = match socket.receive(room) {
            Ok(datagram) => datagram,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let payload = room.get(..datagram.length).unwrap_or_default();
        match share.session(entrance, flow(&datagram)) {
            Some(session) => session.push(std::iter::once(payload), now),
            None => entrance
                .worker
                .shared
                .telemetry
                .datagrams_dropped(DropReason::SessionLimit, 1),
        }
    }
    Ok(())
}

fn flow(datagram: &DestinedDatagram) -> ArrivedFlow {
    ArrivedFlow {
        key: SessionKey {
            client: datagram.source,
            target: SessionTarget::Address(datagram.destination),
        },
        // Its answers come from a socket that has the address.
        local: None,
        welcome: true,
    }
}

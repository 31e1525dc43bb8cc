use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_net::{ReadHalf, SpliceError, Spliced, Stream, WriteHalf, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tcp_pair;

/// More than the buffers of a loopback connection and a pipe hold.
const LARGE: usize = 16 << 20;

/// Bytes that show a loss, a doubling or a change of order.
fn pattern() -> Vec<u8> {
    (0..LARGE)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// A hop: its half towards the sender and its half towards the receiver, and the halves that must not be dropped meanwhile.
struct Hop {
    read: ReadHalf,
    write: WriteHalf,
    _rest: (WriteHalf, ReadHalf),
}

/// A sender, a hop, a receiver.
async fn chain() -> (Stream, Hop, Stream) {
    let ((sender, entry), (exit, receiver)) = (tcp_pair().await, tcp_pair().await);
    let ((read, back), (forth, write)) = (entry.split(), exit.split());
    (
        sender,
        Hop {
            read,
            write,
            _rest: (back, forth),
        },
        receiver,
    )
}

/// The first megabyte goes through.
async fn begin(sender: &mut Stream, receiver: &mut Stream) {
    let mut received = vec![0; 1 << 20];
    sender
        .write_all(&pattern()[..received.len()])
        .await
        .unwrap();
    receiver.read_exact(&mut received).await.unwrap();
}

impl Hop {
    /// Splices until the end; copies small pieces, as forwarding does.
    async fn run(&mut self, count: &AtomicUsize) -> Result<(), SpliceError> {
        let mut piece = vec![0; 16 * 1024];
        loop {
            let moved = |bytes| {
                count.fetch_add(bytes, Ordering::Relaxed);
            };
            let (from, to) = (self.read.tcp().unwrap(), self.write.tcp().unwrap());
            if splice(from, to, u64::MAX, moved).await? == Spliced::End {
                break;
            }
            let length = self
                .read
                .read(&mut piece)
                .await
                .map_err(SpliceError::Read)?;
            if length == 0 {
                break;
            }
            count.fetch_add(length, Ordering::Relaxed);
            self.write
                .write_all(&piece[..length])
                .await
                .map_err(SpliceError::Write)?;
        }
        self.write.shutdown().await.map_err(SpliceError::Write)
    }
}

#[tokio::test]
async fn every_byte_and_the_end_arrive() {
    let (mut sender, mut hop, mut receiver) = chain().await;
    let (sent, count, mut received) = (pattern(), AtomicUsize::new(0), Vec::new());
    let send = async {
        sender.write_all(&sent).await.unwrap();
        sender.shutdown().await.unwrap();
    };
    let (forwarded, read, ()) =
        tokio::join!(hop.run(&count), receiver.read_to_end(&mut received), send);
    forwarded.unwrap();
    read.unwrap();
    assert!(received == sent, "what arrived differs");
    assert_eq!(count.into_inner(), LARGE);
}

#[tokio::test]
async fn what_comes_after_so_many_bytes_stays_unread() {
    let (mut sender, mut hop, mut receiver) = chain().await;
    let (sent, most, mut count) = (pattern(), LARGE - 1_000_003, 0);
    let send = async {
        sender.write_all(&sent).await.unwrap();
    };
    let take = async {
        let (from, to) = (hop.read.tcp().unwrap(), hop.write.tcp().unwrap());
        while count < most {
            let left = (most - count) as u64;
            let done = splice(from, to, left, |bytes| count += bytes)
                .await
                .unwrap();
            assert!(done == Spliced::Little || count == most, "{done:?}");
        }
        let mut rest = vec![0; LARGE - most];
        hop.read.read_exact(&mut rest).await.unwrap();
        assert!(rest == sent[most..], "the rest differs");
    };
    let receive = async {
        let mut received = vec![0; most];
        receiver.read_exact(&mut received).await.unwrap();
        assert!(received == sent[..most], "what arrived differs");
    };
    tokio::join!(send, take, receive);
    assert_eq!(count, most);
}

#[tokio::test]
async fn a_receiver_that_stops_holds_up_the_sender_and_nothing_is_lost() {
    let (mut sender, mut hop, mut receiver) = chain().await;
    let (sent, count, mut received) = (pattern(), AtomicUsize::new(0), Vec::new());
    {
        let forwarding = hop.run(&count);
        let sending = async {
            sender.write_all(&sent).await.unwrap();
            sender.shutdown().await.unwrap();
        };
        tokio::pin!(forwarding, sending);
        // No one reads: neither splice ends, however often it is polled.
        for _ in 0..1000 {
            tokio::select! {
                biased;
                _ = &mut forwarding => panic!("everything was forwarded"),
                () = &mut sending => panic!("everything was taken"),
                () = tokio::task::yield_now() => {}
            }
        }
        let (forwarded, read, ()) =
            tokio::join!(forwarding, receiver.read_to_end(&mut received), sending);
        forwarded.unwrap();
        read.unwrap();
    }
    assert!(received == sent, "what arrived differs");
}

#[tokio::test]
async fn a_reset_of_the_sender_is_an_error_of_reading() {
    let (mut sender, mut hop, mut receiver) = chain().await;
    let count = AtomicUsize::new(0);
    let half = async {
        begin(&mut sender, &mut receiver).await;
        sender.abort();
    };
    let (forwarded, ()) = tokio::join!(hop.run(&count), half);
    let Err(SpliceError::Read(error)) = forwarded else {
        panic!("{forwarded:?}")
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_receiver_that_breaks_is_noticed_while_nothing_comes() {
    let (mut sender, mut hop, mut receiver) = chain().await;
    let count = AtomicUsize::new(0);
    let half = async {
        begin(&mut sender, &mut receiver).await;
        receiver.abort();
        // More than is forwarded after that.
        while sender.write_all(&[0; 4096]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let broken = async {
        let forwarded = hop.run(&count).await;
        drop(hop);
        forwarded
    };
    let (forwarded, ()) = tokio::join!(broken, half);
    assert!(
        matches!(forwarded, Err(SpliceError::Write(_) | SpliceError::Broken)),
        "{forwarded:?}"
    );
}

//! Tunnels with TLS that the kernel carries, if it can: without it, the result is the same.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_net::tls::kernel_carries;
use hermes_net::{ReadHalf, Spliced, Stream, WriteHalf, leave_tls_to_kernel, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::authority::tls_pair;
use crate::{PATIENCE, tcp_pair};

/// Set where the kernel was started for these tests, and has to be able to.
const REQUIRED: &str = "HERMES_KERNEL_TLS";

/// More than the buffers of a loopback connection hold.
const LARGE: usize = 8 << 20;

/// Bytes that show a loss, a doubling or a change of order.
fn pattern() -> Vec<u8> {
    (0..LARGE)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// One end of a tunnel.
struct End {
    read: ReadHalf,
    write: WriteHalf,
}

impl End {
    fn new(stream: Stream) -> Self {
        let (read, write) = stream.split();
        Self { read, write }
    }

    /// The kernel goes on, if it can.
    fn leave(&mut self) {
        if std::env::var_os(REQUIRED).is_some() {
            assert!(kernel_carries(), "this kernel has to go on with TLS");
        }
        leave_tls_to_kernel(&mut self.read, &mut self.write).unwrap();
        assert_eq!(self.is_left(), kernel_carries());
    }

    fn is_left(&self) -> bool {
        self.read.tcp().is_some() && self.write.tcp().is_some()
    }

    /// Says a byte, which the other end hears.
    async fn greet(&mut self, other: &mut Self) {
        self.write.write_all(b"!").await.unwrap();
        self.write.flush().await.unwrap();
        assert_eq!(other.read.read_u8().await.unwrap(), b'!');
    }
}

/// Says all of it, and ends the direction.
async fn say(write: &mut WriteHalf, bytes: &[u8]) {
    write.write_all(bytes).await.unwrap();
    write.shutdown().await.unwrap();
}

/// All bytes until the end.
async fn hear(read: &mut ReadHalf) -> Vec<u8> {
    let mut heard = Vec::new();
    read.read_to_end(&mut heard).await.unwrap();
    heard
}

/// Which ends the kernel goes on for: that of the client, that of the server.
const CARRIED: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

/// A tunnel over these connections: both ends have spoken, as they do for CONNECT and its answer.
async fn tunnel(pair: (Stream, Stream), carried: (bool, bool)) -> (End, End) {
    let (near, far) = tls_pair(pair).await;
    let (mut near, mut far) = (End::new(near), End::new(far));
    near.greet(&mut far).await;
    far.greet(&mut near).await;
    if carried.0 {
        near.leave();
    }
    if carried.1 {
        far.leave();
    }
    (near, far)
}

#[tokio::test]
async fn every_byte_and_the_end_of_each_direction_arrive() {
    let sent = pattern();
    for carried in CARRIED {
        let (mut near, mut far) = tunnel(tcp_pair().await, carried).await;
        let (there, here, (), ()) = tokio::join!(
            hear(&mut far.read),
            hear(&mut near.read),
            say(&mut near.write, &sent),
            say(&mut far.write, &sent),
        );
        assert!(there == sent, "{carried:?}: what arrived there differs");
        assert!(here == sent, "{carried:?}: what arrived here differs");
    }
}

#[tokio::test]
async fn one_direction_goes_on_when_the_other_has_ended() {
    let sent = pattern();
    for carried in CARRIED {
        let (mut near, mut far) = tunnel(tcp_pair().await, carried).await;
        say(&mut near.write, b"question").await;
        assert_eq!(hear(&mut far.read).await, b"question");
        let (here, ()) = tokio::join!(hear(&mut near.read), say(&mut far.write, &sent));
        assert!(here == sent, "{carried:?}: what arrived differs");
    }
}

/// Copies from one end of TLS to a connection in clear, as a hop does: in the kernel where that goes on.
async fn pass_on(read: &mut ReadHalf, write: &mut WriteHalf) -> usize {
    let mut moved = 0;
    let mut piece = vec![0; 64 * 1024];
    loop {
        if let (Some(from), Some(to)) = (read.tcp(), write.tcp()) {
            let spliced = splice(from, to, u64::MAX, |bytes| moved += bytes).await;
            assert!(matches!(spliced, Ok(Spliced::Little | Spliced::End)));
        }
        let length = read.read(&mut piece).await.unwrap();
        if length == 0 {
            write.shutdown().await.unwrap();
            return moved;
        }
        write.write_all(&piece[..length]).await.unwrap();
    }
}

#[tokio::test]
async fn bytes_pass_between_tls_and_clear_inside_the_kernel() {
    let sent = pattern();
    let (mut client, mut hop) = tunnel(tcp_pair().await, (false, true)).await;
    let (exit, target) = tcp_pair().await;
    let (mut exit, mut target) = (End::new(exit), End::new(target));
    let (up, down, there, here, (), ()) = tokio::join!(
        pass_on(&mut hop.read, &mut exit.write),
        pass_on(&mut exit.read, &mut hop.write),
        hear(&mut target.read),
        hear(&mut client.read),
        say(&mut client.write, &sent),
        say(&mut target.write, &sent),
    );
    assert!(there == sent && here == sent, "what arrived differs");
    if kernel_carries() {
        assert!(
            up > LARGE / 2 && down > LARGE / 2,
            "{up} and {down} of {LARGE} bytes"
        );
    }
}

#[tokio::test]
async fn what_was_read_by_half_stays_where_it_is() {
    let sent = pattern();
    let (mut near, mut far) = tunnel(tcp_pair().await, (true, false)).await;
    let hear = async {
        assert_eq!(far.read.read_u8().await.unwrap(), sent[0]);
        // More of it is between rustls and its reader.
        leave_tls_to_kernel(&mut far.read, &mut far.write).unwrap();
        assert!(!far.is_left());
        hear(&mut far.read).await
    };
    let (heard, ()) = tokio::join!(hear, say(&mut near.write, &sent));
    assert!(heard == sent[1..], "what arrived differs");
}

/// How a relay fails.
#[derive(Clone, Copy)]
enum Failure {
    /// Ends the connection in good order, as far as TCP is concerned.
    Cut,
    /// Changes a bit of every byte.
    Flip,
}

/// A connection through a relay, which fails from when it is told to.
async fn through_relay(failure: Failure) -> ((Stream, Stream), Arc<AtomicBool>) {
    let (near, entry) = tcp_pair().await;
    let (exit, far) = tcp_pair().await;
    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = fails.clone();
    // The task ends with the connections.
    tokio::spawn(async move {
        let ((mut up, back), (down, mut forth)) = (entry.split(), exit.split());
        let there = async {
            let _ = tokio::io::copy(&mut up, &mut forth).await;
        };
        tokio::join!(there, fail(failure, &is_failing, (down, back)));
    });
    ((near, far), fails)
}

async fn fail(failure: Failure, fails: &AtomicBool, (mut from, mut to): (ReadHalf, WriteHalf)) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let piece = &mut piece[..length];
        match (failure, fails.load(Ordering::SeqCst)) {
            (_, false) => {}
            (Failure::Cut, true) => return to.shutdown().await.unwrap(),
            (Failure::Flip, true) => piece.iter_mut().for_each(|byte| *byte ^= 4),
        }
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_is_no_end() {
    for carried in [(false, false), (true, false), (true, true)] {
        let (pair, fails) = through_relay(Failure::Cut).await;
        let (mut near, mut far) = tunnel(pair, carried).await;
        fails.store(true, Ordering::SeqCst);
        far.write.write_all(b"never heard").await.unwrap();
        far.write.flush().await.unwrap();
        let read = timeout(PATIENCE, near.read.read_u8()).await.unwrap();
        assert_eq!(
            read.unwrap_err().kind(),
            ErrorKind::UnexpectedEof,
            "{carried:?}"
        );
    }
}

#[tokio::test]
async fn what_was_changed_on_the_way_is_not_read() {
    for carried in [(false, false), (true, false), (true, true)] {
        let (pair, fails) = through_relay(Failure::Flip).await;
        let (mut near, mut far) = tunnel(pair, carried).await;
        fails.store(true, Ordering::SeqCst);
        far.write.write_all(&[0; 100]).await.unwrap();
        far.write.flush().await.unwrap();
        let read = timeout(PATIENCE, near.read.read_u8()).await.unwrap();
        assert!(read.is_err(), "{carried:?}");
    }
}

#[tokio::test]
async fn a_reset_arrives_as_one() {
    for carried in CARRIED {
        let (near, mut far) = tunnel(tcp_pair().await, carried).await;
        near.read.set_abort();
        drop(near);
        let read = timeout(PATIENCE, far.read.read_u8()).await.unwrap();
        assert_eq!(
            read.unwrap_err().kind(),
            ErrorKind::ConnectionReset,
            "{carried:?}"
        );
    }
}

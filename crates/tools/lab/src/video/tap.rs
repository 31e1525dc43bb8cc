//! A tap on the way of RTP: passes packets on from one port to another, and notes when each of them came.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::topology::Namespace;

/// How long a tap waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes of the head of RTP: a shorter packet is none, and opens the way.
const HEAD: usize = 12;

/// Offset and length of the sequence number in a packet of RTP (RFC 3550, section 5.1).
const NUMBER: std::ops::Range<usize> = 2..4;

/// Bytes that a tap's socket holds while its thread waits for a processor: all pictures of a second, however large the kernel's heads are.
const SOCKET_BYTES: usize = 8 * 1024 * 1024;

/// The packets that came.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// When, by their numbers, which go on where those of RTP wrap.
    times: HashMap<u64, Instant>,
    /// Packets that came behind later ones.
    overtaken: usize,
}

impl Passed {
    fn note(&mut self, number: u64, last: u64, now: Instant) {
        if number < last && !self.times.contains_key(&number) {
            self.overtaken += 1;
        }
        self.times.entry(number).or_insert(now);
    }

    /// Numbers between the first and the last that did not come.
    pub(super) fn gaps(&self) -> usize {
        let numbers = self.times.keys();
        let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else {
            return 0;
        };
        (last - first + 1) as usize - self.times.len()
    }

    /// Packets that came behind later ones.
    pub(super) fn overtaken(&self) -> usize {
        self.overtaken
    }
}

/// A running tap.
pub(super) struct Tap {
    end: Arc<AtomicBool>,
    opened: Arc<AtomicBool>,
    thread: JoinHandle<Result<Passed>>,
}

impl Tap {
    /// Begins to pass packets on within a namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the port is taken.
    pub(super) fn begin(namespace: &Namespace, from: SocketAddr, to: SocketAddr) -> Result<Self> {
        let path = std::fs::File::open(namespace.path())?;
        let end = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(AtomicBool::new(false));
        let signs = TapSigns {
            end: end.clone(),
            opened: opened.clone(),
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = spawn(move || {
            let socket = enter(&path).and_then(|()| roomy_socket(from));
            let socket = match socket {
                Ok(socket) => socket,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(Passed::default());
                }
            };
            let _ = ready.send(Ok(()));
            pass(&socket, to, &signs)
        });
        is_ready.recv()??;
        Ok(Self {
            end,
            opened,
            thread,
        })
    }

    /// Whether a packet came that opens the way.
    pub(super) fn is_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// Ends it: when packets came.
    ///
    /// # Errors
    /// It failed meanwhile.
    pub(super) fn end(self) -> Result<Passed> {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("a tap has panicked"))?
    }
}

/// Said to a tap, and by it.
struct TapSigns {
    end: Arc<AtomicBool>,
    opened: Arc<AtomicBool>,
}

/// Has this thread enter a namespace.
pub(super) fn enter(path: &std::fs::File) -> Result<()> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    Ok(move_into_link_name_space(
        path.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// A socket whose buffer carries it over the times of other programs.
fn roomy_socket(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
    Ok(socket)
}

fn pass(socket: &UdpSocket, to: SocketAddr, signs: &TapSigns) -> Result<Passed> {
    socket.set_read_timeout(Some(LOOK))?;
    let mut passed = Passed::default();
    let mut last = 0_u64;
    let mut room = [0; 65_536];
    while !signs.end.load(Ordering::Relaxed) {
        let length = match socket.recv(&mut room) {
            Ok(length) => length,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                // A program behind it is not there yet.
                ErrorKind::ConnectionRefused => continue,
                _ => return Err(error.into()),
            },
        };
        if length < HEAD {
            signs.opened.store(true, Ordering::Relaxed);
        } else if let Some(&[high, low]) = room[..length].get(NUMBER) {
            let number = whole(u16::from_be_bytes([high, low]), last);
            passed.note(number, last, Instant::now());
            last = last.max(number);
        }
        // An error here would be the program's own without a tap.
        let _ = socket.send_to(&room[..length], to);
    }
    Ok(passed)
}

/// The number that `low` stands for: the one nearest to `near`.
fn whole(low: u16, near: u64) -> u64 {
    let difference = low.wrapping_sub(near as u16).cast_signed();
    near.saturating_add_signed(i64::from(difference))
}

/// Packets of this first time do not count: they wait until a tunnel is open.
const OPENING: Duration = Duration::from_secs(2);

/// Packets that left one tap and did not come to another.
pub(super) fn lost(from: &Passed, to: &Passed) -> usize {
    let numbers = from.times.keys();
    numbers
        .filter(|number| !to.times.contains_key(number))
        .count()
}

/// The times from one tap to another, in their order.
pub(super) fn delays(from: &Passed, to: &Passed) -> Vec<Duration> {
    let Some(first) = from.times.values().min() else {
        return Vec::new();
    };
    let later = from.times.iter();
    let later = later.filter(|(_, began)| **began >= *first + OPENING);
    let both = later.filter_map(|(number, began)| {
        let came = to.times.get(number)?;
        Some(came.saturating_duration_since(*began))
    });
    let mut delays: Vec<_> = both.collect();
    delays.sort_unstable();
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_known_by_numbers_that_wrap() {
        assert_eq!(whole(65_535, 65_534), 65_535);
        assert_eq!(whole(1, 65_535), 65_537);
        assert_eq!(whole(65_535, 65_537), 65_535);
        let start = Instant::now();
        let now = start + OPENING;
        let later = now + Duration::from_millis(7);
        let from = passed(&[(0, start), (1, now), (2, now)]);
        let to = passed(&[(0, later), (2, later)]);
        assert_eq!(delays(&from, &to), [Duration::from_millis(7)]);
        assert_eq!(lost(&from, &to), 1);
    }

    #[test]
    fn gaps_and_packets_behind_later_ones_are_counted() {
        let now = Instant::now();
        let came = passed(&[(4, now), (7, now), (6, now), (7, now), (6, now), (9, now)]);
        assert_eq!((came.gaps(), came.overtaken()), (2, 1));
        assert_eq!(passed(&[]).gaps(), 0);
    }

    fn passed(packets: &[(u64, Instant)]) -> Passed {
        let mut passed = Passed::default();
        let mut last = 0;
        for (number, time) in packets {
            passed.note(*number, last, *time);
            last = last.max(*number);
        }
        passed
    }
}

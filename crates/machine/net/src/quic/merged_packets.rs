//! Packets that the kernel merged (GRO), handed to quinn in short pieces.
//!
//! quinn copies all packets of one call into one buffer, and its streams keep slices of it: one
//! kept packet keeps the whole buffer. A run of 64 packets with one that stays unread would cost 64
//! times the counted memory.

use std::cell::RefCell;
use std::io::{self, IoSliceMut};

use quinn::udp::RecvMeta;

/// Runs of merged packets that are taken in one system call.
#[doc(alias = "bound")]
pub(super) const RUNS: usize = 4;

/// Bytes of a run: those of the largest UDP payload.
const RUN: usize = 65_535;

/// Packets that are handed on together, and that one of them may keep.
#[doc(alias = "bound")]
pub(super) const PIECE: usize = 8;

thread_local! {
    /// Where the sockets of a worker receive, one after the other.
    static RECEIVED: RefCell<Box<[u8]>> = RefCell::new(vec![0; RUNS * RUN].into());
}

/// Receives at most [`RUNS`] runs by `recv`, which returns their number, and puts them in order
/// into `bufs` and `meta`. Returns the number of runs, and of filled entries.
///
/// # Errors
/// Errors of `recv`.
pub(super) fn receive(
    recv: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    bufs: &mut [IoSliceMut<'_>],
    meta: &mut [RecvMeta],
) -> io::Result<(usize, usize)> {
    RECEIVED.with_borrow_mut(|received| {
        let mut runs = [RecvMeta::default(); RUNS];
        let mut room = received.chunks_exact_mut(RUN).map(IoSliceMut::new);
        let mut room: [IoSliceMut<'_>; RUNS] =
            std::array::from_fn(|_| room.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let came = recv(&mut room, &mut runs)?;

        let mut filled = 0;
        for (run, bytes) in runs.iter().zip(&room).take(came) {
            let bytes = &bytes[..run.len];
            filled += hand_on(run, bytes, &mut bufs[filled..], &mut meta[filled..]);
        }
        Ok((came, filled))
    })
}

/// Puts the packets of a run into `bufs` and `meta`, and returns the number of filled entries. A
/// packet without room is dropped: it is larger than the announced limit.
fn hand_on(
    run: &RecvMeta,
    bytes: &[u8],
    bufs: &mut [IoSliceMut<'_>],
    meta: &mut [RecvMeta],
) -> usize {
    let room = bufs.first().map_or(0, |buf| buf.len());
    let stride = run.stride.clamp(1, room.max(1));
    let piece = stride * PIECE.min(room / stride);
    if run.stride > room || piece == 0 {
        return 0;
    }

    let pieces = bytes.chunks(piece).zip(bufs).zip(meta);
    let mut filled = 0;
    for ((piece, buf), meta) in pieces {
        buf[..piece.len()].copy_from_slice(piece);
        *meta = RecvMeta {
            len: piece.len(),
            ..*run
        };
        filled += 1;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the packets handed on for these runs (bytes, and of each packet), if quinn
    /// has `slots` of `room` bytes.
    fn handed_on(runs: &[(usize, usize)], slots: usize, room: usize) -> Vec<usize> {
        let mut memory = vec![0; slots * room];
        let mut bufs: Vec<_> = memory.chunks_mut(room).map(IoSliceMut::new).collect();
        let mut metas = vec![RecvMeta::default(); slots];
        let recv = |bufs: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]| {
            let mut next = 0u8;
            for ((run, buf), meta) in runs.iter().zip(bufs).zip(metas) {
                meta.len = run.0;
                meta.stride = run.1;
                for packet in buf[..run.0].chunks_mut(run.1) {
                    packet.fill(next);
                    next = next.wrapping_add(1);
                }
            }
            Ok(runs.len())
        };
        let (came, filled) = receive(recv, &mut bufs, &mut metas).unwrap();
        assert_eq!(came, runs.len());

        let mut next = 0;
        for (buf, meta) in bufs.iter().zip(&metas).take(filled) {
            for packet in buf[..meta.len].chunks(meta.stride) {
                assert!(packet.iter().all(|byte| *byte == next), "packet {next}");
                next = next.wrapping_add(1);
            }
        }
        metas[..filled].iter().map(|meta| meta.len).collect()
    }

    #[test]
    fn runs_are_handed_on_whole_and_in_order_in_pieces() {
        let room = 1452 * PIECE;
        assert_eq!(handed_on(&[(100, 100)], 32, room), [100]);
        assert_eq!(
            handed_on(&[(10 * 1452 + 7, 1452), (20, 20)], 32, room),
            [8 * 1452, 2 * 1452 + 7, 20]
        );

        // The most that the kernel merges: 64 packets of at most 65,535 bytes, four times.
        let most = handed_on(&[(64 * 1000, 1000); RUNS], 32, room);
        assert_eq!(most, [8 * 1000; 32]);
        let long = handed_on(&[(45 * 1452, 1452); RUNS], 32, room);
        assert_eq!(long.iter().sum::<usize>(), 4 * 45 * 1452);
    }

    #[test]
    fn what_is_larger_than_the_room_is_lost_and_nothing_else() {
        assert_eq!(handed_on(&[(3000, 3000)], 32, 2000), [0; 0]);
        assert_eq!(handed_on(&[(1500, 1500)], 32, 2000), [1500]);
        assert_eq!(handed_on(&[], 32, 2000), [0; 0]);
    }
}

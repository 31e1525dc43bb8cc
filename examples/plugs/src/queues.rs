//! An end of packets that is two queues in this process. A TUN device would be one as well: it has packets of some format, a largest
//! one, and room for a few.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_packet::{Device, DeviceCapsules, SentPackets};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::datagram::DatagramFormat;
use parking_lot::Mutex;

/// The queues. One side hands packets in and takes them out; the other is the tunnel.
pub struct Queues {
    format: DatagramFormat,
    /// Packets of each queue.
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the tunnel is to take.
    inward: VecDeque<Bytes>,
    /// What it brought.
    outward: VecDeque<Bytes>,
    /// Packets that were handed in and had no room.
    lost: u64,
    filler: Option<Waker>,
    taker: Option<Waker>,
}

impl Queues {
    /// Queues of up to `most` packets of this format each.
    pub fn new(format: DatagramFormat, most: usize) -> Self {
        Self {
            format,
            most,
            state: Mutex::default(),
        }
    }

    /// Hands a packet in. Where there is no room, it is dropped and counted.
    pub fn hand_in(&self, packet: Bytes) {
        let mut state = self.state.lock();
        if state.inward.len() == self.most {
            state.lost += 1;
            return;
        }
        state.inward.push_back(packet);
        if let Some(waker) = state.filler.take() {
            waker.wake();
        }
    }

    /// Waits for a packet that the tunnel brought.
    pub async fn take_out(&self) -> Bytes {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match state.outward.pop_front() {
                Some(packet) => Poll::Ready(packet),
                None => {
                    state.taker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Device for Queues {
    fn format(&self) -> DatagramFormat {
        self.format
    }

    fn layout(&self) -> Layout {
        Layout::UDP
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
        _: &mut DeviceCapsules,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        // What has no room in the batch waits for the next one.
        while let Some(packet) = state.inward.front() {
            if batch.push(packet).is_err() {
                break;
            }
            state.inward.pop_front();
        }
        if !batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        state.filler = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_send(
        &self,
        _: &mut Context<'_>,
        batch: &Batch,
        sent: &mut SentPackets,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        for packet in batch.iter().skip(sent.taken) {
            sent.taken += 1;
            if packet.len() > self.format.largest() {
                sent.too_large += 1;
                sent.largest = sent.largest.max(packet.len());
            } else if state.outward.len() == self.most {
                sent.full += 1;
            } else {
                state.outward.push_back(Bytes::copy_from_slice(packet));
            }
        }
        if let Some(waker) = state.taker.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.state.lock().lost)
    }
}

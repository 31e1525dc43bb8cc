//! A connection in a stack.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use hermes_http::{Frame, Incoming, Outgoing, RefusalReason, Reset};
use hermes_proto::ip::IcmpError;
use hermes_stack::{FlowId, Received};
use http::StatusCode;
use tokio::sync::Notify;

use super::flow_error::FlowError;
use super::flow_refusal;
use super::flow_stack::FlowStack;

/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// A connection in a stack. Dropping it resets the connection unless that has ended, and refuses one that was never accepted.
pub struct TcpFlow {
    stack: Arc<FlowStack>,
    flow: FlowId,
    progress: Arc<FlowProgress>,
}

/// Wakes the tasks that wait for a connection: each has a `Notify` of its own, which wakes one task.
#[derive(Debug, Default)]
pub(super) struct FlowProgress {
    reader: Notify,
    writer: Notify,
    watcher: Notify,
    is_over: AtomicBool,
    /// The ICMP error about it, of a router or its target.
    error: OnceLock<IcmpError>,
}

/// A connection broke, or the exchange that it is for.
struct Interrupted;

impl FlowProgress {
    /// Wakes all tasks: the connection made progress.
    pub(super) fn made(&self) {
        self.reader.notify_one();
        self.writer.notify_one();
        self.watcher.notify_one();
    }

    /// The target cannot be reached.
    pub(super) fn fail(&self, error: IcmpError) {
        // The first one counts.
        let _ = self.error.set(error);
        self.end();
    }

    /// Wakes all tasks: the connection is over.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.made();
    }
}

impl TcpFlow {
    pub(super) fn new(stack: Arc<FlowStack>, flow: FlowId, progress: Arc<FlowProgress>) -> Self {
        Self {
            stack,
            flow,
            progress,
        }
    }

    /// Answers its client: the target is there. The client is refused all the same if its owner has no memory left for a connection.
    pub fn accept(&self) {
        self.stack.accept(self.flow);
    }

    /// Refuses its client, as a proxy or a target far away has refused it.
    pub fn refuse(self, reason: &RefusalReason) {
        self.stack
            .refuse(self.flow, flow_refusal::of_reason(reason));
    }

    /// Refuses its client as far as a status alone says why.
    pub fn refuse_status(self, status: StatusCode) {
        self.stack
            .refuse(self.flow, flow_refusal::of_status(status));
    }

    /// Waits until its peer has answered.
    ///
    /// # Errors
    /// The connection was refused, or the target cannot be reached.
    pub async fn opened(&self) -> Result<(), FlowError> {
        loop {
            if self.stack.with(|stack, _| stack.is_open(self.flow)) {
                return Ok(());
            }
            if self.is_broken() {
                return Err(match self.progress.error.get() {
                    Some(error) => FlowError::Unreachable(*error),
                    None => FlowError::Refused,
                });
            }
            self.progress.watcher.notified().await;
        }
    }

    /// Resolves when it is broken, or given up by its client.
    pub async fn broken(&self) {
        while !self.is_broken() {
            self.progress.watcher.notified().await;
        }
    }

    /// Carries the peer's bytes to `outgoing`, and those of `incoming` to the peer, until both have
    /// ended or one breaks.
    pub async fn carry(self, mut incoming: Incoming, mut outgoing: Outgoing) {
        let both = async {
            tokio::try_join!(self.read(&mut outgoing), self.write(&mut incoming)).map(drop)
        };
        let ended = tokio::select! {
            biased;
            ended = both => ended,
            () = self.broken() => Err(Interrupted),
        };
        if ended.is_err() {
            outgoing.reset(Reset::Cancel);
        }
    }

    fn is_broken(&self) -> bool {
        let is_over = self.progress.is_over.load(Ordering::Relaxed);
        is_over || self.stack.with(|stack, _| stack.is_broken(self.flow))
    }

    /// Forwards the peer's bytes.
    async fn read(&self, outgoing: &mut Outgoing) -> Result<(), Interrupted> {
        let mut room = vec![0; PIECE];
        loop {
            // Bytes without room are not taken, so that the peer's window closes.
            outgoing.roomy().await.map_err(|_| Interrupted)?;
            let received = self
                .stack
                .with(|stack, now| stack.receive(self.flow, &mut room, now));
            match received {
                Received::Bytes(length) => {
                    let data = Bytes::copy_from_slice(&room[..length]);
                    outgoing.data(data, false).await.map_err(|_| Interrupted)?;
                }
                Received::Nothing => tokio::select! {
                    () = self.progress.reader.notified() => {}
                    _ = outgoing.broken() => return Err(Interrupted),
                },
                Received::End => return outgoing.finish(None).await.map_err(|_| Interrupted),
                Received::Broken => return Err(Interrupted),
            }
        }
    }

    /// Sends bytes to the peer.
    async fn write(&self, incoming: &mut Incoming) -> Result<(), Interrupted> {
        while let Some(frame) = incoming.frame().await {
            match frame.map_err(|_| Interrupted)? {
                Frame::Data(data) => self.send(data).await?,
                Frame::Trailers(_) => {}
            }
        }
        self.stack.with(|stack, now| stack.finish(self.flow, now));
        Ok(())
    }

    async fn send(&self, mut data: Bytes) -> Result<(), Interrupted> {
        while data.has_remaining() {
            let sent = self
                .stack
                .with(|stack, now| stack.send(self.flow, &data, now));
            data.advance(sent);
            if sent > 0 {
                continue;
            }
            if self.is_broken() {
                return Err(Interrupted);
            }
            self.progress.writer.notified().await;
        }
        Ok(())
    }
}

impl Drop for TcpFlow {
    fn drop(&mut self) {
        self.stack.release(self.flow);
    }
}

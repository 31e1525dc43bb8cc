//! Changes of datagrams on their way, where a route asks for them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_proto::batch::{Batch, Layout, PushError};

use tokio::time::Instant;

use crate::broken::{Broken, Side};
use crate::recovery::{DirectionRecovery, Recovery};

/// Changes the datagrams of one direction of a tunnel of UDP.
pub trait AlterDatagram: Send {
    /// Decides on one datagram. Of one that it changes, it appends the new payload to `output`, which is empty.
    ///
    /// # Errors
    /// The tunnel is to end; why, in words for records.
    fn alter(&mut self, datagram: &[u8], output: &mut BytesMut) -> Result<DatagramFate, String>;
}

/// The fate of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramFate {
    /// It goes on as it is.
    Unchanged,
    /// The new payload goes on in its place.
    Changed,
    /// It goes no further.
    Dropped,
}

/// The direction whose datagrams are changed: hears of those that go no further.
pub(crate) trait ChangedDirection {
    /// The side that the datagrams come from.
    fn side(&self) -> Side;

    /// A change dropped one.
    fn dropped(&self);

    /// One is no frame of recovery.
    fn malformed(&self);

    /// One of so many bytes does not fit.
    fn too_long(&self, bytes: usize);
}

/// The changes of one direction, in their order.
pub struct DatagramChanges {
    stages: Vec<Stage>,
    /// Recovery of those that are lost, before the changes or behind them.
    pub(crate) recovery: DirectionRecovery,
    /// Datagrams as they came.
    pub(crate) found: Batch,
    /// Changed datagrams for which a batch had no room.
    rest: VecDeque<Bytes>,
    /// Whether the last batch is to be given out again.
    is_kept: bool,
    /// The datagram between two stages.
    input: BytesMut,
    output: BytesMut,
}

/// One change, and the name by which the route asks for it.
struct Stage {
    name: String,
    alter: Box<dyn AlterDatagram>,
}

impl Default for DatagramChanges {
    fn default() -> Self {
        Self {
            stages: Vec::new(),
            recovery: DirectionRecovery::default(),
            found: Batch::with(Layout::UDP),
            rest: VecDeque::new(),
            is_kept: false,
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }
}

impl DatagramChanges {
    /// Adds a change after those that there are.
    pub fn push(&mut self, name: String, alter: Box<dyn AlterDatagram>) {
        self.stages.push(Stage { name, alter });
    }

    /// Adds a change before those that there are: towards the client, the last of a route comes first.
    pub fn push_front(&mut self, name: String, alter: Box<dyn AlterDatagram>) {
        self.stages.insert(0, Stage { name, alter });
    }

    /// Has lost datagrams recovered, where a side has an end of recovery: `from` the one that they come from, `to` the other.
    pub fn recover(&mut self, from: Option<&Arc<Recovery>>, to: Option<&Arc<Recovery>>) {
        self.recovery = DirectionRecovery {
            from: from.cloned(),
            to: to.cloned(),
        };
    }

    /// Whether nothing waits for a batch.
    pub(crate) fn is_between(&self) -> bool {
        self.rest.is_empty()
    }

    /// Gives the last batch out again.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Whether `batch` has something to be sent before more is read.
    pub(crate) fn refill(&mut self, direction: &impl ChangedDirection, batch: &mut Batch) -> bool {
        if std::mem::take(&mut self.is_kept) {
            return true;
        }
        batch.clear();
        while let Some(datagram) = self.rest.pop_front() {
            if !put(&datagram, direction, batch) {
                self.rest.push_front(datagram);
                return true;
            }
        }
        !batch.is_empty()
    }

    /// Changes datagrams, into `batch`, which is empty, as far as that has room.
    pub(crate) fn change<'p>(
        &mut self,
        datagrams: impl Iterator<Item = &'p [u8]>,
        direction: &impl ChangedDirection,
        batch: &mut Batch,
    ) -> Result<(), Broken> {
        let recovery = self.recovery.clone();
        let now = Instant::now();
        for datagram in datagrams {
            match &recovery.from {
                None => self.change_one(datagram, direction, batch)?,
                Some(from) if !from.take(datagram, now) => direction.malformed(),
                Some(_) => {}
            }
        }

        while let Some(datagram) = recovery.from.as_ref().and_then(|from| from.datagram()) {
            self.change_one(&datagram, direction, batch)?;
        }
        while let Some(frame) = recovery.to.as_ref().and_then(|to| to.frame()) {
            self.give(frame, direction, batch);
        }
        Ok(())
    }

    /// Changes one datagram, and has it leave.
    fn change_one(
        &mut self,
        datagram: &[u8],
        direction: &impl ChangedDirection,
        batch: &mut Batch,
    ) -> Result<(), Broken> {
        let goes_on = self.pass(datagram);
        if !goes_on.map_err(|reason| Broken::malformed(direction.side(), reason))? {
            direction.dropped();
            return Ok(());
        }
        match &self.recovery.to {
            Some(to) => to.send(&self.input, Instant::now()),
            // Behind those that wait.
            None if self.rest.is_empty() && put(&self.input, direction, batch) => {}
            None => self.rest.push_back(Bytes::copy_from_slice(&self.input)),
        }
        Ok(())
    }

    /// Has a frame leave, behind those that wait.
    fn give(&mut self, frame: Bytes, direction: &impl ChangedDirection, batch: &mut Batch) {
        if !self.rest.is_empty() || !put(&frame, direction, batch) {
            self.rest.push_back(frame);
        }
    }

    /// Passes one through all stages, into `input`; false if one drops it.
    fn pass(&mut self, datagram: &[u8]) -> Result<bool, String> {
        self.input.clear();
        self.input.extend_from_slice(datagram);
        for stage in &mut self.stages {
            self.output.clear();
            let fate = stage.alter.alter(&self.input, &mut self.output);
            match fate.map_err(|reason| format!("{}: {reason}", stage.name))? {
                DatagramFate::Unchanged => {}
                DatagramFate::Changed => std::mem::swap(&mut self.input, &mut self.output),
                DatagramFate::Dropped => return Ok(false),
            }
        }

        Ok(true)
    }
}

/// Puts a datagram into the batch, or drops it where none may be so long; false where the batch was full.
fn put(datagram: &[u8], direction: &impl ChangedDirection, batch: &mut Batch) -> bool {
    match batch.push(datagram) {
        Ok(()) => true,
        Err(PushError::Full) => false,
        Err(PushError::TooLong) => {
            direction.too_long(datagram.len());
            true
        }
    }
}

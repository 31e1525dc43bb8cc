//! Changes of datagrams on their way, where a route asks for them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hermes_proto::batch::{Batch, Layout, PushError};

use crate::broken::{Broken, Side};

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

    /// One of so many bytes does not fit.
    fn too_long(&self, bytes: usize);
}

/// The changes of one direction, in their order.
pub struct DatagramChanges {
    stages: Vec<Stage>,
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
        for datagram in datagrams {
            let goes_on = self.pass(datagram);
            if !goes_on.map_err(|reason| Broken::malformed(direction.side(), reason))? {
                direction.dropped();
                continue;
            }
            // Behind those that wait.
            if !self.rest.is_empty() || !put(&self.input, direction, batch) {
                self.rest.push_back(Bytes::copy_from_slice(&self.input));
            }
        }

        Ok(())
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

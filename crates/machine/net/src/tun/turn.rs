//! Whose turn it is at a device that two processes have the queues of, so that it stays, with its addresses and routes, when the first ends.
//!
//! The process that reads a device keeps the writing end of a pipe for as long as it does, and gives the reading end away beside the queues.
//! The pipe ends with its writing end, however that process ends; then the next one has the device.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{ioctl_fionbio, read};

use crate::descriptor_table::{DescriptorEntry, DescriptorTable};

/// The turn of this process, with its entries for the next one. It ends when this is dropped, the entries before.
#[derive(Debug)]
pub struct DeviceTurn {
    entries: Vec<DescriptorEntry>,
    _writing: PipeWriter,
}

impl DeviceTurn {
    /// The turn at the device of this name.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn begin(name: &str, descriptors: &DescriptorTable) -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        ioctl_fionbio(&reading, true)?;
        Ok(Self {
            entries: vec![descriptors.enter(name, &reading)?],
            _writing: writing,
        })
    }

    /// Enters a queue of the device, or the turn of an earlier process, which the next one has to wait for as well.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn enter(
        &mut self,
        name: &str,
        descriptor: &impl AsFd,
        descriptors: &DescriptorTable,
    ) -> io::Result<()> {
        self.entries.push(descriptors.enter(name, descriptor)?);
        Ok(())
    }
}

/// Whether the process with the writing end of this pipe has let go.
pub fn is_over(reading: &OwnedFd) -> bool {
    matches!(read(reading, &mut [0]), Ok(0))
}

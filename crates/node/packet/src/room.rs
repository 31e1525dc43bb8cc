//! Room for the capsules that a worker writes, shared by all its tunnels.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

/// Bytes for the capsules of one wake-up; one such room serves all tunnels of a worker.
#[doc(alias = "bound")]
const CAPSULE_ROOM: usize = 32 * 1024;

thread_local! {
    /// The buffer of all tunnels of a worker: one of its own would be most of the memory that a
    /// short session touches.
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The bytes that are written into the buffer of this worker.
pub(crate) fn in_room(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    ROOM.with_borrow_mut(|room| {
        // While the last bytes are still in use, reserving means allocating: so not for each
        // wake-up.
        if room.capacity() < CAPSULE_ROOM / 2 {
            room.reserve(CAPSULE_ROOM);
        }
        write(room);
        room.split().freeze()
    })
}

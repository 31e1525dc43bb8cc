//! A transform: changes the bytes of tunnels on their way.

use bytes::{Bytes, BytesMut};

/// Bytes that are made at once: what a tunnel holds of changed bytes that have not left.
#[doc(alias = "bound")]
pub const PIECE: usize = 16 * 1024;

/// Changes the bytes of tunnels of routes that say `through: [NAME]`, in both directions. Requests and datagrams pass unchanged.
///
/// - **Gets** each piece of bytes as it came, in the tunnel's own order, without the capsules around them.
/// - **Must** give what leaves instead, and hold nothing back that the other side could wait for: a tunnel is a conversation. One
///   that the next proxy has to undo says so with [`needs_peer`](Self::needs_peer); the two nodes agree on it when the tunnel opens,
///   by the name under which both have it, and without that the bytes stay as they are.
/// - **Time**: none is set; every call is a short computation.
/// - **Errors**: what cannot be changed breaks the tunnel: both sides are reset, and the record says why.
/// - **Charged**: what it holds is the tunnel's; it must bound it, say it by [`memory`](Self::memory), and bound the tunnels that it has
///   at once.
/// - **Runs** on the worker of the tunnel, between two turns of the loop that moves the bytes: it must not block. The next piece is
///   read when what was made of the last one has left.
pub trait Transform: Send + Sync {
    /// Begins with a tunnel. `None` if its bytes are to stay as they are: then nothing stands between them and the kernel, which may
    /// splice them.
    fn begin(&self) -> Option<Altering>;

    /// What undoes it, on a node to which a peer sends changed bytes; `None` if nothing does, or for want of room.
    fn undo(&self) -> Option<Altering> {
        None
    }

    /// Bytes of memory that it takes for one tunnel. They are charged to the tunnel's user or source; a tunnel whose owner has no room
    /// for them stays as it is.
    fn memory(&self) -> usize {
        2 * PIECE
    }

    /// Whether the next proxy has to undo it.
    fn needs_peer(&self) -> bool {
        false
    }
}

/// What changes the two directions of a tunnel.
pub struct Altering {
    /// What the client sends.
    pub to_target: Box<dyn Alter>,
    /// What the target sends.
    pub to_client: Box<dyn Alter>,
}

/// Changes one direction of a tunnel.
pub trait Alter: Send {
    /// Takes bytes from the front of `input`, and appends at most [`PIECE`] bytes to `output`, which is empty. Called until `input` is
    /// empty and nothing is appended any more.
    ///
    /// # Errors
    /// The bytes mean nothing.
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed>;

    /// The direction has ended: appends at most [`PIECE`] bytes of what is left to `output`. Called until it says that this was all.
    ///
    /// # Errors
    /// The end came too soon.
    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed>;
}

/// Why bytes cannot be changed, in words for records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

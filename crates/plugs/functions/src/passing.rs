//! Bytes that pass a transform as they are.

use bytes::{Bytes, BytesMut};
use hermes_plug::PIECE;

/// Moves a piece from the front of `input` to `output`, which is empty; gives the length of the piece.
pub(crate) fn pass(input: &mut Bytes, output: &mut BytesMut) -> usize {
    let piece = input.split_to(input.len().min(PIECE));
    output.extend_from_slice(&piece);
    piece.len()
}

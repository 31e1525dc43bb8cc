//! Compression of a tunnel between two nodes: raw DEFLATE (RFC 1951) in each direction, flushed after each piece.
//!
//! It is `flate2` with its pure Rust back end that does it: `zstd` would bring in C.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use flate2::{Compression, Decompress, FlushCompress, FlushDecompress, Status};
use hermes_plug::{
    Alter, Altering, Beginning, Malformed, PIECE, Payload, Transform, TunnelSubject,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Tunnels that are compressed at once; others stay plain.
#[doc(alias = "bound")]
const TUNNELS: usize = 256;

/// Bytes of memory that one takes where both directions are used.
#[doc(alias = "bound")]
const TUNNEL_BYTES: usize = 400_000;

/// Compresses tunnels to a peer that undoes it.
pub(crate) struct Compress {
    room: Arc<Semaphore>,
}

impl Compress {
    /// With room for as many tunnels as there may be.
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(TUNNELS)),
        }
    }

    /// The encoder and the decoder.
    fn pair(&self) -> Option<(Box<dyn Alter>, Box<dyn Alter>)> {
        let held = Arc::new(self.room.clone().try_acquire_owned().ok()?);
        let deflating = Deflating {
            coder: None,
            flushed: true,
            _held: held.clone(),
        };

        let inflating = Inflating {
            coder: None,
            ended: false,
            _held: held,
        };

        Some((Box::new(deflating), Box::new(inflating)))
    }

    /// The encoder for the bytes of a tunnel, while there is room.
    fn packing(&self) -> Option<Altering> {
        let (to_target, to_client) = self.pair()?;
        Some(Altering {
            to_target,
            to_client,
        })
    }
}

impl Transform for Compress {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let packing = match tunnel.payload {
            Payload::Bytes => self.packing(),
            Payload::Datagrams | Payload::Packets | Payload::Message => None,
        };
        Box::pin(std::future::ready(Ok(packing)))
    }

    fn undo(&self) -> Option<Altering> {
        let (to_client, to_target) = self.pair()?;
        Some(Altering {
            to_target,
            to_client,
        })
    }

    fn memory(&self) -> usize {
        TUNNEL_BYTES
    }

    fn needs_peer(&self) -> bool {
        true
    }

    fn peer_name(&self) -> Option<&str> {
        Some("compress")
    }
}

/// Packs one direction. The coder comes with the first bytes: many tunnels use one direction only for long.
struct Deflating {
    coder: Option<flate2::Compress>,
    /// All that was taken has been given.
    flushed: bool,
    _held: Arc<OwnedSemaphorePermit>,
}

impl Deflating {
    fn run(
        &mut self,
        input: &mut Bytes,
        output: &mut BytesMut,
        flush: FlushCompress,
    ) -> Result<Status, Malformed> {
        let coder = self
            .coder
            .get_or_insert_with(|| flate2::Compress::new(Compression::fast(), false));
        let before = coder.total_in();
        output.resize(PIECE, 0);
        let begun = coder.total_out();
        let status = coder
            .compress(input, output, flush)
            .map_err(|error| Malformed(error.to_string()))?;
        output.truncate(moved(begun, coder.total_out()));
        input.advance(moved(before, coder.total_in()));

        Ok(status)
    }
}

impl Alter for Deflating {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if input.is_empty() && self.flushed {
            return Ok(());
        }
        self.run(input, output, FlushCompress::Sync)?;
        self.flushed = input.is_empty() && output.len() < PIECE;
        Ok(())
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        let status = self.run(&mut Bytes::new(), output, FlushCompress::Finish)?;
        Ok(status == Status::StreamEnd)
    }
}

/// Unpacks one direction.
struct Inflating {
    coder: Option<Decompress>,
    /// The peer's last block has come.
    ended: bool,
    _held: Arc<OwnedSemaphorePermit>,
}

impl Alter for Inflating {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if self.ended {
            return match input.is_empty() {
                true => Ok(()),
                false => Err(Malformed("bytes follow the end".to_owned())),
            };
        }

        let coder = self.coder.get_or_insert_with(|| Decompress::new(false));
        let before = coder.total_in();
        let begun = coder.total_out();
        output.resize(PIECE, 0);
        let status = coder
            .decompress(input, output, FlushDecompress::None)
            .map_err(|_| Malformed("it is not DEFLATE".to_owned()))?;
        output.truncate(moved(begun, coder.total_out()));
        input.advance(moved(before, coder.total_in()));
        self.ended = status == Status::StreamEnd;

        Ok(())
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        if self.ended {
            Ok(true)
        } else {
            Err(Malformed("it is truncated".to_owned()))
        }
    }
}

/// How far a count went on; never further than a piece or an input is long.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that one piece becomes.
    fn altered(alter: &mut dyn Alter, piece: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut input = Bytes::copy_from_slice(piece);
        let mut all = Vec::new();
        loop {
            let mut output = BytesMut::new();
            alter.alter(&mut input, &mut output)?;
            assert!(output.len() <= PIECE);
            if output.is_empty() && input.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&output);
        }
    }

    fn ended(alter: &mut dyn Alter) -> Result<Vec<u8>, Malformed> {
        let mut all = Vec::new();
        loop {
            let mut output = BytesMut::new();
            let done = alter.end(&mut output)?;
            all.extend_from_slice(&output);
            if done {
                return Ok(all);
            }
        }
    }

    #[test]
    fn each_piece_arrives_at_once_and_as_it_was() {
        let compress = Compress::new();
        let mut here = compress.packing().unwrap();
        let mut there = compress.undo().unwrap();
        let random: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..))
            .take(3 * PIECE)
            .collect();
        for piece in [b"a".as_slice(), &[7; 100_000], &random, b"the end"] {
            let packed = altered(&mut *here.to_target, piece).unwrap();
            assert_eq!(altered(&mut *there.to_target, &packed).unwrap(), piece);
        }
        let last = ended(&mut *here.to_target).unwrap();
        assert_eq!(altered(&mut *there.to_target, &last).unwrap(), b"");
        assert_eq!(ended(&mut *there.to_target).unwrap(), b"");
    }

    #[test]
    fn a_bomb_comes_in_pieces() {
        const SIZE: usize = 16 * 1024 * 1024;
        let compress = Compress::new();
        let mut here = compress.packing().unwrap();
        let bomb = altered(&mut *here.to_target, &vec![0; SIZE]).unwrap();
        assert!(bomb.len() < SIZE / 200);
        let mut there = compress.undo().unwrap();
        let mut input = Bytes::from(bomb);
        let mut first = BytesMut::new();
        there.to_target.alter(&mut input, &mut first).unwrap();
        assert_eq!(first.len(), PIECE);
        assert!(
            !input.is_empty(),
            "the rest is not taken before it is asked for"
        );
    }

    #[test]
    fn what_is_malformed_or_cut_off_is_noticed() {
        let compress = Compress::new();
        let mut there = compress.undo().unwrap();
        assert!(altered(&mut *there.to_target, &[0xff; 100]).is_err());
        let mut here = compress.packing().unwrap();
        let mut there = compress.undo().unwrap();
        let packed = altered(&mut *here.to_target, b"hello").unwrap();
        altered(&mut *there.to_target, &packed).unwrap();
        assert!(ended(&mut *there.to_target).is_err());
        let last = ended(&mut *here.to_target).unwrap();
        altered(&mut *there.to_target, &last).unwrap();
        assert!(altered(&mut *there.to_target, b"more").is_err());
    }

    #[test]
    fn the_tunnels_are_bounded() {
        let compress = Compress::new();
        let held: Vec<_> = (0..TUNNELS).map(|_| compress.packing().unwrap()).collect();
        assert!(compress.packing().is_none() && compress.undo().is_none());
        drop(held);
        assert!(compress.undo().is_some());
    }
}

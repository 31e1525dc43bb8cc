//! Compression of tunnels between two nodes with Zstandard (RFC 8878): a frame in each direction, flushed after each piece.
//!
//! The crate `zstd` brings the reference library, in C: its decoders read what peers send, so the window is bounded, and nothing of it is
//! used for files or dictionaries. DEFLATE, as the part `compress`, stays for those who want no C on the way of peers.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use hermes_config::Problem;
use hermes_plug::{
    Alter, Altering, Beginning, Malformed, PIECE, Payload, Settings, Transform, TunnelSubject,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, Operation, OutBuffer};

/// Tunnels that one function compresses at once; others stay plain.
#[doc(alias = "bound")]
const TUNNELS: usize = 256;

/// The logarithm of the window, 128 KiB: a peer that asks for more is refused.
#[doc(alias = "bound")]
const WINDOW_LOG: u32 = 17;

/// Bytes of memory that a tunnel takes where both directions are used.
#[doc(alias = "bound")]
const TUNNEL_BYTES: usize = 1_500_000;

/// The level where the settings do not say: the library's own.
const LEVEL: i32 = 3;

/// Levels that pass bytes faster than most networks.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=9;

/// The settings of `zstd`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ZstdSettings {
    /// How hard it tries, 1 to 9. Default: 3.
    #[serde(default)]
    level: Option<i32>,
}

/// Compresses tunnels to a peer that undoes it.
pub struct Zstd {
    level: i32,
    room: Arc<Semaphore>,
}

impl Default for Zstd {
    fn default() -> Self {
        Self::of_level(LEVEL)
    }
}

impl Zstd {
    fn of_level(level: i32) -> Self {
        Self {
            level,
            room: Arc::new(Semaphore::new(TUNNELS)),
        }
    }

    fn make(settings: ZstdSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        let level = settings.level.unwrap_or(LEVEL);
        if !LEVELS.contains(&level) {
            let problem = Problem::new("level", "it is out of range");
            return Err(vec![problem.remedy("write 1 to 9")]);
        }
        Ok(Arc::new(Self::of_level(level)))
    }

    /// The encoder and the decoder, while there is room.
    fn pair(&self) -> Option<Pair> {
        let held = Arc::new(self.room.clone().try_acquire_owned().ok()?);
        Some(Pair {
            packing: Box::new(Packing {
                level: self.level,
                coder: None,
                is_flushed: true,
                _held: held.clone(),
            }),
            unpacking: Box::new(Unpacking {
                coder: None,
                has_ended: false,
                _held: held,
            }),
        })
    }
}

struct Pair {
    packing: Box<dyn Alter>,
    unpacking: Box<dyn Alter>,
}

impl Transform for Zstd {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let pair = match tunnel.payload {
            Payload::Bytes => self.pair(),
            Payload::Datagrams | Payload::Packets | Payload::Message => None,
        };
        let altering = pair.map(|pair| Altering {
            to_target: pair.packing,
            to_client: pair.unpacking,
        });
        Box::pin(std::future::ready(Ok(altering)))
    }

    fn undo(&self) -> Option<Altering> {
        self.pair().map(|pair| Altering {
            to_target: pair.unpacking,
            to_client: pair.packing,
        })
    }

    fn memory(&self) -> usize {
        TUNNEL_BYTES
    }

    fn needs_peer(&self) -> bool {
        true
    }

    fn peer_name(&self) -> Option<&str> {
        Some("zstd")
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }
}

/// Packs one direction. The coder comes with the first bytes: many tunnels use one direction only for long.
struct Packing {
    level: i32,
    coder: Option<Encoder<'static>>,
    /// All that was taken has been given.
    is_flushed: bool,
    _held: Arc<OwnedSemaphorePermit>,
}

impl Packing {
    fn coder(&mut self) -> io::Result<&mut Encoder<'static>> {
        if self.coder.is_none() {
            let mut coder = Encoder::new(self.level)?;
            coder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
            self.coder = Some(coder);
        }
        self.coder
            .as_mut()
            .ok_or_else(|| io::Error::other("there is no coder"))
    }

    fn pack(&mut self, input: &mut Bytes, output: &mut BytesMut) -> io::Result<()> {
        output.resize(PIECE, 0);
        let coder = self.coder()?;
        let done = coder.run_on_buffers(input, &mut output[..])?;
        input.advance(done.bytes_read);
        let mut made = done.bytes_written;
        let mut left = 1;
        // The other side waits for these bytes: they do not stay in the coder.
        if input.is_empty() && made < PIECE {
            let mut rest = OutBuffer::around(&mut output[made..]);
            left = coder.flush(&mut rest)?;
            made += rest.pos();
        }
        output.truncate(made);
        self.is_flushed = input.is_empty() && left == 0;
        Ok(())
    }

    fn finish(&mut self, output: &mut BytesMut) -> io::Result<bool> {
        output.resize(PIECE, 0);
        let coder = self.coder()?;
        let mut made = OutBuffer::around(&mut output[..]);
        let left = coder.finish(&mut made, true)?;
        let length = made.pos();
        output.truncate(length);
        Ok(left == 0)
    }
}

impl Alter for Packing {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if input.is_empty() && self.is_flushed {
            return Ok(());
        }
        self.pack(input, output)
            .map_err(|error| Malformed(error.to_string()))
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        self.finish(output)
            .map_err(|error| Malformed(error.to_string()))
    }
}

/// Unpacks one direction.
struct Unpacking {
    coder: Option<Decoder<'static>>,
    /// The peer's frame is over.
    has_ended: bool,
    _held: Arc<OwnedSemaphorePermit>,
}

impl Unpacking {
    fn unpack(&mut self, input: &mut Bytes, output: &mut BytesMut) -> io::Result<()> {
        if self.coder.is_none() {
            let mut coder = Decoder::new()?;
            coder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
            self.coder = Some(coder);
        }
        let Some(coder) = &mut self.coder else {
            return Ok(());
        };
        output.resize(PIECE, 0);
        let done = coder.run_on_buffers(input, &mut output[..])?;
        output.truncate(done.bytes_written);
        input.advance(done.bytes_read);
        self.has_ended = done.remaining == 0 && done.bytes_read + done.bytes_written > 0;
        Ok(())
    }
}

impl Alter for Unpacking {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if self.has_ended {
            return match input.is_empty() {
                true => Ok(()),
                false => Err(Malformed("bytes follow the end".to_owned())),
            };
        }
        let unpacked = self.unpack(input, output);
        unpacked.map_err(|_| Malformed("it is not Zstandard, or in a larger window".to_owned()))
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        match self.has_ended {
            true => Ok(true),
            false => Err(Malformed("it is truncated".to_owned())),
        }
    }
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
            let is_over = alter.end(&mut output)?;
            all.extend_from_slice(&output);
            if is_over {
                return Ok(all);
            }
        }
    }

    #[test]
    fn each_piece_arrives_at_once_and_as_it_was() {
        let zstd = Zstd::default();
        let mut here = zstd.pair().unwrap();
        let mut there = zstd.pair().unwrap();
        // Bytes without any order, which grow when they are packed.
        let mut state = 1_u64;
        let mixed = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        });
        let mixed: Vec<u8> = mixed.take(3 * PIECE).collect();
        for piece in [b"a".as_slice(), &[7; 300_000], &mixed, b"the end"] {
            let packed = altered(&mut *here.packing, piece).unwrap();
            let got = altered(&mut *there.unpacking, &packed).unwrap();
            assert!(got == piece, "{} of {}", got.len(), piece.len());
        }
        let last = ended(&mut *here.packing).unwrap();
        assert_eq!(altered(&mut *there.unpacking, &last).unwrap(), b"");
        assert_eq!(ended(&mut *there.unpacking).unwrap(), b"");
        assert!(altered(&mut *there.unpacking, b"more").is_err());
    }

    #[test]
    fn a_bomb_comes_in_pieces() {
        const SIZE: usize = 16 * 1024 * 1024;
        let zstd = Zstd::default();
        let mut here = zstd.pair().unwrap();
        let bomb = altered(&mut *here.packing, &vec![0; SIZE]).unwrap();
        assert!(bomb.len() < SIZE / 1000, "{}", bomb.len());
        let mut there = zstd.pair().unwrap();
        let mut input = Bytes::from(bomb);
        let mut first = BytesMut::new();
        there.unpacking.alter(&mut input, &mut first).unwrap();
        assert!(first.len() <= PIECE && !input.is_empty());
    }

    #[test]
    fn malformed_large_and_truncated_frames_are_noticed() {
        let zstd = Zstd::default();
        let mut there = zstd.pair().unwrap();
        assert!(altered(&mut *there.unpacking, &[0xff; 100]).is_err());

        // A window of 8 MiB, which would be a peer's way to memory.
        let mut large = Encoder::new(3).unwrap();
        large.set_parameter(CParameter::WindowLog(23)).unwrap();
        let mut output = vec![0; 4096];
        let mut packed = OutBuffer::around(&mut output[..]);
        large.run_on_buffers(b"x", &mut []).unwrap();
        large.flush(&mut packed).unwrap();
        let length = packed.pos();
        let mut there = zstd.pair().unwrap();
        assert!(altered(&mut *there.unpacking, &output[..length]).is_err());

        let mut here = zstd.pair().unwrap();
        let mut there = zstd.pair().unwrap();
        let packed = altered(&mut *here.packing, b"hello").unwrap();
        altered(&mut *there.unpacking, &packed).unwrap();
        assert!(ended(&mut *there.unpacking).is_err());
    }

    #[test]
    fn the_tunnels_are_bounded() {
        let zstd = Zstd::default();
        let held: Vec<_> = (0..TUNNELS).map(|_| zstd.undo().unwrap()).collect();
        assert!(zstd.undo().is_none());
        drop(held);
        assert!(zstd.undo().is_some());
    }
}

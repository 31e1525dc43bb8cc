//! The content of a response in its file: blocks, each with a sum behind it.
//!
//! The sum is a CRC-32 (ISO 3309), big-endian, of the number of the file, the number of the block and its bytes: no block is taken for another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

/// Bytes of a block: enough for one write to a client, and few enough to be checked whenever some of them are read.
#[doc(alias = "bound")]
pub(super) const BLOCK: u64 = 64 << 10;

/// Bytes of a sum.
const SUM: u64 = 4;

/// The number of a response's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

impl FileId {
    /// The sum of bytes at this place of its file.
    pub(crate) fn sum(self, place: u64, bytes: &[u8]) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.0.to_be_bytes());
        sum.update(&place.to_be_bytes());
        sum.update(bytes);
        sum.finalize()
    }
}

/// Bytes of the file of a content of this length.
pub(super) fn file_length(length: u64) -> u64 {
    length + length.div_ceil(BLOCK) * SUM
}

/// Writes a content to its file.
///
/// # Errors
/// The disk is full, or fails.
pub(super) fn write(file: &File, id: FileId, content: &Bytes) -> io::Result<()> {
    let mut at = 0;
    for (index, block) in content.chunks(BLOCK as usize).enumerate() {
        file.write_all_at(block, at)?;
        at += block.len() as u64;
        let sum = id.sum(index as u64 + 1, block);
        file.write_all_at(&sum.to_be_bytes(), at)?;
        at += SUM;
    }
    Ok(())
}

/// The bytes of a content of `length` bytes from `at` on, to the end of their block.
///
/// # Errors
/// The disk fails, or the block is damaged.
pub(super) fn read(file: &File, id: FileId, length: u64, at: u64) -> io::Result<Bytes> {
    if at >= length {
        return Ok(Bytes::new());
    }
    let index = at / BLOCK;
    let size = BLOCK.min(length.saturating_sub(index * BLOCK));
    let mut block = vec![0; (size + SUM) as usize];
    file.read_exact_at(&mut block, index * (BLOCK + SUM))?;

    let sum = block.split_off(size as usize);
    if sum != id.sum(index + 1, &block).to_be_bytes() {
        let reason = "a block does not fit its sum";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let within = (at - index * BLOCK).min(size) as usize;
    Ok(Bytes::from(block).slice(within..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(length: u64) -> Bytes {
        (0..length).map(|at| (at * 7 % 251) as u8).collect()
    }

    fn written(length: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        write(&file, FileId(7), &content(length)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), file_length(length));
        file
    }

    #[test]
    fn any_part_of_a_content_is_read_as_it_was_written() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            let file = written(length);
            for from in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 3] {
                let mut at = from;
                while at < length {
                    let bytes = read(&file, FileId(7), length, at).unwrap();
                    assert!(!bytes.is_empty());
                    let end = at + bytes.len() as u64;
                    assert_eq!(bytes, content(length).slice(at as usize..end as usize));
                    at = end;
                }
            }
        }
    }

    #[test]
    fn no_changed_cut_or_moved_byte_is_given() {
        let length = BLOCK + 100;
        for at in [0, 5, BLOCK, BLOCK + 4, BLOCK + 50, file_length(length) - 1] {
            let file = written(length);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            let first = read(&file, FileId(7), length, 0).is_ok();
            let second = read(&file, FileId(7), length, BLOCK).is_ok();
            assert_eq!(
                (first, second),
                (at >= BLOCK + SUM, at < BLOCK + SUM),
                "{at}"
            );
        }
        let file = written(length);
        assert!(read(&file, FileId(8), length, 0).is_err(), "another file");
        assert!(read(&file, FileId(7), length + 1, BLOCK).is_err(), "longer");
        file.set_len(BLOCK).unwrap();
        assert!(read(&file, FileId(7), length, 0).is_err(), "cut");
    }
}

//! The bytes to write, as slices of the buffers they lie in.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Content to send. It may carry its own accounting.
pub trait Content {
    /// Its bytes.
    fn bytes(&self) -> &[u8];

    /// Takes the first `length` of its bytes off, which are no more than there are.
    #[must_use]
    fn split_to(&mut self, length: usize) -> Self;

    /// This many of its bytes were written.
    fn advance(&mut self, length: usize);
}

impl Content for Bytes {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn split_to(&mut self, length: usize) -> Self {
        Self::split_to(self, length)
    }

    fn advance(&mut self, length: usize) {
        Buf::advance(self, length);
    }
}

/// Content below this size is copied behind the head of its frame, in bytes: a slice of its own costs more.
const SMALL: usize = 256;

/// Something to write.
#[derive(Debug)]
enum Chunk<C> {
    /// This many bytes of the batch's own buffer.
    Own(usize),
    /// Content, from where it lies.
    Lent(C),
}

/// Frames to be written, in their order.
#[derive(Debug)]
pub struct FrameBatch<C> {
    own: BytesMut,
    chunks: VecDeque<Chunk<C>>,
    length: usize,
}

impl<C> Default for FrameBatch<C> {
    fn default() -> Self {
        Self {
            own: BytesMut::new(),
            chunks: VecDeque::new(),
            length: 0,
        }
    }
}

impl<C: Content> FrameBatch<C> {
    /// Bytes that are to be written.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.own.extend_from_slice(bytes);
        self.length += bytes.len();

        match self.chunks.back_mut() {
            Some(Chunk::Own(length)) => *length += bytes.len(),
            _ => self.chunks.push_back(Chunk::Own(bytes.len())),
        }
    }

    pub(super) fn lend(&mut self, mut content: C) {
        let length = content.bytes().len();
        if length < SMALL {
            self.put(content.bytes());
            content.advance(length);
        } else {
            self.length += length;
            self.chunks.push_back(Chunk::Lent(content));
        }
    }

    /// Fills `slices` with the next bytes; returns the number of slices filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut own = &self.own[..];
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            let bytes = match chunk {
                Chunk::Own(length) => {
                    let (now, later) = own.split_at(*length);
                    own = later;
                    now
                }
                Chunk::Lent(content) => content.bytes(),
            };

            *slice = IoSlice::new(bytes);
            count += 1;
        }

        count
    }

    /// This many bytes were written.
    pub fn advance(&mut self, mut written: usize) {
        self.length -= written;
        while written > 0 {
            let Some(chunk) = self.chunks.front_mut() else {
                return;
            };
            let now = match chunk {
                Chunk::Own(length) => {
                    let now = written.min(*length);
                    *length -= now;
                    self.own.advance(now);
                    if *length > 0 {
                        return;
                    }
                    now
                }
                Chunk::Lent(content) => {
                    let now = written.min(content.bytes().len());
                    content.advance(now);
                    if !content.bytes().is_empty() {
                        return;
                    }
                    now
                }
            };

            written -= now;
            self.chunks.pop_front();
        }

        if self.own.is_empty() {
            self.own.clear();
        }
    }

    /// All of it as one, for tests and small messages.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = self.slices(&mut slices);
            let before = bytes.len();
            for slice in &slices[..count] {
                bytes.extend_from_slice(slice);
            }
            self.advance(bytes.len() - before);
        }

        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_their_order_however_little_is_written() {
        for step in [1, 7, 300, 10_000] {
            let mut batch = FrameBatch::default();
            let mut expected = Vec::new();
            for round in 0..50_u8 {
                let length = usize::from(round) * 20;
                batch.put(&[round; 9]);
                batch.lend(Bytes::from(vec![round; length]));
                expected.extend(vec![round; 9 + length]);
            }
            let mut written = Vec::new();
            while !batch.is_empty() {
                let mut slices = [IoSlice::new(&[]); 3];
                let count = batch.slices(&mut slices);
                let all: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.to_vec())
                    .collect();
                let now = step.min(all.len());
                written.extend_from_slice(&all[..now]);
                batch.advance(now);
            }
            assert_eq!(written, expected, "{step}");
        }
    }
}

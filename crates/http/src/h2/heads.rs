//! The heads of HTTP/2 frames in a stream of bytes, however it is cut (RFC 9113, 4.1).

/// Bytes of a frame's head.
const HEAD: usize = 9;

/// Bytes of a head with the error code of an RST_STREAM frame.
const WITH_CODE: usize = HEAD + 4;

/// Frame types (RFC 9113, 6).
pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;

/// What stands at the beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) length: usize,
    /// The error code, of RST_STREAM.
    pub(super) code: u32,
}

/// Finds them. Nothing else of the frames is kept.
#[derive(Debug)]
pub(super) struct Heads {
    /// Bytes to pass over before the next head.
    skip: usize,
    bytes: [u8; WITH_CODE],
    have: usize,
}

impl Heads {
    /// Frames that begin after this many bytes.
    pub(super) fn after(skip: usize) -> Self {
        Self {
            skip,
            bytes: [0; WITH_CODE],
            have: 0,
        }
    }

    /// Whether a frame may begin here.
    pub(super) fn is_between(&self) -> bool {
        self.skip == 0 && self.have == 0
    }

    /// Follows `bytes` and calls `each` with every head that is complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Head)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (self.wanted() - self.have).min(bytes.len());
            self.bytes[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == self.wanted() {
                let head = self.head();
                self.skip = head.length - (self.have - HEAD);
                self.have = 0;
                each(head);
            }
        }
    }

    /// An RST_STREAM frame of the right length is read to its error code.
    fn wanted(&self) -> usize {
        let is_reset = self.have >= HEAD && self.bytes[..4] == [0, 0, 4, RST_STREAM];
        if is_reset { WITH_CODE } else { HEAD }
    }

    fn head(&self) -> Head {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3, code @ ..] = self.bytes;
        let code = if self.have == WITH_CODE {
            u32::from_be_bytes(code)
        } else {
            0
        };
        Head {
            kind,
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
            length: usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2),
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_found_however_the_bytes_are_cut() {
        let mut bytes = vec![7; 24];
        let mut expected = Vec::new();
        for number in 0..200_u8 {
            bytes.extend([0, 1, 44, HEADERS, 5, 0x80, 0, 0, number]);
            bytes.extend([3; 300]);
            bytes.extend([0, 0, 4, RST_STREAM, 0, 0, 0, 0, number, 0, 0, 0, 8]);
            bytes.extend([0, 0, 0, DATA, 1, 0, 0, 0, number]);
            let head = Head {
                kind: DATA,
                flags: 1,
                stream: number.into(),
                length: 0,
                code: 0,
            };
            expected.push(Head {
                kind: HEADERS,
                flags: 5,
                length: 300,
                ..head
            });
            expected.push(Head {
                kind: RST_STREAM,
                flags: 0,
                length: 4,
                code: 8,
                ..head
            });
            expected.push(head);
        }
        for size in [1, 7, 9, 10, 13, 1000] {
            let (mut heads, mut found) = (Heads::after(24), Vec::new());
            bytes
                .chunks(size)
                .for_each(|piece| heads.feed(piece, |head| found.push(head)));
            assert_eq!(found, expected, "in pieces of {size}");
            assert!(heads.is_between());
        }
    }
}

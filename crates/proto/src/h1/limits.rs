//! How much a peer may send before it is refused.

/// Upper bounds on what a decoder reads into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head: start line, fields and the empty line. Default 65536.
    pub head_bytes: usize,
    /// Field lines of a head, and of a trailer section. Default 128.
    pub fields: usize,
    /// Bytes between the size of one chunk and the end of its line. Default 256.
    pub chunk_extension_bytes: usize,
    /// Bytes of a trailer section with its empty line. Default 8192.
    pub trailer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 65_536,
            fields: 128,
            chunk_extension_bytes: 256,
            trailer_bytes: 8_192,
        }
    }
}

//! How much a peer may send before it is refused.

/// Bytes of a head, of requests and of responses: it is read into memory as a whole.
#[doc(alias("bound", "limits.head_bytes"))]
const HEAD_BYTES: usize = 64 * 1024;

/// Field lines of a head, and of a trailer section: each costs more than its bytes.
#[doc(alias("bound", "limits.fields"))]
const FIELDS: usize = 128;

/// Field lines of a response's head, and of its trailers, over all versions: sites with many cookies have hundreds.
#[doc(alias("bound", "limits.fields"))]
const RESPONSE_FIELDS: usize = 1024;

/// Bytes of a chunk's extensions, which are not in use.
#[doc(alias = "bound")]
const CHUNK_EXTENSION_BYTES: usize = 256;

/// Bytes of a trailer section, over all versions: sums, and states with their details.
#[doc(alias("bound", "limits.trailer_bytes"))]
const TRAILER_BYTES: usize = 16 * 1024;

/// Upper bounds on the parts of a message that a decoder reads into memory, and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// Bytes of a head: start line, fields and the empty line. Default 65536.
    pub head_bytes: usize,
    /// Field lines of a head, and of a trailer section. Default 128.
    pub fields: usize,
    /// Bytes between the size of one chunk and the end of its line. Default 256.
    pub chunk_extension_bytes: usize,
    /// Bytes of a trailer section with its empty line. Default 16384.
    pub trailer_bytes: usize,
    /// Whether the fields of requests remember how their names were spelled. Default no.
    pub keeps_spelling: bool,
}

impl MessageLimits {
    /// The defaults for a response: those of a request, but 1024 field lines.
    pub fn of_responses() -> Self {
        Self {
            fields: RESPONSE_FIELDS,
            ..Self::default()
        }
    }
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            head_bytes: HEAD_BYTES,
            fields: FIELDS,
            chunk_extension_bytes: CHUNK_EXTENSION_BYTES,
            trailer_bytes: TRAILER_BYTES,
            keeps_spelling: false,
        }
    }
}

//! Messages that this node had begun to write when it was started again: the rest is written behind the bytes that the neighbour may have already.

use bytes::Bytes;
use hermes_http::ResponseHead;
use hermes_proto::binary_http::{BinaryHttpDecoder, BinaryPiece};
use hermes_proto::fields::Fields;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, ETAG};

use crate::node::Exchange;

/// A message whose beginning was written.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Its head, if it is a response.
    response: Option<Box<ResponseHead>>,
    rest: Rest,
}

/// The part of a message's content that is still to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rest {
    /// Bytes of content that were written, and are not written again.
    skip: u64,
    /// Bytes that follow without a length of their own: it was written before them.
    missing: u64,
    /// Everything was written.
    is_over: bool,
}

/// It cannot be gone on with: it broke off in the middle of something, or is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

impl Begun {
    /// The written beginning of a request; `None` if nothing was written.
    ///
    /// # Errors
    /// It cannot be gone on with.
    pub(crate) fn request(exchange: &Exchange) -> Result<Option<Self>, Lost> {
        Self::read(exchange, BinaryHttpDecoder::request())
    }

    /// As [`request`](Self::request), of a response.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn response(exchange: &Exchange) -> Result<Option<Self>, Lost> {
        Self::read(exchange, BinaryHttpDecoder::response())
    }

    fn read(exchange: &Exchange, mut decoder: BinaryHttpDecoder) -> Result<Option<Self>, Lost> {
        let mut offset = 0;
        let mut has_head = false;
        let mut begun = Self {
            response: None,
            rest: Rest::default(),
        };
        loop {
            let bytes = exchange.written(offset);
            if bytes.is_empty() {
                break;
            }
            offset += bytes.len() as u64;
            decoder.push(&bytes);
            while let Some(piece) = decoder.next().map_err(|_| Lost)? {
                match piece {
                    BinaryPiece::Request(_) => has_head = true,
                    BinaryPiece::Response(head) => {
                        has_head = true;
                        begun.response = Some(head);
                    }
                    BinaryPiece::Data(data) => begun.rest.skip += data.len() as u64,
                    BinaryPiece::End(_) => begun.rest.is_over = true,
                }
            }
        }
        // Bytes were let go, or are damaged: how the message goes on cannot be known.
        if offset != exchange.written_length() {
            return Err(Lost);
        }
        if offset == 0 {
            return Ok(None);
        }

        // A chunk that broke off is completed. A head or trailers that broke off cannot be.
        begun.rest.missing = match decoder.missing() {
            Some(missing) if has_head => missing,
            _ if begun.rest.is_over => 0,
            _ => return Err(Lost),
        };
        Ok(Some(begun))
    }

    /// The rest of a request, as its content is kept.
    pub(crate) fn rest(self) -> Rest {
        self.rest
    }

    /// What is left to be written of the content of this response, if it is that of the one which was begun: because it `continues` the
    /// same exchange, or by its strong validator (RFC 9110, 8.8.1).
    ///
    /// # Errors
    /// It may be another.
    pub(crate) fn rest_of(self, head: &ResponseHead, continues: bool) -> Result<Rest, Lost> {
        let before = self.response.ok_or(Lost)?;
        let is_same = before.status == head.status
            && agree(&before.fields, &head.fields)
            && (continues || has_same_tag(&before.fields, &head.fields));
        is_same.then_some(self.rest).ok_or(Lost)
    }
}

/// Whether the contents of two responses have the same form.
fn agree(one: &Fields, other: &Fields) -> bool {
    [CONTENT_LENGTH, CONTENT_ENCODING]
        .iter()
        .all(|name| one.get(name) == other.get(name))
}

fn has_same_tag(one: &Fields, other: &Fields) -> bool {
    let tag = one.get(ETAG);
    tag.is_some_and(|tag| tag.as_bytes().starts_with(b"\"")) && tag == other.get(ETAG)
}

impl Rest {
    /// Whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes out of content what is not to be written; what then stands before the rest without a length of its own is the first of the
    /// two.
    pub(crate) fn split(&mut self, mut content: Bytes) -> (Bytes, Bytes) {
        let skipped = content
            .len()
            .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        drop(content.split_to(skipped));
        self.skip -= skipped as u64;

        let missing = usize::try_from(self.missing).unwrap_or(usize::MAX);
        let bare = content.split_to(content.len().min(missing));
        self.missing -= bare.len() as u64;
        (bare, content)
    }

    /// Whether the content is shorter than its written beginning.
    pub(crate) fn is_short(&self) -> bool {
        self.skip > 0 || self.missing > 0
    }
}

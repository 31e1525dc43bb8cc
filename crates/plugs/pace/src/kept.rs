//! Contents of requests that may be sent again.

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, StreamError};
use hermes_net::memory::{Charge, Memory, Owner, Purpose};

/// The content of a request.
pub(crate) enum Content {
    /// It is sent once.
    Once(Incoming),
    /// It may be sent again.
    Kept(KeptContent),
}

/// A whole content.
pub(crate) struct KeptContent {
    bytes: Bytes,
    _charge: Option<Charge>,
}

impl Content {
    /// Keeps a content whose length is known and at most so long, where its owner has memory for it.
    ///
    /// # Errors
    /// The client's stream ends before its content.
    pub(crate) async fn keep(
        mut incoming: Incoming,
        owner: &Owner,
        most: usize,
    ) -> Result<Self, StreamError> {
        if incoming.is_end() {
            return Ok(Self::Kept(KeptContent {
                bytes: Bytes::new(),
                _charge: None,
            }));
        }
        let length = incoming
            .length()
            .and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= most) else {
            return Ok(Self::Once(incoming));
        };
        let account = Memory::node().owner(owner.clone());
        let mut charge = account.empty_charge(Purpose::Replays);
        if !charge.grow_if_free(length) {
            return Ok(Self::Once(incoming));
        }

        let mut bytes = BytesMut::with_capacity(length);
        while let Some(frame) = incoming.frame().await {
            match frame? {
                Frame::Data(data) => bytes.extend_from_slice(&data),
                // RFC 9110, section 6.5.1: one who merges no trailers may leave them out.
                Frame::Trailers(_) => break,
            }
        }
        Ok(Self::Kept(KeptContent {
            bytes: bytes.freeze(),
            _charge: Some(charge),
        }))
    }

    /// The content to send, and what is left to be sent again.
    pub(crate) fn send(self) -> (Incoming, Option<KeptContent>) {
        match self {
            Self::Once(incoming) => (incoming, None),
            Self::Kept(kept) => (kept.incoming(), Some(kept)),
        }
    }
}

impl KeptContent {
    /// The content, once more.
    pub(crate) fn incoming(&self) -> Incoming {
        match self.bytes.is_empty() {
            true => Incoming::Empty,
            false => Incoming::Full(Some(self.bytes.clone())),
        }
    }
}

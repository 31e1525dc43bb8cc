//! The first bytes of a content, which a scanner sees before it decides whether it wants the others.

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, StreamError, pipe};
use hermes_plug::Opener;
use hermes_proto::fields::Fields;

/// A content of which some bytes were taken.
pub(super) struct Previewed {
    /// The bytes that were taken.
    pub(super) first: Bytes,
    /// The trailers, if those were all.
    trailers: Option<Fields>,
    /// Whether those were all.
    pub(super) is_whole: bool,
    pub(super) rest: Incoming,
    /// Bytes that the scanner wants to see.
    wanted: usize,
}

impl Previewed {
    /// Takes bytes until there are as many as are wanted; the last piece may bring more.
    pub(super) async fn take(mut rest: Incoming, wanted: usize) -> Result<Self, StreamError> {
        let mut first = BytesMut::new();
        let mut trailers = None;
        let mut is_whole = false;
        // One byte more: whether a content ends with its preview is to be known.
        while first.len() <= wanted && !is_whole {
            match rest.frame().await {
                Some(Ok(Frame::Data(data))) => first.extend_from_slice(&data),
                Some(Ok(Frame::Trailers(last))) => {
                    trailers = Some(last);
                    is_whole = true;
                }
                Some(Err(error)) => return Err(error),
                None => is_whole = true,
            }
        }
        if is_whole {
            rest = Incoming::Empty;
        }
        Ok(Self {
            first: first.freeze(),
            trailers,
            is_whole,
            rest,
            wanted,
        })
    }

    /// The bytes of the preview.
    pub(super) fn shown(&self) -> Bytes {
        self.first.slice(..self.first.len().min(self.wanted))
    }

    /// The bytes that were taken beyond it.
    pub(super) fn unseen(&self) -> Bytes {
        self.first.slice(self.first.len().min(self.wanted)..)
    }

    /// Whether the preview is the whole content.
    pub(super) fn is_shown(&self) -> bool {
        self.is_whole && self.first.len() <= self.wanted
    }

    /// The content as it was. A task puts both parts together.
    pub(super) fn whole(self, length: Option<u64>, opener: &Opener) -> Incoming {
        let (mut outgoing, incoming) = pipe(length);
        let Self {
            first,
            trailers,
            is_whole,
            mut rest,
            ..
        } = self;
        opener.spawn(async move {
            if !first.is_empty() && outgoing.data(first, false).await.is_err() {
                return;
            }
            if is_whole {
                let _ = outgoing.finish(trailers).await;
                return;
            }
            loop {
                let sent = match rest.frame().await {
                    Some(Ok(Frame::Data(data))) => outgoing.data(data, false).await,
                    Some(Ok(Frame::Trailers(last))) => {
                        let _ = outgoing.finish(Some(last)).await;
                        return;
                    }
                    None => {
                        let _ = outgoing.finish(None).await;
                        return;
                    }
                    // Dropped before its end: the other side sees that the content broke.
                    Some(Err(_)) => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        incoming
    }
}

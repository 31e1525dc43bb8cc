//! Messages of HTTP on their way into custody and out of it, as Binary HTTP.

use hermes_http::{Frame, Incoming, Outgoing, RequestHead, Reset, ResponseHead, StreamError};
use hermes_proto::binary_http::{
    BinaryHttpDecoder, BinaryHttpError, BinaryPiece, encode_chunk, encode_end,
};
use hermes_proto::custody::ErrCode;
use hermes_proto::fields::Fields;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, StatusCode};

use crate::node::{Exchange, Over};
use crate::resume::Rest;

/// Why a message does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The neighbour says so, or its time is over.
    Broken(ErrCode),
    /// It is none.
    Malformed(BinaryHttpError),
}

/// Reads the message that a neighbour gives.
pub(crate) struct MessageReader {
    decoder: BinaryHttpDecoder,
}

impl MessageReader {
    /// Of a request.
    pub(crate) fn request() -> Self {
        Self {
            decoder: BinaryHttpDecoder::request(),
        }
    }

    /// Of a response.
    pub(crate) fn response() -> Self {
        Self {
            decoder: BinaryHttpDecoder::response(),
        }
    }

    /// The next piece; `None` behind the end.
    pub(crate) async fn piece(&mut self, exchange: &Exchange) -> Result<Option<BinaryPiece>, Cut> {
        loop {
            match self.decoder.next() {
                Ok(Some(piece)) => return Ok(Some(piece)),
                Ok(None) => {}
                Err(error) => return Err(Cut::Malformed(error)),
            }
            match exchange.read().await {
                Ok(Some(bytes)) => self.decoder.push(&bytes),
                Ok(None) if self.decoder.is_over() => return Ok(None),
                Ok(None) => return Err(Cut::Malformed(BinaryHttpError::Truncated)),
                Err(code) => return Err(Cut::Broken(code)),
            }
        }
    }

    /// Passes the content on, to its end.
    pub(crate) async fn pass_on(mut self, exchange: &Exchange, mut outgoing: Outgoing) {
        loop {
            let piece = tokio::select! {
                piece = self.piece(exchange) => piece,
                _ = outgoing.broken() => return,
            };
            let passed = match piece {
                Ok(Some(BinaryPiece::Data(data))) => outgoing.data(data, false).await,
                Ok(Some(BinaryPiece::End(trailers))) => {
                    let trailers = (!trailers.is_empty()).then_some(trailers);
                    outgoing.finish(trailers).await
                }
                Ok(None) => return,
                // A second head, or the end of it all.
                Ok(Some(_)) | Err(_) => return outgoing.reset(Reset::Lost),
            };
            if passed.is_err() {
                return;
            }
        }
    }
}

/// Bytes of one message that are taken in a turn: hundreds of uploads that begin at once delay the others on their worker by some 25 ms.
const TURN: usize = 64 * 1024;

/// Gives a message's content to a neighbour, to its end: the rest of it, where some was given already.
pub(crate) async fn give(
    exchange: &Exchange,
    mut content: impl Content,
    mut rest: Rest,
) -> Result<(), Over> {
    let mut trailers = None;
    let mut taken = 0;
    if rest.is_over() {
        exchange.finish();
        return Ok(());
    }
    loop {
        match content.next().await {
            Some(Ok(Frame::Data(data))) => {
                taken += data.len();
                if taken >= TURN {
                    // A client that is as fast as it can be has more: the others on this worker come first.
                    taken = 0;
                    tokio::task::yield_now().await;
                }
                let (bare, data) = rest.split(data);
                exchange.write(bare).await?;
                if !data.is_empty() {
                    exchange.write(encode_chunk(data.len())).await?;
                    exchange.write(data).await?;
                }
            }
            Some(Ok(Frame::Trailers(fields))) => trailers = Some(fields),
            Some(Err(_)) => {
                exchange.break_off(ErrCode::Broken);
                return Err(Over);
            }
            None => break,
        }
    }

    if rest.is_short() {
        exchange.break_off(ErrCode::Broken);
        return Err(Over);
    }
    end(exchange, trailers.as_ref()).await
}

/// Ends a message.
pub(crate) async fn end(exchange: &Exchange, trailers: Option<&Fields>) -> Result<(), Over> {
    exchange.write(encode_end(trailers)).await?;
    exchange.finish();
    Ok(())
}

/// Content that comes in pieces.
pub(crate) trait Content: Send {
    /// The next piece.
    fn next(&mut self) -> impl Future<Output = Option<Result<Frame, StreamError>>> + Send;
}

impl Content for Incoming {
    async fn next(&mut self) -> Option<Result<Frame, StreamError>> {
        self.frame().await
    }
}

impl Content for hermes_proxy::plug::RequestContent {
    async fn next(&mut self) -> Option<Result<Frame, StreamError>> {
        self.frame().await
    }
}

/// The length of a request's content travels as a field, if there is any content.
pub(crate) fn say_request_length(head: &mut RequestHead, length: Option<u64>) {
    if let Some(length) = length.filter(|length| *length > 0) {
        head.fields
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// The length of a response's content travels as a field; what stands there where a response has none says something else
/// (RFC 9110, 8.6).
pub(crate) fn say_response_length(head: &mut ResponseHead, length: Option<u64>) {
    let Some(length) = length else { return };
    let is_said = head.fields.contains_key(CONTENT_LENGTH);
    let none = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status);
    if length > 0 || !is_said && !none {
        head.fields
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Takes the length of the content out of the fields.
pub(crate) fn take_length(fields: &mut Fields) -> Option<u64> {
    let length = fields.take(CONTENT_LENGTH)?;
    let text = length.to_str().ok()?;
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

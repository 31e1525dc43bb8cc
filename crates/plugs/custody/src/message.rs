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
use crate::owner::HeldAccount;
use crate::resume::Rest;

/// Why a message does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The neighbour says so, or its time is over.
    Broken(ErrCode),
    /// It is not a message.
    Malformed(BinaryHttpError),
    /// Heads take all that there is for its owner.
    NoRoom,
}

/// How often a head is in memory: as it came, and as it is sent on.
const HEAD_COPIES: u64 = 2;

/// Counts the head of a request for as long as the account lives.
///
/// # Errors
/// There is no room for it.
pub(crate) fn keep_request(exchange: &Exchange, head: &RequestHead) -> Result<HeldAccount, Cut> {
    let mut held = exchange.account();
    held.set(HEAD_COPIES * head.footprint() as u64);
    if held.is_too_much() {
        return Err(Cut::NoRoom);
    }
    Ok(held)
}

/// Reads the message that a neighbour gives.
pub(crate) struct MessageReader {
    decoder: BinaryHttpDecoder,
    /// Counts a head or trailing fields until they are whole, and the head of a response.
    held: HeldAccount,
    /// Bytes of that head.
    head: u64,
}

impl MessageReader {
    /// Of a request.
    pub(crate) fn request(exchange: &Exchange) -> Self {
        Self::of(exchange, BinaryHttpDecoder::request())
    }

    /// Of a response.
    pub(crate) fn response(exchange: &Exchange) -> Self {
        Self::of(exchange, BinaryHttpDecoder::response())
    }

    fn of(exchange: &Exchange, decoder: BinaryHttpDecoder) -> Self {
        Self {
            decoder,
            held: exchange.account(),
            head: 0,
        }
    }

    /// Counts the head of a response, which its client may not have taken yet, for as long as this lives.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn keep_head(&mut self, fields: &Fields) -> Result<(), Cut> {
        self.head = HEAD_COPIES * fields.footprint() as u64;
        self.count()
    }

    /// Counts the bytes that are held now.
    ///
    /// # Errors
    /// There is no room for it.
    fn count(&mut self) -> Result<(), Cut> {
        // A buffer that grows has up to twice the bytes that are in it.
        let section = 2 * self.decoder.held() as u64;
        self.held.set(self.head + section);
        if section > 0 && self.held.is_too_much() {
            return Err(Cut::NoRoom);
        }
        Ok(())
    }

    /// The next piece; `None` behind the end.
    pub(crate) async fn piece(&mut self, exchange: &Exchange) -> Result<Option<BinaryPiece>, Cut> {
        loop {
            match self.decoder.next() {
                Ok(Some(piece)) => return Ok(Some(piece)),
                // Counted although no piece has come out: a head may come in many parts.
                Ok(None) => self.count()?,
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
                    // The length before the bytes, as two writes: nothing is copied.
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

    // This content is shorter than the one that was begun: the neighbour has bytes that do not belong to it.
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

impl Content for hermes_plug::RequestContent {
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
///
/// # Errors
/// There are several, or it is no number: readers could find different ends (RFC 9112, 6.3).
pub(crate) fn take_length(fields: &mut Fields) -> Result<Option<u64>, Cut> {
    let malformed = Cut::Malformed(BinaryHttpError::Invalid("content-length"));
    let mut lines = fields.values(CONTENT_LENGTH);
    let first = lines.next();
    if lines.next().is_some() {
        return Err(malformed);
    }
    let Some(length) = first.map(|length| decimal(length.as_bytes())) else {
        return Ok(None);
    };
    fields.remove(CONTENT_LENGTH);
    length.map(Some).ok_or(malformed)
}

fn decimal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

//! Mailboxes: what a client puts into one is there for others when it is gone.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::{Frame, Outgoing, ResponseHead, pipe};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Handler, HandlerRequest, Handling, NewContent, RequestContent, Response, Store, StoreError,
    StoreWriter, StoredContent,
};
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};

/// Bytes of a letter.
#[doc(alias = "bound")]
const LETTER: u64 = 64 * 1024 * 1024;

/// Bytes of the path of a mailbox.
#[doc(alias = "bound")]
const KEY: usize = 100;

/// Keeps what is PUT under a path, gives it to those who GET it, and forgets it on DELETE.
pub struct Mailbox {
    letters: Arc<dyn Store>,
}

impl Mailbox {
    /// Mailboxes whose letters are kept here.
    pub fn new(letters: Arc<dyn Store>) -> Self {
        Self { letters }
    }

    async fn put(&self, key: String, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            mut content,
            user,
            source,
            ..
        } = request;
        let owner = Owner::of(user.as_deref(), &source.peer);
        let length = content.length();
        if length.is_some_and(|length| length > LETTER) {
            return Err(too_large());
        }

        let new = NewContent {
            key: Some(key),
            owner,
            length,
        };
        let mut writer = self.letters.create(new).await.map_err(refusal)?;
        take(&mut content, &mut *writer).await?;
        writer.finish().await.map_err(refusal)?;
        Ok(empty(StatusCode::CREATED))
    }

    async fn get(&self, key: &str, request: HandlerRequest) -> Result<Response, Refusal> {
        let Some(letter) = self.letters.find(key).await.map_err(refusal)? else {
            return Ok(empty(StatusCode::NOT_FOUND));
        };
        let (sender, incoming) = pipe(Some(letter.length()));
        request.opener.spawn(send(letter, sender));
        Ok(Response::Stream(
            ResponseHead::new(StatusCode::OK),
            incoming,
        ))
    }

    async fn delete(&self, key: &str) -> Result<Response, Refusal> {
        let removed = self.letters.remove(key).await.map_err(refusal)?;
        Ok(empty(if removed {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::NOT_FOUND
        }))
    }
}

impl Handler for Mailbox {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        let key = request.head.path().to_owned();
        Box::pin(async move {
            match request.head.method {
                _ if key.len() > KEY => Ok(empty(StatusCode::URI_TOO_LONG)),
                Method::PUT => self.put(key, request).await,
                Method::GET => self.get(&key, request).await,
                Method::DELETE => self.delete(&key).await,
                _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
            }
        })
    }
}

/// Reads a letter to its end.
async fn take(content: &mut RequestContent, writer: &mut dyn StoreWriter) -> Result<(), Refusal> {
    let mut read = 0;
    while let Some(frame) = content.frame().await {
        let broken = |error: hermes_http::StreamError| bad(&error.to_string());
        if let Frame::Data(data) = frame.map_err(broken)? {
            read += data.len() as u64;
            if read > LETTER {
                return Err(too_large());
            }
            writer.write(data).await.map_err(refusal)?;
        }
    }
    Ok(())
}

/// Sends a letter as fast as it is read. Where the store fails, the answer breaks off.
async fn send(letter: Arc<dyn StoredContent>, mut sender: Outgoing) {
    let mut sent = 0;
    while let Ok(piece) = letter.read(sent).await {
        sent += piece.len() as u64;
        let last = sent == letter.length();
        // Without an end, the answer breaks off.
        let is_lost = piece.is_empty() && !last;
        if is_lost || sender.data(piece, last).await.is_err() || last {
            return;
        }
    }
}

fn empty(status: StatusCode) -> Response {
    Response::Whole(ResponseHead::new(status), Bytes::new())
}

fn bad(reason: &str) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, reason).status(StatusCode::BAD_REQUEST)
}

fn too_large() -> Refusal {
    let details = format!("a letter may have {LETTER} bytes");
    Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::PAYLOAD_TOO_LARGE)
}

fn refusal(error: StoreError) -> Refusal {
    let status = match error {
        StoreError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(ProxyError::ProxyInternalError, error.to_string()).status(status)
}

//! The answers of the HTTP server.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};

use super::http::Content;

/// Bytes that are sent at a time.
const PIECE: usize = 64 * 1024;

/// Answers one request.
pub(super) async fn answer(request: Request<Incoming>, release: &Arc<Notify>) -> Response<Content> {
    let path = request.uri().path().to_owned();
    let (kind, number) = path[1..]
        .split_once('/')
        .map_or((&path[1..], 0), |(kind, number)| {
            (kind, number.parse::<u64>().unwrap_or(0))
        });

    match kind {
        "bytes" => Response::new(
            Piece {
                left: number,
                known: true,
            }
            .boxed(),
        ),
        "chunked" => Response::new(
            Piece {
                left: number,
                known: false,
            }
            .boxed(),
        ),
        "slow" => Response::new(slow(release.clone())),
        "hang" => {
            release.notified().await;
            text("released\n")
        }
        "status" => status(u16::try_from(number).unwrap_or(500)),
        "etag" => etag(request.headers()),
        "trailers" => trailers(),
        "echo" => Response::new(echo(request.into_body())),
        "post" => post(request.into_body()).await,
        _ => tell(request).await,
    }
}

fn text(text: &str) -> Response<Content> {
    Response::new(Full::from(text.to_owned()).boxed())
}

fn status(status: u16) -> Response<Content> {
    let mut response = text("");
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn etag(fields: &HeaderMap) -> Response<Content> {
    let mut response = text("content\n");
    if fields.contains_key(IF_NONE_MATCH) {
        response = Response::new(Empty::new().boxed());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }

    response
        .headers_mut()
        .insert(ETAG, HeaderValue::from_static("\"v1\""));
    response
}

fn trailers() -> Response<Content> {
    let trailers = HeaderMap::from_iter([(
        "x-checksum".parse().unwrap(),
        HeaderValue::from_static("42"),
    )]);
    let (sender, content) = channel();
    sender
        .try_send(Frame::data(Bytes::from_static(b"body\n")))
        .unwrap();
    sender.try_send(Frame::trailers(trailers)).unwrap();
    let mut response = Response::new(content);
    response
        .headers_mut()
        .insert("trailer", HeaderValue::from_static("x-checksum"));

    response
}

fn slow(release: Arc<Notify>) -> Content {
    let (sender, content) = channel();
    tokio::spawn(async move {
        sender
            .send(Frame::data(Bytes::from_static(b"first\n")))
            .await
            .ok()?;
        release.notified().await;
        sender
            .send(Frame::data(Bytes::from_static(b"last\n")))
            .await
            .ok()
    });

    content
}

fn echo(mut incoming: Incoming) -> Content {
    let (sender, content) = channel();
    tokio::spawn(async move {
        while let Some(Ok(frame)) = incoming.frame().await {
            sender.send(frame).await.ok()?;
        }
        Some(())
    });

    content
}

async fn post(mut incoming: Incoming) -> Response<Content> {
    let mut bytes = 0;
    let mut trailers = Map::new();
    while let Some(Ok(frame)) = incoming.frame().await {
        match frame.into_data() {
            Ok(data) => bytes += data.len(),
            Err(frame) => {
                trailers = frame
                    .into_trailers()
                    .map(|map| values(&map))
                    .unwrap_or_default()
            }
        }
    }

    as_json(&json!({ "bytes": bytes, "trailers": trailers }))
}

async fn tell(request: Request<Incoming>) -> Response<Content> {
    let (head, content) = request.into_parts();
    let content = content
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();

    as_json(&json!({
        "method": head.method.as_str(),
        "uri": head.uri.to_string(),
        "version": format!("{:?}", head.version),
        "fields": values(&head.headers),
        "bytes": content.len(),
        "body": String::from_utf8_lossy(&content),
    }))
}

fn as_json(value: &Value) -> Response<Content> {
    let mut response = text(&format!("{value:#}\n"));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Fields by name, several lines joined.
fn values(fields: &HeaderMap) -> Map<String, Value> {
    let joined = |name| {
        let lines: Vec<_> = fields
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        Value::String(lines.join(", "))
    };
    fields
        .keys()
        .map(|name| (name.to_string(), joined(name)))
        .collect()
}

/// Content of which `left` bytes are still to come.
struct Piece {
    left: u64,
    known: bool,
}

impl Body for Piece {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static BYTES: [u8; PIECE] = [b'x'; PIECE];
        let length = usize::try_from(self.left).unwrap().min(PIECE);
        self.left -= length as u64;
        Poll::Ready((length > 0).then(|| Ok(Frame::data(Bytes::from_static(&BYTES[..length])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.known {
            SizeHint::with_exact(self.left)
        } else {
            SizeHint::default()
        }
    }
}

/// Content that comes through a channel.
struct Received(mpsc::Receiver<Frame<Bytes>>);

fn channel() -> (mpsc::Sender<Frame<Bytes>>, Content) {
    let (sender, receiver) = mpsc::channel(4);
    (sender, Received(receiver).boxed())
}

impl Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

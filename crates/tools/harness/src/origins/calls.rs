//! A server of gRPC that answers in whatever way a test wants, down to the frames of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use tokio::net::TcpStream;

use super::{ANY, Memory, Origin, serve};

/// The answer to a call.
#[derive(Debug, Clone)]
pub enum Call {
    /// A head with these fields; then this content; then these trailers, if there are any.
    Answer {
        /// Status and fields of the head.
        head: (u16, Vec<(&'static str, String)>),
        /// The content, framed or not.
        content: Vec<u8>,
        /// The trailers; without any, the content ends the stream.
        trailers: Vec<(&'static str, String)>,
    },
    /// A reset of the stream with this code, before any answer.
    Reset(u32),
    /// A head, a part of the content, and a reset.
    Broken(Vec<u8>),
    /// The end of the connection.
    Close,
    /// Nothing.
    Silence,
    /// Another answer, after this time.
    After(Duration, Box<Self>),
}

impl Call {
    /// A message, framed, with `grpc-status: 0`.
    pub fn message(message: &[u8]) -> Self {
        Self::Answer {
            head: (200, vec![("content-type", "application/grpc".to_owned())]),
            content: framed(message),
            trailers: vec![("grpc-status", "0".to_owned())],
        }
    }

    /// A failed call with this code of gRPC, in a head that ends the stream.
    pub fn failed(code: u16) -> Self {
        Self::Answer {
            head: (200, vec![("grpc-status", code.to_string())]),
            content: Vec::new(),
            trailers: Vec::new(),
        }
    }
}

/// A message with its length before it.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// A server on IPv4 loopback that answers calls as `answer` says, and remembers the content of each.
pub fn called(answer: impl Fn(&[u8]) -> Call + Send + Sync + 'static) -> Origin<Vec<u8>> {
    let answer = Arc::new(answer);
    serve(ANY, move |stream: TcpStream, memory: Memory<Vec<u8>>| {
        let answer = answer.clone();
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            while let Some(Ok((request, respond))) = connection.accept().await {
                let answer = answer.clone();
                let memory = memory.clone();
                let (end, ended) = tokio::sync::oneshot::channel();
                tokio::spawn(async move {
                    let mut content = request.into_body();
                    let mut call = Vec::new();
                    while let Some(Ok(data)) = content.data().await {
                        drop(content.flow_control().release_capacity(data.len()));
                        call.extend_from_slice(&data);
                    }
                    memory.remember(call.clone());
                    let mut answered = answer(&call);
                    while let Call::After(time, later) = answered {
                        tokio::time::sleep(time).await;
                        answered = *later;
                    }
                    if matches!(answered, Call::Close) {
                        let _ = end.send(());
                    }
                    respond_with(answered, respond).await;
                });
                // One call at a time, where the connection is to end.
                if let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(5), ended).await {
                    return;
                }
            }
        }
    })
}

async fn respond_with(call: Call, mut respond: SendResponse<Bytes>) -> Option<()> {
    match call {
        Call::Answer {
            head: (status, fields),
            content,
            trailers,
        } => {
            let mut head = http::Response::builder().status(status);
            for (name, value) in fields {
                head = head.header(name, value);
            }
            let is_all = content.is_empty() && trailers.is_empty();
            let mut sender = respond.send_response(head.body(()).unwrap(), is_all).ok()?;
            if !content.is_empty() {
                sender.send_data(content.into(), trailers.is_empty()).ok()?;
            }
            if !trailers.is_empty() {
                let trailers = trailers
                    .into_iter()
                    .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
                sender.send_trailers(trailers.collect()).ok()?;
            }
        }
        Call::Reset(code) => respond.send_reset(code.into()),
        Call::Broken(content) => {
            let head = http::Response::new(());
            let mut sender = respond.send_response(head, false).ok()?;
            sender.send_data(content.into(), false).ok()?;
            sender.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Call::Close | Call::Silence | Call::After(..) => std::future::pending().await,
    }
    Some(())
}

//! An HTTP/2 client that sends exactly the frames of a test, proxy form and extended CONNECT included.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::{self, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use tokio::net::TcpStream;

use crate::runtime;

/// A connection.
#[derive(Debug)]
pub struct Client {
    requests: SendRequest<Bytes>,
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its content.
    pub body: Vec<u8>,
    /// Its trailers.
    pub trailers: Option<HeaderMap>,
}

impl Client {
    /// Connects with prior knowledge.
    ///
    /// # Panics
    /// When nothing listens, or the other end does not use HTTP/2.
    pub fn connect(address: SocketAddr) -> Self {
        Self::with_windows(address, 1 << 20, 65_535)
    }

    /// As [`Self::connect`], with room for this many bytes on each stream and on all of them together.
    ///
    /// # Panics
    /// As [`Self::connect`].
    pub fn with_windows(address: SocketAddr, stream_window: u32, connection_window: u32) -> Self {
        runtime::block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut builder = client::Builder::new();
            builder
                .initial_window_size(stream_window)
                .initial_connection_window_size(connection_window);
            let (requests, mut connection) = builder.handshake(stream).await.unwrap();

            // Extended CONNECT may be used once the settings came, which a ping shows.
            let mut pings = connection.ping_pong().unwrap();
            runtime::handle().spawn(connection);
            pings.ping(h2::Ping::opaque()).await.unwrap();

            Self { requests }
        })
    }

    /// Whether the proxy allows extended CONNECT (RFC 8441, 3).
    pub fn extended_connect(&self) -> bool {
        self.requests.is_extended_connect_protocol_enabled()
    }

    /// Streams at once that the proxy allows.
    pub fn streams(&self) -> usize {
        self.requests.current_max_send_streams()
    }

    /// Sends a request and resets it without waiting.
    ///
    /// # Errors
    /// The connection has ended.
    ///
    /// # Panics
    /// When the URI is not valid.
    pub fn reset_at_once(&self, uri: &str) -> Result<(), h2::Error> {
        let request = Request::get(uri).body(()).unwrap();
        runtime::block_on(async {
            let (_, mut sender) = self
                .requests
                .clone()
                .ready()
                .await?
                .send_request(request, false)?;

            sender.send_reset(h2::Reason::CANCEL);
            Ok(())
        })
    }

    /// Sends a request without content and does not wait for the response: resetting the stream is all that is left.
    ///
    /// # Panics
    /// When the connection has ended.
    pub fn begin(&self, uri: &str) -> SendStream<Bytes> {
        let request = Request::get(uri).body(()).unwrap();
        runtime::block_on(async {
            let (response, sender) = self
                .requests
                .clone()
                .ready()
                .await
                .unwrap()
                .send_request(request, false)
                .unwrap();

            runtime::handle().spawn(response);
            sender
        })
    }

    /// Sends a request with content and reads the whole response.
    ///
    /// # Errors
    /// A reset, or the end of the connection.
    pub fn send(&self, request: Request<()>, content: &[u8]) -> Result<Answer, h2::Error> {
        runtime::block_on(async {
            let (response, mut sender) = self
                .requests
                .clone()
                .ready()
                .await?
                .send_request(request, content.is_empty())?;

            if !content.is_empty() {
                sender.send_data(Bytes::copy_from_slice(content), true)?;
            }
            whole(response.await?).await
        })
    }

    /// Sends this many requests at once, or fewer if the connection ends. Returns their statuses; 0 for those without an answer.
    ///
    /// # Panics
    /// When the URI is not valid.
    pub fn statuses(&self, uri: &str, requests: usize) -> Vec<u16> {
        runtime::block_on(async {
            let mut begun = Vec::new();
            for _ in 0..requests {
                let request = Request::get(uri).body(()).unwrap();
                let sender = self.requests.clone().ready().await;
                let sent = sender.and_then(|mut sender| sender.send_request(request, true));
                let Ok((response, _)) = sent else {
                    break;
                };
                begun.push(response);
            }

            let mut statuses = Vec::new();
            for response in begun {
                let status = response.await.map(|response| response.status().as_u16());
                statuses.push(status.unwrap_or(0));
            }
            statuses
        })
    }

    /// Begins a request; its content is sent later, or never.
    ///
    /// # Panics
    /// When the connection has ended.
    pub fn upload(&self, uri: &str) -> Upload {
        let request = Request::post(uri).body(()).unwrap();
        let (response, sender) = runtime::block_on(async {
            self.requests
                .clone()
                .ready()
                .await
                .unwrap()
                .send_request(request, false)
                .unwrap()
        });

        Upload { sender, response }
    }

    /// Opens a tunnel with CONNECT.
    ///
    /// # Errors
    /// The response, if it is no success.
    ///
    /// # Panics
    /// When there is no response.
    pub fn tunnel(&self, authority: &str, fields: &[(&str, &str)]) -> Result<Stream, Answer> {
        let mut request = Request::builder().method(Method::CONNECT).uri(authority);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        self.open(request.body(()).unwrap())
    }

    /// Opens a tunnel with extended CONNECT, e.g. for `connect-udp` and `http://proxy/.well-known/...`.
    ///
    /// # Errors
    /// As [`Self::tunnel`].
    ///
    /// # Panics
    /// As [`Self::tunnel`].
    pub fn extended(
        &self,
        protocol: &'static str,
        uri: &str,
        fields: &[(&str, &str)],
    ) -> Result<Stream, Answer> {
        let mut request = Request::builder().method(Method::CONNECT).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }

        self.open(
            request
                .extension(Protocol::from_static(protocol))
                .body(())
                .unwrap(),
        )
    }

    fn open(&self, request: Request<()>) -> Result<Stream, Answer> {
        runtime::block_on(async {
            let (response, sender) = self
                .requests
                .clone()
                .ready()
                .await
                .unwrap()
                .send_request(request, false)
                .unwrap();

            let response = response.await.unwrap();
            if response.status().is_success() {
                let fields = response.headers().clone();
                Ok(Stream {
                    sender,
                    receiver: response.into_body(),
                    unread: BytesMut::new(),
                    fields,
                })
            } else {
                Err(whole(response).await.unwrap())
            }
        })
    }
}

async fn whole(response: Response<RecvStream>) -> Result<Answer, h2::Error> {
    let (head, mut content) = response.into_parts();
    let mut body = Vec::new();
    while let Some(data) = content.data().await {
        let data = data?;
        content.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }

    let trailers = content.trailers().await?;
    Ok(Answer {
        status: head.status.as_u16(),
        fields: head.headers,
        body,
        trailers,
    })
}

/// A request before the end of its content.
#[derive(Debug)]
pub struct Upload {
    sender: SendStream<Bytes>,
    response: ResponseFuture,
}

impl Upload {
    /// Sends some of the content.
    ///
    /// # Panics
    /// When the stream is broken.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.sender
            .send_data(Bytes::copy_from_slice(bytes.as_ref()), false)
            .unwrap();
    }

    /// As [`Self::send`], without a copy, so that much may wait here for room.
    ///
    /// # Panics
    /// As [`Self::send`].
    pub fn offer(&mut self, bytes: Bytes) {
        self.sender.send_data(bytes, false).unwrap();
    }

    /// Ends the content.
    ///
    /// # Panics
    /// When the stream is broken.
    pub fn finish(&mut self) {
        self.sender.send_data(Bytes::new(), true).unwrap();
    }

    /// Reads the whole response; the content need not have ended.
    ///
    /// # Errors
    /// A reset, or the end of the connection.
    pub fn answer(&mut self) -> Result<Answer, h2::Error> {
        runtime::block_on(async { whole((&mut self.response).await?).await })
    }
}

/// An open tunnel.
#[derive(Debug)]
pub struct Stream {
    sender: SendStream<Bytes>,
    receiver: RecvStream,
    unread: BytesMut,
    /// Fields of the response that opened it.
    pub fields: HeaderMap,
}

impl Stream {
    /// Sends bytes.
    ///
    /// # Panics
    /// When the stream is broken.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.sender
            .send_data(Bytes::copy_from_slice(bytes.as_ref()), false)
            .unwrap();
    }

    /// Ends the direction to the far end.
    ///
    /// # Panics
    /// When the stream is broken.
    pub fn finish(&mut self) {
        self.sender.send_data(Bytes::new(), true).unwrap();
    }

    /// Resets the stream.
    pub fn reset(&mut self) {
        self.sender.send_reset(h2::Reason::CANCEL);
    }

    /// More bytes; `None` at the end.
    ///
    /// # Errors
    /// A reset, or the end of the connection.
    pub fn receive(&mut self) -> Result<Option<Bytes>, h2::Error> {
        if !self.unread.is_empty() {
            return Ok(Some(self.unread.split().freeze()));
        }
        runtime::block_on(async {
            let Some(data) = self.receiver.data().await.transpose()? else {
                return Ok(None);
            };
            self.receiver.flow_control().release_capacity(data.len())?;
            Ok(Some(data))
        })
    }

    /// Whether bytes are there to be read, now or within `time`.
    pub fn has_more_within(&mut self, time: Duration) -> bool {
        if self.unread.is_empty() {
            let came =
                runtime::block_on(async { tokio::time::timeout(time, self.receiver.data()).await });
            let Ok(Some(Ok(data))) = came else {
                return false;
            };

            // The window is wide: it may be that the stream has ended meanwhile.
            let _ = self.receiver.flow_control().release_capacity(data.len());
            self.unread.extend_from_slice(&data);
        }

        !self.unread.is_empty()
    }

    /// Reads this many bytes.
    ///
    /// # Panics
    /// When the stream ends before.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            bytes.extend_from_slice(&self.receive().unwrap().expect("the stream goes on"));
        }
        self.unread.extend_from_slice(&bytes[length..]);
        bytes.truncate(length);
        bytes
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// A reset, or the end of the connection.
    pub fn rest(&mut self) -> Result<Vec<u8>, h2::Error> {
        let mut bytes = Vec::new();
        while let Some(more) = self.receive()? {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }
}

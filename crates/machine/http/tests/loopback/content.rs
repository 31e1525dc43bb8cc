//! Contents and heads as tests write them, and an echoing origin.

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Offered, Outgoing, RequestHead, ResponseHead, StreamError};
use hermes_proto::fields::Fields;
use hermes_proto::upgrade::Protocol;
use http::header::CONTENT_LENGTH;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Version};

/// The content of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The announced length.
    pub length: Option<u64>,
    pub bytes: Bytes,
    pub trailers: Option<Fields>,
}

impl Content {
    pub fn none() -> Self {
        Self {
            length: Some(0),
            ..Self::default()
        }
    }

    pub fn sized(text: &'static str) -> Self {
        Self {
            length: Some(text.len() as u64),
            ..Self::streamed(text)
        }
    }

    pub fn streamed(text: &'static str) -> Self {
        Self {
            length: None,
            bytes: Bytes::from_static(text.as_bytes()),
            trailers: None,
        }
    }

    pub fn with_trailers(mut self) -> Self {
        let checksum = HeaderValue::from_static("abc");
        self.trailers = Some(Fields::from_iter([("checksum", checksum)]));
        self
    }

    /// Sends it, byte by byte, so that it crosses in many pieces.
    pub async fn send(&self, outgoing: &mut Outgoing) -> Result<(), StreamError> {
        for byte in self.bytes.chunks(1) {
            outgoing.data(Bytes::copy_from_slice(byte), false).await?;
        }
        outgoing.finish(self.trailers.clone()).await
    }

    /// Receives all of it.
    pub async fn receive(incoming: &mut Incoming) -> Result<Self, StreamError> {
        let (length, mut bytes, mut trailers) = (incoming.length(), BytesMut::new(), None);
        while let Some(frame) = incoming.frame().await {
            match frame? {
                Frame::Data(data) => bytes.extend_from_slice(&data),
                Frame::Trailers(fields) => trailers = Some(fields),
            }
        }
        assert!(incoming.is_end());
        Ok(Self {
            length,
            bytes: bytes.freeze(),
            trailers,
        })
    }

    /// Receives as many bytes as `text` has, and compares.
    pub async fn expect(incoming: &mut Incoming, text: &str) {
        let mut bytes = BytesMut::new();
        while bytes.len() < text.len() {
            let Some(Ok(Frame::Data(data))) = incoming.frame().await else {
                panic!("the stream ended")
            };
            bytes.extend_from_slice(&data);
        }
        assert_eq!(bytes, text);
    }
}

/// A request for `path` of an origin.
pub fn request(method: Method, path: &'static str) -> RequestHead {
    RequestHead {
        method,
        scheme: Some(Scheme::HTTP),
        authority: Some(Authority::from_static("origin.example:8080")),
        path: Some(PathAndQuery::from_static(path)),
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}

pub fn get() -> RequestHead {
    request(Method::GET, "/thing?x=1")
}

pub fn post() -> RequestHead {
    request(Method::POST, "/thing")
}

pub fn connect() -> RequestHead {
    RequestHead {
        scheme: None,
        path: None,
        ..request(Method::CONNECT, "/")
    }
}

/// A tunnel under another protocol.
pub fn upgrade(protocol: &str) -> RequestHead {
    RequestHead {
        protocol: Protocol::parse(protocol.as_bytes()).ok(),
        ..request(Method::CONNECT, "/chat")
    }
}

/// A response that announces `length`, where there is one.
pub fn response(status: u16, length: Option<u64>) -> ResponseHead {
    let mut head = ResponseHead::new(StatusCode::from_u16(status).unwrap());
    if let Some(length) = length {
        head.fields
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    head
}

/// Sends back the content, framed and announced as it came, and tells of the request in fields.
pub async fn echo(offered: Offered) {
    let (request, mut incoming, responder) = offered.message();
    let content = Content::receive(&mut incoming).await.unwrap();
    let mut head = response(200, content.length.filter(|length| *length > 0));
    let told = [
        ("method", request.method.to_string()),
        ("authority", request.authority.as_ref().unwrap().to_string()),
        ("path", request.path.as_ref().unwrap().to_string()),
    ];
    for (name, value) in told {
        head.fields
            .insert(name, HeaderValue::from_str(&value).unwrap());
    }
    // No content and trailers still need the stream open.
    let length = content.length.filter(|_| content.trailers.is_none());
    let mut outgoing = responder.respond(head, length).await.unwrap();
    content.send(&mut outgoing).await.unwrap();
}

/// Answers each exchange with the same short text.
pub async fn hello(offered: Offered) {
    let _ = offered
        .refuse(
            ResponseHead::new(StatusCode::OK),
            Bytes::from_static(b"hello"),
        )
        .await;
}

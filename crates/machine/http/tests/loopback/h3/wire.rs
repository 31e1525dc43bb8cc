//! A peer that writes every byte itself.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use hermes_net::quic::{Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream};
use hermes_proto::fields::LineName;
use hermes_proto::h3::{
    FieldSectionLimits, Frame, FrameDecoder, FrameType, Piece, Received, Settings, decode_response,
    frame,
};
use hermes_proto::qpack::{QpackDecoder, QpackEncoder};
use hermes_proto::varint;

use crate::quic;

/// Types of unidirectional streams.
pub const CONTROL: u64 = 0;
pub const PUSH: u64 = 1;
pub const ENCODER: u64 = 2;
pub const DECODER: u64 = 3;

/// One end of a connection without HTTP/3 of its own.
pub struct Wire {
    pub connection: Connection,
    /// Streams that must not end before the connection does.
    kept: Vec<SendStream>,
    _endpoint: Endpoint,
}

impl Wire {
    /// A client of `address`.
    pub async fn dial(address: SocketAddr) -> Self {
        let (connection, endpoint) = quic::connect(address).await;
        Self::new(connection, endpoint)
    }

    pub fn new(connection: Connection, endpoint: Endpoint) -> Self {
        Self {
            connection,
            kept: Vec::new(),
            _endpoint: endpoint,
        }
    }

    /// Opens a stream of `kind` and writes `bytes`; it stays open.
    pub async fn uni(&mut self, kind: u64, bytes: &[u8]) {
        let mut stream = self.connection.open_uni().await.unwrap();
        send(&mut stream, &[&number(kind), bytes].concat()).await;
        self.kept.push(stream);
    }

    /// A control stream that begins with SETTINGS.
    pub async fn control(&mut self, after: &[u8]) {
        self.uni(CONTROL, &[&settings(&[]), after].concat()).await;
    }

    /// Writes more on the stream that was opened last.
    pub async fn more(&mut self, bytes: &[u8]) {
        send(self.kept.last_mut().unwrap(), bytes).await;
    }

    /// Waits until the other side has read everything written so far: a later request was answered.
    pub async fn heard(&self) {
        let mut exchange = self.request(&get(&[("x", "\n")]), true).await;
        assert_eq!(exchange.code().await, 0x10e);
    }

    /// Ends or resets the stream that was opened last.
    pub fn end(&mut self) {
        self.kept.pop().unwrap().finish().unwrap();
    }

    pub fn reset(&mut self) {
        self.kept.pop().unwrap().reset(0x100);
    }

    /// Opens a request stream and writes `bytes`, and with `end` its end.
    pub async fn request(&self, bytes: &[u8], end: bool) -> Exchange {
        let (mut send_stream, recv) = self.connection.open_bi().await.unwrap();
        send(&mut send_stream, bytes).await;
        if end {
            send_stream.finish().unwrap();
        }
        Exchange {
            send: send_stream,
            recv,
        }
    }

    /// The code that the other side closes the connection with.
    pub async fn closed(&self) -> u64 {
        match self.connection.closed().await {
            ConnectionError::Application { code, .. } => code,
            other => panic!("{other}"),
        }
    }
}

/// A request stream.
pub struct Exchange {
    pub send: SendStream,
    pub recv: RecvStream,
}

impl Exchange {
    /// The status of the response.
    pub async fn status(&mut self) -> u16 {
        let mut frames = FrameDecoder::request(10_000);
        loop {
            frames.push(self.recv.read(10_000).await.unwrap().unwrap());
            while let Some(piece) = frames.next().unwrap() {
                if let Piece::Frame(Frame::Headers(section)) = piece {
                    let limits = FieldSectionLimits {
                        bytes: 10_000,
                        lines: 100,
                    };
                    let received = Received {
                        section: &section,
                        stream: 0,
                        limits,
                        decoder: &mut QpackDecoder::default(),
                    };
                    return decode_response(received).unwrap().status.as_u16();
                }
            }
        }
    }

    /// The code that the other side resets the stream with.
    pub async fn code(&mut self) -> u64 {
        loop {
            match self.recv.read(10_000).await {
                Ok(Some(_)) => {}
                Err(ReadError::Reset(code)) => return code,
                other => panic!("{other:?}"),
            }
        }
    }
}

pub async fn send(stream: &mut SendStream, bytes: &[u8]) {
    let mut pieces = [Bytes::copy_from_slice(bytes)];
    // A peer that has closed the connection reads no more, which the test sees elsewhere.
    while !pieces[0].is_empty() && stream.write(&mut pieces).await.is_ok() {}
}

pub fn number(value: u64) -> Vec<u8> {
    let mut output = BytesMut::new();
    varint::encode(value, &mut output);
    output.to_vec()
}

/// A frame of any type.
pub fn framed(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut output = BytesMut::new();
    frame::encode(FrameType::from(kind), payload, &mut output);
    output.to_vec()
}

pub fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> = pairs
        .iter()
        .flat_map(|(id, value)| [number(*id), number(*value)].concat())
        .collect();
    framed(4, &payload)
}

/// SETTINGS as a whole server or client sends them.
pub fn usual_settings() -> Vec<u8> {
    let mut output = BytesMut::new();
    Settings {
        connect_protocol: true,
        datagrams: true,
        ..Settings::default()
    }
    .encode(&mut output);
    output.to_vec()
}

/// A HEADERS frame.
pub fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut output = BytesMut::new();
    let mut encoder = QpackEncoder::default();
    let mut section = encoder.section(0, &mut output);
    for (name, value) in lines {
        section.line(LineName::parse(name.as_bytes()), value.as_bytes(), false);
    }
    section.finish();
    framed(1, &output)
}

/// A GET with more lines.
pub fn get(more: &[(&str, &str)]) -> Vec<u8> {
    headers(
        &[
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a"),
                (":path", "/"),
            ],
            more,
        ]
        .concat(),
    )
}

//! The machine over arbitrary bytes, and field sections.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::head::HeadLines;
use super::hpack::{self, HpackDecoder, HpackEncoder};
use super::{
    Budget, Budgets, Connection, ConnectionOptions, Event, FieldSectionLimits, FrameBatch,
    HeadParts, PREFACE, Role,
};

/// Limits of the field sections of an input.
const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 2048,
    lines: 16,
};

/// Bytes of the windows of streams.
const WINDOW: u32 = 4096;

const PLENTY: Budget = Budget {
    burst: 1000,
    per_second: 1000,
};

/// Decodes arbitrary bytes as the first of them chooses: a field section, lines to be written, or
/// the stream of a client or a server.
pub(crate) fn fuzz_one(data: &[u8], now: Instant) {
    let [what, data @ ..] = data else { return };
    match what {
        b'h' => heads(data),
        b't' => hpack::fuzz_one(data),
        b'c' => connection(Role::Client, data, now),
        _ => connection(Role::Server, data, now),
    }
}

fn lines(section: &[u8]) -> Option<HeadLines> {
    let mut lines = HeadLines::new(LIMITS);
    let read = HpackDecoder::default().decode(section, |name, value| lines.push(name, value));
    read.is_ok().then_some(lines)
}

/// An accepted head can be written, and is then read as the same; it never holds bytes that could
/// fool HTTP/1.1.
fn heads(data: &[u8]) {
    let mut output = BytesMut::new();
    if let Some(Ok(request)) = lines(data).map(HeadLines::request) {
        let values = request.fields.iter();
        assert!(
            !values
                .into_iter()
                .any(|(_, value)| value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)))
        );
        let parts = HeadParts::Request {
            method: &request.method,
            scheme: request.scheme.as_ref(),
            authority: request.authority.as_ref(),
            path: request.path.as_ref(),
            protocol: request.protocol.as_ref(),
            fields: &request.fields,
        };

        assert_eq!(parts.encode(&mut HpackEncoder::new(0), &mut output), Ok(()));
        // Without an authority there is no scheme, which a request must have.
        let is_whole = request.scheme.is_some() || request.path.is_none();
        if is_whole && let Some(again) = lines(&output) {
            assert_eq!(again.request(), Ok(request));
        }
    }

    if let Some(Ok(response)) = lines(data).map(HeadLines::response) {
        output.clear();
        let parts = HeadParts::Response(response.status, &response.fields);
        assert_eq!(parts.encode(&mut HpackEncoder::new(0), &mut output), Ok(()));
        if let Some(again) = lines(&output) {
            assert_eq!(again.response(), Ok(response));
        }
    }
}

fn options(role: Role) -> ConnectionOptions {
    ConnectionOptions {
        role,
        stream_window: WINDOW,
        connection_window: 0xffff,
        frame_size: 16 * 1024,
        section: LIMITS,
        trailers: LIMITS.bytes,
        table: 256,
        streams: 8,
        queue: 4096,
        remembered: 16,
        budgets: Budgets {
            resets: PLENTY,
            control: PLENTY,
            updates: PLENTY,
            caused: 1000,
            empty: PLENTY,
            last_stream: 1 << 30,
        },
    }
}

/// For any input, no more content comes out than the windows allow, and the output stays within
/// bounds.
fn connection(role: Role, data: &[u8], now: Instant) {
    let mut connection = Connection::<Bytes>::new(options(role), now);
    if role == Role::Client {
        let fields = crate::fields::Fields::new();
        let method = http::Method::GET;
        let head = HeadParts::Request {
            method: &method,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            fields: &fields,
        };

        for _ in 0..3 {
            let _ = connection.open(&head, false);
        }
    }

    // The first byte chooses how the rest is cut, the second the reactions to events.
    let [cut, act, data @ ..] = data else { return };
    let mut input = BytesMut::new();
    if role == Role::Server {
        input.extend_from_slice(PREFACE);
    }

    let mut batch = FrameBatch::default();
    let mut unread = 0;
    let mut written = 0;

    for piece in data.chunks(usize::from(*cut).max(1)) {
        input.extend_from_slice(piece);
        connection.handle(&mut input, now);
        while let Some(event) = connection.poll_event() {
            unread += answer(&mut connection, *act, event);
        }

        assert!(unread <= 0xffff);
        connection.transmit(&mut batch);
        written += batch.take().len();
    }

    assert!(written <= 4096 + 64 * (data.len() + 1));
}

/// Reacts to an event; returns the bytes that stay unread.
fn answer(connection: &mut Connection, act: u8, event: Event) -> usize {
    let fields = crate::fields::Fields::new();
    let content = Bytes::from_static(b"some content of a response");
    match event {
        Event::Request { stream, .. } | Event::Refuse { stream, .. } => {
            let head = HeadParts::Response(http::StatusCode::OK, &fields);
            let _ = connection.respond(stream, &head, act & 1 != 0);
            let _ = connection.send(stream, content, act & 2 != 0);

            if act & 4 != 0 {
                let _ = connection.finish(stream, Some(&fields));
            }
            if act & 8 != 0 {
                connection.abandon(stream);
            }

            0
        }
        Event::Data { stream, data } if act & 16 != 0 => {
            connection.release(stream, data.len() as u32);
            0
        }
        Event::Data { data, .. } => data.len(),
        Event::End { stream, .. } if act & 32 != 0 => {
            connection.reset(stream, super::Reason::CANCEL);
            0
        }
        Event::Pong if act & 64 != 0 => {
            connection.shut_down();
            0
        }
        _ => 0,
    }
}

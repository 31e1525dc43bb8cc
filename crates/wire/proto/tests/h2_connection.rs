//! Two machines of HTTP/2 against each other, and one against peers that break the rules.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::Fields;
use hermes_proto::h2::{
    Budget, Budgets, Connection, ConnectionOptions, Event, FRAME_HEAD, Failure, FieldSectionLimits,
    FrameBatch, FrameHead, FrameKind, HeadParts, LONGEST_TURN, OpenError, PREFACE, Rank, Reason,
    Role, SHORTEST_TURN,
};
use hermes_proto::h3::Priority;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::*;

const BUDGET: Budget = Budget {
    burst: 200,
    per_second: 1,
};

fn options(role: Role) -> ConnectionOptions {
    ConnectionOptions {
        role,
        stream_window: 100_000,
        connection_window: 300_000,
        frame_size: 16 * 1024,
        section: FieldSectionLimits {
            bytes: 16 * 1024,
            lines: 100,
        },
        trailers: 1024,
        table: 4096,
        streams: 20,
        queue: 256 * 1024,
        remembered: 100,
        budgets: Budgets {
            resets: BUDGET,
            control: BUDGET,
            updates: BUDGET,
            caused: 1000,
            empty: Budget {
                burst: 64,
                per_second: 1,
            },
            last_stream: 1 << 30,
        },
    }
}

/// A machine and its unread input.
struct End {
    machine: Connection,
    input: BytesMut,
    now: Instant,
}

impl End {
    fn new(role: Role) -> Self {
        let now = Instant::now();
        Self {
            machine: Connection::new(options(role), now),
            input: BytesMut::new(),
            now,
        }
    }

    /// A server whose client has sent its preface and SETTINGS.
    fn greeted() -> Self {
        let mut server = Self::new(Role::Server);
        server.takes(&[&PREFACE[..], &frame(FrameKind::Settings, 0, 0, b"")].concat());
        server.gives();
        server.events();
        server
    }

    fn takes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.machine.handle(&mut self.input, self.now);
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.poll_event()).collect()
    }

    fn gives(&mut self) -> Vec<u8> {
        let mut batch = FrameBatch::default();
        self.machine.transmit(&mut batch);
        batch.take()
    }

    /// Frames that it gives.
    fn frames(&mut self) -> Vec<(FrameKind, u32, Vec<u8>)> {
        let mut frames = Vec::new();
        while self.machine.has_output() {
            let bytes = self.gives();
            let mut rest = &bytes[..];
            while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD>() {
                let head = FrameHead::decode(head);
                let (content, after) = after.split_at(head.length as usize);
                frames.push((head.kind, head.stream, content.to_vec()));
                rest = after;
            }
        }
        frames
    }

    fn reason(&self) -> Option<Reason> {
        self.machine.failure().map(|error| error.reason)
    }
}

fn frame(kind: FrameKind, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        length: content.len() as u32,
        kind,
        flags,
        stream,
    };
    [&head.encode()[..], content].concat()
}

fn request<'a>(method: &'a Method, uri: &'a Uri, fields: &'a Fields) -> HeadParts<'a> {
    HeadParts::Request {
        method,
        scheme: Some(&uri.0),
        authority: Some(&uri.1),
        path: Some(&uri.2),
        protocol: None,
        fields,
    }
}

struct Uri(Scheme, Authority, PathAndQuery);

fn uri() -> Uri {
    Uri(
        Scheme::HTTPS,
        Authority::from_static("origin.example"),
        PathAndQuery::from_static("/path?query"),
    )
}

/// `GET`, or `POST`, `http://a/`.
const GET: &[u8] = b"\x82\x86\x84\x01\x01a";
const POST: &[u8] = b"\x83\x86\x84\x01\x01a";

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const WHOLE: u8 = END_STREAM | END_HEADERS;

fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| vec![u8::try_from(bytes.len()).unwrap()];
    [&[0][..], &length(name), name, &length(value), value].concat()
}

/// Moves bytes both ways until nothing moves, in pieces of these sizes.
fn exchange(
    client: &mut End,
    server: &mut End,
    cuts: &[usize],
    mut each: impl FnMut(&mut End, bool),
) {
    let mut cuts = cuts.iter().cycle();
    loop {
        let mut moved = false;
        for from_client in [true, false] {
            let (from, to) = if from_client {
                (&mut *client, &mut *server)
            } else {
                (&mut *server, &mut *client)
            };
            let bytes = from.gives();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                to.takes(now);
                each(to, !from_client);
                rest = later;
                moved = true;
            }
            each(from, from_client);
        }
        if !moved && !client.machine.has_output() && !server.machine.has_output() {
            return;
        }
    }
}

/// One side's knowledge of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    heads: Vec<StatusCode>,
    content: Vec<u8>,
    trailers: Option<Fields>,
    ended: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Requests with content and responses with interim heads, content and trailers arrive as they were sent.
    #[test]
    fn messages_arrive_whole_however_they_are_cut(
        lengths in proptest::collection::vec(0..200_000_usize, 1..6),
        cuts in proptest::collection::vec(1..20_000_usize, 1..10),
        piece in 1..50_000_usize,
    ) {
        let mut client = End::new(Role::Client);
        let mut server = End::new(Role::Server);
        let uri = uri();
        let mut fields = Fields::new();
        fields.insert("x-trailer", HeaderValue::from_static("at the end"));
        let mut requests = BTreeMap::new();
        for (number, length) in lengths.iter().enumerate() {
            let stream = client.machine.open(&request(&Method::POST, &uri, &Fields::new()), false).unwrap();
            let content = vec![number as u8 + 1; *length];
            for piece in content.chunks(piece) {
                client.machine.send(stream, Bytes::copy_from_slice(piece), false).unwrap();
            }
            client.machine.finish(stream, None).unwrap();
            requests.insert(stream, content);
        }
        let mut at_server: BTreeMap<u32, Seen> = BTreeMap::new();
        let mut at_client: BTreeMap<u32, Seen> = BTreeMap::new();
        exchange(&mut client, &mut server, &cuts, |end, is_client| {
            for event in end.events() {
                let seen = if is_client { &mut at_client } else { &mut at_server };
                match event {
                    Event::Request { stream, .. } => drop(seen.entry(stream).or_default()),
                    Event::Response { stream, response, end } => {
                        let seen = seen.entry(stream).or_default();
                        seen.heads.push(response.status);
                        seen.ended |= end;
                    }
                    Event::Data { stream, data } => {
                        seen.entry(stream).or_default().content.extend_from_slice(&data);
                        end.machine.release(stream, data.len() as u32);
                    }
                    Event::End { stream, trailers } => {
                        let seen = seen.entry(stream).or_default();
                        seen.ended = true;
                        seen.trailers = trailers.map(|trailers| *trailers);
                        if !is_client {
                            // The echo.
                            let content = Bytes::from(seen.content.clone());
                            let none = Fields::new();
                            let early = HeadParts::Response(StatusCode::EARLY_HINTS, &none);
                            end.machine.respond(stream, &early, false).unwrap();
                            let head = HeadParts::Response(StatusCode::OK, &none);
                            end.machine.respond(stream, &head, false).unwrap();
                            end.machine.send(stream, content, false).unwrap();
                            end.machine.finish(stream, Some(&fields)).unwrap();
                        }
                    }
                    Event::Failed { .. } | Event::Goaway { .. } | Event::Retire => panic!("{event:?}"),
                    _ => {}
                }
            }
        });
        for (stream, content) in &requests {
            let seen = &at_server[stream];
            prop_assert!(seen.ended && seen.content == *content);
            let seen = &at_client[stream];
            prop_assert_eq!(&seen.heads, &[StatusCode::EARLY_HINTS, StatusCode::OK]);
            prop_assert!(seen.ended && seen.content == *content);
            prop_assert_eq!(seen.trailers.as_ref(), Some(&fields));
        }
        prop_assert!(!client.machine.has_streams() && !server.machine.has_streams());
    }

    /// The machine gives the same events for the same bytes in any pieces, and keeps its promises.
    #[test]
    fn arbitrary_frames_mean_the_same_however_they_are_cut(
        frames in proptest::collection::vec(
            (0..18_u8, any::<u8>(), 0..6_u32, proptest::collection::vec(any::<u8>(), 0..40)), 0..30),
        cut in 1..50_usize,
    ) {
        let mut bytes = Vec::new();
        for (kind, flags, stream, content) in &frames {
            bytes.extend(frame(FrameKind::from(*kind), *flags, *stream, content));
        }
        let mut whole = End::greeted();
        whole.takes(&bytes);
        let mut pieces = End::greeted();
        for piece in bytes.chunks(cut) {
            pieces.takes(piece);
        }
        prop_assert_eq!(whole.machine.failure(), pieces.machine.failure());
        prop_assert_eq!(whole.gives(), pieces.gives());
    }
}

/// The streams of the DATA frames that leave, where each of these answers with so many bytes and has that rank.
fn data_of(answers: &[(u32, usize, Rank)]) -> Vec<u32> {
    let mut server = End::greeted();
    server.takes(&frame(
        FrameKind::WindowUpdate,
        0,
        0,
        &1_000_000_u32.to_be_bytes(),
    ));
    for (stream, length, rank) in answers {
        server.takes(&frame(FrameKind::Headers, WHOLE, *stream, GET));
        server.machine.rank(*stream, *rank);
        let none = Fields::new();
        let head = HeadParts::Response(StatusCode::OK, &none);
        server.machine.respond(*stream, &head, false).unwrap();
        let content = Bytes::from(vec![7; *length]);
        server.machine.send(*stream, content, true).unwrap();
    }

    let data = server.frames().into_iter();
    data.filter(|(kind, ..)| *kind == FrameKind::Data)
        .map(|(_, stream, _)| stream)
        .collect()
}

#[test]
fn what_is_urgent_or_little_goes_ahead_and_the_rest_takes_turns() {
    let usual = Rank::default();
    let urgent = Priority {
        urgency: 0,
        ..Priority::default()
    };
    assert_eq!(
        data_of(&[
            (1, 40_000, usual),
            (3, 40_000, usual),
            (5, 40_000, Rank::before_later(urgent, 5)),
            (7, 100, usual),
        ]),
        [5, 5, 5, 7, 1, 3, 1, 3, 1, 3]
    );
}

#[test]
fn breaking_the_rules_ends_the_connection_with_the_code_that_says_how() {
    let head = || frame(FrameKind::Headers, END_HEADERS, 1, POST);
    let update = |stream, by: u32| frame(FrameKind::WindowUpdate, 0, stream, &by.to_be_bytes());
    let cases = [
        (frame(FrameKind::Data, 0, 0, b"x"), Reason::PROTOCOL_ERROR),
        (frame(FrameKind::Data, 0, 1, b"x"), Reason::PROTOCOL_ERROR),
        (frame(FrameKind::Data, 8, 1, b""), Reason::PROTOCOL_ERROR),
        (
            frame(FrameKind::Data, 0, 1, &[0; 20_000]),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::Headers, WHOLE, 0, GET),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::Headers, WHOLE, 2, GET),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::Headers, WHOLE, 1, b"\x80"),
            Reason::COMPRESSION_ERROR,
        ),
        (
            frame(FrameKind::Headers, WHOLE | 8, 1, b"\x05ab"),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::Continuation, 4, 1, GET),
            Reason::PROTOCOL_ERROR,
        ),
        (
            [
                frame(FrameKind::Headers, 1, 1, GET),
                frame(FrameKind::Ping, 0, 0, &[0; 8]),
            ]
            .concat(),
            Reason::PROTOCOL_ERROR,
        ),
        (
            [
                frame(FrameKind::Headers, 1, 1, GET),
                frame(FrameKind::Continuation, 4, 3, GET),
            ]
            .concat(),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::Settings, 0, 1, b""),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::Settings, 0, 0, b"12345"),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::Settings, 1, 0, b"123456"),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::Ping, 0, 0, b"1234567"),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::Ping, 0, 1, b"12345678"),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::RstStream, 0, 1, b"123"),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::RstStream, 0, 9, &[0, 0, 0, 8]),
            Reason::PROTOCOL_ERROR,
        ),
        (
            frame(FrameKind::GoAway, 0, 0, b"1234567"),
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            frame(FrameKind::PushPromise, 4, 1, &[0, 0, 0, 2, 0x82]),
            Reason::PROTOCOL_ERROR,
        ),
        (update(0, 0), Reason::PROTOCOL_ERROR),
        (update(1, 1), Reason::PROTOCOL_ERROR),
        (update(0, 0x7fff_ffff), Reason::FLOW_CONTROL_ERROR),
        (
            [
                head(),
                frame(FrameKind::RstStream, 0, 1, &[0; 4]),
                frame(FrameKind::Data, 0, 1, b"x"),
            ]
            .concat(),
            Reason::STREAM_CLOSED,
        ),
        (
            frame(FrameKind::PriorityUpdate, 0, 0, b"123"),
            Reason::FRAME_SIZE_ERROR,
        ),
    ];
    for (bytes, reason) in cases {
        let mut server = End::greeted();
        server.takes(&bytes);
        assert_eq!(server.reason(), Some(reason), "{bytes:?}");
    }
}

#[test]
fn mistakes_of_one_stream_end_that_stream() {
    let begun = |more: Vec<u8>| [frame(FrameKind::Headers, END_HEADERS, 1, POST), more].concat();
    let with = |fields: &[u8]| frame(FrameKind::Headers, WHOLE, 1, &[POST, fields].concat());
    let length = literal(b"content-length", b"3");
    let announced = frame(
        FrameKind::Headers,
        END_HEADERS,
        1,
        &[POST, &length].concat(),
    );
    let cases = [
        (
            with(&literal(b"connection", b"close")),
            Reason::PROTOCOL_ERROR,
        ),
        (with(&literal(b"te", b"gzip")), Reason::PROTOCOL_ERROR),
        (with(&literal(b"Upper", b"x")), Reason::PROTOCOL_ERROR),
        (with(&literal(b"x", b"a\r\nb: c")), Reason::PROTOCOL_ERROR),
        (with(&literal(b":path", b"/again")), Reason::PROTOCOL_ERROR),
        (with(&literal(b":unknown", b"x")), Reason::PROTOCOL_ERROR),
        (
            with(&[literal(b"a", b"b"), literal(b":protocol", b"x")].concat()),
            Reason::PROTOCOL_ERROR,
        ),
        (with(&literal(b":status", b"200")), Reason::PROTOCOL_ERROR),
        (
            with(&literal(b"content-length", b"+1")),
            Reason::PROTOCOL_ERROR,
        ),
        (with(&length), Reason::PROTOCOL_ERROR),
        (
            frame(FrameKind::Headers, WHOLE, 1, b"\x82\x86"),
            Reason::PROTOCOL_ERROR,
        ),
        (
            [
                announced.clone(),
                frame(FrameKind::Data, END_STREAM, 1, b"ab"),
            ]
            .concat(),
            Reason::PROTOCOL_ERROR,
        ),
        (
            [announced, frame(FrameKind::Data, 0, 1, b"abcd")].concat(),
            Reason::PROTOCOL_ERROR,
        ),
        (
            begun(frame(FrameKind::Headers, END_HEADERS, 1, b"")),
            Reason::PROTOCOL_ERROR,
        ),
        (
            begun(frame(FrameKind::Headers, WHOLE, 1, b"\x84")),
            Reason::PROTOCOL_ERROR,
        ),
        (
            begun(frame(
                FrameKind::WindowUpdate,
                0,
                1,
                &[0x7f, 0xff, 0xff, 0xff],
            )),
            Reason::FLOW_CONTROL_ERROR,
        ),
        (
            begun(frame(FrameKind::WindowUpdate, 0, 1, &[0; 4])),
            Reason::PROTOCOL_ERROR,
        ),
        (
            begun(frame(FrameKind::Data, 0, 1, &[0; 16_000]).repeat(7)),
            Reason::FLOW_CONTROL_ERROR,
        ),
        (
            begun(
                [
                    frame(FrameKind::Data, END_STREAM, 1, b""),
                    frame(FrameKind::Data, 0, 1, b"x"),
                ]
                .concat(),
            ),
            Reason::STREAM_CLOSED,
        ),
        (
            frame(
                FrameKind::Headers,
                WHOLE | 0x20,
                1,
                &[&[0, 0, 0, 1, 0][..], GET].concat(),
            ),
            Reason::PROTOCOL_ERROR,
        ),
    ];
    for (bytes, reason) in cases {
        let mut server = End::greeted();
        server.takes(&bytes);
        assert_eq!(server.reason(), None, "{bytes:?}");
        let resets: Vec<_> = server
            .frames()
            .into_iter()
            .filter(|(kind, ..)| *kind == FrameKind::RstStream)
            .collect();
        let expected = (
            FrameKind::RstStream,
            1,
            reason.number().to_be_bytes().to_vec(),
        );
        assert_eq!(resets, [expected], "{bytes:?}");
        server.events();
        // A late frame is no mistake, and the next stream is served.
        server.takes(&frame(FrameKind::Data, END_STREAM, 1, b"late"));
        server.takes(&frame(FrameKind::Headers, WHOLE, 3, GET));
        assert!(
            matches!(
                server.events()[..],
                [Event::Request {
                    stream: 3,
                    end: true,
                    ..
                }]
            ),
            "{bytes:?}"
        );
    }
}

#[test]
fn what_is_http_and_not_to_be_served_is_refused_with_a_status() {
    let long = literal(b"x", &[b'y'; 120]);
    let cases = [
        (
            [POST, &literal(b"x", b" y")].concat(),
            400,
            "white space around the value of field `x`",
        ),
        (
            [POST, &literal(b"host", b"b")].concat(),
            400,
            "host differs from :authority",
        ),
        (
            [POST, &literal(b"host", b"a"), &literal(b"host", b"a")].concat(),
            400,
            "several host fields",
        ),
        (
            [b"\x82\x86", &literal(b":path", b"/a b")[..], b"\x01\x01a"].concat(),
            400,
            "byte 0x20 at offset 2",
        ),
        (
            [b"\x82\x86", &literal(b":path", b"*")[..], b"\x01\x01a"].concat(),
            400,
            "`*` is for OPTIONS only",
        ),
        (
            [POST, &literal(b"a", b"").repeat(101)].concat(),
            431,
            "there are too many fields",
        ),
        (
            [POST, &long.repeat(110)].concat(),
            431,
            "there are too many fields",
        ),
        (
            [
                POST,
                &literal(b"x", &[b'y'; 120]).repeat(90),
                &literal(&[b'n'; 120], &[b'y'; 120]).repeat(20),
            ]
            .concat(),
            431,
            "too large",
        ),
    ];
    for (section, status, words) in cases {
        let mut server = End::greeted();
        server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, &section));
        let events = server.events();
        let [
            Event::Refuse {
                stream: 1,
                status: said,
                words: why,
            },
        ] = &events[..]
        else {
            panic!("{words}: {events:?}")
        };
        assert_eq!(said.as_u16(), status, "{words}");
        assert!(why.contains(words), "{why}");
    }
}

/// Paths that curl, Go and nginx send unencoded.
#[test]
fn impolite_bytes_of_a_path_pass_percent_encoded() {
    let mut server = End::greeted();
    let section = [
        b"\x82\x86",
        &literal(b":path", br#"/<a>`b?q={job="node"}<"#)[..],
        b"\x01\x01a",
    ]
    .concat();
    server.takes(&frame(FrameKind::Headers, WHOLE, 1, &section));
    let Some(Event::Request { request, .. }) = server.machine.poll_event() else {
        panic!("it is a request")
    };
    assert_eq!(
        request.path.unwrap(),
        "/%3Ca%3E%60b?q=%7Bjob=%22node%22%7D%3C"
    );
}

#[test]
fn floods_end_the_connection_and_answers_do_not() {
    let settings = frame(FrameKind::Settings, 0, 0, b"");
    let floods = [
        frame(FrameKind::Ping, 0, 0, &[0; 8]),
        settings,
        frame(FrameKind::Priority, 0, 1, &[0, 0, 0, 3, 0]),
        frame(FrameKind::PriorityUpdate, 0, 0, &[0, 0, 0, 3]),
        frame(FrameKind::Unknown(0x77), 0, 0, b""),
        frame(FrameKind::WindowUpdate, 0, 0, &[0, 0, 0, 1]),
        // Answers to nothing.
        frame(FrameKind::Settings, 1, 0, b""),
        frame(FrameKind::Ping, 1, 0, &[0; 8]),
        frame(FrameKind::Ping, 1, 0, b"presence"),
        frame(FrameKind::Ping, 1, 0, b"farewell"),
        frame(FrameKind::GoAway, 0, 0, &[0; 8]),
    ];
    for flood in floods {
        let mut server = End::greeted();
        server.takes(&frame(FrameKind::Settings, 1, 0, b""));
        server.takes(&frame(FrameKind::GoAway, 0, 0, &[0; 8]));
        server.takes(&flood.repeat(199));
        assert_eq!(server.reason(), None, "{flood:?}");
        server.takes(&flood.repeat(2));
        assert_eq!(
            server.reason(),
            Some(Reason::ENHANCE_YOUR_CALM),
            "{flood:?}"
        );
    }
    let mut server = End::greeted();
    for _ in 0..10_000 {
        server.machine.ping();
    }
    server.takes(&frame(FrameKind::Ping, 1, 0, b"presence").repeat(10_000));
    assert_eq!(server.reason(), None);
    assert_eq!(server.events().len(), 10_000);
}

#[test]
fn what_comes_for_streams_that_are_over_or_come_too_late_is_counted() {
    let trailers = frame(FrameKind::Headers, WHOLE, 1, b"");
    let empty = frame(FrameKind::Data, 1, 1, b"");
    for late in [trailers, empty] {
        let mut server = End::greeted();
        server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, POST));
        server.machine.reset(1, Reason::CANCEL);
        server.takes(&late.repeat(200));
        assert_eq!(server.reason(), None, "{late:?}");
        server.takes(&late);
        assert_eq!(server.reason(), Some(Reason::ENHANCE_YOUR_CALM), "{late:?}");
    }

    let mut server = End::greeted();
    server.takes(&frame(FrameKind::Headers, WHOLE, 1, GET));
    server.machine.shut_down();
    server.takes(&frame(FrameKind::Ping, 1, 0, b"farewell"));
    let mut stream = 3;
    while server.reason().is_none() {
        server.takes(&frame(FrameKind::Headers, WHOLE, stream, GET));
        stream += 2;
    }
    assert_eq!(
        (server.reason(), stream),
        (Some(Reason::ENHANCE_YOUR_CALM), 405)
    );
}

/// A server that gives its client no table, which has written an entry before it could know.
fn without_table() -> End {
    let mut server = End::greeted();
    let options = ConnectionOptions {
        table: 0,
        ..options(Role::Server)
    };
    server.machine = Connection::new(options, server.now);
    server.takes(&[&PREFACE[..], &frame(FrameKind::Settings, 0, 0, b"")].concat());
    let entry = [GET, b"\x40\x01a\x7f\x81\x07", &[b'x'; 1024]].concat();
    server.takes(&frame(FrameKind::Headers, WHOLE, 1, &entry));
    server.events();
    server
}

#[test]
fn a_client_without_a_table_has_one_until_it_can_know_and_not_for_long() {
    let mut server = without_table();
    assert_eq!(
        server.frames()[0].2[6..12],
        [0, 1, 0, 0, 0, 0],
        "HEADER_TABLE_SIZE is 0"
    );
    let again = [GET, b"\xbe"].concat();
    server.takes(&frame(FrameKind::Headers, WHOLE, 3, &again));
    assert!(matches!(server.events()[..], [Event::Request { .. }]));
    server.takes(&frame(FrameKind::Settings, 1, 0, b""));
    server.takes(&frame(FrameKind::Headers, WHOLE, 5, &again));
    assert_eq!(server.reason(), Some(Reason::COMPRESSION_ERROR));

    // One that never acknowledges has little of it.
    let mut server = without_table();
    let many = [GET, &[0xbe; 12]].concat();
    let mut stream = 3;
    while server.reason().is_none() {
        server.takes(&frame(FrameKind::Headers, WHOLE, stream, &many));
        server.events();
        server.machine.reset(stream, Reason::CANCEL);
        stream += 2;
    }
    assert_eq!(server.reason(), Some(Reason::SETTINGS_TIMEOUT));
    assert!(stream < 250, "{stream}");
}

#[test]
fn few_bytes_do_not_become_many_heads_at_once() {
    let mut options = options(Role::Server);
    options.streams = 1000;
    options.section.bytes = 64 * 1024;
    let mut server = End::greeted();
    server.machine = Connection::new(options, server.now);
    server.takes(&[&PREFACE[..], &frame(FrameKind::Settings, 0, 0, b"")].concat());

    let entry = [GET, b"\x40\x01a\x7f\x81\x07", &[b'x'; 1024]].concat();
    server.takes(&frame(FrameKind::Headers, WHOLE, 1, &entry));
    server.events();
    let many = [GET, &[0xbe; 50]].concat();
    for n in 1..100 {
        let head = frame(FrameKind::Headers, WHOLE, 2 * n + 1, &many);
        server.input.extend_from_slice(&head);
    }

    let mut turns = Vec::new();
    while !server.machine.handle(&mut server.input, server.now) {
        turns.push(server.events().len());
    }
    assert!(turns.iter().all(|events| *events <= 5), "{turns:?}");
    assert!(turns.len() >= 19, "{turns:?}");
}

#[test]
fn rapid_resets_end_the_connection_and_those_that_we_are_made_to_send_too() {
    let reset = |stream: u32| {
        [
            frame(FrameKind::Headers, END_HEADERS, stream, POST),
            frame(FrameKind::RstStream, 0, stream, &[0, 0, 0, 8]),
        ]
        .concat()
    };
    // RFC 9113, section 8.1.1, makes us reset these.
    let provoke = |stream: u32| frame(FrameKind::Headers, WHOLE, stream, b"\x82");
    for attack in [&reset as &dyn Fn(u32) -> Vec<u8>, &provoke] {
        let mut server = End::greeted();
        let mut stream = 1;
        while server.reason().is_none() {
            server.takes(&attack(stream));
            stream += 2;
        }
        assert_eq!(
            (server.reason(), stream),
            (Some(Reason::ENHANCE_YOUR_CALM), 403)
        );
    }
}

#[test]
fn a_section_that_never_ends_ends_the_connection() {
    let mut server = End::greeted();
    server.takes(&frame(FrameKind::Headers, 0, 1, GET));
    let mut frames = 0;
    while server.reason().is_none() {
        server.takes(&frame(FrameKind::Continuation, 0, 1, b""));
        frames += 1;
    }
    assert_eq!(server.reason(), Some(Reason::ENHANCE_YOUR_CALM));
    assert!(frames < 100, "{frames}");
}

#[test]
fn empty_data_retires_a_connection() {
    let mut server = End::greeted();
    server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, POST));
    server.takes(&frame(FrameKind::Data, 0, 1, b"").repeat(63));
    assert!(!server.events().contains(&Event::Retire));
    server.takes(&frame(FrameKind::Data, 0, 1, b""));
    assert_eq!(server.events(), [Event::Retire]);
    server.takes(&frame(FrameKind::Data, 0, 1, b"").repeat(63));
    assert_eq!(server.reason(), None);
    server.takes(&frame(FrameKind::Data, 0, 1, b""));
    assert_eq!(server.reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

#[test]
fn streams_above_the_limit_are_refused_and_the_client_keeps_to_it() {
    let mut server = End::greeted();
    for stream in 0..21 {
        server.takes(&frame(FrameKind::Headers, WHOLE, 2 * stream + 1, GET));
    }
    assert_eq!(server.events().len(), 20);
    let reset = server.frames().pop().unwrap();
    assert_eq!(reset, (FrameKind::RstStream, 41, vec![0, 0, 0, 7]));

    let mut client = End::new(Role::Client);
    client.takes(&frame(FrameKind::Settings, 0, 0, &[0, 3, 0, 0, 0, 1]));
    let uri = uri();
    let fields = Fields::new();
    let head = request(&Method::GET, &uri, &fields);
    assert_eq!(client.machine.open(&head, true), Ok(1));
    assert_eq!(client.machine.open(&head, true), Err(OpenError::Full));
    client.events();
    client.takes(&frame(FrameKind::Headers, WHOLE, 1, b"\x88"));
    assert!(client.events().contains(&Event::Openable));
    assert_eq!(client.machine.open(&head, true), Ok(3));
}

#[test]
fn a_small_stream_does_not_wait_for_a_large_one() {
    let mut client = End::new(Role::Client);
    client.takes(&frame(
        FrameKind::Settings,
        0,
        0,
        &[0, 4, 0x7f, 0xff, 0xff, 0xff],
    ));
    client.takes(&frame(FrameKind::WindowUpdate, 0, 0, &[0x70, 0, 0, 0]));
    let uri = uri();
    let fields = Fields::new();
    let head = request(&Method::POST, &uri, &fields);
    let large = client.machine.open(&head, false).unwrap();
    let small = client.machine.open(&head, false).unwrap();
    client.gives();
    client
        .machine
        .send(large, Bytes::from(vec![1; 10 << 20]), true)
        .unwrap();
    client
        .machine
        .send(small, Bytes::from_static(b"small"), true)
        .unwrap();
    let order: Vec<u32> = client
        .frames()
        .into_iter()
        .map(|(_, stream, _)| stream)
        .collect();
    assert_eq!(order[..2], [small, large]);
    assert!(order.len() > 100);
}

#[test]
fn turns_are_as_long_as_the_link_allows() {
    let lengths = |turn: usize| {
        let mut client = End::new(Role::Client);
        let frame_size_and_window = [0, 5, 0, 1, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];
        client.takes(&frame(FrameKind::Settings, 0, 0, &frame_size_and_window));
        client.takes(&frame(FrameKind::WindowUpdate, 0, 0, &[0x70, 0, 0, 0]));
        let (uri, fields) = (uri(), Fields::new());
        let head = request(&Method::POST, &uri, &fields);
        client.machine.set_turn(turn);
        let streams = [(); 2].map(|()| client.machine.open(&head, false).unwrap());
        client.gives();
        for stream in streams {
            let content = Bytes::from(vec![1; 200_000]);
            client.machine.send(stream, content, false).unwrap();
        }

        let frames = client.frames().into_iter();
        let lengths = frames.map(|(_, stream, content)| (stream, content.len()));
        lengths.take(3).collect::<Vec<_>>()
    };

    let shortest = [(1, SHORTEST_TURN), (3, SHORTEST_TURN), (1, SHORTEST_TURN)];
    assert_eq!(lengths(0), shortest);
    assert_eq!(lengths(40_000), [(1, 40_000), (3, 40_000), (1, 40_000)]);
    let longest = [(1, LONGEST_TURN), (3, LONGEST_TURN), (1, LONGEST_TURN)];
    assert_eq!(lengths(usize::MAX), longest);
}

#[test]
fn content_waits_for_windows_and_its_owner_is_told() {
    let mut client = End::new(Role::Client);
    client.takes(&frame(FrameKind::Settings, 0, 0, &[0, 4, 0, 0, 0, 10]));
    let uri = uri();
    let fields = Fields::new();
    let stream = client
        .machine
        .open(&request(&Method::POST, &uri, &fields), false)
        .unwrap();
    client.gives();
    assert_eq!(client.machine.capacity(stream), Some(10));
    client
        .machine
        .send(stream, Bytes::from_static(b"0123456789abc"), true)
        .unwrap();
    assert_eq!(
        client.frames(),
        [(FrameKind::Data, stream, b"0123456789".to_vec())]
    );
    client.events();
    client.takes(&frame(FrameKind::WindowUpdate, 0, stream, &[0, 0, 0, 5]));
    assert_eq!(
        client.frames(),
        [(FrameKind::Data, stream, b"abc".to_vec())]
    );

    let other = client
        .machine
        .open(&request(&Method::POST, &uri, &fields), false)
        .unwrap();
    client
        .machine
        .send(other, Bytes::from_static(b"0123456789"), false)
        .unwrap();
    client.gives();
    client.events();
    assert_eq!(client.machine.capacity(other), Some(0));
    client.machine.await_capacity(other);
    client.takes(&frame(FrameKind::WindowUpdate, 0, other, &[0, 0, 0, 5]));
    assert_eq!(client.events(), [Event::Writable { stream: other }]);
    assert_eq!(client.machine.capacity(other), Some(5));
}

#[test]
fn what_is_read_is_given_back_and_what_no_one_reads_too() {
    let mut server = End::greeted();
    let begin = frame(FrameKind::Headers, END_HEADERS, 1, POST);
    server.takes(&begin);
    server.gives();
    server.takes(&frame(FrameKind::Data, 0, 1, &[0; 15_000]).repeat(6));
    assert!(server.frames().is_empty(), "nothing is read yet");
    server.machine.release(1, 90_000);
    assert_eq!(server.frames()[0].0, FrameKind::WindowUpdate);
    server.machine.discard(1);
    for _ in 0..100 {
        server.takes(&frame(FrameKind::Data, 0, 1, &[0; 15_000]));
        assert_eq!(server.reason(), None);
    }
    server.machine.reset(1, Reason::CANCEL);
    for _ in 0..100 {
        server.takes(&frame(FrameKind::Data, 0, 1, &[0; 15_000]));
        assert_eq!(server.reason(), None);
    }
}

#[test]
fn room_is_told_where_the_rest_of_it_is_used_up_and_no_one_reads_any_more() {
    let mut server = End::greeted();
    let content = vec![b'x'; 15_000];
    for stream in [1, 3, 5, 7] {
        server.takes(&frame(FrameKind::Headers, END_HEADERS, stream, POST));
    }

    // A reader takes less than is worth a frame, and stops with all others.
    for _ in 0..6 {
        server.takes(&frame(FrameKind::Data, 0, 1, &content));
    }
    server.machine.release(1, 90_000);
    assert_eq!(room_told(&mut server), 0);

    for _ in 0..6 {
        server.takes(&frame(FrameKind::Data, 0, 3, &content));
    }
    assert_eq!(room_told(&mut server), 90_000);
}

/// Bytes of room for all streams that the peer is told of.
fn room_told(end: &mut End) -> u32 {
    let frames = end.frames();
    let updates = frames
        .iter()
        .filter(|(kind, stream, _)| *kind == FrameKind::WindowUpdate && *stream == 0);
    updates
        .map(|(_, _, bytes)| u32::from_be_bytes(bytes[..].try_into().unwrap()))
        .sum()
}

#[test]
fn windows_that_shrink_count_once_the_peer_knows() {
    let ack = frame(FrameKind::Settings, 1, 0, b"");
    let mut server = End::greeted();
    assert!(
        !server.machine.set_stream_window(10),
        "the first SETTINGS are not acknowledged"
    );
    server.takes(&ack);
    assert!(server.machine.set_stream_window(10));
    assert!(!server.machine.set_stream_window(20));
    server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, POST));
    server.takes(&frame(FrameKind::Data, 0, 1, &[0; 100]));
    server.takes(&ack);
    server.events();
    server.gives();
    server.takes(&frame(FrameKind::Data, 0, 1, b"x"));
    assert!(matches!(
        server.events()[..],
        [Event::Failed {
            stream: 1,
            failure: Failure::Broken(Reason::FLOW_CONTROL_ERROR, _)
        }]
    ));
    server.takes(&frame(FrameKind::Headers, END_HEADERS, 3, POST));
    server.takes(&frame(FrameKind::Data, 0, 3, &[0; 10]));
    assert!(
        !server
            .events()
            .iter()
            .any(|event| matches!(event, Event::Failed { .. }))
    );
}

#[test]
fn a_stream_may_end_where_its_window_has_shrunk_below_what_it_sent() {
    let ack = frame(FrameKind::Settings, 1, 0, b"");
    let mut server = End::greeted();
    server.takes(&ack);
    assert!(server.machine.set_stream_window(10));
    server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, POST));
    server.takes(&frame(FrameKind::Data, 0, 1, &[0; 100]));
    server.takes(&ack);
    // RFC 9113, section 6.9.1: it takes no credit.
    server.takes(&frame(FrameKind::Data, END_STREAM, 1, b""));
    let events = server.events();
    let has_failed = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!events.iter().any(has_failed), "{events:?}");
}

#[test]
fn a_farewell_lets_what_is_on_its_way_arrive() {
    let mut server = End::greeted();
    server.takes(&frame(FrameKind::Headers, WHOLE, 1, GET));
    server.machine.shut_down();
    let [first, ping] = &server.frames()[..] else {
        panic!("GOAWAY and PING")
    };
    assert_eq!(first.2, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    server.takes(&frame(FrameKind::Headers, WHOLE, 3, GET));
    assert!(!server.machine.is_over());
    server.takes(&frame(FrameKind::Ping, 1, 0, &ping.2));
    assert_eq!(server.frames()[0].2, [0, 0, 0, 3, 0, 0, 0, 0]);
    server.events();
    server.takes(&frame(FrameKind::Headers, WHOLE, 5, GET));
    assert_eq!(server.events(), [], "it came too late");
    let none = Fields::new();
    for stream in [1, 3] {
        assert!(!server.machine.is_over());
        let head = HeadParts::Response(StatusCode::NO_CONTENT, &none);
        server.machine.respond(stream, &head, true).unwrap();
    }
    assert!(server.machine.is_over());
}

#[test]
fn a_goaway_says_what_was_not_processed() {
    let mut client = End::new(Role::Client);
    client.takes(&frame(FrameKind::Settings, 0, 0, b""));
    let uri = uri();
    let fields = Fields::new();
    let head = request(&Method::GET, &uri, &fields);
    for _ in 0..3 {
        client.machine.open(&head, true).unwrap();
    }
    client.events();
    client.takes(&frame(FrameKind::GoAway, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
    let mut events = client.events();
    assert_eq!(
        events.pop(),
        Some(Event::Goaway {
            reason: Reason::NO_ERROR
        })
    );
    let mut failed: Vec<u32> = events
        .into_iter()
        .map(|event| match event {
            Event::Failed {
                stream,
                failure: Failure::Unprocessed,
            } => stream,
            other => panic!("{other:?}"),
        })
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, [3, 5]);
    assert_eq!(client.machine.open(&head, true), Err(OpenError::Closing));
    client.takes(&frame(FrameKind::Headers, WHOLE, 1, b"\x88"));
    assert!(client.machine.is_over());
}

#[test]
fn responses_that_break_the_rules_are_reset_and_those_without_content_are_not() {
    let length = literal(b"content-length", b"5");
    let head = |status: &[u8], flags| {
        let section = [&literal(b":status", status)[..], &length].concat();
        frame(FrameKind::Headers, flags, 1, &section)
    };
    let cases = [
        (
            Method::GET,
            head(b"200", WHOLE),
            Some("less content than was announced"),
        ),
        (Method::HEAD, head(b"200", WHOLE), None),
        (Method::GET, head(b"304", WHOLE), None),
        (
            Method::GET,
            head(b"101", END_HEADERS),
            Some("101 over HTTP/2"),
        ),
        (
            Method::GET,
            head(b"103", WHOLE),
            Some("an interim response that ends the stream"),
        ),
        (
            Method::GET,
            frame(FrameKind::Headers, WHOLE, 1, b""),
            Some("a response without :status"),
        ),
        (
            Method::GET,
            frame(FrameKind::Data, 0, 1, b"x"),
            Some("content before a head"),
        ),
        (
            Method::HEAD,
            [
                head(b"200", END_HEADERS),
                frame(FrameKind::Data, 0, 1, b"x"),
            ]
            .concat(),
            Some("more content than was announced"),
        ),
    ];
    for (method, bytes, words) in cases {
        let mut client = End::new(Role::Client);
        client.takes(&frame(FrameKind::Settings, 0, 0, b""));
        let uri = uri();
        let fields = Fields::new();
        client
            .machine
            .open(&request(&method, &uri, &fields), true)
            .unwrap();
        client.takes(&bytes);
        assert_eq!(client.reason(), None);
        let said = client.events().into_iter().find_map(|event| match event {
            Event::Failed {
                failure: Failure::Broken(_, words),
                ..
            } => Some(words),
            _ => None,
        });
        assert_eq!(said.as_deref(), words, "{bytes:?}");
    }
}

#[test]
fn an_abandoned_stream_is_reset_behind_what_is_queued() {
    let none = Fields::new();
    for (end, reason) in [(true, 0), (false, 8)] {
        let mut server = End::greeted();
        server.takes(&frame(FrameKind::Headers, END_HEADERS, 1, POST));
        server.events();
        server.gives();
        server
            .machine
            .respond(1, &HeadParts::Response(StatusCode::OK, &none), false)
            .unwrap();
        server
            .machine
            .send(1, Bytes::from_static(b"content"), end)
            .unwrap();
        server.machine.abandon(1);
        let kinds: Vec<_> = server
            .frames()
            .into_iter()
            .map(|(kind, _, content)| (kind, content))
            .skip(1)
            .collect();
        assert_eq!(
            kinds,
            [
                (FrameKind::Data, b"content".to_vec()),
                (FrameKind::RstStream, vec![0, 0, 0, reason])
            ]
        );
        assert!(!server.machine.has_streams());
    }
}

#[test]
fn a_priority_update_is_heard() {
    let mut server = End::greeted();
    server.takes(&frame(FrameKind::PriorityUpdate, 0, 0, b"\0\0\0\x01u=1, i"));
    let events = server.events();
    let [Event::PriorityUpdate { stream: 1, signal }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((signal.urgency, signal.incremental), (Some(1), Some(true)));
}

#[test]
fn a_large_head_is_cut_into_frames_and_an_impossible_one_changes_nothing() {
    let mut client = End::new(Role::Client);
    client.takes(&frame(FrameKind::Settings, 0, 0, &[0, 1, 0, 0, 0, 0]));
    client.gives();
    let uri = uri();
    let mut fields = Fields::new();
    fields.insert("connection", HeaderValue::from_static("close"));
    let head = request(&Method::GET, &uri, &fields);
    assert!(matches!(
        client.machine.open(&head, true),
        Err(OpenError::Unsendable(_))
    ));
    assert!(!client.machine.has_output());
    fields.clear();
    fields.insert("x", HeaderValue::from_bytes(&[0xff; 10_000]).unwrap());
    fields.insert("y", HeaderValue::from_bytes(&[b'|'; 10_000]).unwrap());
    let head = request(&Method::GET, &uri, &fields);
    client.machine.open(&head, true).unwrap();
    let frames = client.frames();
    assert_eq!(
        (frames[0].0, frames[1].0, frames.len()),
        (FrameKind::Headers, FrameKind::Continuation, 2)
    );
    // RFC 7541, section 4.2: the peer made its table smaller.
    assert_eq!(frames[0].2[0], 0x20);
}

#[test]
fn the_first_section_after_the_peers_table_became_smaller_says_so_even_if_it_is_trailers() {
    // RFC 7541, section 4.2.
    let mut client = End::new(Role::Client);
    client.takes(&frame(FrameKind::Settings, 0, 0, &[]));
    let uri = uri();
    let fields = Fields::new();
    let number = client
        .machine
        .open(&request(&Method::POST, &uri, &fields), false)
        .unwrap();
    client.gives();

    client.takes(&frame(FrameKind::Settings, 0, 0, &[0, 1, 0, 0, 0, 0]));
    let mut trailers = Fields::new();
    trailers.insert("x", HeaderValue::from_static("y"));
    client.machine.finish(number, Some(&trailers)).unwrap();
    let frames = client.frames();
    let (kind, _, section) = frames.last().unwrap();
    assert_eq!(*kind, FrameKind::Headers);
    assert_eq!(section[..], *b"\x20\x00\x01x\x01y");

    client
        .machine
        .open(&request(&Method::GET, &uri, &fields), true)
        .unwrap();
    assert_ne!(client.frames()[0].2[0], 0x20);
}

//! A member that sends its controller frames which ask for nothing, or never come to an end: others are changed, and its memory stays small.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_tests::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, PING, SETTINGS, WINDOW_UPDATE,
    field, frame,
};
use hermes_tests::overlay::Hub;
use hermes_tests::runtime;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::controller_calls::{connected_over_tls, identity, yard_and_evil};

/// How long each kind is sent.
const TIME: Duration = Duration::from_secs(2);

/// Connections that send each kind.
const CONNECTIONS: usize = 4;

/// Bytes that all kinds together may cost the controller.
const COST: usize = 96 << 20;

/// The fields of a call.
fn call(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "controller"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let lines = fields.iter();
    lines
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect()
}

/// A kind of flood: its first frames, and those that are repeated.
struct Flood {
    name: &'static str,
    first: Vec<u8>,
    /// Frames by their number.
    more: fn(u32) -> Vec<u8>,
}

fn attend() -> Vec<u8> {
    frame(
        HEADERS,
        END_HEADERS,
        1,
        &call("/hermes.control.v1.Controller/Attend"),
    )
}

/// The next stream of a client.
fn stream(number: u32) -> u32 {
    (2 * number + 3) & 0x7fff_ffff
}

fn floods() -> [Flood; 9] {
    let flood = |name, first, more| Flood { name, first, more };
    // A window of no bytes: all answers wait.
    let no_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    [
        flood("SETTINGS", Vec::new(), |number| {
            let size = (4096 + number % 7).to_be_bytes();
            frame(SETTINGS, 0, 0, &[&[0, 1], &size[..]].concat())
        }),
        flood("PING", Vec::new(), |number| {
            frame(PING, 0, 0, &u64::from(number).to_be_bytes())
        }),
        flood("WINDOW_UPDATE", attend(), |_| {
            frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())
        }),
        flood("empty DATA", attend(), |_| frame(DATA, 0, 1, &[])),
        flood(
            "CONTINUATION",
            frame(HEADERS, 0, 1, &field(b"x", b"y")),
            |_| frame(CONTINUATION, 0, 1, &field(b"x-more", &[b'z'; 100])),
        ),
        flood("empty CONTINUATION", frame(HEADERS, 0, 1, &[]), |_| {
            frame(CONTINUATION, 0, 1, &[])
        }),
        flood("a message that never ends", attend(), |_| {
            // A length of 4 GiB, at first.
            frame(DATA, 0, 1, &[0xff; 1000])
        }),
        flood("calls of nothing", Vec::new(), |number| {
            let head = call("/hermes.control.v1.Controller/None");
            frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &head)
        }),
        flood("answers that no one reads", no_window, |number| {
            let head = call("/hermes.control.v1.Controller/Attend");
            frame(HEADERS, END_HEADERS, stream(number), &head)
        }),
    ]
}

/// Frames that one connection could send in its time.
async fn pour(to: SocketAddr, config: Arc<ClientConfig>, flood: Arc<Flood>, until: Instant) -> u32 {
    let Some(connection) = connected_over_tls(to, config).await else {
        return 0;
    };
    let (mut reading, mut writing) = tokio::io::split(connection);
    let mut taken = vec![0; 16 << 10];
    let mut sent = 0;
    if writing
        .write_all(&[HELLO, &flood.first[..]].concat())
        .await
        .is_err()
    {
        return sent;
    }
    while Instant::now() < until {
        let numbers = sent..sent + 100;
        let bytes: Vec<u8> = numbers.flat_map(flood.more).collect();
        let writes = async {
            let written = writing.write_all(&bytes).await;
            written.and(writing.flush().await)
        };
        // Answers are read, so that none of them keeps the frames back.
        let reads = async { while reading.read(&mut taken).await.is_ok_and(|count| count > 0) {} };
        let is_sent = tokio::select! {
            written = writes => written.is_ok(),
            () = reads => false,
            () = tokio::time::sleep_until(until.into()) => false,
        };
        if !is_sent {
            break;
        }
        sent += 100;
    }
    sent
}

#[test]
fn frames_that_ask_for_nothing_keep_no_node_from_its_change() {
    let hub = Hub::start();
    let (_yard, evil) = yard_and_evil(&hub);
    let config = identity(&evil);
    let agents = hub.agents();
    let before = hub.peak();

    for (number, flood) in floods().into_iter().enumerate() {
        let name = flood.name;
        let config = config.clone();
        let attack = std::thread::spawn(move || {
            runtime::block_on(async move {
                let until = Instant::now() + TIME;
                let flood = Arc::new(flood);
                let pours =
                    (0..CONNECTIONS).map(|_| pour(agents, config.clone(), flood.clone(), until));
                pours.collect::<JoinSet<_>>().join_all().await
            })
        });
        let began = Instant::now();
        hub.apply(
            &crate::controller_calls::service(&format!("during-{number}")),
            &[],
        );
        hub.await_step("yard");
        let took = began.elapsed();
        let frames: u32 = attack.join().unwrap().into_iter().sum();
        println!("{name}: {frames} frames; the change beside took {took:?}");
    }
    let cost = hub.peak().saturating_sub(before);
    println!("they cost {} KiB", cost >> 10);
    assert!(cost < COST, "{cost} bytes");
    // And the member is still one.
    hub.await_step("evil");
}

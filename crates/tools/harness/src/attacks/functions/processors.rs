//! A processor of Envoy's kind, whose answers are frames of HTTP/2 that are written by hand.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{
    ActingServer, DIE, ENDLESS_ANSWERS, ENDLESS_BODY, ENDLESS_HEAD, HANG, TWICE, forever, hang,
    more, say_all, word,
};
use crate::attacks::{Attack, CALM, Effort, Party, Place, Stage};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, SETTINGS, field, frame, parse,
};
use crate::origins::framed;
use crate::{Node, origins};

pub(in crate::attacks) const PROCESSOR: Attack = Attack {
    name: "acting-processor",
    by: Party::User,
    place: Place::Loopback,
    summary: "500 requests that a processor hangs on, dies in, answers twice or without end, also where no one reads",
    prepare,
    run,
};

/// The bytes of a client before its first frame.
const PREFACE: usize = 24;

/// `ProcessingResponse`: the head of the request goes on as it is.
const AGREED: &[u8] = &[0x0a, 0];

fn prepare() -> Stage {
    let processor = ActingServer::start(process);
    let origin = origins::http();
    let to = processor.address();
    let end = origin.address();
    let node = Node::start(
        "edge",
        &format!(
            "listeners: {{ {CALM}: {{ http: 127.0.0.1:0, user: bob }}, web: {{ http: 127.0.0.1:0, user: alice }} }}\n\
             functions: {{ process: {{ ext_proc: {{ to: \"{to}\" }} }} }}\n\
             routes: [ {{ terminate: \"{end}\", through: [process] }} ]\n"
        ),
    );
    Stage::of(node).keeping(processor).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    say_all(stage.node.address("web"), |host| {
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
    })
}

async fn process(mut stream: TcpStream) -> Option<()> {
    let settings = frame(SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).await.ok()?;
    let mut heard = Vec::new();
    let asked = |heard: &[u8]| {
        let frames = parse(heard.get(PREFACE..).unwrap_or_default());
        frames.into_iter().find(|(kind, ..)| *kind == DATA)
    };
    assert!(HELLO.len() > PREFACE);
    loop {
        if let Some((_, _, _, question)) = asked(&heard) {
            return act(stream, word(&question)).await;
        }
        more(&mut stream, &mut heard).await?;
    }
}

/// The head of the answer, and this message.
fn answer(message: &[u8]) -> Vec<u8> {
    let fields = [
        field(b":status", b"200"),
        field(b"content-type", b"application/grpc"),
    ];
    let head = frame(HEADERS, END_HEADERS, 1, &fields.concat());
    [head, frame(DATA, 0, 1, message)].concat()
}

async fn act(mut stream: TcpStream, word: Option<&str>) -> Option<()> {
    match word {
        Some(HANG) => hang(stream).await,
        Some(DIE) => {
            // Of a message of a hundred bytes some are missing.
            let half = answer(&[&[0, 0, 0, 0, 100], AGREED].concat());
            stream.write_all(&half).await.ok()
        }
        Some(TWICE) => {
            let twice = answer(&framed(AGREED).repeat(2));
            stream.write_all(&twice).await.ok()?;
            hang(stream).await
        }
        Some(ENDLESS_HEAD) => {
            let head = frame(HEADERS, 0, 1, &field(b":status", b"200"));
            stream.write_all(&head).await.ok()?;
            let more = frame(CONTINUATION, 0, 1, &field(b"x-pad", &[b'y'; 100]));
            forever(&mut stream, &more.repeat(50)).await
        }
        Some(ENDLESS_BODY) => {
            // Of 4 GiB, as it says.
            let begin = answer(&[0, 0xff, 0xff, 0xff, 0xff]);
            stream.write_all(&begin).await.ok()?;
            forever(&mut stream, &frame(DATA, 0, 1, &[0; 0x4000])).await
        }
        Some(ENDLESS_ANSWERS) => {
            stream.write_all(&answer(&framed(AGREED))).await.ok()?;
            let again = frame(DATA, 0, 1, &framed(AGREED));
            forever(&mut stream, &again.repeat(100)).await
        }
        _ => {
            let end = field(b"grpc-status", b"0");
            let end = frame(HEADERS, END_HEADERS | END_STREAM, 1, &end);
            let whole = [answer(&framed(AGREED)), end].concat();
            stream.write_all(&whole).await.ok()?;
            // The client says how it ends.
            let mut rest = Vec::new();
            while more(&mut stream, &mut rest).await.is_some() {}
            Some(())
        }
    }
}

//! A scanner of ICAP.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{
    ActingServer, DIE, ENDLESS_ANSWERS, ENDLESS_BODY, ENDLESS_HEAD, HANG, TWICE, forever, hang,
    more, say_all, word,
};
use crate::attacks::{Attack, CALM, Effort, Party, Place, Stage};
use crate::{Node, origins};

pub(in crate::attacks) const SCANNER: Attack = Attack {
    name: "acting-scanner",
    by: Party::User,
    place: Place::Loopback,
    summary: "500 requests that a scanner hangs on, dies in, answers twice or without end, also where no one reads",
    prepare,
    run,
};

const OPTIONS: &[u8] =
    b"ICAP/1.0 200 OK\r\nISTag: \"a\"\r\nPreview: 0\r\nEncapsulated: null-body=0\r\n\r\n";
const CONTENT: &[u8] = b"ICAP/1.0 204 No Content\r\nISTag: \"a\"\r\n\r\n";

/// The beginning of an answer in place of the target's.
const GIVEN: &str = "ICAP/1.0 200 OK\r\nISTag: \"a\"\r\nEncapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";

fn prepare() -> Stage {
    let scanner = ActingServer::start(scan);
    let origin = origins::http();
    let to = scanner.address();
    let end = origin.address();
    let node = Node::start(
        "edge",
        &format!(
            "listeners: {{ {CALM}: {{ http: 127.0.0.1:0, user: bob }}, web: {{ http: 127.0.0.1:0, user: alice }} }}\n\
             functions: {{ scan: {{ icap: {{ to: \"{to}\", service: scan, sees: requests }} }} }}\n\
             routes: [ {{ terminate: \"{end}\", through: [scan] }} ]\n"
        ),
    );
    Stage::of(node).keeping(scanner).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    say_all(stage.node.address("web"), |host| {
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
    })
}

async fn scan(mut stream: TcpStream) -> Option<()> {
    let mut heard = Vec::new();
    let heads = |heard: &[u8]| {
        let ends = heard.windows(4).filter(|four| *four == b"\r\n\r\n");
        ends.count()
    };
    while heads(&heard) == 0 {
        more(&mut stream, &mut heard).await?;
    }
    if heard.starts_with(b"OPTIONS") {
        return stream.write_all(OPTIONS).await.ok();
    }
    while heads(&heard) < 2 {
        more(&mut stream, &mut heard).await?;
    }
    act(stream, word(&heard)).await
}

async fn act(mut stream: TcpStream, word: Option<&str>) -> Option<()> {
    match word {
        Some(HANG) => hang(stream).await,
        Some(DIE) => {
            let half = format!("{GIVEN}5\r\nhello\r\nff\r\nhalf");
            stream.write_all(half.as_bytes()).await.ok()
        }
        Some(TWICE) => {
            let whole = format!("{GIVEN}5\r\nhello\r\n0\r\n\r\n");
            stream.write_all(whole.repeat(2).as_bytes()).await.ok()?;
            hang(stream).await
        }
        Some(ENDLESS_HEAD) => {
            stream.write_all(b"ICAP/1.0 200 OK\r\n").await.ok()?;
            let fields = format!("x-pad: {}\r\n", "y".repeat(1000)).repeat(16);
            forever(&mut stream, fields.as_bytes()).await
        }
        Some(ENDLESS_BODY) => {
            stream.write_all(GIVEN.as_bytes()).await.ok()?;
            let chunk = [b"4000\r\n", &[b'y'; 0x4000][..], b"\r\n"].concat();
            forever(&mut stream, &chunk).await
        }
        Some(ENDLESS_ANSWERS) => {
            let answers = b"ICAP/1.0 100 Continue\r\n\r\n".repeat(500);
            forever(&mut stream, &answers).await
        }
        _ => stream.write_all(CONTENT).await.ok(),
    }
}

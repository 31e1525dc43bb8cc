//! A process that tunnels are led through.

use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;

use super::{
    ActingServer, DIE, ENDLESS_ANSWERS, ENDLESS_BODY, ENDLESS_HEAD, HANG, TWICE, forever, hang,
    more, say_all, word,
};
use crate::attacks::{Attack, BYSTANDER, CALM, Effort, Party, Place, Stage};
use crate::{Node, origins};

pub(in crate::attacks) const HOP: Attack = Attack {
    name: "acting-hop",
    by: Party::User,
    place: Place::Loopback,
    summary: "500 tunnels through a process that hangs, dies, comes back twice, or sends without end, also where no one reads",
    prepare,
    run,
};

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

fn prepare() -> Stage {
    let process = ActingServer::start(lead);
    let sink = ActingServer::sink();
    let origin = origins::http();
    let to = process.address();
    let end = origin.address();
    let nothing = sink.address();
    let node = Node::start(
        "edge",
        &format!(
            "listeners:\n  \
               {CALM}: {{ tcp: 127.0.0.1:0, target: \"{BYSTANDER}:80\", user: bob }}\n  \
               web: {{ http: 127.0.0.1:0, user: alice }}\n\
             functions: {{ lead: {{ hop: {{ to: \"{to}\" }} }} }}\n\
             routes:\n  \
               - {{ match: {{ target: {BYSTANDER} }}, terminate: \"{end}\", through: [lead] }}\n  \
               - {{ terminate: \"{nothing}\", through: [lead] }}\n"
        ),
    );
    Stage::of(node)
        .keeping(process)
        .keeping(sink)
        .keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    say_all(stage.node.address("web"), |host| {
        format!("CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\n\r\nhello")
    })
}

async fn lead(mut stream: TcpStream) -> Option<()> {
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        more(&mut stream, &mut heard).await?;
    }
    let line = String::from_utf8_lossy(&heard);
    let back = line.strip_prefix("CONNECT ")?.split(' ').next()?;
    act(stream, back, word(&heard)).await
}

async fn act(mut stream: TcpStream, back: &str, word: Option<&str>) -> Option<()> {
    match word {
        Some(HANG) => hang(stream).await,
        Some(DIE) => {
            let returned = TcpStream::connect(back).await.ok()?;
            stream.write_all(TAKEN).await.ok()?;
            drop(returned);
            Some(())
        }
        Some(TWICE) => {
            let first = TcpStream::connect(back).await;
            let second = TcpStream::connect(back).await;
            stream.write_all(&TAKEN.repeat(2)).await.ok()?;
            hang(stream).await?;
            drop((first, second));
            Some(())
        }
        Some(ENDLESS_HEAD) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await.ok()?;
            let fields = format!("x-pad: {}\r\n", "y".repeat(1000)).repeat(16);
            forever(&mut stream, fields.as_bytes()).await
        }
        Some(ENDLESS_BODY) => {
            let returned = TcpStream::connect(back).await.ok()?;
            stream.write_all(TAKEN).await.ok()?;
            forever(&mut stream, &[b'y'; 0x4000]).await?;
            drop(returned);
            Some(())
        }
        // It says that it has, and never comes back.
        Some(ENDLESS_ANSWERS) => {
            let answers = TAKEN.repeat(500);
            forever(&mut stream, &answers).await
        }
        _ => {
            let mut returned = TcpStream::connect(back).await.ok()?;
            stream.write_all(TAKEN).await.ok()?;
            copy_bidirectional(&mut stream, &mut returned).await.ok()?;
            Some(())
        }
    }
}

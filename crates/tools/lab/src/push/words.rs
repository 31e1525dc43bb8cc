//! The words of each broker's protocol.

use bytes::{Bytes, BytesMut};
use hermes_proto::relay::{Adu, RelayFrame};

use super::systems::PushSystem;

/// Bytes of a message that is large for a queue.
const LARGE: usize = 100_000;

/// A message of this size for a channel.
pub(super) fn message(system: PushSystem, channel: &str, size: usize) -> Vec<u8> {
    let content = "x".repeat(size);
    let text = match system {
        PushSystem::Hermes => {
            // A queue of a subscriber has room for few large ones: their publisher waits.
            let mode = match size > LARGE {
                true => "Hermes-Publish: mode=reliable\r\n",
                false => "",
            };
            format!(
                "POST /{channel} HTTP/1.1\r\nHost: lab\r\n{mode}Content-Length: {size}\r\n\r\n{content}"
            )
        }
        PushSystem::Nats => format!("PUB {channel} {size}\r\n{content}\r\n"),
        PushSystem::Nchan => format!(
            "POST /pub/{channel} HTTP/1.1\r\nHost: lab\r\nContent-Length: {size}\r\n\r\n{content}"
        ),
        PushSystem::Centrifugo => {
            let command = format!(r#"{{"channel":"{channel}","data":"{content}"}}"#);
            json_request("publish", &command)
        }
    };
    text.into_bytes()
}

/// The words that subscribe.
pub(super) fn subscription(system: PushSystem, channel: &str) -> String {
    match system {
        PushSystem::Hermes => format!(
            "GET /{channel} HTTP/1.1\r\nHost: lab\r\nAccept: application/hermes-adu\r\n\r\n"
        ),
        PushSystem::Nats => format!("SUB {channel} 1\r\n"),
        PushSystem::Nchan => {
            format!("GET /sub/{channel} HTTP/1.1\r\nHost: lab\r\nAccept: text/event-stream\r\n\r\n")
        }
        PushSystem::Centrifugo => {
            // {"subs":{"CHANNEL":{}}}
            let connect = format!("%7B%22subs%22%3A%7B%22{channel}%22%3A%7B%7D%7D%7D");
            format!(
                "GET /connection/uni_sse?cf_connect={connect} HTTP/1.1\r\nHost: lab\r\nAccept: text/event-stream\r\n\r\n"
            )
        }
    }
}

/// Messages of Hermes as a chunk of a content.
pub(super) fn chunk_of_capsules(size: usize, messages: u64) -> Vec<u8> {
    let adu = Adu {
        sequence: 0,
        content_type: None,
        topic: None,
        is_reliable: false,
        proof: None,
        data: Bytes::from(vec![b'x'; size]),
    };
    let mut capsule = BytesMut::new();
    RelayFrame::Adu(adu).encode(&mut capsule);
    let capsules = capsule.repeat(messages as usize);

    let mut chunk = format!("{:x}\r\n", capsules.len()).into_bytes();
    chunk.extend(capsules);
    chunk.extend(b"\r\n");
    chunk
}

/// Messages of Centrifugo as one request.
pub(super) fn commands(channel: &str, size: usize, messages: u64) -> Vec<u8> {
    let content = "x".repeat(size);
    let command = format!(r#"{{"publish":{{"channel":"{channel}","data":"{content}"}}}}"#);
    let commands = vec![command; messages as usize].join(",");
    json_request("batch", &format!(r#"{{"commands":[{commands}]}}"#)).into_bytes()
}

fn json_request(method: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "POST /api/{method} HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{content}"
    )
}

//! Broadcasts with unread replies.

use std::net::SocketAddr;

use super::{Attack, Effort, Party, Place, Stage};
use crate::origins;
use crate::raw::Raw;

/// Bytes of each reply.
pub const REPLY: usize = 976 * 1024;

/// Broadcasts of the lab.
const BROADCASTS: usize = 150;

/// Replies that wait for their reader.
pub(super) const UNREAD: Attack = Attack {
    name: "broadcast-replies",
    by: Party::User,
    place: Place::Loopback,
    summary: "150 broadcasts to four servers, each with replies of 976 KiB that are not read",
    prepare,
    run,
};

fn prepare() -> Stage {
    let shards: Vec<_> = (0..4).map(|_| origins::http()).collect();
    let endpoints: Vec<String> = shards
        .iter()
        .map(|shard| format!("\"{}\"", shard.address()))
        .collect();
    Stage::start(
        "web: { http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }",
        "{ terminate: shards, broadcast: { users: [alice], reply: all, time: 5m } }",
        &format!(
            "upstreams: {{ shards: {{ endpoints: [{}] }} }}",
            endpoints.join(", ")
        ),
    )
    .keeping(shards)
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort {
        attempts: BROADCASTS as u64,
        bytes: 100 * BROADCASTS as u64,
        ..Effort::default()
    };
    effort.hold(broadcasts(stage.node.address("web"), BROADCASTS));
    effort
}

/// Asks all endpoints, so often, and reads nothing.
pub fn broadcasts(proxy: SocketAddr, count: usize) -> Vec<Raw> {
    let ask = format!(
        "GET http://SHARDS/bytes/{REPLY} HTTP/1.1\r\nHost: SHARDS\r\nX-Hermes-Broadcast: true\r\n\r\n"
    );
    let begin = |_| {
        // With the room that the system gives, it takes replies of some megabytes that no one reads, and nothing waits.
        let mut raw = Raw::connect_narrow(proxy);
        raw.send(&ask);
        raw
    };
    (0..count).map(begin).collect()
}

//! In which order responses come that are all there at once (RFC 9218).

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::Offered;
use hermes_http::server::Options;
use hermes_net::quic::RecvStream;
use http::HeaderValue;
use tokio::sync::Semaphore;

use super::wire::{Wire, framed, get, number};
use crate::bounded;
use crate::content::response;
use crate::server::Server;

/// Bytes of each response: so many that most of them wait for the path.
const SIZE: usize = 1 << 20;

/// Two requests of one client.
#[derive(Debug, Default, Clone, Copy)]
struct Contest {
    /// The priority fields of the requests; empty for none.
    said: [&'static str; 2],
    /// The PRIORITY_UPDATEs, one before the requests come and one after.
    updates: [&'static str; 2],
    /// The priority fields of the responses.
    answered: [&'static str; 2],
    /// The client is another node.
    link: bool,
}

impl Contest {
    fn said(first: &'static str, second: &'static str) -> Self {
        Self {
            said: [first, second],
            ..Self::default()
        }
    }

    /// Bytes of each response that have come when the first of them is complete.
    async fn run(self) -> [usize; 2] {
        let (here, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let options = Options {
            link: self.link,
            ..Options::default()
        };
        let (arrived, waiting) = (here.clone(), go.clone());
        let server = Server::with(options, move |offered| {
            answer(offered, arrived.clone(), waiting.clone())
        })
        .await;
        let mut wire = Wire::dial(server.address).await;
        // A request before them takes stream 0.
        let update = |stream: u64, text: &str| match text {
            "" => Vec::new(),
            _ => framed(0xf_0700, &[number(stream), text.into()].concat()),
        };
        wire.control(&update(4, self.updates[0])).await;
        go.add_permits(1);
        assert_eq!(
            wire.request(&get(&[("small", "")]), true)
                .await
                .status()
                .await,
            200
        );
        drop(here.acquire().await);
        here.forget_permits(1);
        let mut streams = Vec::new();
        for (said, answered) in self.said.into_iter().zip(self.answered) {
            let lines = [("priority", said), ("answer", answered)];
            let lines: Vec<_> = lines
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
            streams.push(wire.request(&get(&lines), true).await);
        }
        drop(here.acquire_many(2).await);
        wire.more(&update(8, self.updates[1])).await;
        assert!(wire.connection.closed_reason().is_none());
        wire.heard().await;
        go.add_permits(2);
        let [mut first, mut second] = streams.try_into().ok().unwrap();
        race(&mut first.recv, &mut second.recv).await
    }
}

/// Answers when it may, as large as it is asked.
async fn answer(offered: Offered, here: Arc<Semaphore>, go: Arc<Semaphore>) {
    let size = if offered.head.fields.contains_key("small") {
        1
    } else {
        SIZE
    };
    let said = offered.head.fields.get("answer").map(HeaderValue::from);
    let (_, _incoming, responder) = offered.message();
    here.add_permits(1);
    go.acquire().await.unwrap().forget();
    let mut head = response(200, Some(size as u64));
    if let Some(said) = said {
        head.fields.insert("priority", HeaderValue::clone(&said));
    }
    let mut outgoing = responder.respond(head, Some(size as u64)).await.unwrap();
    outgoing
        .data(Bytes::from(vec![7; size]), true)
        .await
        .unwrap();
}

/// Reads both until one has ended.
async fn race(first: &mut RecvStream, second: &mut RecvStream) -> [usize; 2] {
    let mut came = [0, 0];
    loop {
        let (which, bytes) = tokio::select! {
            bytes = first.read(PIECE) => (0, bytes),
            bytes = second.read(PIECE) => (1, bytes),
        };
        match bytes.unwrap() {
            Some(bytes) => came[which] += bytes.len(),
            None => return came,
        }
    }
}

const PIECE: usize = 64 * 1024;

/// One came before the other.
async fn comes_first(which: usize, contest: Contest) {
    let came = bounded(contest.run()).await;
    assert!(
        came[which] >= SIZE && came[1 - which] < SIZE / 4,
        "{contest:?}: {came:?}"
    );
}

/// Both came together.
async fn share(contest: Contest) {
    let came = bounded(contest.run()).await;
    assert!(
        came.iter().all(|bytes| *bytes > SIZE / 2),
        "{contest:?}: {came:?}"
    );
}

#[tokio::test]
async fn what_is_more_urgent_comes_first() {
    comes_first(1, Contest::said("u=7", "u=0")).await;
    comes_first(0, Contest::said("u=0", "u=7")).await;
    comes_first(1, Contest::said("u=4, i", "")).await;
    comes_first(1, Contest::said("", "u=2, i")).await;
}

#[tokio::test]
async fn of_one_urgency_the_earlier_comes_first_unless_parts_are_of_use() {
    comes_first(0, Contest::said("u=3", "u=3")).await;
    comes_first(1, Contest::said("u=5, i", "u=5")).await;
    share(Contest::said("u=1, i", "i, u=1")).await;
    share(Contest::said("", "")).await;
}

#[tokio::test]
async fn what_cannot_be_understood_says_nothing() {
    share(Contest::said("u=8", "u=-1")).await;
    share(Contest::said("u=7, =", "u=0 0")).await;
    share(Contest::said("U=7", "\"u=0\"")).await;
}

#[tokio::test]
async fn an_update_stands_above_the_request_whenever_it_comes() {
    comes_first(
        1,
        Contest {
            updates: ["u=7", ""],
            ..Contest::said("u=0", "u=3")
        },
    )
    .await;
    comes_first(
        1,
        Contest {
            updates: ["", "u=0"],
            ..Contest::said("u=1", "u=7")
        },
    )
    .await;
    comes_first(
        0,
        Contest {
            updates: ["u=0", "u=9"],
            ..Contest::said("u=7", "u=0")
        },
    )
    .await;
}

#[tokio::test]
async fn the_origin_stands_above_the_client_in_what_it_says() {
    comes_first(
        1,
        Contest {
            answered: ["u=7", ""],
            ..Contest::said("u=0", "u=1")
        },
    )
    .await;
    comes_first(
        1,
        Contest {
            answered: ["", "u=0"],
            updates: ["", "u=7"],
            ..Contest::said("u=2", "")
        },
    )
    .await;
    share(Contest {
        answered: ["i", "i"],
        ..Contest::said("u=3", "u=3")
    })
    .await;
}

#[tokio::test]
async fn users_of_a_link_do_not_wait_for_each_other_where_both_are_as_urgent() {
    share(Contest {
        link: true,
        ..Contest::said("u=3", "u=3")
    })
    .await;
    comes_first(
        1,
        Contest {
            link: true,
            ..Contest::said("u=4", "u=3")
        },
    )
    .await;
}

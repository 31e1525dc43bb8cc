//! Probes of a link's liveness, for months, and other counts that grow with its age.
//!
//! | What grows                                   | What becomes of it                                                         |
//! |----------------------------------------------|----------------------------------------------------------------------------|
//! | frames without content, over HTTP/3          | forgotten with time: `crates/wire/proto/src/h3/decoder/tests.rs` has a month    |
//! | streams of unknown types, over HTTP/3        | a bucket that time empties                                                 |
//! | resets and control frames, of both versions  | buckets that time empties                                                  |
//! | empty DATA, over HTTP/2                      | a bucket that time empties: `crates/wire/proto/src/h2/meter.rs` has a month     |
//! | resets that errors caused, over HTTP/2       | the connection is retired, never broken off                                |
//! | streams and exchanges                        | a link is replaced after 2^20, a client told to at stream 2^30             |
//! | entries of QPACK, of all times               | 64 bits                                                                    |
//! | room that a ping gives                       | a byte, taken off what is given next                                       |
//! | packets under one key, custody and WireGuard | new keys, by age and by number; 64 bits                                    |
//! | resumptions and tickets of a tunnel          | counted, without a bound                                                   |
//! | interim responses of one exchange            | 32 in its life: the one bound of this kind that stays                      |
//! | qlog files                                   | none after the first 1000; connections go on                               |

use hermes_proto::h3::IDLE_FRAMES;

use super::client::pair;
use crate::bounded;

/// A node of an earlier version closes a link after so many frames without content, however long they took: a link is asked by
/// something that it does not count.
#[tokio::test]
async fn a_link_is_asked_for_signs_of_life_by_nothing_that_its_peer_counts() {
    bounded(async {
        let (link, _client, wire) = pair().await;
        let mut control = wire.connection.accept_uni().await.unwrap();
        let settings = control.read(1000).await.unwrap().unwrap();
        assert!(!settings.is_empty());

        let watched = link.watched();
        let heard = watched.path_stats().acknowledged;
        for _ in 0..2 * IDLE_FRAMES {
            let sent = watched.path_stats().sent;
            watched.probe();
            while watched.path_stats().sent == sent {
                tokio::task::yield_now().await;
            }
        }

        while watched.path_stats().acknowledged <= heard + u64::from(IDLE_FRAMES) / 4 {
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            said = control.read(1000) => panic!("frames on the control stream: {said:?}"),
            () = std::future::ready(()) => {}
        }
        assert!(link.is_alive());
    })
    .await;
}

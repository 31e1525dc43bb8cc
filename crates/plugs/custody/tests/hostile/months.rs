//! What has grown after a month: exchanges without end, keys that are renewed, a tunnel that is open all the time.

use std::time::Duration;

use bytes::Bytes;
use hermes_custody::{Event, Reading};

use crate::pair::{Pair, client_at, server_at};

/// Lets time pass from one thing that is due to the next.
fn jump(pair: &mut Pair, time: Duration) {
    let end = pair.now + time;
    while pair.now < end {
        while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
            pair.server
                .handle_datagram(&datagram, client_at(), pair.now);
        }
        while let Some((_, datagram)) = pair.server.poll_transmit(pair.now) {
            pair.client
                .handle_datagram(&datagram, server_at(), pair.now);
        }
        while let Some(event) = pair.server.poll_event() {
            if let Event::Asked(key) = event {
                pair.asked.push(key);
            }
        }
        while pair.client.poll_event().is_some() {}

        let due = [&pair.client, &pair.server].map(|engine| engine.poll_timeout(pair.now));
        let due = due.into_iter().flatten().min().unwrap_or(end);
        // What was sent just now may be answered at once.
        let next = pair.now + Duration::from_millis(1);
        pair.now = due.max(next).min(end.max(next));
        pair.client.handle_timeout(pair.now);
        pair.server.handle_timeout(pair.now);
    }
}

#[test]
fn a_month_of_exchanges_leaves_nothing_behind() {
    let mut pair = Pair::new();
    for hour in 0..720_u32 {
        let mut name = [7; 16];
        name[..4].copy_from_slice(&hour.to_be_bytes());
        let key = pair.begin_named(name);
        pair.client.write(key, Bytes::from_static(b"request"));
        pair.client.finish(key);
        jump(&mut pair, Duration::from_secs(2));
        assert_eq!(pair.asked.len(), 1, "hour {hour}");
        pair.answer(b"response");
        pair.asked.clear();
        jump(&mut pair, Duration::from_secs(2));
        assert_eq!(pair.response(key), Ok(b"response".to_vec()));
        pair.client.close(key, pair.now);
        // Longer than keys are used.
        jump(&mut pair, Duration::from_secs(3700));
        assert!(pair.client.is_idle() && pair.server.is_idle());
        assert_eq!(pair.client.held() + pair.server.held(), 0);
    }
    let refused = pair.server.refused();
    assert_eq!(refused.too_many + refused.malformed, 0, "{refused:?}");
}

#[test]
fn a_tunnel_that_is_open_for_days_carries_bytes_at_any_time() {
    let mut pair = Pair::new();
    let key = pair.begin(1, true);
    pair.client.tunnel(key);
    pair.client.write(key, Bytes::from_static(b"hello"));
    jump(&mut pair, Duration::from_secs(1));
    let asked = pair.asked[0];
    pair.server.tunnel(asked);
    assert_eq!(
        pair.server.read(asked, 100),
        Reading::Bytes(Bytes::from_static(b"hello"))
    );
    for quarter in 0..48_u32 {
        // Idle for a while, then a few bytes each way.
        jump(&mut pair, Duration::from_secs(3600));
        let word = Bytes::copy_from_slice(&quarter.to_be_bytes());
        pair.client.write(key, word.clone());
        pair.server.write(asked, word.clone());
        jump(&mut pair, Duration::from_secs(3));
        assert_eq!(pair.server.read(asked, 100), Reading::Bytes(word.clone()));
        assert_eq!(pair.client.read(key, 100), Reading::Bytes(word));
        assert!(pair.server.held() < 64 * 1024 * 1024);
    }
}

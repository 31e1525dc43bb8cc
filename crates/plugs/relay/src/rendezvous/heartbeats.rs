//! The heartbeats of a relay, beside its exchanges.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermes_plug::Background;
use hermes_proto::relay::fields::Heartbeat;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::moves::{Membership, heartbeat};
use crate::space::Space;

/// How long a rendezvous may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// How often it looks whether it has become one of the relays of a rendezvous.
const IDLE: Duration = Duration::from_secs(1);

/// Tells each rendezvous that this relay is there, for as long as the node runs.
pub(crate) async fn send_heartbeats(space: Arc<Space>, background: Background) {
    let mut last = 0;
    loop {
        let membership = space.moves.membership();
        let pause = membership
            .as_ref()
            .map_or(IDLE, |membership| membership.beat);
        if let Some(membership) = membership {
            // Each is later than the one before, also where the clock stands.
            last = milliseconds().max(last + 1);
            let mut failure = None;
            for place in &membership.rendezvous {
                let beat = timeout(ANSWER, beat(&membership, place, last)).await;
                let said = beat.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                failure = failure.or(said.err().map(|reason| format!("{place}: {reason}")));
            }
            // Once for all of them: the answer to one says nothing of the others.
            space.moves.heard(failure);
        }
        tokio::select! {
            () = sleep(pause) => {}
            // Clients are to be sent elsewhere: silence says it.
            () = background.stopping() => return,
        }
    }
}

/// One heartbeat.
async fn beat(membership: &Membership, place: &str, time: u64) -> Result<(), String> {
    let said = Heartbeat {
        relay: membership.at.clone(),
        time,
        mac: heartbeat(&membership.key, &membership.at, time),
    };
    let value = said.value().ok_or("its name cannot be written")?;
    let value = value.to_str().map_err(|error| error.to_string())?;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {place}\r\nHermes-Heartbeat: {value}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(place).await.map_err(text)?;
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.map_err(text)?;
    match &answer[9..] {
        b"204" => Ok(()),
        status => Err(format!("it answered {}", String::from_utf8_lossy(status))),
    }
}

fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

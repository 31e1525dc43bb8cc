//! What the proxies of a chain can see.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_tests::{Node, curl, origins};

use crate::chains::overlay::{Chains, entry};

#[test]
fn an_outer_hop_sees_only_the_next_one() {
    for (version, kind) in [(2, "connect"), (3, "connect-udp")] {
        let chain: &[u8] = &[version; 3];
        let chains = Chains::start(&[chain]);
        let origin = origins::http();
        let proxy = format!("http://{}", chains.address(chain));
        let sent = curl(&["-x", &proxy, &format!("http://{}/secret", origin.address())]);
        assert_eq!(sent.status, 200, "{sent:?}");
        let last = chains.hops[2].record(|record| record["kind"] == "http");
        assert_eq!(
            last["target"].as_str(),
            Some(format!("{}/secret", origin.address()).as_str())
        );
        for pair in chains.hops[..3].windows(2) {
            let [tunnel] = &pair[0].exchanges()[..] else {
                panic!("{:?}", pair[0].exchanges())
            };
            assert_eq!(tunnel["kind"], kind);
            assert_eq!(
                tunnel["target"].as_str(),
                Some(pair[1].address("web").to_string().as_str()),
                "{tunnel:#}"
            );
            assert!(pair[0].access().is_empty(), "nothing else passed");
        }
    }
}

/// Stands before a UDP port and keeps what passes.
struct Tap {
    port: u16,
    seen: Arc<Mutex<Vec<u8>>>,
    over: Arc<AtomicBool>,
}

impl Tap {
    fn before(port: u16) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (seen, over) = (
            Arc::<Mutex<Vec<u8>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let tap = Self {
            port: socket.local_addr().unwrap().port(),
            seen: seen.clone(),
            over: over.clone(),
        };
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        std::thread::spawn(move || {
            let (mut room, mut client) = ([0; 65536], None);
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut room) else {
                    continue;
                };
                seen.lock().unwrap().extend_from_slice(&room[..length]);
                let to = if from.port() == port {
                    client
                } else {
                    Some(([127, 0, 0, 1], port).into())
                };
                if from.port() != port {
                    client = Some(from);
                }
                to.into_iter()
                    .for_each(|to| drop(socket.send_to(&room[..length], to)));
            }
        });
        tap
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// All that the outer hop hands on to the inner one, in both directions: it is what the outer hop has in its hands.
#[test]
fn what_an_outer_hop_carries_is_sealed() {
    let chain: &[u8] = &[3, 3];
    let chains = Chains::start(&[&[2]]);
    let tap = Tap::before(chains.hops[1].address("web").port());
    let addresses = [
        chains.hops[0].address("web"),
        ([127, 0, 0, 1], tap.port).into(),
    ];
    let node = Node::start("tapped", &entry(&chains.pki, &addresses, &[chain]));
    let origin = origins::http();
    let proxy = format!("http://{}", node.address("chain33"));
    let secret = "sesame-opens-nothing-on-the-way";
    let sent = curl(&[
        "-x",
        &proxy,
        "-d",
        secret,
        &format!("http://{}/{secret}", origin.address()),
    ]);
    assert!(
        sent.status == 200
            && sent
                .body
                .windows(secret.len())
                .any(|part| part == secret.as_bytes()),
        "{sent:?}"
    );
    let seen = tap.seen.lock().unwrap();
    assert!(seen.len() > 3000, "the tap saw the connection");
    let clear = |text: &[u8]| seen.windows(text.len()).any(|part| part == text);
    assert!(
        !clear(secret.as_bytes()) && !clear(b"node.test"),
        "neither content nor certificate is readable"
    );
}

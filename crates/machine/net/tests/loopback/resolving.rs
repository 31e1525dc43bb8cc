use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_net::dns::SystemFiles;
use hermes_net::{Asker, DnsErrorKind, Resolver};
use tokio::net::UdpSocket;

const A: u16 = 1;
const AAAA: u16 = 28;
const NXDOMAIN: u8 = 3;
const SERVFAIL: u8 = 2;

/// A name server of its own for each test. It knows `both.example.` (A and AAAA), `four.example.` and `single.` (A
/// only), fails for `broken.example.`, never answers for AAAA of `slow.example.` nor for `mute.test.`, and knows nothing else.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

async fn server() -> Server {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            count.fetch_add(1, Ordering::Relaxed);
            if let Some(answer) = answer(&buffer[..length]) {
                socket.send_to(&answer, client).await.unwrap();
            }
        }
    });
    Server { address, asked }
}

/// The answer to a query; `None` to stay silent (RFC 1035 section 4).
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let mut name = String::new();
    let mut at = 12;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        name.push_str(std::str::from_utf8(&query[at + 1..at + 1 + length]).unwrap());
        name.push('.');
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    if name.ends_with(".mute.test.") {
        return None;
    }
    let (code, data): (u8, Option<IpAddr>) = match (name.to_ascii_lowercase().as_str(), kind) {
        ("both.example." | "four.example." | "slow.example." | "x.example.org.", A) => {
            (0, Some([192, 0, 2, 1].into()))
        }
        ("single.", A) => (0, Some([192, 0, 2, 2].into())),
        ("both.example.", AAAA) => (0, Some("2001:db8::1".parse().unwrap())),
        ("slow.example.", AAAA) => return None,
        ("four.example." | "single." | "x.example.org.", _) => (0, None),
        ("broken.example.", _) => (SERVFAIL, None),
        _ => (NXDOMAIN, None),
    };
    let mut answer = query[..2].to_vec();
    answer.extend([
        0x81,
        0x80 | code,
        0,
        1,
        0,
        u8::from(data.is_some()),
        0,
        0,
        0,
        0,
    ]);
    answer.extend(&query[12..at + 5]);
    if let Some(data) = data {
        let octets = match data {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        answer.extend([
            0xc0,
            12,
            0,
            kind as u8,
            0,
            1,
            0,
            0,
            0,
            60,
            0,
            octets.len() as u8,
        ]);
        answer.extend(octets);
    }
    Some(answer)
}

#[tokio::test]
async fn both_families_are_found_ipv6_first_with_their_lifetime() {
    let resolver = Resolver::with_server(server().await.address).unwrap();
    let found = resolver
        .lookup_target("both.example", Asker::of("alice"))
        .await
        .unwrap();
    let expected: [IpAddr; 2] = ["2001:db8::1".parse().unwrap(), [192, 0, 2, 1].into()];
    assert_eq!(found.addresses, expected);
    assert!(found.ttl <= Duration::from_secs(60) && found.ttl > Duration::ZERO);
}

#[tokio::test]
async fn a_family_that_is_missing_or_silent_does_not_hide_the_other() {
    let resolver = Resolver::with_server(server().await.address).unwrap();
    for name in ["four.example", "slow.example"] {
        let found = resolver
            .lookup_target(name, Asker::of("alice"))
            .await
            .unwrap();
        assert_eq!(found.addresses, [IpAddr::from([192, 0, 2, 1])]);
    }
}

/// A name server with late answers: before each come forged ones of someone who does not know the
/// question, and an old answer.
async fn late_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let beside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        let mut before: Option<Vec<u8>> = None;
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let Some(answer) = answer(&buffer[..length]) else {
                continue;
            };
            let mut forged = answer.clone();
            if let Some(last) = forged.last_mut() {
                *last = 66;
            }
            beside.send_to(&forged, client).await.unwrap();
            for guess in 1..=20_u8 {
                let mut guessed = forged.clone();
                guessed[0] ^= guess;
                socket.send_to(&guessed, client).await.unwrap();
            }
            let mut of_another = forged.clone();
            of_another[13..17].copy_from_slice(b"evil");
            socket.send_to(&of_another, client).await.unwrap();
            if let Some(before) = before.replace(answer.clone()) {
                socket.send_to(&before, client).await.unwrap();
            }
            socket.send_to(&answer, client).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn answers_to_other_questions_of_others_and_of_before_are_not_believed() {
    let resolver = Resolver::with_server(late_server().await).unwrap();
    for name in ["four.example", "both.example"] {
        let found = resolver.lookup_target(name, Asker::of("alice")).await;
        let found = found.map(|found| found.addresses).unwrap_or_default();
        let forged = found.iter().any(|address| {
            let last = match address {
                IpAddr::V4(v4) => v4.octets()[3],
                IpAddr::V6(v6) => v6.octets()[15],
            };
            last == 66
        });
        assert!(!forged && !found.is_empty(), "{name}: {found:?}");
    }
}

#[tokio::test]
async fn an_answer_is_asked_for_once_in_its_lifetime() {
    let server = server().await;
    let resolver = Resolver::with_server(server.address).unwrap();
    for _ in 0..3 {
        resolver
            .lookup_target("both.example", Asker::of("alice"))
            .await
            .unwrap();
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn failures_are_told_apart() {
    let resolver = Resolver::with_server(server().await.address).unwrap();
    let error = resolver
        .lookup_target("nothing.example", Asker::of("alice"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.rcode.as_deref()),
        (DnsErrorKind::NotFound, Some("NXDOMAIN"))
    );
    assert_eq!(
        error.to_string(),
        "nothing.example: no such name (NXDOMAIN)"
    );
    let error = resolver
        .lookup_target("broken.example", Asker::of("alice"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.rcode.as_deref()),
        (DnsErrorKind::Failed, Some("SERVFAIL"))
    );
    let error = resolver
        .lookup_target("a..example", Asker::of("alice"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, DnsErrorKind::Invalid);
}

#[tokio::test]
async fn a_dotless_target_never_reaches_dns_and_a_dotless_endpoint_does() {
    let server = server().await;
    let resolver = Resolver::with_server(server.address).unwrap();
    for name in ["single", "SINGLE", "single.", ""] {
        let error = resolver
            .lookup_target(name, Asker::of("alice"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, DnsErrorKind::Dotless);
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
    let found = resolver.lookup_endpoint("single").await.unwrap();
    assert_eq!(found.addresses, [IpAddr::from([192, 0, 2, 2])]);
}

#[tokio::test]
async fn literals_and_localhost_ask_no_one() {
    let server = server().await;
    let resolver = Resolver::with_server(server.address).unwrap();
    for (name, expected) in [
        ("192.0.2.9", "192.0.2.9"),
        ("2001:db8::9", "2001:db8::9"),
        ("[::1]", "::1"),
    ] {
        let found = resolver
            .lookup_target(name, Asker::of("alice"))
            .await
            .unwrap();
        assert_eq!(found.addresses, [expected.parse::<IpAddr>().unwrap()]);
    }
    for name in ["localhost", "LocalHost.", "db.localhost"] {
        let found = resolver
            .lookup_target(name, Asker::of("alice"))
            .await
            .unwrap();
        assert!(found.addresses.iter().all(IpAddr::is_loopback));
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
}

/// Lookups in a zone that never answers, by one user.
async fn mute_zone(
    resolver: &Resolver,
    asker: Asker,
) -> (tokio::task::JoinSet<()>, Arc<AtomicUsize>) {
    let (mut lookups, ended) = (tokio::task::JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for index in 0..250 {
        let (resolver, ended) = (resolver.clone(), ended.clone());
        lookups.spawn(async move {
            drop(
                resolver
                    .lookup_target(&format!("n{index}.mute.test"), asker)
                    .await,
            );
            ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    (lookups, ended)
}

#[tokio::test]
async fn a_mute_zone_costs_other_users_and_other_zones_nothing() {
    let resolver = Resolver::with_server(server().await.address).unwrap();
    let (alice, bob) = (Asker::of("alice"), Asker::of("bob"));
    let (_lookups, ended) = mute_zone(&resolver, alice).await;
    for (asker, name) in [
        (bob, "both.example"),
        (alice, "x.example.org"),
        (bob, "four.example"),
    ] {
        resolver.lookup_target(name, asker).await.unwrap();
        assert_eq!(
            ended.load(Ordering::Relaxed),
            0,
            "{name} waited for a lookup of the mute zone"
        );
    }
}

#[tokio::test]
async fn those_who_ask_for_the_same_name_share_one_lookup() {
    let server = server().await;
    let resolver = Resolver::with_server(server.address).unwrap();
    let mut lookups = tokio::task::JoinSet::new();
    for index in 0..50 {
        let resolver = resolver.clone();
        lookups.spawn(async move {
            resolver
                .lookup_target("both.example", Asker::of(index))
                .await
                .unwrap()
        });
    }
    assert_eq!(lookups.join_all().await.len(), 50);
    assert_eq!(
        server.asked.load(Ordering::Relaxed),
        2,
        "once for each family"
    );
}

/// The files of a machine, in a folder.
struct Machine {
    folder: tempfile::TempDir,
    resolver: Resolver,
}

impl Machine {
    /// A resolver with empty files.
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let resolver = Resolver::follow(SystemFiles {
            resolv_conf: folder.path().join("resolv.conf"),
            hosts: folder.path().join("hosts"),
            except: vec!["192.0.2.99".parse().unwrap()],
        });
        Self { folder, resolver }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join(file), text).unwrap();
    }

    async fn address(&self, name: &str) -> Option<IpAddr> {
        let found = self.resolver.lookup_endpoint(name).await.ok()?;
        found.addresses.first().copied()
    }
}

#[tokio::test]
async fn files_that_the_machine_gets_later_count_from_then_on() {
    let machine = Machine::empty();
    let error = machine.resolver.lookup_endpoint("a.example.org").await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, DnsErrorKind::Failed);
    assert!(error.to_string().contains("resolv.conf"), "{error}");
    assert!(machine.resolver.servers().is_empty());

    let hosts = ["192.0.2.7 a.example.org\n", "192.0.2.8 a.example.org b\n"];
    for (text, server) in hosts.into_iter().zip(["192.0.2.1", "192.0.2.53"]) {
        machine.write("hosts", text);
        machine.write(
            "resolv.conf",
            &format!("nameserver {server}\nnameserver 192.0.2.99\n"),
        );
        let (address, _) = text.split_once(' ').unwrap();
        let address: IpAddr = address.parse().unwrap();
        while machine.address("a.example.org").await != Some(address) {
            tokio::task::yield_now().await;
        }
        let server: IpAddr = server.parse().unwrap();
        assert_eq!(machine.resolver.servers(), [server]);
    }

    // Between two networks no server is named: those before are asked, and no lookup ends the node.
    machine.write("resolv.conf", "# empty\n");
    machine.write("hosts", "192.0.2.9 a.example.org\n");
    machine.resolver.forget();
    assert_eq!(
        machine.address("a.example.org").await,
        Some("192.0.2.9".parse().unwrap())
    );
    assert_eq!(
        machine.resolver.servers(),
        ["192.0.2.53".parse::<IpAddr>().unwrap()]
    );
}

#[tokio::test]
async fn what_dns_has_said_is_forgotten_when_asked() {
    let server = server().await;
    let resolver = Resolver::with_server(server.address).unwrap();
    for _ in 0..3 {
        let none = resolver.lookup_endpoint("missing.example").await;
        assert_eq!(none.unwrap_err().kind, DnsErrorKind::NotFound);
    }
    let before = server.asked.load(Ordering::Relaxed);
    resolver.forget();
    let none = resolver.lookup_endpoint("missing.example").await;
    assert_eq!(none.unwrap_err().kind, DnsErrorKind::NotFound);
    assert!(server.asked.load(Ordering::Relaxed) > before);
}

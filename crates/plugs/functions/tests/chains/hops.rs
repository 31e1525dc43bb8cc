//! Functions outside: processes that bytes go through, some of which hang, die or lie.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::beyond::changing_process;
use super::node::{Node, bytes, echo, head};

/// A node whose only route ends here, through these functions.
fn ends_here(functions: &str, through: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         defaults: {{ timeouts: {{ connect: 2s }} }}\n\
         functions: {{ {functions} }}\n\
         routes: [{{ terminate: true, through: [{through}] }}]\n"
    )
}

/// The behaviour of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// It writes capitals towards the target, and small letters back.
    Letters,
    /// It never answers.
    Hangs,
    /// It connects back, and ends itself after the first bytes.
    Dies,
    /// It ends the direction to the target after the first bytes, and keeps the other.
    Ends,
    /// It refuses.
    Refuses,
}

/// A process that takes CONNECT.
async fn process(behaviour: Behaviour) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, behaviour));
        }
    });
    address
}

async fn serve(mut client: TcpStream, behaviour: Behaviour) -> Option<()> {
    let request = head(&mut client).await;
    let target = request.strip_prefix("CONNECT ")?.split(' ').next()?;
    match behaviour {
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::Refuses => {
            client.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.ok()?;
            return None;
        }
        _ => {}
    }
    let mut back = TcpStream::connect(target).await.ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    if matches!(behaviour, Behaviour::Dies | Behaviour::Ends) {
        let first = client.read_u8().await.ok()?;
        back.write_all(&[first]).await.ok()?;
        if behaviour == Behaviour::Ends {
            back.shutdown().await.ok()?;
            std::future::pending::<()>().await;
        }
        return None;
    }

    let (mut from_client, mut to_client) = client.split();
    let (mut from_target, mut to_target) = back.split();
    let upwards = letters(&mut from_client, &mut to_target, u8::to_ascii_uppercase);
    let downwards = letters(&mut from_target, &mut to_client, u8::to_ascii_lowercase);
    tokio::join!(upwards, downwards);
    Some(())
}

pub(super) async fn letters(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    change: fn(&u8) -> u8,
) {
    let mut piece = vec![0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let changed: Vec<u8> = piece[..length].iter().map(change).collect();
        if to.write_all(&changed).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

fn hop(name: &str, address: SocketAddr, more: &str) -> String {
    format!("{name}: {{ hop: {{ to: \"{address}\"{more} }} }}")
}

/// A server that records the first line, and answers with it between brackets.
async fn quoting() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                let _ = stream.read_to_end(&mut all).await;
                let quoted = [b"[", &all[..], b"]"].concat();
                let _ = stream.write_all(&quoted).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn bytes_go_out_and_come_back_with_half_close_and_in_order() {
    let target = quoting().await;
    let process = process(Behaviour::Letters).await;
    let functions = format!(
        "{}, {}, only: {{ allow: {{ ports: [{}] }} }}",
        hop("a", process, ""),
        hop("b", process, ""),
        target.port()
    );
    let node = Node::start("n", &ends_here(&functions, "only, a, b"));
    let (mut tunnel, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    tunnel.write_all(b"Hello").await.unwrap();
    tunnel.shutdown().await.unwrap();
    // The target saw capitals, and the end of the client; the client sees small letters.
    assert_eq!(bytes(&mut tunnel, 100).await, b"[hello]");
    node.end().await;
}

#[tokio::test]
async fn a_function_that_refuses_or_hangs_is_told_and_nothing_passes_without_it() {
    let target = echo().await;
    for (behaviour, status) in [(Behaviour::Refuses, "502"), (Behaviour::Hangs, "504")] {
        let functions = hop("f", process(behaviour).await, "");
        let node = Node::start("n", &ends_here(&functions, "f"));
        let (_, answer) = node.tunnel(target).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        node.end().await;
    }
    let closed = "127.0.0.1:9".parse().unwrap();
    let node = Node::start("n", &ends_here(&hop("f", closed, ""), "f"));
    let (_, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");

    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let (_, refused) = node.ask(&request).await;
    assert!(
        refused.starts_with("HTTP/1.1 5"),
        "no request passes by it: {refused}"
    );
    node.end().await;
}

#[tokio::test]
async fn a_function_that_is_only_welcome_is_passed_by_while_it_is_away() {
    let target = echo().await;
    let closed = "127.0.0.1:9".parse().unwrap();
    let node = Node::start("n", &ends_here(&hop("f", closed, ", need: best"), "f"));
    let (mut tunnel, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    tunnel.write_all(b"Hello").await.unwrap();
    assert_eq!(bytes(&mut tunnel, 5).await, b"Hello");
    node.end().await;
}

#[tokio::test]
async fn a_function_that_dies_or_ends_too_soon_resets_the_tunnel() {
    for behaviour in [Behaviour::Dies, Behaviour::Ends] {
        let target = quoting().await;
        let functions = hop("f", process(behaviour).await, "");
        let node = Node::start("n", &ends_here(&functions, "f"));
        let (mut tunnel, _) = node.tunnel(target).await;
        tunnel.write_all(b"Hello").await.unwrap();
        let mut read = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(20), tunnel.read_to_end(&mut read));
        // A clean end would have the client take half of an answer for the whole, and the target half of a question.
        let error = end.await.unwrap().expect_err("a reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(read, b"");
        node.end().await;
    }
}

#[tokio::test]
async fn a_slow_function_holds_its_sender_back() {
    let target = echo().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stuck = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let request = head(&mut client).await;
        let back = request.split(' ').nth(1).unwrap().to_owned();
        let back = TcpStream::connect(back).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
        drop(back);
    });
    let node = Node::start("n", &ends_here(&hop("f", address, ""), "f"));
    let (mut tunnel, _) = node.tunnel(target).await;
    let piece = vec![0; 64 * 1024];
    let mut sent = 0_usize;
    // The buffers of four sockets take some megabytes, this node next to nothing.
    while sent < 64 * 1024 * 1024 {
        let sending = tunnel.write_all(&piece);
        match tokio::time::timeout(Duration::from_secs(1), sending).await {
            Ok(written) => written.unwrap(),
            Err(_) => break,
        }
        sent += piece.len();
    }
    assert!(sent < 64 * 1024 * 1024, "everything was taken");
    stuck.abort();
    node.end().await;
}

#[tokio::test]
async fn a_function_that_is_this_listener_itself_is_a_loop() {
    let target = echo().await;
    // A first start finds a free port, which the function then names.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = free.local_addr().unwrap();
    drop(free);
    let yaml = ends_here(&hop("f", own, ""), "f");
    let yaml = yaml.replace("http: 127.0.0.1:0", &format!("http: \"{own}\""));
    let node = Node::start("n", &yaml);
    let (_, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    node.end().await;
}

/// The instance that a tunnel from this address goes through, as its marks say: bytes pass it in both directions.
async fn instance(node: &Node, source: &str, target: SocketAddr) -> (TcpStream, u8) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(source.parse().unwrap()).unwrap();
    let mut tunnel = socket.connect(node.address()).await.unwrap();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    tunnel.write_all(request.as_bytes()).await.unwrap();
    let answer = head(&mut tunnel).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mark = marked(&mut tunnel).await;
    (tunnel, mark)
}

async fn marked(tunnel: &mut TcpStream) -> u8 {
    tunnel.write_all(&[0]).await.unwrap();
    bytes(tunnel, 1).await[0] / 2
}

#[tokio::test]
async fn a_flow_stays_on_its_instance_and_those_of_a_user_share_one() {
    let target = echo().await;
    let one = changing_process(|byte| byte.wrapping_add(1)).await;
    let two = changing_process(|byte| byte.wrapping_add(2)).await;
    let three = changing_process(|byte| byte.wrapping_add(3)).await;
    let through = |instances: &[SocketAddr], of: &str| {
        let to: Vec<_> = instances.iter().map(|to| format!("\"{to}\"")).collect();
        let to = to.join(", ");
        let functions = format!("f: {{ hop: {{ to: [{to}], instance_of: {of} }} }}");
        ends_here(&functions, "f")
    };

    let node = Node::start("a", &through(&[one, two], "user"));
    let mut seen = std::collections::HashSet::new();
    for host in 1..=20 {
        let source = format!("127.0.0.{host}:0");
        let (_, first) = instance(&node, &source, target).await;
        let (_, second) = instance(&node, &source, target).await;
        assert_eq!(first, second, "of one source");
        seen.insert(first);
    }
    assert_eq!(seen.len(), 2, "all instances are used");

    node.apply(&through(&[one, two], "all"));
    let (mut kept, first) = instance(&node, "127.0.0.1:0", target).await;
    let (_, second) = instance(&node, "127.0.0.1:0", target).await;
    assert_ne!(first, second, "they take turns");

    // Changed while the node runs: new flows go to the new instance, an open one stays where it is.
    node.apply(&through(&[three], "all"));
    let (_, new) = instance(&node, "127.0.0.1:0", target).await;
    assert_eq!(new, 3);
    for _ in 0..3 {
        assert_eq!(marked(&mut kept).await, first);
    }
    node.end().await;
}

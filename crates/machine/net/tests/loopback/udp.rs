use std::net::SocketAddr;

use hermes_net::{RecvBatch, UdpError, UdpSocket, listen};

/// A server socket and a socket connected to it.
async fn pair(address: &str) -> (UdpSocket, UdpSocket) {
    let server = UdpSocket::bound(listen::udp(address.parse().unwrap()).unwrap()).unwrap();
    let client = UdpSocket::connected(server.local_addr().unwrap())
        .await
        .unwrap();
    (client, server)
}

/// `count` datagrams of `length`, each filled with its own number.
fn numbered(count: usize, length: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| vec![number as u8; length])
        .collect()
}

/// Sends received datagrams back, run by run, until `count` datagrams have passed.
async fn echo(server: &UdpSocket, count: usize) {
    let mut batch = RecvBatch::new();
    let mut passed = 0;
    while passed < count {
        passed += server.recv(&mut batch).await.unwrap();
        for run in batch.runs() {
            server
                .send_from(run.local, Some(run.source), run.data, Some(run.segment))
                .await
                .unwrap();
        }
    }
}

/// Receives `count` datagrams.
async fn collect(client: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let mut batch = RecvBatch::new();
    let mut all = Vec::new();
    while all.len() < count {
        client.recv(&mut batch).await.unwrap();
        all.extend(batch.datagrams().map(|(source, data)| {
            assert_eq!(Some(source), client.remote_addr());
            data.to_vec()
        }));
    }
    all
}

async fn echoes_two_hundred(address: &str, length: usize) {
    let (client, server) = pair(address).await;
    // Bursts that fit into the receive buffer: nothing is lost on the loopback then.
    let (bursts, each) = (20, 10);
    let data = numbered(each, length);
    for _ in 0..bursts {
        let (sent, (), all) = tokio::join!(
            client.send_segments(None, &data, Some(length)),
            echo(&server, each),
            collect(&client, each)
        );
        sent.unwrap();
        assert!(all.concat() == data, "datagrams differ");
        assert!(all.iter().all(|datagram| datagram.len() == length));
    }
}

#[tokio::test]
async fn two_hundred_datagrams_come_back_over_ipv4() {
    echoes_two_hundred("127.0.0.1:0", 1200).await;
    echoes_two_hundred("127.0.0.1:0", 9000).await;
}

#[tokio::test]
async fn two_hundred_datagrams_come_back_over_ipv6() {
    echoes_two_hundred("[::1]:0", 1200).await;
    echoes_two_hundred("[::1]:0", 9000).await;
}

#[tokio::test]
async fn one_batch_of_two_hundred_small_datagrams_is_cut_and_merged_right() {
    let (client, server) = pair("127.0.0.1:0").await;
    let data = [numbered(200, 100).as_slice(), b"tail"].concat();
    client.send_segments(None, &data, Some(100)).await.unwrap();
    let mut batch = RecvBatch::new();
    let mut all = Vec::new();
    while all.len() < 201 {
        let count = server.recv(&mut batch).await.unwrap();
        let before = all.len();
        all.extend(batch.datagrams().map(|(_, data)| data.to_vec()));
        assert_eq!(all.len() - before, count);
    }
    assert_eq!(all[200], b"tail");
    assert!(all.concat() == data, "datagrams differ");
}

#[tokio::test]
async fn the_largest_datagrams_pass() {
    // IPv6 has 20 bytes more of headers, and the loopback's MTU is 65,536.
    for (address, length) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_488)] {
        let (client, server) = pair(address).await;
        let data = vec![7; length];
        client.send_segments(None, &data, None).await.unwrap();
        let mut batch = RecvBatch::with_slots(1);
        assert_eq!(server.recv(&mut batch).await.unwrap(), 1);
        assert!(batch.datagrams().next().unwrap().1 == data);
    }
}

#[tokio::test]
async fn empty_datagrams_pass() {
    let (client, server) = pair("127.0.0.1:0").await;
    client.send_segments(None, b"", None).await.unwrap();
    let mut batch = RecvBatch::new();
    assert_eq!(server.recv(&mut batch).await.unwrap(), 1);
    assert_eq!(batch.datagrams().next().unwrap().1, b"");
}

#[tokio::test]
async fn a_datagram_that_is_too_large_is_reported_and_the_next_one_passes() {
    let (client, server) = pair("127.0.0.1:0").await;
    let error = client
        .send_segments(None, &[0; 65_508], None)
        .await
        .unwrap_err();
    assert!(matches!(error, UdpError::TooLarge), "{error:?}");
    let mixed = [vec![1; 65_508], vec![2; 10]].concat();
    let error = client
        .send_segments(None, &mixed, Some(65_508))
        .await
        .unwrap_err();
    assert!(matches!(error, UdpError::TooLarge), "{error:?}");
    let mut batch = RecvBatch::new();
    assert_eq!(server.recv(&mut batch).await.unwrap(), 1);
    assert_eq!(batch.datagrams().next().unwrap().1, [2; 10]);
}

#[tokio::test]
async fn a_port_that_no_one_listens_on_is_reported_as_refused() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (client, server) = pair(address).await;
        drop(server);
        client.send_segments(None, b"x", None).await.unwrap();
        let error = client.recv(&mut RecvBatch::new()).await.unwrap_err();
        assert!(matches!(error, UdpError::Refused), "{error:?}");
    }
}

#[tokio::test]
async fn a_connected_socket_hears_its_peer_alone() {
    let (client, server) = pair("127.0.0.1:0").await;
    let (stranger, _) = pair("127.0.0.1:0").await;
    let to = Some(client_address(&client));
    // Connected elsewhere, but an explicit destination wins.
    stranger.send_segments(to, b"intruder", None).await.unwrap();
    server.send_segments(to, b"peer", None).await.unwrap();
    assert_eq!(collect(&client, 1).await, [b"peer"]);
    assert!(matches!(client.try_recv(&mut RecvBatch::new()), Ok(None)));
}

fn client_address(client: &UdpSocket) -> SocketAddr {
    let port = client.local_addr().unwrap().port();
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[tokio::test]
async fn a_dual_stack_socket_answers_ipv4_from_the_address_that_was_asked() {
    let server = UdpSocket::bound(listen::udp("[::]:0".parse().unwrap()).unwrap()).unwrap();
    let port = server.local_addr().unwrap().port();
    let client = UdpSocket::connected(SocketAddr::from(([127, 0, 0, 2], port)))
        .await
        .unwrap();
    let data = numbered(3, 10);
    let (sent, (), all) = tokio::join!(
        client.send_segments(None, &data, Some(10)),
        echo(&server, 3),
        collect(&client, 3)
    );
    sent.unwrap();
    assert_eq!(all.concat(), data);
}

#[tokio::test]
async fn a_shared_batch_is_filled_when_the_socket_is_readable() {
    let (client, server) = pair("127.0.0.1:0").await;
    let mut batch = RecvBatch::new();
    assert!(matches!(server.try_recv(&mut batch), Ok(None)));
    client.send_segments(None, b"x", None).await.unwrap();
    server.readable().await.unwrap();
    assert_eq!(server.try_recv(&mut batch).unwrap(), Some(1));

    drop(server);
    client.send_segments(None, b"x", None).await.unwrap();
    client.readable().await.unwrap();
    let error = client.try_recv(&mut batch).unwrap_err();
    assert!(matches!(error, UdpError::Refused), "{error:?}");
    assert!(batch.is_empty());
}

#[tokio::test]
async fn an_unconnected_socket_needs_a_destination() {
    let (_client, server) = pair("127.0.0.1:0").await;
    assert!(matches!(
        server.send_segments(None, b"x", None).await,
        Err(UdpError::Io(_))
    ));
}

/// As a firewall's EPERM: the kernel refuses a datagram to everyone, and one to no port.
#[tokio::test]
async fn what_this_machine_drops_is_lost_alone_and_the_socket_goes_on() {
    let bound = |address: &str| UdpSocket::bound(listen::udp(address.parse().unwrap()).unwrap());
    let socket = bound("0.0.0.0:0").unwrap();
    let far = bound("127.0.0.1:0").unwrap();
    let to = far.local_addr().unwrap();

    for dropped in ["255.255.255.255:9", "127.0.0.1:0"] {
        let dropped = Some(dropped.parse().unwrap());
        let error = socket.send_segments(dropped, b"lost", None).await;
        assert!(matches!(error, Err(UdpError::Dropped)), "{error:?}");
        let error = socket.send_segments(dropped, &[7; 5000], Some(1000)).await;
        assert!(matches!(error, Err(UdpError::Dropped)), "{error:?}");
    }

    socket.send_segments(Some(to), b"here", None).await.unwrap();
    let mut batch = RecvBatch::new();
    far.recv(&mut batch).await.unwrap();
    assert_eq!(batch.datagrams().next().unwrap().1, b"here");
}

//! Clients that mean harm, or something else.

use tokio::io::AsyncWriteExt;

use super::node::{ASKED, Node, OPEN, address, bytes, echo, request};

#[tokio::test]
async fn half_a_message_is_ended_and_keeps_no_one_waiting() {
    let target = address(echo().await);
    let node = Node::start("socks-half", OPEN);
    let whole = request(1, &target);
    let mut halves = Vec::new();
    for length in 0..whole.len() {
        let mut client = node.connect().await;
        client.write_all(&whole[..length]).await.unwrap();
        halves.push(client);
    }
    for half in [&b"\x04\x01\0\x50\0\0\0\x01name"[..], b"\x05\xff\0\0"] {
        let mut client = node.connect().await;
        client.write_all(half).await.unwrap();
        halves.push(client);
    }

    let (_, answered) = node.answer(&whole, 12).await;
    assert_eq!(answered[3], 0, "a bystander is served meanwhile");
    for client in &mut halves {
        let heard = bytes(client, usize::MAX).await;
        assert!(heard.is_empty() || heard == [5, 0], "{heard:?}");
    }
    node.end().await;
}

#[tokio::test]
async fn what_is_not_socks_is_cut_off() {
    let node = Node::start("socks-other", ASKED);
    for said in [
        &b"GET http://a/ HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0",
        b"\0",
        b"\x06\x01\0",
        b"\x05\x01\x02\x05\x05alice\x08of alice",
    ] {
        let (_, answered) = node.answer(said, usize::MAX).await;
        assert!(answered.is_empty() || answered == [5, 2], "{answered:?}");
    }
    let mut long = b"\x04\x01\0\x50\x7f\0\0\x01".to_vec();
    long.resize(100_000, b'a');
    let (_, answered) = node.answer(&long, usize::MAX).await;
    assert!(
        answered.is_empty() || answered == [0, 0x5b, 0, 0, 0, 0, 0, 0],
        "{answered:?}"
    );
    node.end().await;
}

//! What breaks at one end breaks at the other, and is not taken for an end.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use hermes_tests::raw::End;
use hermes_tests::runtime;

use crate::tunnels::overlay::{self, Overlay};
use crate::tunnels::peer::{Peer, Target};
use crate::tunnels::pipe::{Pipe, WAYS};

#[test]
fn a_reset_by_the_client_arrives_at_the_target_as_a_reset() {
    let target = Target::bind();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), target.address());
            let mut peer = target.accept();
            pipe.send("half");
            assert_eq!(peer.exactly(4), b"half");
            pipe.reset();
            assert_eq!(peer.rest().1, End::Reset, "{way:?}");
        }
        overlay.idle();
    }
}

#[test]
fn a_reset_by_the_target_arrives_at_the_client_as_a_reset() {
    let target = Target::bind();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), target.address());
            let mut peer = target.accept();
            peer.send("half");
            assert_eq!(pipe.exactly(4), b"half");
            peer.reset();
            assert_eq!(pipe.rest().1, End::Reset, "{way:?}");
        }
        overlay.idle();
    }
}

#[test]
fn a_client_that_resets_after_its_end_is_noticed_while_the_target_is_silent() {
    let target = Target::bind();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), target.address());
            let mut peer = target.accept();
            pipe.send("question");
            pipe.finish();
            assert_eq!(peer.rest(), (b"question".to_vec(), End::Closed));
            pipe.reset();
            overlay.idle();
        }
    }
}

#[test]
fn a_client_that_resets_is_noticed_while_the_target_does_not_read() {
    let target = Target::bind();
    for links in [&[][..], &[1], &[2]] {
        let overlay = Overlay::start(links);
        let mut client = Peer(TcpStream::connect(overlay.address()).unwrap());
        let authority = target.address();
        client.send(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        let peer = target.accept();
        fill(&mut client);
        client.reset();
        overlay.idle();
        drop(peer);
    }
}

/// Sends until the far end takes no more for a while.
fn fill(client: &mut Peer) {
    client
        .0
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut sent = 0;
    while let Ok(more) = client.0.write(&[0; 65_536]) {
        sent += more;
        assert!(sent < 256 * 1024 * 1024, "no back-pressure");
    }
}

#[test]
fn a_stream_that_is_reset_without_an_error_is_still_no_end() {
    let target = Target::bind();
    for links in [&[][..], &[1], &[2]] {
        let overlay = Overlay::start(links);
        let address = overlay.address();
        let mut sender = runtime::block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (requests, connection) = h2::client::handshake(stream).await.unwrap();
            runtime::handle().spawn(connection);
            let request = http::Request::connect(target.address().to_string())
                .body(())
                .unwrap();
            let (response, mut sender) = requests
                .ready()
                .await
                .unwrap()
                .send_request(request, false)
                .unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            sender
                .send_data(Bytes::from_static(b"half"), false)
                .unwrap();
            sender
        });
        let mut peer = target.accept();
        assert_eq!(peer.exactly(4), b"half");
        sender.send_reset(h2::Reason::NO_ERROR);
        assert_eq!(peer.rest().1, End::Reset, "links {links:?}");
    }
}

//! A reader that waits, and a peer that sends bytes one by one.

use std::future::Future;

use bytes::Bytes;
use hermes_http::server::Options;
use hermes_http::{Frame, Offered};
use http::{Method, Request};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::bounded;
use crate::server::Server;

/// Frames of one byte: more than a public connection may have unread.
const FRAMES: usize = 100_000;

#[tokio::test]
async fn bytes_that_come_one_by_one_while_no_one_reads_end_no_connection() {
    bounded(async {
        let (release, released) = oneshot::channel::<()>();
        let (told, mut tell) = mpsc::unbounded_channel();
        let released = std::sync::Arc::new(tokio::sync::Mutex::new(Some(released)));
        let answer = move |offered: Offered| {
            let (told, released) = (told.clone(), released.clone());
            async move {
                let (mut incoming, _outgoing) = offered
                    .accept(hermes_proto::fields::Fields::new())
                    .await
                    .unwrap();
                let released = released.lock().await.take().unwrap();
                let mut released = std::pin::pin!(released);
                std::future::poll_fn(|cx| {
                    assert!(incoming.poll_unasked(cx).is_pending());
                    released.as_mut().poll(cx)
                })
                .await
                .unwrap();
                let (mut bytes, mut frames) = (0, 0);
                while let Some(frame) = incoming.frame().await {
                    let Frame::Data(data) = frame.unwrap() else {
                        panic!("a tunnel has no trailers")
                    };
                    (bytes, frames) = (bytes + data.len(), frames + 1);
                }
                told.send((bytes, frames)).unwrap();
            }
        };
        let server = Server::with(Options::default(), answer).await;
        let tcp = TcpStream::connect(server.address).await.unwrap();
        let (mut send, connection) = h2::client::handshake(tcp).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri("a:1")
            .body(())
            .unwrap();
        let (response, mut stream) = send.send_request(request, false).unwrap();
        response.await.unwrap();
        for number in 1..=FRAMES {
            stream
                .send_data(Bytes::from_static(b"x"), number == FRAMES)
                .unwrap();
            if number % 1_000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        release.send(()).unwrap();
        let (bytes, frames) = tell.recv().await.unwrap();
        assert_eq!(bytes, FRAMES);
        assert!(frames < FRAMES, "{frames} frames");
        assert!(!connection.is_finished(), "the connection goes on");
    })
    .await;
}

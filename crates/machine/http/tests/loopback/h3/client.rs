//! Servers that write every byte themselves, and a link's reaction.

use hermes_http::client::QuicLink;
use hermes_http::server::Options;
use hermes_http::{Cause, Event, Offered, Processed, Reset, StreamError};
use hermes_proto::fields::Fields;
use tokio_util::task::TaskTracker;

use super::wire::{CONTROL, Wire, framed, headers, send, settings, usual_settings};
use crate::client::last;
use crate::content::{connect, get, upgrade};
use crate::server::{SOON, Server};
use crate::{bounded, quic};

/// A link, and the server that it leads to.
pub async fn pair() -> (QuicLink, hermes_net::quic::Endpoint, Wire) {
    let endpoint = quic::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let accepted = async { endpoint.accept().await.unwrap().accept().await.unwrap() };
    let ((near, client), far) = tokio::join!(quic::connect(address), accepted);
    (
        QuicLink::connect(near, &TaskTracker::new()).unwrap(),
        client,
        Wire::new(far, endpoint.clone()),
    )
}

/// The result of a request if the server answers with these bytes, and ends the stream.
async fn answered(bytes: &[u8]) -> Result<http::StatusCode, StreamError> {
    let (link, _client, wire) = pair().await;
    let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
    let (mut stream, _recv) = wire.connection.accept_bi().await.unwrap();
    send(&mut stream, bytes).await;
    stream.finish().unwrap();
    let head = last(&mut pending).await;
    head.map(|(head, _)| head.status)
}

#[tokio::test]
async fn malformed_responses_are_errors_of_their_stream() {
    let ok = (":status", "200");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no status", headers(&[("x", "y")])),
        ("101", headers(&[(":status", "101")])),
        ("a pseudo-field of requests", headers(&[ok, (":path", "/")])),
        ("a name in upper case", headers(&[ok, ("X", "y")])),
        ("a line break", headers(&[ok, ("x", "a\nb")])),
        ("a field of HTTP/1.1", headers(&[ok, ("upgrade", "x")])),
        ("nothing", Vec::new()),
    ];
    for (name, bytes) in cases {
        eprintln!("case: {name}");
        let error = bounded(answered(&bytes)).await.unwrap_err();
        assert!(
            matches!(error.cause, Cause::Protocol(_) | Cause::Incomplete),
            "{name}: {error}"
        );
        assert_eq!(error.processed, Processed::Maybe);
    }
    let with_interim = [headers(&[(":status", "103")]), headers(&[ok])].concat();
    assert_eq!(bounded(answered(&with_interim)).await.unwrap(), 200);
}

#[tokio::test]
async fn what_a_server_must_not_do_ends_the_connection() {
    for (name, control, code) in [
        ("no SETTINGS", framed(7, &[0]), 0x10a),
        (
            "GOAWAY of no request stream",
            [settings(&[]), framed(7, &[3])].concat(),
            0x108,
        ),
        (
            "MAX_PUSH_ID",
            [settings(&[]), framed(13, &[0])].concat(),
            0x105,
        ),
        (
            "PRIORITY_UPDATE",
            [settings(&[]), framed(0xf_0700, &[0])].concat(),
            0x105,
        ),
        (
            "CANCEL_PUSH",
            [settings(&[]), framed(3, &[0])].concat(),
            0x108,
        ),
    ] {
        eprintln!("case: {name}");
        bounded(async {
            let (link, _client, mut wire) = pair().await;
            wire.uni(CONTROL, &control).await;
            assert_eq!(wire.closed().await, code, "{name}");
            while link.is_alive() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    bounded(async {
        let (_link, _client, wire) = pair().await;
        let _pushed = wire.request(&framed(0x21, b""), false).await;
        assert_eq!(wire.closed().await, 0x103);
        let (_link, _client, mut wire) = pair().await;
        wire.uni(super::wire::PUSH, &[0]).await;
        assert_eq!(wire.closed().await, 0x108);
    })
    .await;
}

#[tokio::test]
async fn a_rejected_request_was_not_processed_and_others_may_have_been() {
    for (code, processed, reset) in [
        (0x10b, Processed::No, Reset::Refused),
        (0x10c, Processed::Maybe, Reset::Cancel),
        (0x102, Processed::Maybe, Reset::Internal),
        (0x100, Processed::Maybe, Reset::Unneeded),
    ] {
        bounded(async {
            let (link, _client, wire) = pair().await;
            let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
            let (mut stream, _recv) = wire.connection.accept_bi().await.unwrap();
            stream.reset(code);
            let error = pending.event(None).await.unwrap_err();
            assert_eq!(error.processed, processed, "{code:#x}");
            assert!(
                matches!(error.cause, Cause::Reset(found) if found == reset),
                "{error}"
            );
            assert!(link.is_alive());
        })
        .await;
    }
}

#[tokio::test]
async fn requests_above_a_goaway_were_not_processed_and_those_below_go_on() {
    bounded(async {
        let (link, _client, mut wire) = pair().await;
        let (_first, mut below) = link.open(&get(), Some(0)).await.unwrap();
        let (_second, mut above) = link.open(&get(), Some(0)).await.unwrap();
        let (mut stream, _recv) = wire.connection.accept_bi().await.unwrap();
        wire.control(&framed(7, &[4])).await;
        let error = above.event(None).await.unwrap_err();
        assert_eq!(error.processed, Processed::No);
        assert!(matches!(error.cause, Cause::Closing), "{error}");
        assert!(!link.is_alive());
        assert_eq!(
            link.open(&get(), Some(0)).await.unwrap_err().processed,
            Processed::No
        );
        send(&mut stream, &headers(&[(":status", "204")])).await;
        stream.finish().unwrap();
        assert_eq!(last(&mut below).await.unwrap().0.status, 204);
    })
    .await;
}

#[tokio::test]
async fn extended_connect_waits_for_the_setting_and_is_not_sent_without_it() {
    bounded(async {
        let (link, _client, mut wire) = pair().await;
        wire.uni(CONTROL, &settings(&[])).await;
        let error = link.open(&upgrade("chat"), None).await.unwrap_err();
        assert!(matches!(error.cause, Cause::Unsupported(_)), "{error}");
        assert_eq!(error.processed, Processed::No);

        let (link, _client, mut wire) = pair().await;
        let head = upgrade("chat");
        let open = link.open(&head, None);
        tokio::pin!(open);
        tokio::select! {
            biased;
            _ = &mut open => panic!("it was not known whether the server takes it"),
            () = tokio::task::yield_now() => {}
        }
        wire.uni(CONTROL, &usual_settings()).await;
        open.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_head_that_is_larger_than_the_server_takes_is_not_sent() {
    bounded(async {
        let (link, _client, mut wire) = pair().await;
        wire.uni(CONTROL, &settings(&[(6, 300)])).await;
        assert!(link.settled().await);
        let mut head = get();
        link.open(&head, Some(0)).await.unwrap();
        head.fields
            .insert("x", "y".repeat(300).parse::<http::HeaderValue>().unwrap());
        let error = link.open(&head, Some(0)).await.unwrap_err();
        assert!(matches!(error.cause, Cause::Invalid(_)), "{error}");
        assert!(link.is_alive());
    })
    .await;
}

#[tokio::test]
async fn a_link_has_as_many_places_as_the_server_allows_streams() {
    for streams in [5, 3000] {
        bounded(async {
            let options = Options {
                streams,
                ..Options::default()
            };
            let server = Server::with(options, async |offered: Offered| {
                let (_incoming, mut outgoing) = offered.accept(Fields::new()).await.unwrap();
                outgoing.broken().await;
            })
            .await;
            let (connection, _endpoint) = quic::connect(server.address).await;
            let link = QuicLink::connect(connection, &TaskTracker::new()).unwrap();
            let mut open = Vec::new();
            while let Some(place) = link.claim() {
                let (mut outgoing, mut pending) = place.open(&connect(), None).await.unwrap();
                let Event::Tunnel(_, incoming) = pending.event(Some(&mut outgoing)).await.unwrap()
                else {
                    panic!()
                };
                open.push((outgoing, incoming));
            }
            assert_eq!(open.len(), streams as usize);
            // Some are given back; quinn says so when they are an eighth.
            open.truncate(open.len() * 3 / 4);
            let place = loop {
                match link.claim() {
                    Some(place) => break place,
                    None => tokio::time::sleep(SOON).await,
                }
            };
            // One that was not used is there again.
            let unused = place.clone();
            drop((place, unused));
            let (_outgoing, _pending) = link.claim().unwrap().open(&connect(), None).await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn a_link_closes_when_no_one_needs_it() {
    bounded(async {
        let (link, _client, wire) = pair().await;
        let (outgoing, pending) = link.open(&get(), Some(0)).await.unwrap();
        drop(link);
        let (mut stream, _recv) = wire.connection.accept_bi().await.unwrap();
        send(&mut stream, &headers(&[(":status", "200")])).await;
        drop((outgoing, pending));
        assert_eq!(wire.closed().await, 0x100);
    })
    .await;
}

#[tokio::test]
async fn who_waits_on_a_link_that_is_lost_waits_no_longer_and_the_link_may_come_back() {
    bounded(async {
        let (link, _client, wire) = pair().await;
        let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
        link.watched().set_lost(true);
        let error = last(&mut pending).await.unwrap_err();
        assert!(
            matches!(error.cause, Cause::Silent(_)) && error.processed == Processed::Maybe,
            "{error:?}"
        );
        assert!(link.is_alive());
        link.watched().set_lost(false);
        let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
        drop(wire.connection.accept_bi().await.unwrap());
        let (mut stream, _recv) = wire.connection.accept_bi().await.unwrap();
        send(&mut stream, &headers(&[(":status", "200")])).await;
        stream.finish().unwrap();
        assert_eq!(last(&mut pending).await.unwrap().0.status, 200);
    })
    .await;
}

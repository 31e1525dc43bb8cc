//! Control, QPACK and unknown streams, and datagrams, that break the connection (RFC 9114, 6.2 and 7.2; RFC 9204, 6; RFC 9297, 2.1).

use hermes_http::server::Options;

use super::wire::{CONTROL, DECODER, ENCODER, PUSH, Wire, framed, get, number, settings};
use crate::content::hello;
use crate::server::Server;
use crate::{bounded, each};

/// The bytes on a stream of this type, and the code that the connection ends with.
type Case = (&'static str, u64, Vec<u8>, u64);

/// A control stream with these frames after SETTINGS.
fn control(name: &'static str, frames: Vec<u8>, code: u64) -> Case {
    (name, CONTROL, [settings(&[]), frames].concat(), code)
}

fn cases() -> Vec<Case> {
    let twice = [number(6), number(1), number(6), number(1)].concat();
    vec![
        (
            "a control stream begins with GOAWAY",
            CONTROL,
            framed(7, &[0]),
            0x10a,
        ),
        (
            "a control stream begins with an unknown frame",
            CONTROL,
            framed(0x21, &[]),
            0x10a,
        ),
        control("SETTINGS come twice", settings(&[]), 0x105),
        ("a setting comes twice", CONTROL, framed(4, &twice), 0x109),
        ("a setting of HTTP/2", CONTROL, settings(&[(2, 0)]), 0x109),
        (
            "SETTINGS_H3_DATAGRAM is 2",
            CONTROL,
            settings(&[(0x33, 2)]),
            0x109,
        ),
        (
            "SETTINGS_ENABLE_CONNECT_PROTOCOL is 2",
            CONTROL,
            settings(&[(8, 2)]),
            0x109,
        ),
        ("a setting is cut off", CONTROL, framed(4, &[0x33]), 0x106),
        (
            "SETTINGS are too long",
            CONTROL,
            [number(4), number(5000)].concat(),
            0x107,
        ),
        control("DATA on the control stream", framed(0, &[1]), 0x105),
        control("HEADERS on the control stream", framed(1, &[0, 0]), 0x105),
        control("a frame of HTTP/2", framed(6, &[0; 8]), 0x105),
        control("CANCEL_PUSH of no push", framed(3, &[0]), 0x108),
        control(
            "MAX_PUSH_ID shrinks",
            [framed(13, &[5]), framed(13, &[4])].concat(),
            0x108,
        ),
        control(
            "a GOAWAY grows",
            [framed(7, &[5]), framed(7, &[6])].concat(),
            0x108,
        ),
        control("GOAWAY has too much", framed(7, &[0, 0]), 0x106),
        control(
            "PRIORITY_UPDATE of no request stream",
            framed(0xf_0700, &[1]),
            0x108,
        ),
        control("PRIORITY_UPDATE of a push", framed(0xf_0701, &[0]), 0x108),
        control(
            "PRIORITY_UPDATE of a stream beyond the limit",
            framed(0xf_0700, &number(4 * 1000)),
            0x108,
        ),
        control("PRIORITY_UPDATE of nothing", framed(0xf_0700, &[]), 0x106),
        control(
            "PRIORITY_UPDATE that is too long",
            [number(0xf_0700), number(5000)].concat(),
            0x107,
        ),
        (
            "a control stream begins with PRIORITY_UPDATE",
            CONTROL,
            framed(0xf_0700, b"\0u=1"),
            0x10a,
        ),
        ("a push of a client", PUSH, number(0), 0x103),
        (
            "a capacity of the dynamic table",
            ENCODER,
            vec![0x3f, 0xbd, 0x01],
            0x201,
        ),
        (
            "an insertion",
            ENCODER,
            b"\xc0\x0fwww.example.com".to_vec(),
            0x201,
        ),
        ("a duplicate of nothing", ENCODER, vec![0x02], 0x201),
        (
            "a section acknowledged that needs it not",
            DECODER,
            vec![0x84],
            0x202,
        ),
        ("an increment of nothing", DECODER, vec![0x01], 0x202),
    ]
}

#[tokio::test]
async fn what_must_not_come_on_a_stream_ends_the_connection_with_its_code() {
    for (name, kind, bytes, code) in cases() {
        eprintln!("case: {name}");
        bounded(async {
            let server = Server::start(hello).await;
            let mut wire = Wire::dial(server.address).await;
            wire.uni(kind, &bytes).await;
            assert_eq!(wire.closed().await, code, "{name}");
        })
        .await;
    }
}

#[tokio::test]
async fn there_is_one_stream_of_a_kind_and_it_lasts() {
    each(&[CONTROL, ENCODER, DECODER], async |kind| {
        let begin = if kind == CONTROL {
            settings(&[])
        } else {
            Vec::new()
        };
        let server = Server::start(hello).await;
        let mut wire = Wire::dial(server.address).await;
        wire.uni(kind, &begin).await;
        wire.uni(kind, &begin).await;
        assert_eq!(wire.closed().await, 0x103);
        for ends in [Wire::end, Wire::reset] {
            let mut wire = Wire::dial(server.address).await;
            wire.uni(kind, &begin).await;
            // A reset can overtake the bytes before it, and then takes a stream away that no one knew.
            assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
            ends(&mut wire);
            assert_eq!(wire.closed().await, 0x104);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_not_known_is_passed_over() {
    bounded(async {
        let server = Server::start(hello).await;
        let mut wire = Wire::dial(server.address).await;
        let grease = 0x1f * 100 + 0x21;
        wire.uni(
            CONTROL,
            &[
                settings(&[(grease, 7), (0x40, 1)]),
                framed(grease, b"x"),
                framed(13, &[9]),
            ]
            .concat(),
        )
        .await;
        wire.uni(grease, b"whatever").await;
        wire.uni(ENCODER, &[0x20]).await;
        wire.uni(DECODER, &[0x48]).await;
        let request = [framed(grease, &[1; 100]), get(&[]), framed(grease, &[])].concat();
        assert_eq!(wire.request(&request, true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn datagrams_of_no_possible_stream_end_the_connection() {
    for datagram in [
        number(1 << 60),
        number((1 << 62) - 1),
        Vec::new(),
        vec![0x40],
    ] {
        bounded(async {
            let server = Server::start(hello).await;
            let wire = Wire::dial(server.address).await;
            wire.connection.send_datagrams([datagram.into()]);
            assert_eq!(wire.closed().await, 0x33);
        })
        .await;
    }
}

#[tokio::test]
async fn datagrams_of_streams_that_are_not_open_are_dropped() {
    bounded(async {
        let server = Server::start(hello).await;
        let wire = Wire::dial(server.address).await;
        for stream in [0, 5, (1 << 60) - 1] {
            wire.connection.send_datagrams([number(stream).into()]);
        }
        assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn floods_are_stopped() {
    bounded(async {
        let server = Server::start(hello).await;
        let mut wire = Wire::dial(server.address).await;
        wire.control(&framed(13, &[9]).repeat(3000)).await;
        assert_eq!(wire.closed().await, 0x107);

        let wire = Wire::dial(server.address).await;
        let _exchange = wire.request(&framed(0x21, &[]).repeat(1100), false).await;
        assert_eq!(wire.closed().await, 0x107);

        let wire = Wire::dial(server.address).await;
        while let Ok(mut stream) = wire.connection.open_uni().await {
            super::wire::send(&mut stream, &number(0x21)).await;
            let _ = stream.finish();
        }
        assert_eq!(wire.closed().await, 0x107);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_breaks_off_all_that_it_asks_for_is_sent_away() {
    bounded(async {
        let options = Options {
            streams: 10,
            ..Options::default()
        };
        let server = Server::with(options, async |mut offered: hermes_http::Offered| {
            offered.head.fields.clear();
            let (_, mut incoming, _responder) = offered.message();
            while let Some(Ok(_)) = incoming.frame().await {}
        })
        .await;
        let wire = Wire::dial(server.address).await;
        let begin = get(&[("content-length", "5")]);
        while let Ok((mut stream, mut recv)) = wire.connection.open_bi().await {
            super::wire::send(&mut stream, &begin).await;
            stream.reset(0x10c);
            recv.stop(0x10c);
        }
        assert_eq!(wire.closed().await, 0x107);
    })
    .await;
}

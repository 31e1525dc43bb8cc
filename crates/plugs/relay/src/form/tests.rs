//! The forms of messages and words.

use std::time::Instant;

use hermes_proto::fields::Fields;
use hermes_proto::relay::GapReason;
use http::{HeaderValue, header};

use super::*;
use crate::message::Part;

fn message(data: &'static [u8]) -> Arc<Message> {
    Arc::new(Message {
        sequence: 7,
        content_type: Some(Bytes::from_static(b"text/plain")),
        topic: None,
        expires: None,
        is_reliable: false,
        proof: None,
        came: Instant::now(),
        data: Bytes::from_static(data),
        part: Part::Whole,
    })
}

fn written(form: Form, data: &'static [u8]) -> String {
    let mut pieces = Vec::new();
    form.messages([message(data)].iter(), &mut pieces);
    String::from_utf8(pieces.concat()).unwrap()
}

fn said(form: Form, word: &Word<'_>) -> String {
    let mut output = BytesMut::new();
    form.word(word, &mut output);
    String::from_utf8(output.to_vec()).unwrap()
}

#[test]
fn a_message_has_the_bytes_of_its_form() {
    assert_eq!(written(Form::Octets, b"hi"), "hi");
    assert_eq!(written(Form::Lines, b"hi"), "hi\n");
    assert_eq!(written(Form::Lines, b"hi\n"), "hi\n");
    assert_eq!(
        written(Form::JsonLines, b"hi"),
        "{\"seq\":7,\"type\":\"text/plain\",\"data\":\"hi\"}\n"
    );
    assert!(written(Form::JsonLines, b"\xff").contains("\"base64\":\"/w==\""));
    assert_eq!(
        written(Form::Responses, b"hi"),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nHermes-Sequence: 7\r\n\r\nhi"
    );
}

#[test]
fn no_content_breaks_out_of_its_event() {
    let events = EventStream {
        epoch: 0xc0ffee,
        subscription: "s".into(),
    };
    let mut pieces = Vec::new();
    events.messages([message(b"a\n\nid: x\revent: y\r\nb")].iter(), &mut pieces);
    let text = String::from_utf8(pieces.concat()).unwrap();
    let wanted = "id: 00c0ffee.7.s\ndata: a\ndata: \ndata: id: x\ndata: event: y\ndata: b\n\n";
    assert_eq!(text, wanted);
}

#[test]
fn a_large_content_is_not_copied() {
    static LARGE: [u8; 4096] = [b'x'; 4096];
    let mut pieces = Vec::new();
    let message = message(&LARGE);
    Form::Native.messages([message.clone()].iter(), &mut pieces);
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1].as_ptr(), message.data.as_ptr());
}

#[test]
fn each_form_with_words_says_what_was_lost() {
    let gap = Word::Gap(Gap {
        count: 3,
        reason: GapReason::Full,
    });
    for form in [
        Form::EventStream,
        Form::JsonLines,
        Form::Responses,
        Form::Lines,
    ] {
        let text = said(form, &gap);
        assert!(text.contains('3') && text.contains("full"), "{text}");
        assert!(form.tells_gaps());
    }
    assert!(!Form::Octets.tells_gaps());
    assert_eq!(said(Form::Octets, &gap), "");
    let end = Word::End(End::Lagging, "9 bytes wait");
    assert_eq!(
        said(Form::EventStream, &end),
        "event: end\ndata: lagging: 9 bytes wait\n\n"
    );
}

#[test]
fn accept_chooses_the_form() {
    let form = |value: &'static str| {
        accepted(&Fields::from_iter([(
            header::ACCEPT,
            HeaderValue::from_static(value),
        )]))
    };
    assert_eq!(accepted(&Fields::new()), Some(Form::Lines));
    assert_eq!(form("*/*"), Some(Form::Lines));
    assert_eq!(form("text/event-stream"), Some(Form::EventStream));
    assert_eq!(
        form("text/event-stream, */*;q=0.1"),
        Some(Form::EventStream)
    );
    assert_eq!(
        form("application/hermes-adu, text/event-stream;q=.5"),
        Some(Form::Native)
    );
    assert_eq!(
        form("text/event-stream;q=0.2, application/x-ndjson"),
        Some(Form::JsonLines)
    );
    assert_eq!(
        form("application/http;msgtype=response"),
        Some(Form::Responses)
    );
    assert_eq!(form("text/html, */*;q=0.8"), Some(Form::Lines));
    assert_eq!(form("image/png"), None);
    assert_eq!(form("text/plain;q=0"), None);
}

//! Who may go on with a tunnel: the end that opened it, once with each ticket.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_proto::fields::Fields;
use hermes_proto::resumable::{Delivery, FIELD, Grant, Request, ResumableEnd, Ticket};
use hermes_proto::session_field::SessionValue;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};
use http::HeaderValue;

use super::row::END;

/// A near end that is not ours.
struct Near {
    raw: Raw,
    end: ResumableEnd,
}

impl Near {
    /// Says something by the tunnel, and hears it again.
    fn talk(&mut self, word: &str) {
        self.end.keep(word.as_bytes());
        let mut heard = Vec::new();
        while heard.len() < word.len() {
            while let Some(capsule) = self.end.poll_send() {
                self.raw.send(capsule);
            }
            let came = self.raw.until(|unread| !unread.is_empty());
            assert!(!came.is_empty(), "the path ended");
            self.end.handle_path(came.into()).unwrap();
            while let Some(delivery) = self.end.poll_deliver() {
                match delivery {
                    Delivery::Data(bytes) => heard.extend_from_slice(&bytes),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(heard, word.as_bytes());
    }
}

/// Sends a CONNECT with what is asked for: the connection, the status, and what is answered in the field.
fn connect(
    proxy: SocketAddr,
    target: SocketAddr,
    asks: &Request,
    fields: &str,
) -> (Raw, u16, Fields) {
    let mut asked = Fields::new();
    asks.write(&mut asked);
    let value = asked.get(FIELD).unwrap().to_str().unwrap().to_owned();

    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}{FIELD}: {value}\r\n\r\n"
    ));
    let head = raw.head();
    let answered = head.field(FIELD.as_str());
    let answered = answered.map(|value| (FIELD, HeaderValue::try_from(value).unwrap()));
    (raw, head.status(), Fields::from_iter(answered))
}

fn open(proxy: SocketAddr, target: SocketAddr, fields: &str) -> (Near, Grant) {
    let (raw, status, mut answered) = connect(proxy, target, &Request::New, fields);
    assert_eq!(status, 200);
    let grant = Grant::take(&mut answered).unwrap();
    let end = ResumableEnd::new(grant.session, grant.epoch);
    (Near { raw, end }, grant)
}

fn ticket(grant: &Grant, number: u32) -> Ticket {
    let mut ticket = Ticket {
        session: grant.session,
        epoch: grant.epoch,
        number,
        proof: [0; 32],
    };
    let proof = sign(&Key::new(HMAC_SHA256, &grant.key), &ticket.claim());
    ticket.proof.copy_from_slice(proof.as_ref());
    ticket
}

/// The status of a request to go on.
fn asked(proxy: SocketAddr, target: SocketAddr, ticket: Ticket, fields: &str) -> u16 {
    connect(proxy, target, &Request::Again(ticket), fields).1
}

fn resume(near: &mut Near, proxy: SocketAddr, target: SocketAddr, ticket: Ticket) {
    let (raw, status, mut answered) = connect(proxy, target, &Request::Again(ticket), "");
    assert_eq!(status, 200);
    assert_eq!(Request::take(&mut answered), Some(Request::New));
    near.end.resume();
    near.raw = raw;
}

#[test]
fn forged_and_guessed_tickets_are_refused_and_the_tunnel_goes_on() {
    let target = origins::tcp_echo();
    let end = Node::start(
        "end",
        &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{END}"),
    );
    let proxy = end.address("web");
    let to = target.address();
    let (mut near, grant) = open(proxy, to, "");
    let (_other, of_another) = open(proxy, to, "");
    near.talk("before");

    let good = ticket(&grant, 1);
    let forged = [
        Ticket { number: 2, ..good },
        Ticket {
            epoch: good.epoch ^ 1,
            ..good
        },
        Ticket {
            session: of_another.session,
            ..good
        },
        Ticket {
            session: [7; 16],
            ..good
        },
        Ticket {
            proof: [0; 32],
            ..good
        },
        Ticket {
            proof: ticket(&of_another, 1).proof,
            ..good
        },
    ];
    for forged in forged {
        assert_eq!(asked(proxy, to, forged, ""), 410);
    }
    near.talk("still here");

    resume(&mut near, proxy, to, good);
    near.talk("resumed");
    assert_eq!(target.connections(), 2);
}

#[test]
fn a_ticket_counts_once() {
    let target = origins::tcp_echo();
    let end = Node::start(
        "end",
        &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{END}"),
    );
    let proxy = end.address("web");
    let to = target.address();
    let (mut near, grant) = open(proxy, to, "");
    near.talk("before");

    resume(&mut near, proxy, to, ticket(&grant, 3));
    near.talk("after");
    for number in [3, 2, 1] {
        assert_eq!(
            asked(proxy, to, ticket(&grant, number), ""),
            410,
            "{number}"
        );
    }
    near.talk("not disturbed");
    resume(&mut near, proxy, to, ticket(&grant, 4));
    near.talk("again");
}

fn users_of(names: [&str; 2]) -> String {
    names
        .map(|name| format!("{name}:{}\n", bcrypt::hash("secret", 4).unwrap()))
        .concat()
}

#[test]
fn a_session_is_its_users_and_leads_to_its_target_alone() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, users_of(["alice", "bob"])).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let target = origins::tcp_echo();
    let other = origins::tcp_echo();

    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: users }} }} }} }}\n{END}"
    );
    let end = Node::start_in(folder, "end", &yaml, &[]);
    let proxy = end.address("web");
    let to = target.address();
    let as_user = |user: &str| {
        let credentials = STANDARD.encode(format!("{user}:secret"));
        format!("Proxy-Authorization: Basic {credentials}\r\n")
    };

    let (mut near, grant) = open(proxy, to, &as_user("alice"));
    near.talk("before");
    assert_eq!(asked(proxy, to, ticket(&grant, 1), &as_user("bob")), 410);
    assert_eq!(
        asked(proxy, other.address(), ticket(&grant, 2), &as_user("alice")),
        410
    );
    assert_eq!(asked(proxy, to, ticket(&grant, 3), ""), 407);
    near.talk("hers");
    assert_eq!(other.connections(), 0);

    assert_eq!(asked(proxy, to, ticket(&grant, 4), &as_user("alice")), 200);
}

#[test]
fn a_path_that_claims_what_was_not_sent_ends_the_tunnel() {
    let target = origins::tcp_echo();
    let end = Node::start(
        "end",
        &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{END}"),
    );
    let (mut near, _) = open(end.address("web"), target.address(), "");
    near.talk("before");
    // ACK of 16,383 bytes.
    near.raw.send(b"\xad\x7c\x51\xab\x02\x7f\xff");
    eventually_true("the tunnel has ended", || end.exchanges().is_empty());
    end.record(|record| {
        let reason = record["reason"].as_str().unwrap();
        reason.contains("acknowledges bytes that were not sent")
    });
}

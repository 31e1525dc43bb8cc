//! Many replies in one `multipart/mixed` (RFC 2046, 5.1.3).
//!
//! Each part has the reply's fields, and two of our own: `X-Hermes-Copy`, which endpoint it was, and `X-Hermes-Status`. A copy
//! without a reply has a part, too: its status is 502, 504 if the time was over, or 503 if the endpoint was not asked.
//!
//! Trailers are left out: a part has no place for them (RFC 2045, 3), and they must not become header fields of it unless
//! their definition allows that (RFC 9110, 6.5.1).

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use hermes_net::memory::Charge;
use hermes_proto::fields::Fields;
use hermes_proto::hop;
use hermes_rules::fields::is_reserved;
use http::StatusCode;

use super::copies::{NoReply, Reply};

/// Fields of a part that are ours to write.
const OWN: [&str; 3] = [
    "x-hermes-copy",
    "x-hermes-status",
    "content-transfer-encoding",
];

/// A delimiter that stands in no reply (RFC 2046, 5.1.1); `random` draws it.
pub(super) fn boundary(replies: &[Reply], mut random: impl FnMut() -> u64) -> String {
    loop {
        let boundary = format!("hermes-{:016x}{:016x}", random(), random());
        let stands_in = |content: &[u8]| {
            content
                .windows(boundary.len())
                .any(|window| window == boundary.as_bytes())
        };
        // A reply that contained the delimiter could pose as the replies of others.
        let taken = replies
            .iter()
            .any(|reply| matches!(&reply.outcome, Ok((_, content)) if stands_in(&content.data)));
        if !taken {
            return boundary;
        }
    }
}

/// All replies, one part each. Their contents are not copied.
pub(super) fn merge(replies: &[Reply], boundary: &str) -> VecDeque<Bytes> {
    let mut pieces = VecDeque::new();
    let mut out = BytesMut::new();
    for reply in replies {
        out.put_slice(format!("--{boundary}\r\nX-Hermes-Copy: {}\r\n", reply.label).as_bytes());
        match &reply.outcome {
            Ok((head, content)) => {
                part(&mut out, head.status, &head.fields);
                pieces.push_back(out.split().freeze());
                pieces.push_back(content.data.clone());
            }
            Err(NoReply { status, reason }) => {
                let mut fields = Fields::new();
                fields.insert(
                    "content-type",
                    http::HeaderValue::from_static("text/plain; charset=utf-8"),
                );
                part(&mut out, *status, &fields);
                out.put_slice(format!("{reason}\n").as_bytes());
            }
        }
        out.put_slice(b"\r\n");
    }

    out.put_slice(format!("--{boundary}--\r\n").as_bytes());
    pieces.push_back(out.freeze());
    pieces
}

/// The purpose of memory for replies.
pub(super) fn charges(replies: Vec<Reply>) -> Vec<Charge> {
    let contents = replies.into_iter().filter_map(|reply| reply.outcome.ok());
    contents.filter_map(|(_, content)| content.charge).collect()
}

fn part(out: &mut BytesMut, status: StatusCode, fields: &Fields) {
    let mut fields = fields.clone();
    // A connection field that cannot be read names nothing that could be kept.
    let _ = hop::strip(&mut fields);
    out.put_slice(format!("X-Hermes-Status: {}\r\n", status.as_u16()).as_bytes());
    for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        // The fields of a part are ASCII (RFC 2045, 3).
        out.extend(
            value
                .as_bytes()
                .iter()
                .map(|byte| if byte.is_ascii() { *byte } else { b'?' }),
        );
        out.put_slice(b"\r\n");
    }
    if !fields.contains_key("content-type") {
        out.put_slice(b"content-type: application/octet-stream\r\n");
    }
    out.put_slice(b"content-transfer-encoding: binary\r\n\r\n");
}

fn is_kept(name: &str) -> bool {
    !is_reserved(name) && !OWN.contains(&name)
}

#[cfg(test)]
mod tests {
    use hermes_http::ResponseHead;

    use super::*;
    use hermes_admit::buffered::Content;

    /// Fields and content of a response.
    type Said<'a> = (&'a [(&'static str, &'a str)], &'static str);

    fn reply(number: usize, outcome: Result<Said<'_>, &str>) -> Reply {
        let failed = |reason: &str| NoReply {
            status: StatusCode::BAD_GATEWAY,
            reason: reason.to_owned(),
        };
        let outcome = outcome.map_err(failed).map(|(fields, content)| {
            let mut head = ResponseHead::new(StatusCode::OK);
            for (name, value) in fields {
                head.fields
                    .append(*name, value.parse::<http::HeaderValue>().unwrap());
            }
            (head, Content::of(Bytes::from_static(content.as_bytes())))
        });
        let endpoint = format!("127.0.0.1:{number}");
        Reply {
            number,
            label: format!("shards/{number}"),
            upstream: "shards".into(),
            endpoint: endpoint.into(),
            outcome,
        }
    }

    #[test]
    fn a_part_has_the_fields_of_its_reply_but_not_those_of_its_connection() {
        let fields: &[_] = &[
            ("content-type", "a/b"),
            ("connection", "x-gone"),
            ("x-gone", "1"),
            ("x-hermes-status", "9"),
        ];
        let merged = merge(
            &[reply(0, Ok((fields, "one"))), reply(1, Err("refused"))],
            "B",
        );
        let expected = "--B\r\nX-Hermes-Copy: shards/0\r\nX-Hermes-Status: 200\r\ncontent-type: a/b\r\n\
            content-transfer-encoding: binary\r\n\r\none\r\n\
            --B\r\nX-Hermes-Copy: shards/1\r\nX-Hermes-Status: 502\r\ncontent-type: text/plain; charset=utf-8\r\n\
            content-transfer-encoding: binary\r\n\r\nrefused\n\r\n--B--\r\n";
        let merged: Vec<u8> = merged.into_iter().flatten().collect();
        assert_eq!(std::str::from_utf8(&merged).unwrap(), expected);
    }

    #[test]
    fn the_boundary_stands_in_no_reply() {
        let taken = reply(0, Ok((&[], "x hermes-00000000000000010000000000000002 y")));
        let mut next = 0;
        let drawn = boundary(&[taken], || {
            next += 1;
            next
        });
        assert_eq!(drawn, "hermes-00000000000000030000000000000004");
    }
}

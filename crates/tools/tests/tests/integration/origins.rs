//! One object from several origins, in pieces.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_tests::curl::Output;
use hermes_tests::nginx::Nginx;
use hermes_tests::origins::{self, Answer, Origin, Question};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};

/// Bytes of an object: 64 pieces.
const LENGTH: u64 = 4 << 20;

/// Bytes of a piece.
const PIECE: u64 = 64 << 10;

/// How an origin answers the piece that begins at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Well,
    Slow,
    /// Not at all.
    Silent,
    /// With an error.
    Failing,
    /// Another version, with a tag of its own.
    Changed,
    /// Another version, with the same tag.
    Lying,
}

/// The object, or another version of it.
fn object(version: char) -> Arc<str> {
    let mut text = String::with_capacity(LENGTH as usize);
    let mut number = 0;
    while (text.len() as u64) < LENGTH {
        text.push_str(&format!("{version}{number:07}"));
        number += 1;
    }
    text.into()
}

/// The first and the last byte that a request asks for.
fn range(question: &Question) -> Option<(u64, u64)> {
    let range = question.request.field("range")?;
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let last = last.parse().unwrap_or(LENGTH - 1).min(LENGTH - 1);
    Some((first.parse().ok()?, last))
}

/// An origin that answers each piece as `way` says of its place.
fn origin(
    digest: Option<&'static str>,
    way: impl Fn(u64) -> Way + Send + Sync + 'static,
) -> Origin<Question> {
    let (right, other) = (object('a'), object('b'));
    origins::deciding(move |question| {
        let (first, last) = range(question).unwrap_or((0, LENGTH - 1));
        let way = way(first);
        let (tag, content) = match way {
            Way::Changed => ("\"two\"", &other),
            Way::Lying => ("\"one\"", &other),
            _ => ("\"one\"", &right),
        };
        let mut answer = match way {
            Way::Silent => Answer::new(0, &[]),
            Way::Failing => Answer::new(503, &[]),
            _ => Answer::new(
                206,
                &[
                    ("etag", tag),
                    ("content-range", &format!("bytes {first}-{last}/{LENGTH}")),
                ],
            ),
        };
        if let Some(digest) = digest {
            answer.fields.push(("repr-digest", digest.to_owned()));
        }
        answer.content = content[first as usize..=last as usize].to_owned();
        if way == Way::Slow {
            answer.after = Duration::from_millis(200);
        }
        answer
    })
}

/// A node in front of an origin and a CDN.
fn node(own: std::net::SocketAddr, cdn: std::net::SocketAddr) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         functions: {{ any: {{ origins: {{ others: [cdn.test], piece: 64KiB, stall: 500ms }} }} }}\n\
         routes:\n  - {{ match: {{ target: cdn.test }}, terminate: \"{cdn}\" }}\n  \
         - {{ match: {{ target: origin.test }}, terminate: \"{own}\", through: [any] }}\n"
    );
    Node::start("origins", &yaml)
}

fn told(node: &Node, index: usize, key: &str) -> u64 {
    node.status()["plugs"]["origins"]["origins"][index][key]
        .as_u64()
        .unwrap_or(0)
}

/// Pieces between two places that an origin was asked for.
fn pieces(origin: &Origin<Question>, from: u64, to: u64) -> usize {
    let seen = origin.seen();
    let places = seen.iter().filter_map(range);
    places
        .filter(|(first, _)| (from..to).contains(first))
        .count()
}

fn fetch(node: &Node) -> Output {
    let proxy = node.url("web");
    curl(&[
        "-x",
        &proxy,
        "-H",
        "cookie: secret=1",
        "http://origin.test/film",
    ])
}

/// What came of the object, and whether all of it did.
fn fetch_raw(node: &Node) -> (Vec<u8>, bool) {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(
        "GET http://origin.test/film HTTP/1.1\r\nHost: origin.test\r\nConnection: close\r\n\r\n",
    );
    let head = raw.head();
    assert_eq!(head.status(), 200, "{head:?}");
    let (content, _) = raw.rest();
    let is_all = content.len() as u64 == LENGTH;
    (content, is_all)
}

#[test]
fn a_transfer_that_runs_moves_to_the_cdn_and_back() {
    let third = LENGTH / 3;
    let own = origin(
        None,
        move |at| if at < 2 * third { Way::Slow } else { Way::Well },
    );
    let cdn = origin(
        None,
        move |at| if at < 2 * third { Way::Well } else { Way::Slow },
    );
    let node = node(own.address(), cdn.address());
    let got = fetch(&node);
    assert_eq!(got.status, 200);
    assert!(got.text() == *object('a'), "{} bytes", got.text().len());
    assert_eq!(got.field("content-length").unwrap(), LENGTH.to_string());
    assert_eq!(got.field("etag").unwrap(), "\"one\"");

    let first = 2 * third;
    let [own_first, cdn_first] = [&own, &cdn].map(|origin| pieces(origin, 0, first));
    assert!(
        cdn_first > 2 * own_first,
        "{cdn_first} of the CDN, {own_first} of the origin"
    );
    let [own_last, cdn_last] = [&own, &cdn].map(|origin| pieces(origin, first, LENGTH));
    assert!(
        own_last > cdn_last,
        "{cdn_last} of the CDN, {own_last} of the origin"
    );
    let credentials = cdn
        .seen()
        .iter()
        .any(|question| question.request.field("cookie").is_some());
    assert!(!credentials, "credentials are the origin's");
    assert!(
        own.seen()
            .iter()
            .all(|question| question.request.field("cookie").is_some())
    );
}

#[test]
fn an_origin_that_falls_silent_or_fails_is_followed_by_another() {
    for way in [Way::Silent, Way::Failing] {
        let own = origin(
            None,
            move |at| if at < LENGTH / 4 { Way::Well } else { way },
        );
        let cdn = origin(None, |_| Way::Well);
        let node = node(own.address(), cdn.address());
        let got = fetch(&node);
        assert!(
            got.text() == *object('a'),
            "{way:?}: {} bytes",
            got.text().len()
        );
        assert!(told(&node, 0, "failures") > 0, "{way:?}");
        assert!(pieces(&cdn, LENGTH / 2, LENGTH) > 20, "{way:?}");
    }
}

#[test]
fn an_object_that_its_origin_cannot_send_at_all_comes_from_another() {
    for way in [Way::Silent, Way::Failing] {
        let (own, cdn) = (origin(None, move |_| way), origin(None, |_| Way::Well));
        let got = fetch(&node(own.address(), cdn.address()));
        assert!(got.text() == *object('a'), "{way:?}: {}", got.status);
    }
    // Where no one has it, the origin of the route says why.
    let failing = origin(None, |_| Way::Failing);
    let got = fetch(&node(failing.address(), failing.address()));
    assert_eq!(got.status, 503);
}

#[test]
fn no_byte_of_another_version_is_mixed_in() {
    let own = origin(None, |_| Way::Well);
    let cdn = origin(None, |_| Way::Changed);
    let started = node(own.address(), cdn.address());
    assert!(fetch(&started).text() == *object('a'));
    assert!(told(&started, 1, "unlike") > 0);

    // Both change in the midst: nothing is left to go on with.
    let change = |at| {
        if at < LENGTH / 2 {
            Way::Well
        } else {
            Way::Changed
        }
    };
    let (own, cdn) = (origin(None, change), origin(None, change));
    let (content, is_all) = fetch_raw(&node(own.address(), cdn.address()));
    assert!(!is_all && !content.is_empty());
    assert!(
        object('a').as_bytes().starts_with(&content),
        "{} bytes",
        content.len()
    );
}

#[test]
fn a_validator_that_lies_is_found_by_the_digest_of_the_whole() {
    // Of the right object: printf 'a%07d' {0..524287} | openssl dgst -sha256 -binary | base64
    let digest = "sha-256=:cmWDKdNF+z4iYMEnm0EINbI+ysRVbw2ow7RcSKU88Ik=:";
    let own = origin(Some(digest), |_| Way::Well);
    let good = origin(Some(digest), |_| Way::Well);
    assert!(fetch(&node(own.address(), good.address())).text() == *object('a'));

    let liar = origin(Some(digest), |_| Way::Lying);
    let (content, is_all) = fetch_raw(&node(own.address(), liar.address()));
    assert!(
        !is_all,
        "a client takes {} bytes for the object",
        content.len()
    );
}

#[test]
fn requests_for_something_else_than_a_whole_object_pass_as_they_are() {
    let asked = Arc::new(AtomicU64::new(0));
    let own = origins::http();
    let cdn = origins::deciding({
        let asked = asked.clone();
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Answer::new(404, &[])
        }
    });
    let node = node(own.address(), cdn.address());
    let proxy = node.url("web");
    let ask = |arguments: &[&str]| {
        let mut all = vec!["-x", proxy.as_str()];
        all.extend(arguments);
        curl(&all)
    };
    let got = ask(&["-d", "an order", "http://origin.test/x"]);
    assert_eq!(got.json()["body"], "an order");
    assert_eq!(
        ask(&["-r", "5-9", "http://origin.test/bytes/100"]).status,
        200
    );
    // An origin without ranges sends the whole at once.
    let whole = ask(&["http://origin.test/bytes/300000"]);
    assert_eq!((whole.status, whole.text().len()), (200, 300_000));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn an_nginx_that_dies_in_a_transfer_is_followed_by_another() {
    let file = |folder: &Path| {
        let path = folder.join("film");
        std::fs::write(&path, object('a').as_bytes()).unwrap();
        // Its tag is made of time and length.
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    let mut own = Nginx::start("limit_rate 1m;", file);
    let cdn = Nginx::start("", file);
    let node = node(own.address(), cdn.address());
    let mut raw = Raw::connect(node.address("web"));
    raw.send(
        "GET http://origin.test/film HTTP/1.1\r\nHost: origin.test\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(raw.head().status(), 200);
    let begun = raw.exactly(PIECE as usize);
    own.kill();
    let (rest, _) = raw.rest();
    let content = [begun, rest].concat();
    assert!(content == object('a').as_bytes(), "{} bytes", content.len());
    assert!(told(&node, 1, "bytes") > LENGTH / 2);
}

#[test]
fn the_example_of_the_page_does_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/origins.md");
    let page = std::fs::read_to_string(page).unwrap();
    let yaml = page.split("```yaml\n").nth(1).unwrap();
    let yaml = yaml.split("```").next().unwrap();
    let file = |folder: &Path| {
        let path = folder.join("film");
        std::fs::write(&path, object('a').repeat(5)).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
    };
    // The rates of the page.
    let own = Nginx::start("limit_rate 2m;", file);
    let cdn = Nginx::start("limit_rate 0;", file);
    let yaml = yaml
        .replace("version: 1\n", "")
        .replace(":3128", ":0")
        .replace("127.0.0.1:54322", &cdn.address().to_string())
        .replace("127.0.0.1:54321", &own.address().to_string());
    let node = Node::start("example", &yaml);
    let got = curl(&["-x", &node.url("web"), "http://film.test/film"]);
    assert!(got.text() == object('a').repeat(5));
    let [of_origin, of_cdn] = [0, 1].map(|index| told(&node, index, "bytes"));
    assert!(of_cdn > 3 * of_origin, "{of_origin} and {of_cdn}");
}

//! Parts of contents that clients ask for one after the other: whole for the next one (RFC 9111, section 3.4).

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl};

use super::purge::purged;
use super::{is_hit, node};

/// Bytes of a film, and those after which a whole answer breaks off.
const LENGTH: usize = 1_000_000;
const CUT: usize = 600_000;

/// An origin of one film, whose whole breaks off the first time that it is asked for.
struct Films {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    /// The ranges that were asked for.
    ranges: Arc<Mutex<Vec<String>>>,
}

/// What becomes of the film after the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    /// It stays.
    Same,
    /// It is another one, with another tag.
    Other,
    /// It is another one, and parts of it are sent whatever their condition says.
    OtherUnasked,
    /// Parts of it begin elsewhere than asked for.
    Shifted,
    /// No part of it can be had.
    NoParts,
}

impl Films {
    fn start() -> Self {
        Self::start_with(Later::Same)
    }

    fn start_with(later: Later) -> Self {
        let ranges = Arc::<Mutex<Vec<String>>>::default();
        let seen = ranges.clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<AtomicUsize>::default();
        let count = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = count.clone();
                let seen = seen.clone();
                thread::spawn(move || {
                    let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
                    let _ = answer(
                        stream,
                        &seen,
                        if is_first { Later::Same } else { later },
                        is_first,
                    );
                });
            }
        });
        Self {
            address,
            requests,
            ranges,
        }
    }

    fn asked(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn get(&self, node: &Node, arguments: &[&str]) -> curl::Output {
        let proxy = node.url("web");
        let url = format!("http://{}/film", self.address);
        let mut all = vec!["-x", proxy.as_str()];
        all.extend(arguments);
        all.push(&url);
        curl(&all)
    }
}

fn film() -> Vec<u8> {
    (0..LENGTH).map(|at| b'a' + (at / 7 % 26) as u8).collect()
}

fn other_film() -> Vec<u8> {
    film().to_ascii_uppercase()
}

/// Answers one request, and closes the connection: a range as it is asked for, the first whole but for its end.
fn answer(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    later: Later,
    is_first: bool,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut range = None;
    let mut condition = None;
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        let line = line.to_ascii_lowercase();
        if let Some(asked) = line.strip_prefix("range: bytes=") {
            let (first, last) = asked.split_once('-').unwrap();
            let last = last.parse().unwrap_or(LENGTH - 1);
            range = Some((first.parse::<usize>().unwrap(), last));
            seen.lock().unwrap().push(asked.to_owned());
        }
        if let Some(tag) = line.strip_prefix("if-range: ") {
            condition = Some(tag.to_owned());
        }
    }

    let is_other = matches!(later, Later::Other | Later::OtherUnasked);
    let (content, tag) = match is_other {
        true => (other_film(), "\"other\""),
        false => (film(), "\"film\""),
    };
    if later == Later::Other && condition.is_some_and(|condition| condition != tag) {
        range = None;
    }
    if later == Later::Shifted {
        range = range.map(|(first, last)| (first + 1, last));
    }
    let fields = format!("Cache-Control: max-age=60\r\nETag: {tag}\r\nConnection: close\r\n");
    match range {
        Some(_) if later == Later::NoParts => {
            write!(
                stream,
                "HTTP/1.1 416 Range Not Satisfiable\r\n{fields}Content-Length: 0\r\n\r\n"
            )
        }
        Some((first, last)) => {
            let length = last + 1 - first;
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {first}-{last}/{LENGTH}\r\nContent-Length: {length}\r\n\r\n"
            )?;
            stream.write_all(&content[first..=last])
        }
        None => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\n{fields}Content-Length: {LENGTH}\r\n\r\n"
            )?;
            stream.write_all(if is_first { &content[..CUT] } else { &content })
        }
    }
}

/// That the whole film is stored soon, and no one asked the origin for it.
fn is_whole(node: &Node, films: &Films) {
    eventually_true("it is stored", || {
        node.status()["plugs"]["cache"]["responses"] == 1
    });
    let asked = films.asked();
    let got = films.get(node, &[]);
    assert!(is_hit(&got), "{:?}", got.field("cache-status"));
    assert_eq!(got.status, 200);
    assert!(got.text().as_bytes() == film(), "another film");
    assert_eq!(got.field("content-range"), None);
    let part = films.get(node, &["-r", "900000-900009"]);
    assert_eq!(part.status, 206);
    assert!(part.text().as_bytes() == &film()[900_000..900_010]);
    assert_eq!(films.asked(), asked);
}

#[test]
fn ranges_that_overlap_make_a_whole_content_in_any_order() {
    let films = Films::start();
    let node = node("");
    for range in ["700000-", "0-300000", "250000-700000"] {
        let got = films.get(&node, &["-r", range]);
        assert_eq!(got.status, 206);
        assert!(!is_hit(&got));
    }
    assert_eq!(films.asked(), 3);
    is_whole(&node, &films);
}

#[test]
fn a_content_that_broke_off_is_whole_once_someone_has_asked_for_the_rest() {
    let films = Films::start();
    let node = node("");
    let broken = films.get(&node, &[]);
    assert_ne!(broken.exit, 0, "it is not whole");
    eventually_true("it is not stored", || {
        node.status()["plugs"]["cache"]["responses"] == 0
    });
    // As a client resumes it.
    let rest = format!("{}-", broken.body.len());
    assert_eq!(films.get(&node, &["-r", &rest]).status, 206);
    is_whole(&node, &films);
}

#[test]
fn a_request_for_all_of_it_asks_the_next_hop_for_the_rest_alone() {
    let films = Films::start();
    let node = node("");
    let broken = films.get(&node, &[]);
    assert_ne!(broken.exit, 0, "it is not whole");
    eventually_true("it is not stored", || {
        node.status()["plugs"]["cache"]["responses"] == 0
    });
    let got = films.get(&node, &[]);
    assert_eq!((got.status, got.exit), (200, 0), "{got:?}");
    assert!(got.text().as_bytes() == film(), "another film");
    assert_eq!(got.field("content-length"), Some(LENGTH.to_string()));
    assert_eq!(got.field("content-range"), None);
    let status = got.field("cache-status").unwrap();
    assert!(
        status.contains("fwd=partial") && status.contains("stored"),
        "{status}"
    );
    // Bytes that were within the node when the stream was reset are lost with it.
    let ranges = films.ranges.lock().unwrap().clone();
    let [range] = &ranges[..] else {
        panic!("{ranges:?}");
    };
    let first: usize = range.trim_end_matches('-').parse().unwrap();
    assert!((CUT / 2..=CUT).contains(&first), "{range}");
    is_whole(&node, &films);
}

#[test]
fn the_beginning_of_another_content_is_never_put_before_the_rest_of_one() {
    for later in [
        Later::Other,
        Later::OtherUnasked,
        Later::Shifted,
        Later::NoParts,
    ] {
        let films = Films::start_with(later);
        let node = node("");
        let broken = films.get(&node, &[]);
        assert_ne!(broken.exit, 0, "it is not whole");
        eventually_true("it is not stored", || {
            node.status()["plugs"]["cache"]["responses"] == 0
        });
        let expected = match later {
            Later::Other | Later::OtherUnasked => other_film(),
            _ => film(),
        };
        for _ in 0..2 {
            let got = films.get(&node, &[]);
            assert_eq!((got.status, got.exit), (200, 0), "{later:?}: {got:?}");
            assert!(got.text().as_bytes() == expected, "{later:?}");
        }
        // The first of these asked for the rest, and all of it where there was none; the second was a hit.
        let asked = if later == Later::Other { 2 } else { 3 };
        assert_eq!(films.asked(), asked, "{later:?}");
    }
}

#[test]
fn a_purge_forgets_parts_as_well() {
    let films = Films::start();
    let node = node("");
    films.get(&node, &["-r", "0-500000"]);
    purged(&node, &["--all"]);
    films.get(&node, &["-r", "500001-"]);
    let got = films.get(&node, &["-r", "0-9"]);
    assert!(!is_hit(&got), "{got:?}");
    assert_eq!(node.status()["plugs"]["cache"]["responses"], 0);
}

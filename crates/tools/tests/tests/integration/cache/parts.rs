//! Parts of contents that clients ask for one after the other: whole for the next one (RFC 9111, section 3.4).

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl};

use super::purge::purged;
use super::{is_hit, node};

/// Bytes of a film, and those after which a whole answer breaks off.
const LENGTH: usize = 100_000;
const CUT: usize = 60_000;

/// An origin of films: the path says the entity tag and the letter that they are made of, as `/a`.
struct Films {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Films {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<AtomicUsize>::default();
        let count = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = count.clone();
                thread::spawn(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = answer(stream);
                });
            }
        });
        Self { address, requests }
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

/// Answers one request, and closes the connection: a range as it is asked for, the whole but for its end.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut range = None;
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        let line = line.to_ascii_lowercase();
        if let Some(asked) = line.strip_prefix("range: bytes=") {
            let (first, last) = asked.split_once('-').unwrap();
            let last = last.parse().unwrap_or(LENGTH - 1);
            range = Some((first.parse::<usize>().unwrap(), last));
        }
    }

    let fields = "Cache-Control: max-age=60\r\nETag: \"film\"\r\nConnection: close\r\n";
    match range {
        Some((first, last)) => {
            let length = last + 1 - first;
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {first}-{last}/{LENGTH}\r\nContent-Length: {length}\r\n\r\n"
            )?;
            stream.write_all(&film()[first..=last])
        }
        None => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\n{fields}Content-Length: {LENGTH}\r\n\r\n"
            )?;
            stream.write_all(&film()[..CUT])
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
    let part = films.get(node, &["-r", "90000-90009"]);
    assert_eq!(part.status, 206);
    assert!(part.text().as_bytes() == &film()[90_000..90_010]);
    assert_eq!(films.asked(), asked);
}

#[test]
fn ranges_that_overlap_make_a_whole_content_in_any_order() {
    let films = Films::start();
    let node = node("");
    for range in ["70000-", "0-30000", "25000-70000"] {
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
fn a_purge_forgets_parts_as_well() {
    let films = Films::start();
    let node = node("");
    films.get(&node, &["-r", "0-50000"]);
    purged(&node, &["--all"]);
    films.get(&node, &["-r", "50001-"]);
    let got = films.get(&node, &["-r", "0-9"]);
    assert!(!is_hit(&got), "{got:?}");
    assert_eq!(node.status()["plugs"]["cache"]["responses"], 0);
}

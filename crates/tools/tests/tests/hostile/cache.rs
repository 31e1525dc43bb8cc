//! Attacks on the cache: on the share of another user, on its disk, and on the signatures of its URLs. A bystander of another user and address
//! is served meanwhile.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermes_tests::curl::Output;
use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Answer, Origin, Question};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, program};

use crate::standing::MIB;

/// Memory of a node under any attack.
const MEMORY: usize = 256 * MIB;

/// The longest time of a request of the bystander.
const SLOWEST: Duration = Duration::from_millis(250);

/// The address of the bystander.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Responses of the attacker, which are ten times the memory and the disk, and their bytes.
const RESPONSES: usize = 320;
const BYTES: usize = 64 * 1024;

/// An origin whose answers say their path in each line, and may be stored.
fn origin() -> Origin<Question> {
    origins::deciding(|question| Answer {
        content: content(&question.request.path),
        ..Answer::new(200, &[("cache-control", "max-age=3600")])
    })
}

/// The content of a path.
fn content(path: &str) -> String {
    let line = format!("{path} ");
    line.repeat(BYTES / line.len() + 1)[..BYTES].to_owned()
}

/// A node with a cache in memory and in `folder`, and listeners of two users.
fn node(origin: &Origin<Question>, folder: &Path, memory: &str) -> Node {
    let yaml = format!(
        "listeners: {{ alice: {{ http: 127.0.0.1:0, user: alice }}, mallory: {{ http: 127.0.0.1:0, user: mallory }} }}\n\
         plugs: {{ cache: {{ memory: {memory}, disk: {{ path: {}, bytes: 2MiB }} }} }}\n\
         routes: [ {{ terminate: \"{}\", through: [cache] }} ]\n",
        folder.display(),
        origin.address()
    );
    Node::start("shop", &yaml)
}

fn get(node: &Node, user: &str, path: &str) -> Output {
    let got = curl(&["-x", &node.url(user), &format!("http://site{path}")]);
    assert_eq!(got.status, 200, "{got:?}");
    assert!(got.text() == content(path), "another content for {path}");
    got
}

fn is_hit(got: &Output) -> bool {
    got.field("cache-status").unwrap().contains("hermes; hit")
}

/// The files of this kind, in the order of their numbers.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let of_kind = |path: &PathBuf| path.extension().is_some_and(|end| end == ending);
    let mut all: Vec<_> = all.filter(of_kind).collect();
    all.sort();
    all
}

/// Requests of the bystander for this until the attack has ended: none fails, and the slowest of them is told.
fn bystander(at: SocketAddr, url: &str, ended: &AtomicBool) -> Duration {
    let host = url.split('/').nth(2).unwrap();
    let ask = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut slowest = Duration::ZERO;
    while !ended.load(Ordering::SeqCst) {
        let begin = Instant::now();
        let mut raw = Raw::connect_from(SocketAddr::from((SOURCE, 0)), at);
        raw.send(&ask);
        assert_eq!(raw.head().status(), 200);
        raw.rest();
        slowest = slowest.max(begin.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    slowest
}

/// Attacks while the bystander asks for a stored response.
fn beside_bystander(node: &Node, url: &str, attack: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    let slowest = thread::scope(|scope| {
        let asking = scope.spawn(|| bystander(node.address("alice"), url, &ended));
        attack();
        ended.store(true, Ordering::SeqCst);
        asking.join().unwrap()
    });
    assert!(slowest < SLOWEST, "{slowest:?}");
    assert!(node.peak() < MEMORY, "{} bytes", node.peak());
}

#[test]
fn a_user_who_fills_memory_and_disk_evicts_no_one_elses_share() {
    let origin = origin();
    let folder = tempfile::tempdir().unwrap();
    let node = node(&origin, folder.path(), "2MiB");
    let own = ["/a", "/b", "/c", "/d"];
    for path in own {
        get(&node, "alice", path);
    }
    eventually_true("they are on disk", || {
        files(folder.path(), "head").len() == own.len()
    });

    beside_bystander(&node, "http://site/a", || {
        let flood = |part: usize| {
            let at = node.address("mallory");
            for number in (part..RESPONSES).step_by(4) {
                let mut raw = Raw::connect(at);
                // New resources, variants of one, and the methods by which other caches are purged.
                let (method, path) = match number % 4 {
                    0 => ("PURGE", number),
                    1 => ("GET", 0),
                    _ => ("GET", number),
                };
                raw.send(format!(
                    "{method} http://site/{path} HTTP/1.1\r\nHost: site\r\nX-Other: {number}\r\nConnection: close\r\n\r\n"
                ));
                assert_eq!(raw.head().status(), 200);
                raw.rest();
            }
        };
        thread::scope(|scope| {
            for part in 0..4 {
                scope.spawn(move || flood(part));
            }
        });
    });
    for path in own {
        assert!(is_hit(&get(&node, "alice", path)), "{path}");
    }
    let disk = &node.status()["plugs"]["cache"]["disk"];
    assert!(disk["bytes"].as_u64().unwrap() <= 2 * MIB as u64, "{disk}");
}

#[test]
fn files_that_are_damaged_cut_or_swapped_while_it_runs_are_never_given() {
    let origin = origin();
    let folder = tempfile::tempdir().unwrap();
    let node = node(&origin, folder.path(), "256KiB");
    let paths: Vec<_> = (0..12).map(|at| format!("/{at}")).collect();
    for (at, path) in paths.iter().enumerate() {
        get(&node, "mallory", path);
        eventually_true("it is on disk", || {
            files(folder.path(), "head").len() == at + 1
        });
    }
    let contents = files(folder.path(), "content");
    get(&node, "alice", "/calm");

    let swap = |one: &Path, other: &Path| {
        let aside = folder.path().join("aside");
        fs::rename(one, &aside).unwrap();
        fs::rename(other, one).unwrap();
        fs::rename(&aside, other).unwrap();
    };
    let open = |at: usize| OpenOptions::new().write(true).open(&contents[at]).unwrap();
    beside_bystander(&node, "http://site/calm", || {
        swap(&contents[0], &contents[1]);
        open(2).set_len(100).unwrap();
        File::create(&contents[3]).unwrap();
        fs::remove_file(&contents[4]).unwrap();
        fs::create_dir(&contents[4]).unwrap();
        open(5).write_all_at(b"/wrong", 30_000).unwrap();
        let length = open(6).metadata().unwrap().len();
        open(6).write_all_at(&[0; 1000], length).unwrap();
        fs::set_permissions(&contents[7], fs::Permissions::from_mode(0o0)).unwrap();
        fs::remove_file(&contents[8]).unwrap();
        let heads = files(folder.path(), "head");
        swap(&heads[9], &heads[10]);
        // Each is asked for twice: the second time it may be stored again.
        for path in paths.iter().chain(&paths) {
            get(&node, "mallory", path);
        }
    });
}

/// An origin whose partial answers lie, by the path, and whose whole ones are true.
fn lying_about_ranges() -> Origin<Question> {
    origins::deciding(|question| {
        let path = question.request.path.as_str();
        let fields = [
            ("cache-control", "public, max-age=3600"),
            ("etag", "\"one\""),
        ];
        let Some(range) = question.request.field("range") else {
            return Answer {
                content: "0123456789".to_owned(),
                ..Answer::new(200, &fields)
            };
        };
        let is_first = range == "bytes=0-4";
        let (content, place) = match (path, is_first) {
            ("/other-bytes", true) => ("01234x", "bytes 0-5/10"),
            ("/other-length", true) => ("01234", "bytes 0-4/12"),
            ("/too-long", true) => ("01234567", "bytes 0-4/10"),
            ("/huge", true) => ("01234", "bytes 0-4/18446744073709551615"),
            ("/weak", true) => ("01234", "bytes 0-4/10"),
            ("/unknown", true) => ("01234", "bytes 0-4/*"),
            (_, true) => ("01234", "bytes 0-4/10"),
            (_, false) => ("56789", "bytes 5-9/10"),
        };
        let tag = match (path, is_first) {
            ("/other-tag", true) => "\"other\"",
            ("/weak", _) => "W/\"one\"",
            _ => "\"one\"",
        };
        Answer {
            content: content.to_owned(),
            ..Answer::new(
                206,
                &[
                    ("cache-control", "public, max-age=3600"),
                    ("etag", tag),
                    ("content-range", place),
                ],
            )
        }
    })
}

#[test]
fn ranges_that_lie_make_no_content_and_many_of_them_take_no_room_of_others() {
    let origin = lying_about_ranges();
    let folder = tempfile::tempdir().unwrap();
    let node = node(&origin, folder.path(), "2MiB");
    let part = |user: &str, path: &str, range: &str| {
        let url = format!("http://site{path}");
        curl(&["-x", &node.url(user), "-r", range, &url])
    };
    let whole = |user: &str, path: &str| {
        let got = curl(&["-x", &node.url(user), &format!("http://site{path}")]);
        assert_eq!(
            (got.status, got.text().as_str()),
            (200, "0123456789"),
            "{path}: {got:?}"
        );
        is_hit(&got)
    };
    whole("alice", "/calm");
    part("alice", "/own", "0-4");

    beside_bystander(&node, "http://site/calm", || {
        let lies = [
            "/other-bytes",
            "/other-length",
            "/other-tag",
            "/too-long",
            "/huge",
            "/weak",
            "/unknown",
        ];
        for path in lies {
            for range in ["0-4", "5-9", "0-4", "5-9"] {
                assert_eq!(part("mallory", path, range).status, 206);
            }
            assert!(!whole("mallory", path), "{path}");
        }
        let mut raw = Raw::connect(node.address("mallory"));
        for number in 0..500 {
            raw.send(format!(
                "GET http://site/{number} HTTP/1.1\r\nHost: site\r\nRange: bytes=0-4\r\n\r\n"
            ));
            assert_eq!(raw.response().0.status(), 206);
        }
    });

    let responses = || node.status()["plugs"]["cache"]["responses"].as_u64();
    let before = responses();
    assert_eq!(part("alice", "/own", "5-9").status, 206);
    eventually_true("her parts are whole", || responses() > before);
    assert!(whole("alice", "/own"));
}

#[test]
fn wrong_signatures_pass_nothing_and_cost_others_nothing() {
    let origin = origin();
    let folder = tempfile::tempdir().unwrap();
    let mut good = String::new();
    for name in ["0.key", "1.key", "2.key", "3.key"] {
        let key = folder.path().join(name);
        let said = program::run(&["sign", "http://site/film", "--key", key.to_str().unwrap()]);
        said.stdout.trim().clone_into(&mut good);
    }
    let yaml = format!(
        "listeners: {{ alice: {{ http: 127.0.0.1:0, user: alice }}, web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ signed: {{ key_file: [0.key, 1.key, 2.key, 3.key] }}, terminate: \"{}\", through: [cache] }} ]\n",
        origin.address()
    );
    let node = Node::start_in(folder, "shop", &yaml, &[]);
    assert_eq!(curl(&["-x", &node.url("alice"), &good]).status, 200);
    origin.forget();

    beside_bystander(&node, &good, || {
        let mut raw = Raw::connect(node.address("web"));
        let long = "a".repeat(50_000);
        let (_, signature) = good.split_once('=').unwrap();
        for number in 0..500 {
            raw.send(format!(
                "GET http://site/film?{number}{long}&signature={signature} HTTP/1.1\r\nHost: site\r\n\r\n"
            ));
            assert_eq!(raw.response().0.status(), 403);
        }
    });
    let seen = origin.seen();
    assert!(seen.is_empty(), "{seen:?}");
}

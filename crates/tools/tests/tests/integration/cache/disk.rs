//! Stored responses on disk: after restarts, kills, damages, purges.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, program};

use super::is_hit;

/// An origin whose answers are told apart: each has its path in every line. Its last segment is the length.
struct Numbered {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Numbered {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let counted = counted.clone();
                thread::spawn(move || drop(serve(stream.unwrap(), &counted)));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn serve(stream: TcpStream, counted: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        line.clear();
        counted.fetch_add(1, Ordering::Relaxed);
        let content = content(&path);
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=3600\r\nETag: \"{path}\"\r\nCache-Tag: all\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(content.as_bytes())?;
    }
    Ok(())
}

/// The content of a path such as `/a/1000`.
fn content(path: &str) -> String {
    let length: usize = path.rsplit('/').next().unwrap().parse().unwrap_or(10);
    let line = format!("{path} ");
    line.repeat(length / line.len() + 1)[..length].to_owned()
}

/// A node that keeps responses in this folder, and few in memory.
fn node(folder: &Path, memory: &str, bytes: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         plugs: {{ cache: {{ memory: {memory}, disk: {{ path: {}, bytes: {bytes} }} }} }}\n\
         routes: [ {{ terminate: true, through: [cache] }} ]\n",
        folder.display()
    );
    Node::start("disk", &yaml)
}

fn ask(node: &Node, url: &str, arguments: &[&str]) -> curl::Output {
    let proxy = node.url("web");
    let mut all = vec!["-x", proxy.as_str()];
    all.extend(arguments);
    all.push(url);
    curl(&all)
}

/// Asks for a path: the content is its own, whatever happened; whether it was stored.
fn hits(node: &Node, origin: &Numbered, path: &str) -> bool {
    let got = ask(node, &origin.url(path), &[]);
    assert_eq!(got.status, 200, "{got:?}");
    assert!(got.text() == content(path), "another content for {path}");
    is_hit(&got)
}

fn responses(node: &Node) -> u64 {
    node.status()["plugs"]["cache"]["responses"]
        .as_u64()
        .unwrap()
}

/// The files of this kind.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == ending))
        .collect();
    files.sort();
    files
}

fn await_files(folder: &Path, count: usize) {
    eventually_true("responses are on disk", || {
        files(folder, "head").len() == count
    });
}

#[test]
fn what_is_on_disk_is_given_again_after_a_kill_as_it_was_and_no_younger() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let mut node = node(folder.path(), "1MiB", "64MiB");
    let paths = ["/a/0", "/b/10", "/c/65536", "/d/200000"];
    for path in paths {
        assert!(!hits(&node, &origin, path));
    }
    await_files(folder.path(), 4);
    let before = ask(&node, &origin.url("/d/200000"), &[]);

    node.kill();
    node.restart();
    eventually_true("they are stored", || responses(&node) == 4);
    let asked = origin.requests();
    for path in paths {
        assert!(hits(&node, &origin, path), "{path}");
    }
    let after = ask(&node, &origin.url("/d/200000"), &[]);
    let age = |got: &curl::Output| got.field("age").unwrap().parse::<u64>().unwrap();
    assert!(age(&after) >= age(&before));
    let part = ask(&node, &origin.url("/d/200000"), &["-r", "70000-150000"]);
    assert_eq!(part.status, 206);
    assert!(part.text() == content("/d/200000")[70000..=150_000]);
    let same = ask(
        &node,
        &origin.url("/d/200000"),
        &["-H", "If-None-Match: \"/d/200000\""],
    );
    assert_eq!(same.status, 304);
    assert_eq!(origin.requests(), asked);
}

#[test]
fn contents_leave_memory_for_the_disk_and_are_given_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let node = node(folder.path(), "256KiB", "64MiB");
    let paths: Vec<_> = (0..20).map(|at| format!("/{at}/60000")).collect();
    for (at, path) in paths.iter().enumerate() {
        assert!(!hits(&node, &origin, path));
        await_files(folder.path(), at + 1);
    }
    for path in &paths {
        assert!(hits(&node, &origin, path), "{path}");
    }
    let status = node.status();
    let cache = &status["plugs"]["cache"];
    assert!(cache["bytes"].as_u64().unwrap() <= 256 << 10, "{cache}");
    assert!(
        cache["disk"]["bytes"].as_u64().unwrap() > 20 * 60_000,
        "{cache}"
    );
}

#[test]
fn a_content_that_is_asked_for_again_and_again_comes_back_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let node = node(folder.path(), "256KiB", "64MiB");
    let paths: Vec<_> = (0..20).map(|at| format!("/{at}/60000")).collect();
    for (at, path) in paths.iter().enumerate() {
        assert!(!hits(&node, &origin, path));
        await_files(folder.path(), at + 1);
    }
    let promoted = || node.status()["plugs"]["cache"]["disk"]["promoted"].clone();
    assert!(hits(&node, &origin, &paths[0]));
    assert_eq!(promoted(), 0, "asked for once");
    assert!(hits(&node, &origin, &paths[0]));
    eventually_true("it is back", || promoted() == 1);

    // From memory, whatever is in its file.
    let file = &files(folder.path(), "content")[0];
    fs::write(file, "damaged").unwrap();
    assert!(hits(&node, &origin, &paths[0]));
    for _ in 0..3 {
        for path in &paths[1..] {
            assert!(hits(&node, &origin, path), "{path}");
        }
    }
    let status = node.status();
    let cache = &status["plugs"]["cache"];
    assert!(cache["bytes"].as_u64().unwrap() <= 256 << 10, "{cache}");
}

#[test]
fn the_disk_is_bounded_and_old_responses_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let node = node(folder.path(), "128KiB", "512KiB");
    for at in 0..30 {
        assert!(!hits(&node, &origin, &format!("/{at}/50000")));
    }
    eventually_true("old files are removed", || {
        let files = files(folder.path(), "content");
        let bytes = files
            .iter()
            .map(|file| file.metadata().map_or(0, |file| file.len()));
        bytes.sum::<u64>() <= 512 << 10
    });
    assert!(
        node.status()["plugs"]["cache"]["disk"]["bytes"]
            .as_u64()
            .unwrap()
            <= 512 << 10
    );
}

#[test]
fn a_damaged_response_is_fetched_again_and_files_of_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let mut node = node(folder.path(), "1MiB", "64MiB");
    let paths = ["/a/70000", "/b/70000", "/c/70000", "/d/70000", "/e/70000"];
    for (at, path) in paths.iter().enumerate() {
        hits(&node, &origin, path);
        await_files(folder.path(), at + 1);
    }
    node.kill();

    let contents = files(folder.path(), "content");
    let heads = files(folder.path(), "head");
    let change = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    change(&contents[0], 100);
    change(&heads[1], 40);
    fs::write(&contents[2], &fs::read(&contents[2]).unwrap()[..1000]).unwrap();
    // The content of another response, whole in itself.
    fs::copy(&contents[4], &contents[3]).unwrap();
    fs::write(folder.path().join("notes.txt"), "of another").unwrap();
    fs::write(
        folder.path().join("0000000000000099.content"),
        "half of one",
    )
    .unwrap();
    fs::write(folder.path().join("0000000000000098.new"), "half of one").unwrap();

    node.restart();
    eventually_true("the others are stored", || responses(&node) == 3);
    let found = paths.map(|path| hits(&node, &origin, path));
    assert_eq!(found, [false, false, false, false, true]);
    assert!(folder.path().join("notes.txt").exists());
    assert!(!folder.path().join("0000000000000099.content").exists());
}

#[test]
fn a_node_that_is_killed_while_it_writes_gives_nothing_wrong_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let mut node = node(folder.path(), "8MiB", "64MiB");
    for round in 0..3_usize {
        let proxy = node.url("web");
        let urls: Vec<_> = (0..24)
            .map(|at| origin.url(&format!("/{at}/{}", 100_000 + at)))
            .collect();
        let clients: Vec<_> = urls
            .chunks(6)
            .map(|urls| {
                let mut client = std::process::Command::new("curl");
                client.args(["-s", "-x", &proxy, "-o", "/dev/null"]);
                for url in urls {
                    client.args(["-o", "/dev/null", url]);
                }
                client.spawn().unwrap()
            })
            .collect();
        let wanted = 3 + 7 * round;
        eventually_true("some are written", || {
            files(folder.path(), "content").len() >= wanted
        });
        node.kill();
        for mut client in clients {
            client.wait().unwrap();
        }
        node.restart();
        for at in 0..24 {
            hits(&node, &origin, &format!("/{at}/{}", 100_000 + at));
        }
    }
}

#[test]
fn what_was_purged_or_changed_is_not_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Numbered::start();
    let mut node = node(folder.path(), "1MiB", "64MiB");
    for path in ["/a/10", "/b/10", "/c/10"] {
        hits(&node, &origin, path);
    }
    await_files(folder.path(), 3);
    let purged = program::run(&[
        "cache",
        "purge",
        &origin.url("/a/10"),
        "--admin",
        node.socket().to_str().unwrap(),
    ]);
    assert_eq!(purged.code, 0, "{purged:?}");
    assert_eq!(
        ask(&node, &origin.url("/b/10"), &["-X", "POST"]).status,
        200
    );
    node.kill();
    assert_eq!(files(folder.path(), "head").len(), 1);

    node.restart();
    eventually_true("the last one is stored", || responses(&node) == 1);
    assert!(hits(&node, &origin, "/c/10"));
    assert!(!hits(&node, &origin, "/a/10") && !hits(&node, &origin, "/b/10"));
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let yaml = |path: &str| {
        format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nplugs: {{ cache: {{ disk: {{ path: {path} }} }} }}\nroutes: [ {{ terminate: true, through: [cache] }} ]\n"
        )
    };
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for (path, reason) in [
        (open.to_str().unwrap(), "other users can write to it"),
        ("here", "no absolute path"),
    ] {
        fs::write(&file, yaml(path)).unwrap();
        let said = program::run(&["run", file.to_str().unwrap()]);
        assert_ne!(said.code, 0, "{said:?}");
        assert!(format!("{said:?}").contains(reason), "{said:?}");
    }
}

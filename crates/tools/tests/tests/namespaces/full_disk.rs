//! A disk that is really full: custody and the cache go on in memory.

use std::net::SocketAddr;
use std::path::Path;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, free, origins, program, small_disk};

/// Bytes of the disk, and of what is to pass.
const DISK: usize = 256 * 1024;
const SIZE: usize = 3_000_000;

fn key(folder: &Path) -> String {
    let said = program::run(&["custody-key", folder.join("key").to_str().unwrap()]);
    said.stdout.trim().to_owned()
}

/// A node for clients, and one for the origin whose disk is small.
fn nodes(origin: SocketAddr) -> (Node, Node) {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let keys = folders.each_ref().map(|folder| key(folder.path()));
    let at = free::udp();
    let near = format!(
        "defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: \"{}\", address: \"{at}\" }} }} }} }}\n\
         listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: far, retry: {{ custody: true }} }} ]\n\
         upstreams: {{ far: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n",
        keys[1]
    );
    let far = format!(
        "defaults: {{ custody: {{ key_file: key, spool: {{ folder: spool }}, neighbours: {{ near: {{ key: \"{}\" }} }} }} }}\n\
         listeners: {{ in: {{ udp: \"{at}\", ingress: custody }} }}\nroutes: [ {{ terminate: \"{origin}\" }} ]\n",
        keys[0]
    );
    let [first, second] = folders;
    let command = small_disk::command(&second.path().join("spool"), DISK);
    (
        Node::start_in(first, "near", &near, &[]),
        Node::start_in_by(second, command, "far", &far),
    )
}

#[test]
fn a_disk_without_room_costs_no_download() {
    let origin = origins::http();
    let path = format!("http://site/bytes/{SIZE}");
    let (near, far) = nodes(origin.address());
    let direct = curl(&[&format!("http://{}/bytes/{SIZE}", origin.address())]);
    let download = || curl(&["-x", &near.url("web"), &path]);

    let first = download();
    assert_eq!(first.status, 200);
    assert!(first.body == direct.body, "{} bytes", first.body.len());
    let log = far.log();
    assert!(log.contains("custody continues in memory"), "{log}");
    assert!(log.contains("No space left on device"), "{log}");

    let second = download();
    assert!(second.body == direct.body, "{} bytes", second.body.len());
}

#[test]
fn a_cache_whose_disk_is_full_goes_on_in_memory_and_returns() {
    let origin = origins::scripted(&format!(
        "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=3600\r\nContent-Length: 60000\r\n\r\n{}",
        "x".repeat(60_000)
    ));
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         plugs: {{ cache: {{ disk: {{ path: {}, bytes: 64MiB }} }} }}\n\
         routes: [ {{ terminate: true, through: [cache] }} ]\n",
        disk.display()
    );
    let command = small_disk::command(&disk, DISK);
    let mut node = Node::start_in_by(folder, command, "full", &yaml);
    let ask = |node: &Node, at: usize| {
        let url = format!("http://{}/{at}", origin.address());
        let got = curl(&["-x", &node.url("web"), &url]);
        assert_eq!((got.status, got.body.len()), (200, 60_000), "{got:?}");
        got.field("cache-status").unwrap().contains("hit")
    };
    for at in 0..20 {
        assert!(!ask(&node, at));
    }
    eventually_true("the disk is found full", || {
        node.status()["plugs"]["cache"]["disk"]["failures"] != 0
    });
    assert!((0..20).all(|at| ask(&node, at)), "all are in memory");
    let log = node.log();
    assert!(log.contains("the cache continues in memory"), "{log}");
    assert!(log.contains("No space left on device"), "{log}");
    assert_eq!(
        log.matches("the cache continues in memory").count(),
        1,
        "{log}"
    );
    assert!(node.stop().success());
}

//! A disk that is really full: custody goes on in memory.

use std::net::SocketAddr;
use std::path::Path;

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

//! A disk that is really full: custody goes on in memory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use hermes_tests::{Node, curl, free, origins, program};

/// Bytes of the disk, and of what is to pass.
const DISK: usize = 256 * 1024;
const SIZE: usize = 3_000_000;

fn key(folder: &Path) -> String {
    let said = program::run(&["custody-key", folder.join("key").to_str().unwrap()]);
    said.stdout.trim().to_owned()
}

/// Runs the program where this folder is a small disk of its own.
fn on_small_disk(spool: &Path) -> Command {
    fs::create_dir(spool).unwrap();
    let script = format!(
        "mount -t tmpfs -o mode=700,size={DISK} tmpfs {} && exec \"$@\"",
        spool.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command.arg(program::path());
    command
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
    let command = on_small_disk(&second.path().join("spool"));
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

//! A store of files: a broadcast's content, and mailboxes that outlive their clients.

use std::path::Path;
use std::sync::Arc;

use hermes_example_plugs::files::Files;
use hermes_example_plugs::mailbox::Mailbox;
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::node::{Node, hear, say};

/// Bytes of a large content.
const LARGE: usize = 3_000_000;

fn files(folder: &TempDir, most: u64) -> Files {
    Files::open(folder.path(), most).unwrap()
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Waits until a folder has no file.
async fn until_empty(folder: &Path) {
    while !names(folder).is_empty() {
        tokio::task::yield_now().await;
    }
}

fn mailboxes(files: Files) -> Node {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  \
                - { match: { target: BOX }, handle: mailbox }\n";
    let mailbox = Mailbox::new(Arc::new(files));
    Node::start("mailboxes", yaml, Plugs::new().handler("mailbox", mailbox))
}

/// Sends a request on a connection of its own, and gives the answer's head.
async fn ask(node: &Node, method: &str, content: Option<&str>) -> (TcpStream, String) {
    let mut client = node.connect().await;
    let length = content.map_or(String::new(), |content| {
        format!("Content-Length: {}\r\n", content.len())
    });
    let head = format!("{method} http://BOX/a HTTP/1.1\r\nHost: BOX\r\n{length}\r\n");
    say(&mut client, &head).await;
    say(&mut client, content.unwrap_or_default()).await;
    let answer = hear(&mut client, "\r\n\r\n").await;
    (client, answer)
}

#[tokio::test]
async fn a_letter_outlives_the_client_that_brought_it_and_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let letter = "0123456789".repeat(LARGE / 10);
    let node = mailboxes(files(&folder, 10_000_000));
    let (client, answer) = ask(&node, "PUT", Some(&letter)).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    drop(client);
    node.end().await;

    let node = mailboxes(files(&folder, 10_000_000));
    let (mut client, answer) = ask(&node, "GET", None).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let begun = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let mut rest = vec![0; LARGE - begun.len()];
    client.read_exact(&mut rest).await.unwrap();
    assert!(
        begun
            .into_bytes()
            .into_iter()
            .chain(rest)
            .eq(letter.bytes())
    );

    assert!(
        ask(&node, "DELETE", None)
            .await
            .1
            .starts_with("HTTP/1.1 204")
    );
    assert!(ask(&node, "GET", None).await.1.starts_with("HTTP/1.1 404"));
    assert_eq!(names(folder.path()), [""; 0]);
    node.end().await;
}

#[tokio::test]
async fn what_breaks_off_leaves_nothing_and_does_not_replace_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let node = mailboxes(files(&folder, 10_000_000));
    assert!(
        ask(&node, "PUT", Some("first"))
            .await
            .1
            .starts_with("HTTP/1.1 201")
    );

    let mut client = node.connect().await;
    let head = "PUT http://BOX/a HTTP/1.1\r\nHost: BOX\r\nContent-Length: 1000\r\n\r\n";
    say(&mut client, head).await;
    say(&mut client, "second").await;
    while names(folder.path()).len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(client);
    while names(folder.path()).len() > 1 {
        tokio::task::yield_now().await;
    }
    let (mut client, mut answer) = ask(&node, "GET", None).await;
    if !answer.ends_with("first") {
        answer += &hear(&mut client, "first").await;
    }
    assert!(answer.contains("\r\n\r\nfirst"), "{answer}");
    node.end().await;
}

#[tokio::test]
async fn a_full_store_says_so_and_has_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = mailboxes(files(&folder, 10_000));
    let letter = "x".repeat(8_000);
    let (_client, answer) = ask(&node, "PUT", Some(&letter)).await;
    assert!(answer.starts_with("HTTP/1.1 507"), "{answer}");
    until_empty(folder.path()).await;

    let answer = ask(&node, "PUT", Some(&letter[..5_000])).await.1;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    node.end().await;
}

/// An origin that answers when all has come, with how much that was.
async fn count(origin: TcpListener) {
    loop {
        let (mut stream, _) = origin.accept().await.unwrap();
        let begun = hear(&mut stream, "\r\n\r\n").await;
        let mut read = begun.split_once("\r\n\r\n").unwrap().1.len();
        let mut piece = vec![0; 65_536];
        while read < LARGE {
            read += stream.read(&mut piece).await.unwrap();
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{read}");
        say(&mut stream, &answer).await;
    }
}

/// A node that sends copies to these endpoints, and keeps contents here.
fn copying(endpoints: &[String], store: Files) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }} }}\n\
         routes:\n  - {{ terminate: shards, broadcast: {{ users: [alice], reply: {{ quorum: 2 }}, store: files, \
         request_bytes: 4MiB }} }}\nupstreams: {{ shards: {{ endpoints: [{}] }} }}\n",
        endpoints.join(", ")
    );
    Node::start("store", &yaml, Plugs::new().store("files", store))
}

/// Broadcasts a large content, and waits for what the answer is to have.
async fn broadcast(node: &Node, answer: &str) -> String {
    let mut client = node.connect().await;
    let head = format!(
        "POST http://SHARDS/ HTTP/1.1\r\nHost: SHARDS\r\nX-Hermes-Broadcast: true\r\nContent-Length: {LARGE}\r\n\r\n"
    );
    say(&mut client, &head).await;
    // Where it is refused, the rest is not read.
    let _ = client.write_all(&vec![b'y'; LARGE]).await;
    hear(&mut client, answer).await
}

#[tokio::test]
async fn a_broadcast_keeps_in_files_what_is_too_much_for_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut endpoints = Vec::new();
    for _ in 0..2 {
        let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        endpoints.push(format!("\"{}\"", origin.local_addr().unwrap()));
        tokio::spawn(count(origin));
    }
    let node = copying(&endpoints, files(&folder, 10_000_000));
    let answer = broadcast(&node, "3000000").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    until_empty(folder.path()).await;
    node.end().await;
}

#[tokio::test]
async fn a_broadcast_for_which_there_is_no_room_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = ["127.0.0.1:9".to_owned(), "127.0.0.2:9".to_owned()];
    let node = copying(&endpoints, files(&folder, 10_000));
    let answer = broadcast(&node, "the store has no room: the files have 10000 bytes").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    until_empty(folder.path()).await;
    node.end().await;
}

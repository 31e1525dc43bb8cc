//! Channels whose URI names a key.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, program};
use serde_json::Value;
use tempfile::TempDir;

use super::script::Script;
use super::subscriber::Subscriber;
use super::{relay, subscriptions};

/// Keys in files, as OpenSSL makes them.
struct Keys {
    folder: TempDir,
}

impl Keys {
    fn new(names: &[&str]) -> Self {
        let keys = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in names {
            let file = keys.file(name);
            let file = file.to_str().unwrap();
            shell(&format!(
                "umask 077; openssl genpkey -algorithm ed25519 -out {file}"
            ));
        }
        keys
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The name of a key, by the commands of docs/relay.md.
    fn name(&self, name: &str) -> String {
        let file = self.file(name);
        let hash = shell(&format!(
            "openssl pkey -in {} -pubout -outform DER | openssl dgst -sha256 -binary | base64 | tr '+/' '-_' | tr -d =",
            file.display()
        ));
        format!("ni:sha-256;{}", hash.trim())
    }

    fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }
}

fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `hermes subscribe --json` that goes on until the test ends.
struct Reader {
    child: Child,
    got: PathBuf,
    _folder: TempDir,
}

impl Reader {
    fn begin(url: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let got = folder.path().join("got");
        let child = program::command()
            .args(["subscribe", url, "--json"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&got).unwrap())
            .stderr(File::create(folder.path().join("words")).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            got,
            _folder: folder,
        }
    }

    fn sees(&self, wanted: &str) -> String {
        let got = || fs::read_to_string(&self.got).unwrap();
        eventually_true(wanted, || got().contains(wanted));
        got()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A signed request of a client of another make: the parts of RFC 9421, by hand.
struct Signer {
    pair: Ed25519KeyPair,
}

impl Signer {
    fn new() -> Self {
        Self {
            pair: Ed25519KeyPair::generate().unwrap(),
        }
    }

    fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref())
    }

    fn name(&self) -> String {
        let mut info = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".to_vec();
        info.extend_from_slice(self.pair.public_key().as_ref());
        let hash = digest(&SHA256, &info);
        format!("ni:sha-256;{}", URL_SAFE_NO_PAD.encode(hash.as_ref()))
    }

    /// Arguments of curl for a message of this content that was signed at this time.
    fn message(&self, path: &str, content: &str, created: u64, nonce: &str) -> Vec<String> {
        let hash = digest(&SHA256, content.as_bytes());
        let digest = format!("sha-256=:{}:", STANDARD.encode(hash.as_ref()));
        let parameters = format!(
            "(\"content-digest\" \"@path\" \"@method\" \"content-type\");keyid=\"{}\";created={created};nonce=\"{nonce}\";tag=\"hermes-relay\";alg=\"ed25519\"",
            self.public()
        );
        let base = format!(
            "\"content-digest\": {digest}\n\"@path\": {path}\n\"@method\": POST\n\"content-type\": text/plain\n\"@signature-params\": {parameters}"
        );
        let signature = STANDARD.encode(self.pair.sign(base.as_bytes()).as_ref());
        [
            "-H",
            &format!("Content-Digest: {digest}"),
            "-H",
            "Content-Type: text/plain",
            "-H",
            &format!("Signature-Input: sig1={parameters}"),
            "-H",
            &format!("Signature: sig1=:{signature}:"),
            "-d",
            content,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

fn send(url: &str, arguments: &[String]) -> u16 {
    let mut all: Vec<_> = arguments.iter().map(String::as_str).collect();
    all.push(url);
    curl(&all).status
}

fn publish(url: &str, text: &str, arguments: &[&str]) -> String {
    let said = program::run(&[&["publish", url, text], arguments].concat());
    said.stdout + &said.stderr
}

fn url(node: &Node, path: &str) -> String {
    format!("http://{}{path}", node.address("web"))
}

#[test]
fn the_owners_messages_are_known_by_the_uri_and_no_one_elses_come() {
    let node = relay("");
    let keys = Keys::new(&["owner", "other"]);
    let channel = url(&node, &format!("/c/{}/news", keys.name("owner")));
    let reader = Reader::begin(&channel, &[]);
    let jwk = shell(&format!(
        "node -e 'console.log(JSON.stringify(require(\"crypto\").createPrivateKey(require(\"fs\").readFileSync(\"{}\")).export({{format: \"jwk\"}})))'",
        keys.path("owner")
    ));
    let script = Script::begin(
        &channel,
        &r#"
        const owner = new Channel(process.argv[2], { key: JWK });
        for await (const event of channel.subscribe()) {
            console.log(event.gap === undefined ? `${event.text()} by ${event.sender}` : `gap ${event.reason} ${event.details}`);
            if (event.seq === 1) await owner.publish("from the script", { topic: "t" });
            if (event.seq === 2) break;
        }
        "#
        .replace("JWK", &jwk),
    );
    eventually_true("both subscribe", || subscriptions(&node) == 2);
    assert_eq!(curl(&["-d", "x", &channel]).status, 404);
    let said = publish(&channel, "x", &["--key", &keys.path("other")]);
    assert!(said.contains("404"), "{said}");
    let said = publish(&channel, "hello", &["--key", &keys.path("owner")]);
    assert_eq!(said, "receivers: 2\n");
    let owner = keys.name("owner");
    assert_eq!(
        script.ends(),
        format!("hello by {owner}\nfrom the script by {owner}\n")
    );
    let got = reader.sees("from the script");
    assert!(!got.contains("gap"), "{got}");
    assert!(got.contains(&format!("\"sender\":\"{owner}\"")), "{got}");
}

#[test]
fn replayed_flipped_stale_and_foreign_signatures_are_refused() {
    let node = relay("");
    let owner = Signer::new();
    let path = format!("/c/{}", owner.name());
    let channel = url(&node, &path);
    let reader = Reader::begin(&channel, &[]);
    eventually_true("it subscribes", || subscriptions(&node) == 1);

    let first = owner.message(&path, "first", now(), "a");
    assert_eq!(send(&channel, &first), 200);
    assert_eq!(send(&channel, &first), 403, "the same again");
    let mut flipped = owner.message(&path, "hello", now(), "b");
    let last = flipped.len() - 1;
    flipped[last] = "jello".to_owned();
    assert_eq!(send(&channel, &flipped), 403, "another content");
    let mut flipped = owner.message(&path, "hello", now(), "c");
    flipped[7] = flipped[7].replace("sig1=:", "sig1=:AA");
    assert!(
        matches!(send(&channel, &flipped), 400 | 403),
        "another signature"
    );
    let mut flipped = owner.message(&path, "hello", now(), "d");
    flipped[3] = "Content-Type: text/html".to_owned();
    assert_eq!(send(&channel, &flipped), 403, "another type");
    let mut more = owner.message(&path, "hello", now(), "e");
    more.extend(["-H", "Hermes-Publish: topic=\"t\""].map(str::to_owned));
    assert_eq!(send(&channel, &more), 403, "a topic that is not signed");
    for created in [now() - 120, now() + 120] {
        let stale = owner.message(&path, "stale", created, "f");
        assert_eq!(send(&channel, &stale), 403, "{created}");
    }
    let other = Signer::new();
    let wrong = other.message(&path, "wrong", now(), "g");
    assert_eq!(send(&channel, &wrong), 404, "another key");
    // The owner's own message to another channel of its own.
    let elsewhere = owner.message(&path, "elsewhere", now(), "h");
    assert_eq!(send(&format!("{channel}/more"), &elsewhere), 403);
    for looks in ["NI:sha-256;x", "ni:sha-256;x", "ni%3Asha-256;x"] {
        let looks = url(&node, &format!("/c/{looks}"));
        assert_eq!(curl(&["-d", "x", &looks]).status, 404, "{looks}");
    }
    assert_eq!(
        send(&channel, &owner.message(&path, "last", now(), "i")),
        200
    );
    let got = reader.sees("last");
    assert_eq!(got.lines().count(), 2, "{got}");
}

/// A relay that sends these messages, each with its flags and labels, to everyone who subscribes.
fn evil(messages: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let answer = "HTTP/1.1 200 OK\r\nHermes-Subscribe: timeout=600, at=\"00000001.0\", heartbeat=15\r\n\
                          Content-Type: application/hermes-adu\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            for message in &messages {
                let mut capsule = 0xad7c_51c0_u32.to_be_bytes().to_vec();
                capsule.extend(varint(message.len()));
                capsule.extend(message);
                let _ = stream.write_all(&capsule);
            }
            kept.push(stream);
        }
    });
    address
}

/// An integer of RFC 9000, in two bytes.
fn varint(value: usize) -> [u8; 2] {
    (u16::try_from(value).unwrap() | 0x4000).to_be_bytes()
}

#[test]
fn a_relay_that_is_not_trusted_passes_on_nothing_as_the_owners() {
    let hub = relay("");
    let owner = Signer::new();
    let path = format!("/c/{}", owner.name());
    let channel = url(&hub, &path);
    let spy = Subscriber::begin(&channel, &["-H", "Accept: application/x-ndjson"]);
    assert_eq!(
        send(&channel, &owner.message(&path, "genuine", now(), "a")),
        200
    );
    let line: Value = serde_json::from_str(spy.sees("genuine").lines().next().unwrap()).unwrap();
    let proof = line["proof"].as_str().unwrap();

    let signed = |sequence: u8, content: &str| {
        let mut message = vec![sequence, 0x09];
        message.extend(varint("text/plain".len()));
        message.extend(b"text/plain");
        message.extend(varint(proof.len()));
        message.extend(proof.bytes());
        message.extend(content.bytes());
        message
    };
    let place = evil(vec![
        b"\x01\x00forged".to_vec(),
        signed(2, "altered"),
        signed(3, "genuine"),
        signed(4, "genuine"),
        b"\x05\x00the end".to_vec(),
    ]);
    let channel = format!("http://{place}{path}");
    let script = Script::begin(
        &channel,
        r#"
        for await (const event of channel.subscribe()) {
            console.log(event.gap === undefined ? event.text() : `${event.reason}: ${event.details}`);
            if (event.at.endsWith(".5")) break;
        }
        process.exit(0);
        "#,
    );
    assert_eq!(
        script.ends(),
        "unproved: it has no signature\nunproved: the signature is not of this message\ngenuine\n\
         unproved: the signature came already\nunproved: it has no signature\n"
    );
    let said = program::run(&["subscribe", &channel, "--json", "--count", "5"]);
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{said:?}");
    assert!(lines[0].contains("it has no signature"), "{}", lines[0]);
    assert!(lines[1].contains("not of this message"), "{}", lines[1]);
    assert!(lines[2].contains(&owner.name()), "{}", lines[2]);
    assert!(lines[3].contains("came already"), "{}", lines[3]);
    assert!(!said.stdout.contains("forged"), "{}", said.stdout);
}

#[test]
fn an_approved_sender_is_believed_through_relays_and_until_the_list_changes() {
    let there = super::migration::successor("a key of sixteen bytes or more");
    let hub = Node::start("here", &super::migration::document(&there, ""));
    let way = Node::start(
        "aggregate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            functions: {{ join: {{ aggregate: {{}} }} }}
            routes: [ {{ through: [join], to: hub }} ]
            upstreams: {{ hub: {{ endpoints: ["{0}"] }} }}
            "#,
            hub.address("web")
        ),
    );
    let keys = Keys::new(&["owner", "sender"]);
    let channel = url(&hub, &format!("/c/{}", keys.name("owner")));
    let direct = Reader::begin(&channel, &[]);
    let joined = Reader::begin(&channel, &["--proxy", &way.url("web")]);
    eventually_true("both subscribe", || subscriptions(&hub) == 2);
    let send = |text: &str| publish(&channel, text, &["--key", &keys.path("sender")]);
    assert!(send("early").contains("404"));
    // No one approves of himself.
    let sender = keys.name("sender");
    let approve = |key: &str, name: &str| {
        let key = keys.path(key);
        let said = program::run(&["publish", &channel, "--key", &key, "--approve", name]);
        said.stdout + &said.stderr
    };
    assert!(approve("sender", &sender).contains("404"));
    assert_eq!(approve("owner", &sender), "approved senders: 1\n");
    assert_eq!(send("approved"), "receivers: 2\n");
    for reader in [&direct, &joined] {
        let got = reader.sees("approved");
        assert!(got.contains(&format!("\"sender\":\"{sender}\"")), "{got}");
    }

    let (status, answer) = hub.reload(&super::migration::document(&there, ", move: true"));
    assert_eq!(status, 200, "{answer}");
    eventually_true("they go along", || subscriptions(&there) >= 1);
    eventually_true("they leave", || subscriptions(&hub) == 0);
    let said = publish(&channel, "moved", &["--key", &keys.path("owner")]);
    assert!(said.starts_with("receivers: "), "{said}");
    direct.sees("moved");

    let there_url = url(&there, &format!("/c/{}", keys.name("owner")));
    let said = publish(&there_url, "late", &["--key", &keys.path("sender")]);
    assert!(said.contains("404"), "{said}");
}

#[test]
fn a_receiver_alone_subscribes_and_says_who_may_send() {
    let node = relay("");
    let keys = Keys::new(&["receiver", "friend", "stranger"]);
    let channel = url(&node, &format!("/c/to/{}", keys.name("receiver")));
    assert_eq!(curl(&["-N", "--max-time", "5", &channel]).status, 404);
    let said = program::run(&["subscribe", &channel, "--key", &keys.path("stranger")]);
    assert!(said.stderr.contains("404"), "{}", said.stderr);

    let receiver = keys.path("receiver");
    let open = Reader::begin(&channel, &["--key", &receiver]);
    eventually_true("it subscribes", || subscriptions(&node) == 1);
    assert_eq!(
        curl(&["-d", "by anyone", &channel]).text(),
        "receivers: 1\n"
    );
    open.sees("by anyone");
    drop(open);

    let friend = keys.name("friend");
    let closed = Reader::begin(
        &channel,
        &[
            "--key",
            &receiver,
            "--approve",
            &friend,
            "--approve",
            "alice",
        ],
    );
    eventually_true("strangers are refused", || {
        curl(&["-d", "no", &channel]).status == 404
    });
    let said = publish(&channel, "hi", &["--key", &keys.path("stranger")]);
    assert!(said.contains("404"), "{said}");
    let said = publish(&channel, "by a friend", &["--key", &keys.path("friend")]);
    assert!(said.starts_with("receivers: "), "{said}");
    let got = closed.sees("by a friend");
    assert!(got.contains(&format!("\"sender\":\"{friend}\"")), "{got}");
    assert!(Path::new(&receiver).exists());
}

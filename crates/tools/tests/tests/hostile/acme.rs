//! Authorities that speak ACME badly: answers without end, orders without end, and addresses that are none of theirs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_tests::eventually::{PATIENCE, eventually};
use hermes_tests::{Node, Pki, curl, origins};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// Memory of a node that no attacker may take more of.
const PEAK: usize = 256 * 1024 * 1024;

/// What is asked of an authority.
struct Asked<'a> {
    /// The authority's own URL.
    own: &'a str,
    path: &'a str,
    content: &'a [u8],
}

/// What it answers: JSON, or a text as it is; `None`: bytes without end.
type Script = dyn Fn(&Asked<'_>) -> Option<Value> + Send + Sync;

/// An authority that answers by a script, at a port of this machine.
struct BadAuthority {
    address: SocketAddr,
    pki: Pki,
    requests: Arc<AtomicUsize>,
}

impl BadAuthority {
    fn start(script: impl Fn(&Asked<'_>) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self::with(Pki::new(), script)
    }

    fn with(
        pki: Pki,
        script: impl Fn(&Asked<'_>) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let config = pki.server(&["127.0.0.1"], &[]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let script: Arc<Script> = Arc::new(script);
        let counted = requests.clone();

        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, script, counted) = (config.clone(), script.clone(), counted.clone());
                std::thread::spawn(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    // The node may close as it likes.
                    drop(answer(
                        stream,
                        config,
                        &format!("https://{address}"),
                        &*script,
                    ));
                });
            }
        });
        Self {
            address,
            pki,
            requests,
        }
    }

    /// A gateway that asks it for a certificate, and a listener beside it.
    fn gateway(&self, origin: SocketAddr) -> String {
        format!(
            "listeners:\n  web:\n    http: 127.0.0.1:0\n    gateway: true\n    tls:\n      acme: {{ domains: [www.example.org], \
             folder: acme, terms_agreed: true, directory: \"https://{}/dir\", ca_file: {} }}\n  \
             plain: {{ http: 127.0.0.1:0, gateway: true }}\n\
             routes: [ {{ terminate: origin }} ]\nupstreams: {{ origin: {{ endpoints: [\"{origin}\"] }} }}\n",
            self.address,
            self.pki.ca().display(),
        )
    }
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    own: &str,
    script: &Script,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }

    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default();
    let mut lines = text.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut content)?;
    let asked = Asked {
        own,
        path,
        content: &content,
    };
    let head = "HTTP/1.1 200 OK\r\nreplay-nonce: abc\r\nconnection: close\r\n";
    match script(&asked) {
        Some(_) if text.starts_with("HEAD ") => write!(stream, "{head}\r\n")?,
        Some(content) => {
            let content = match content {
                Value::String(text) => text,
                json => json.to_string(),
            };
            let length = content.len();
            write!(
                stream,
                "{head}location: {own}{path}/1\r\ncontent-length: {length}\r\n\r\n{content}"
            )?;
        }
        None => {
            write!(stream, "{head}\r\n")?;
            let piece = vec![b' '; 64 * 1024];
            // A gigabyte is enough to show it.
            for _ in 0..16 * 1024 {
                stream.write_all(&piece)?;
            }
        }
    }
    stream.flush()
}

fn directory(own: &str) -> Value {
    json!({ "newNonce": format!("{own}/nonce"), "newAccount": format!("{own}/account"), "newOrder": format!("{own}/order") })
}

/// Starts a node at the authority; why it has no certificate, once it says so. Its other listener serves meanwhile.
fn refused(authority: &BadAuthority) -> String {
    let origin = origins::http();
    let node = Node::start("edge", &authority.gateway(origin.address()));
    let progress = eventually("the order fails", || {
        assert_eq!(curl(&[&node.url("plain")]).status, 200);
        let progress = node.status()["acme"][0].clone();
        (progress["state"] == "failing_without").then_some(progress)
    });

    assert!(
        !progress["remedy"].as_str().unwrap().is_empty(),
        "{progress}"
    );
    assert!(
        progress["next_seconds"].as_u64().unwrap() >= 30,
        "{progress}"
    );
    assert!(node.peak() < PEAK, "{} bytes", node.peak());
    progress["reason"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let authority = BadAuthority::start(|_| None);
    let reason = refused(&authority);
    assert!(reason.contains("length limit exceeded"), "{reason}");
}

#[test]
fn an_authority_sends_the_node_nowhere_else() {
    let other = origins::http();
    let elsewhere = format!("https://{}/nonce", other.address());
    let authority = BadAuthority::start(move |asked| {
        let mut directory = directory(asked.own);
        directory["newNonce"] = elsewhere.as_str().into();
        Some(directory)
    });
    let reason = refused(&authority);
    assert!(reason.contains("the authority named another"), "{reason}");
    assert_eq!(other.connections(), 0);
}

#[test]
fn orders_that_want_ever_more_are_given_up() {
    let authority = BadAuthority::start(|asked| {
        let own = asked.own;
        let authorizations: Vec<_> = (0..5000)
            .map(|number| format!("{own}/authorization/{number}"))
            .collect();
        Some(match asked.path {
            "/dir" => directory(own),
            "/nonce" => Value::Null,
            "/account" => json!({ "status": "valid" }),
            "/order" => {
                json!({ "status": "pending", "authorizations": authorizations, "finalize": format!("{own}/end") })
            }
            _ => {
                json!({ "status": "valid", "identifier": { "type": "dns", "value": "www.example.org" }, "challenges": [] })
            }
        })
    });
    let reason = refused(&authority);
    assert!(
        reason.contains("more names proved than were ordered"),
        "{reason}"
    );
    let asked = authority.requests.load(Ordering::Relaxed);
    assert!(asked < 20, "{asked} requests");
}

#[test]
fn an_authority_that_says_nothing_holds_up_no_reload_and_no_end() {
    let authority = BadAuthority::start(|_| {
        std::thread::sleep(4 * PATIENCE);
        None
    });
    let origin = origins::http();
    let mut node = Node::start("edge", &authority.gateway(origin.address()));
    eventually("the order is open", || {
        (node.status()["acme"][0]["state"] == "ordering").then_some(())
    });
    assert_eq!(node.ask("POST", "/reload", "").0, 200);
    assert_eq!(curl(&[&node.url("plain")]).status, 200);

    let began = std::time::Instant::now();
    assert!(node.stop().success());
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

/// The request for a certificate (DER) in what was sent to end an order.
fn request_of(content: &[u8]) -> Vec<u8> {
    let signed: Value = serde_json::from_slice(content).unwrap();
    let decode = |text: &Value| URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap();
    let payload: Value = serde_json::from_slice(&decode(&signed["payload"])).unwrap();
    decode(&payload["csr"])
}

/// An authority that takes each order without a challenge, and gives what `issue` makes of the request.
fn issuing(issue: impl Fn(&Pki, &[u8]) -> String + Send + Sync + 'static) -> BadAuthority {
    let issuer = Pki::new();
    let is_issued = AtomicBool::new(false);
    let chain = parking_lot::Mutex::new(String::new());

    BadAuthority::start(move |asked| {
        let own = asked.own;
        let order = |status: &str| {
            json!({ "status": status, "authorizations": [format!("{own}/authorization")],
                    "finalize": format!("{own}/end"), "certificate": format!("{own}/chain") })
        };
        Some(match asked.path {
            "/dir" => directory(own),
            "/nonce" => Value::Null,
            "/account" => json!({ "status": "valid" }),
            "/order" => order("pending"),
            "/order/1" if is_issued.load(Ordering::Relaxed) => order("valid"),
            "/order/1" => order("ready"),
            "/end" => {
                *chain.lock() = issue(&issuer, &request_of(asked.content));
                is_issued.store(true, Ordering::Relaxed);
                order("valid")
            }
            "/chain" => Value::String(chain.lock().clone()),
            _ => {
                json!({ "status": "valid", "identifier": { "type": "dns", "value": "www.example.org" }, "challenges": [] })
            }
        })
    })
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn a_certificate_that_is_not_valid_now_is_thrown_away_and_not_ordered_at_once() {
    let now = SystemTime::now();
    for (from, until, fault) in [
        (now - 2 * DAY, now - DAY, "has ended already"),
        (now + DAY, now + 2 * DAY, "is not valid yet"),
    ] {
        let authority = issuing(move |issuer, request| issuer.sign(request, from, until));
        let reason = refused(&authority);
        assert!(reason.contains(fault), "{reason}");
        let asked = authority.requests.load(Ordering::Relaxed);
        assert!(asked < 20, "{asked} requests");
    }
}

#[test]
fn a_certificate_for_another_key_or_other_names_is_thrown_away() {
    let other_key = issuing(|issuer, _| {
        let issued = issuer.issue(&["www.example.org"]);
        std::fs::read_to_string(issued.cert).unwrap()
    });
    let reason = refused(&other_key);
    assert!(
        reason.contains("the certificate cannot be used"),
        "{reason}"
    );

    let other_names = issuing(|issuer, request| {
        let now = SystemTime::now();
        issuer.sign_for(request, &["www.example.net"], now - DAY, now + DAY)
    });
    let reason = refused(&other_names);
    assert!(reason.contains("not for the names"), "{reason}");

    let its_own_key = issuing(|issuer, request| {
        let now = SystemTime::now();
        let chain = issuer.sign(request, now - DAY, now + DAY);
        let issued = issuer.issue(&["www.example.org"]);
        chain + &std::fs::read_to_string(issued.key).unwrap()
    });
    let reason = refused(&its_own_key);
    assert!(reason.contains("not a chain of certificates"), "{reason}");
}

#[test]
fn no_name_is_proved_that_was_not_ordered() {
    let authority = BadAuthority::start(|asked| {
        let own = asked.own;
        Some(match asked.path {
            "/dir" => directory(own),
            "/nonce" => Value::Null,
            "/account" => json!({ "status": "valid" }),
            "/order" => {
                json!({ "status": "pending", "authorizations": [format!("{own}/authorization")],
                                "finalize": format!("{own}/end") })
            }
            "/authorization" => {
                let name = format!("\u{1b}[2J\nbank.example{}", "x".repeat(100_000));
                json!({ "status": "pending", "identifier": { "type": "dns", "value": name },
                        "challenges": [ { "type": "http-01", "status": "pending", "token": "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0",
                                          "url": format!("{own}/challenge") } ] })
            }
            _ => Value::Null,
        })
    });
    let reason = refused(&authority);
    assert!(reason.contains("a name that was not ordered"), "{reason}");
    assert!(reason.len() < 1024, "{} bytes", reason.len());
    assert!(!reason.contains(char::is_control), "{reason}");
}

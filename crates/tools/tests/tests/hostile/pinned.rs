//! Servers that authenticate a connection and not a request (NTLM, Negotiate): no one else's exchange may follow on it.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually::PATIENCE};
use http::Request;

/// A server that goes by the connection, as those of mailboxes do: after three legs of NTLM, or one of Negotiate, whatever comes is
/// the user's.
struct Mailboxes {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Mailboxes {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || drop(mailbox(stream.unwrap())));
            }
        });
        Self {
            address,
            connections,
        }
    }

    fn node(&self, listener: &str) -> Node {
        let yaml = format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, {listener} }} }}\nroutes: [ {{ terminate: mail }} ]\n\
             upstreams: {{ mail: {{ endpoints: [\"{}\"] }} }}\nworkers: 1\n",
            self.address
        );
        Node::start("edge", &yaml)
    }
}

/// Serves one connection.
fn mailbox(mut stream: TcpStream) -> std::io::Result<Infallible> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut user, mut begun, mut unread) = (String::new(), false, Vec::new());
    loop {
        let end = loop {
            if let Some(end) = unread
                .windows(4)
                .position(|window: &[u8]| window == b"\r\n\r\n")
            {
                break end + 4;
            }
            let mut room = [0; 4096];
            let read = stream.read(&mut room)?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            unread.extend_from_slice(&room[..read]);
        };
        let head = String::from_utf8_lossy(&unread.drain(..end).collect::<Vec<_>>()).into_owned();
        let shown = head
            .lines()
            .find_map(|line| line.strip_prefix("authorization: "))
            .unwrap_or_default();
        let challenge = match shown.split_once(' ') {
            Some(("NTLM", "hello")) => {
                begun = true;
                Some("NTLM who-are-you")
            }
            Some(("NTLM", name)) if begun => {
                user = name.to_owned();
                None
            }
            Some(("Negotiate", name)) => {
                user = name.to_owned();
                None
            }
            _ if user.is_empty() => Some("NTLM\r\nwww-authenticate: Negotiate"),
            _ => None,
        };
        let answer = match challenge {
            Some(challenge) => {
                format!(
                    "401 Unauthorized\r\nwww-authenticate: {challenge}\r\ncontent-length: 0\r\n\r\n"
                )
            }
            None => format!("200 OK\r\ncontent-length: {}\r\n\r\n{user}", user.len()),
        };
        stream.write_all(format!("HTTP/1.1 {answer}").as_bytes())?;
    }
}

/// The status, and whose mailbox it was.
fn ask(client: &mut Raw, shown: &str) -> (u16, String) {
    let field = if shown.is_empty() {
        String::new()
    } else {
        format!("authorization: {shown}\r\n")
    };
    client.send(format!(
        "GET http://mail/ HTTP/1.1\r\nhost: mail\r\n{field}\r\n"
    ));
    let (head, content) = client.response();
    (head.status(), String::from_utf8(content).unwrap())
}

fn box_of(user: &str) -> (u16, String) {
    (200, user.to_owned())
}

#[test]
fn a_connection_that_is_authenticated_belongs_to_one_client() {
    let server = Mailboxes::start();
    let node = server.node("");
    let mut alice = Raw::connect(node.address("web"));
    // What no one is known on is shared before and after.
    assert_eq!(ask(&mut Raw::connect(node.address("web")), "").0, 401);
    assert_eq!(ask(&mut alice, "").0, 401);
    assert_eq!(ask(&mut alice, "NTLM hello").0, 401);
    assert_eq!(ask(&mut alice, "NTLM alice"), box_of("alice"));
    // She goes on without a word, as NTLM has it.
    assert_eq!(ask(&mut alice, ""), box_of("alice"));
    for _ in 0..20 {
        assert_eq!(
            ask(&mut Raw::connect(node.address("web")), "").0,
            401,
            "someone else"
        );
    }
    let mut bob = Raw::connect(node.address("web"));
    assert_eq!(
        ask(&mut bob, "negotiate bob").0,
        401,
        "the server knows it in capitals"
    );
    assert_eq!(ask(&mut bob, "Negotiate bob"), box_of("bob"));
    for _ in 0..5 {
        assert_eq!(ask(&mut bob, ""), box_of("bob"));
        assert_eq!(ask(&mut alice, ""), box_of("alice"));
    }
    drop((alice, bob));
    assert_eq!(ask(&mut Raw::connect(node.address("web")), "").0, 401);
    assert!(
        server.connections.load(Ordering::Relaxed) <= 5,
        "{:?}",
        server.connections
    );
}

#[test]
fn a_connection_of_many_streams_gets_one_for_each_exchange() {
    let server = Mailboxes::start();
    let node = server.node("");
    let client = Client::connect(node.address("web"));
    let ask = |shown: &str| {
        let request = Request::get("http://mail/");
        let request = if shown.is_empty() {
            request
        } else {
            request.header("authorization", shown)
        };
        client.send(request.body(()).unwrap(), b"").unwrap()
    };
    for user in ["alice", "bob"] {
        let answer = ask(&format!("Negotiate {user}"));
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (200, user.as_bytes())
        );
        assert_eq!(ask("").status, 401, "nothing of {user}'s is left");
    }
}

#[test]
fn a_proxy_before_this_one_may_send_several_users_on_one_connection() {
    let server = Mailboxes::start();
    let edge = server.node("insecure_trust: [127.0.0.0/8]");
    let mut proxy = Raw::connect(edge.address("web"));
    let mut of = |user: &str, shown: &str| {
        let shown = if shown.is_empty() {
            String::new()
        } else {
            format!("authorization: {shown}\r\n")
        };
        proxy.send(format!(
            "GET http://mail/ HTTP/1.1\r\nhost: mail\r\n{user}{shown}\r\n"
        ));
        let (head, content) = proxy.response();
        (head.status(), String::from_utf8(content).unwrap())
    };
    assert_eq!(of("user: alice\r\n", "Negotiate alice"), box_of("alice"));
    assert_eq!(of("user: bob\r\n", "").0, 401);
    assert_eq!(of("", "").0, 401);
    assert_eq!(of("user: alice\r\n", ""), box_of("alice"));
    // Of whom nothing is said, nothing is kept.
    assert_eq!(of("", "Negotiate carol"), box_of("carol"));
    assert_eq!(of("", "").0, 401);
}

#[test]
fn it_works_through_two_proxies_in_http1() {
    let server = Mailboxes::start();
    let edge = server.node("insecure_trust: [127.0.0.0/8]");
    let near = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, user: dave }} }}\nroutes: [ {{ to: edge }} ]\n\
         upstreams: {{ edge: {{ endpoints: [\"{}\"] }} }}\nworkers: 1\n",
        edge.address("web")
    );
    let node = Node::start("dp", &near);
    let mut alice = Raw::connect(node.address("web"));
    assert_eq!(ask(&mut alice, "NTLM hello").0, 401);
    assert_eq!(ask(&mut alice, "NTLM alice"), box_of("alice"));
    assert_eq!(
        ask(&mut Raw::connect(node.address("web")), "").0,
        401,
        "the same user, but another connection"
    );
    assert_eq!(ask(&mut alice, ""), box_of("alice"));
}

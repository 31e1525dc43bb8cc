//! The paper's policies for HTTP and films: a token gives a role, and the role the server; beside a chain of nginx that does the same.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use hermes_tests::curl::Output;
use hermes_tests::{Nginx, curl, program};

use crate::overlay::{Deciding, Overlay, Plan};

/// Sizes of files, in MB.
const SIZES: [usize; 3] = [1, 25, 50];

/// What a token gets at a path.
struct Case {
    token: Option<&'static str>,
    path: &'static str,
    /// The server that answers, or the status of the refusal.
    gets: Result<&'static str, u16>,
}

const CASES: [Case; 10] = [
    case(Some("user"), "/org/web/", Ok("web")),
    case(Some("admin"), "/org/web/", Ok("admin")),
    case(Some("admin"), "/org/admin/", Ok("admin")),
    // It is anyone's who has a token, and the policy allows it: there is no such place for him.
    case(Some("user"), "/org/admin/", Err(404)),
    case(Some("Admin"), "/org/admin/", Err(404)),
    // Films are for both roles.
    case(Some("user"), "/org/video/", Ok("web")),
    case(Some("admin"), "/org/video/", Ok("web")),
    case(None, "/org/video/", Err(403)),
    case(None, "/org/web/", Err(403)),
    case(None, "/org/admin/", Err(403)),
];

const fn case(
    token: Option<&'static str>,
    path: &'static str,
    gets: Result<&'static str, u16>,
) -> Case {
    Case { token, path, gets }
}

/// What the server has under the name of a size: no two servers and no two sizes have the same bytes.
fn content(server: &str, size: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(size * 1_000_000 + 64);
    let mut line = 0u64;
    while content.len() < size * 1_000_000 {
        line = line.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        content.extend_from_slice(format!("{server} {size} {line:016x}\n").as_bytes());
    }
    content.truncate(size * 1_000_000);
    content
}

fn server(name: &str) -> Nginx {
    Nginx::start("", |www| {
        for size in SIZES {
            fs::write(www.join(size.to_string()), content(name, size)).unwrap();
        }
    })
}

/// The chain: an ingress, and a gate that does what the policy says.
fn chain(web: &Nginx, admin: &Nginx) -> [Nginx; 2] {
    let (web, admin) = (web.address(), admin.address());
    let gate = format!(
        "if ($http_token = \"\") {{ return 403; }}
         set $server {web};
         if ($http_token = admin) {{ set $server {admin}; }}
         location /org/web/ {{ rewrite ^/org/web/(.*)$ /$1 break; proxy_pass http://$server; }}
         location /org/video/ {{ rewrite ^/org/video/(.*)$ /$1 break; proxy_pass http://{web}; }}
         location /org/admin/ {{
             if ($http_token != admin) {{ return 404; }}
             rewrite ^/org/admin/(.*)$ /$1 break;
             proxy_pass http://$server;
         }}"
    );
    let gate = Nginx::start(&gate, |_| {});
    let ingress = format!("location / {{ proxy_pass http://{}; }}", gate.address());

    [Nginx::start(&ingress, |_| {}), gate]
}

/// Asks for a file, with a token and further fields.
fn ask(via: &[&str], case: &Case, url: &str, fields: &[&str]) -> Output {
    let token = case.token.map(|token| format!("token: {token}"));
    let mut arguments = via.to_vec();
    for field in token
        .iter()
        .map(String::as_str)
        .chain(fields.iter().copied())
    {
        arguments.extend(["-H", field]);
    }
    arguments.push(url);
    curl(&arguments)
}

fn agrees(label: &str, case: &Case, size: usize, got: &Output) {
    let label = format!("{label}: {:?} at {} of {size} MB", case.token, case.path);
    match case.gets {
        Ok(server) => {
            assert_eq!(got.status, 200, "{label}: {}", got.stderr);
            assert!(got.body == content(server, size), "{label}: other bytes");
        }
        Err(status) => assert_eq!(got.status, status, "{label}: {}", got.text()),
    }
}

#[test]
fn a_token_gives_the_role_that_chooses_the_server_as_a_chain_of_nginx_does() {
    let web = Arc::new(server("web"));
    let admin = Arc::new(server("admin"));
    let addresses = [&web, &admin].map(|server| server.address().to_string());

    let [ingress, _gate] = chain(&web, &admin);
    for case in &CASES {
        for size in SIZES {
            let url = format!("http://{}{}{size}", ingress.address(), case.path);
            agrees("nginx", case, size, &ask(&[], case, &url, &[]));
        }
    }

    thread::scope(|scope| {
        for deciding in Deciding::BOTH {
            let addresses = &addresses;
            scope.spawn(move || through_the_overlay(deciding, addresses));
        }
    });
}

fn through_the_overlay(deciding: Deciding, [web, admin]: &[String; 2]) {
    let overlay = Overlay::start(&Plan {
        deciding,
        servers: [web, admin, "127.0.0.1:1"],
        database: "127.0.0.1:0",
        command: &|| Command::new(program::path()),
    });
    let proxy = overlay.dp.url("web");
    let label = format!("{deciding:?}");

    for case in &CASES {
        for size in SIZES {
            let url = format!("http://onl{}{size}", case.path);
            agrees(&label, case, size, &ask(&["-x", &proxy], case, &url, &[]));
        }
    }

    // What a client claims is removed where it enters, so it gets what its token gets.
    for case in &CASES {
        let claims = [
            "x-secure: admin",
            "user: operator",
            "clientip: 192.168.252.20",
        ];
        let url = format!("http://onl{}1", case.path);
        agrees(&label, case, 1, &ask(&["-x", &proxy], case, &url, &claims));
    }

    forgeries(&overlay, deciding);
}

/// A claim does not open the database, neither at the first node nor at one further on, for someone whom no one believes.
fn forgeries(overlay: &Overlay, deciding: Deciding) {
    let claims = [
        "-H",
        "clientip: 192.168.252.20",
        "-H",
        "x-secure: user",
        "-H",
        "user: operator",
    ];
    let database = "http://onl/org/db/";
    let post = ["-X", "POST", "-d", "SELECT 1"];

    let proxy = overlay.dp.url("web");
    let got = curl(&[&["-x", &proxy][..], &post, &claims, &[database]].concat());
    assert_eq!(got.status, 403, "{deciding:?}: {}", got.text());

    let stranger = overlay.pki.issue(&["stranger.overlay"]);
    let [cert, key, ca] =
        [&stranger.cert, &stranger.key, &overlay.pki.ca()].map(|path| path.display().to_string());
    for (node, name) in [(&overlay.ingress, "ingress"), (&overlay.gate, "gate")] {
        let address = node.address("overlay");
        let proxy = format!("https://{name}.overlay:{}", address.port());
        let resolve = format!("{name}.overlay:{}:{}", address.port(), address.ip());
        let via = [
            "-x",
            &proxy,
            "--resolve",
            &resolve,
            "--proxy-cacert",
            &ca,
            "--proxy-cert",
            &cert,
            "--proxy-key",
            &key,
        ];
        let got = curl(&[&via[..], &post, &claims, &[database]].concat());
        assert_eq!(got.status, 403, "{deciding:?}, {name}: {}", got.text());
        let got = curl(&[&via[..], &claims, &["http://onl/org/admin/1"]].concat());
        assert_eq!(got.status, 403, "{deciding:?}, {name}: {}", got.text());
    }

    // The same word, where it is the node's own, does count; the policy of the prototype knows no users.
    let desk = overlay.dp.url("desk");
    let got = curl(&["-x", &desk, "http://onl/org/admin/1"]);
    match deciding {
        Deciding::Rules => assert!(got.body == content("admin", 1), "{}", got.text()),
        Deciding::Rego => assert_eq!(got.status, 403, "{}", got.text()),
    }
}

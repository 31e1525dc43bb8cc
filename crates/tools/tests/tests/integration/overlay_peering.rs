//! Overlays of two operators, with a controller each: what is exported is reached both ways, and nothing else is.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use hermes_harness::curl::curl;
use hermes_harness::eventually::eventually_true;
use hermes_harness::origins;
use hermes_harness::overlay::{Hub, Joined};
use hermes_harness::pki::{Issued, Pki};
use serde_json::Value;

fn asks(device: &Joined, url: &str) -> u16 {
    curl(&["-x", &format!("http://{}", device.web), url]).status
}

/// Exports the description of one overlay into a file of the other one.
fn export(from: &Hub, folder: &Path, name: &str) -> String {
    let described = from.ask(&["peering", "export"]).unwrap();
    let file = folder.join(format!("{name}.yaml"));
    fs::write(&file, described["yaml"].as_str().unwrap()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn import(to: &Hub, file: &str, arguments: &[&str]) {
    let said = to.say(&[&["peering", "import", file], arguments].concat());
    assert_eq!(said.code, 0, "{said:?}");
}

/// A server of an overlay, whose users see the fields of the overlay.
fn serve(hub: &Hub, name: &str, server: &str, user: &str) {
    let lower = name.to_lowercase();
    hub.apply(
        &format!(
            "apiVersion: hermes/v1
kind: Service
metadata: {{ name: {lower} }}
spec: {{ at: [{{ node: hub, address: \"{server}\" }}], expose: [user, \"x-hermes-*\"] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: {lower} }}
spec: {{ name: {name}, service: {lower} }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: {lower} }}
spec: {{ rules: [{{ match: {{ target: {name}, user: {user} }}, allow: true }}] }}
"
        ),
        &[],
    );
}

/// A tunnel to a name through the proxy of a device.
fn tunnel(device: &Joined, name: &str) -> TcpStream {
    let mut stream = TcpStream::connect(device.web).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        stream,
        "CONNECT {name}:80 HTTP/1.1\r\nHost: {name}:80\r\n\r\n"
    )
    .unwrap();
    let mut answer = [0; 256];
    let read = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stream
}

#[test]
fn two_operators_share_names_until_one_of_them_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let [video, db] = [origins::http(), origins::http()];
    let [berlin, mut paris] = ["berlin", "paris"].map(Hub::of_overlay);
    serve(&berlin, "VIDEO", &video.address().to_string(), "alice");
    serve(&berlin, "SECRET", &video.address().to_string(), "\"*\"");
    serve(&paris, "DB", &db.address().to_string(), "bob");
    let alice = berlin.device("alice", "laptop");
    let [bob, other_alice] =
        ["bob", "alice"].map(|user| paris.device(user, &format!("{user}-desk")));

    let of_berlin = export(&berlin, folder.path(), "berlin");
    let of_paris = export(&paris, folder.path(), "paris");
    let exported = [
        "--export",
        "VIDEO",
        "--to",
        "bob",
        "--accept",
        "x-hermes-priority",
    ];
    import(
        &berlin,
        &of_paris,
        &[&exported[..], &["--allow", "alice"]].concat(),
    );
    import(&paris, &of_berlin, &["--export", "DB", "--allow", "*"]);
    paris.apply(
        "apiVersion: hermes/v1
kind: Policy
metadata: { name: words }
spec:
  order: -1
  rules:
    - match: { target: \"*.berlin.hermes.internal\" }
      set: { x-hermes-priority: high, x-hermes-team: blue }
",
        &[],
    );

    // Each way, as it is exported.
    assert_eq!(asks(&bob, "http://VIDEO.berlin.hermes.internal/x"), 200);
    assert_eq!(asks(&alice, "http://DB.paris.hermes.internal/y"), 200);
    let seen = video.seen().pop().unwrap();
    assert_eq!(
        seen.field("user").as_deref(),
        Some("bob@paris.hermes.internal")
    );
    assert_eq!(seen.field("x-hermes-priority").as_deref(), Some("high"));
    assert_eq!(seen.field("x-hermes-team"), None, "no one accepts it");
    let seen = db.seen().pop().unwrap();
    assert_eq!(
        seen.field("user").as_deref(),
        Some("alice@berlin.hermes.internal")
    );

    // What is not exported, or not to them; the name of a user of ours is no pass.
    for (device, url) in [
        (&bob, "http://SECRET.berlin.hermes.internal/"),
        (&other_alice, "http://VIDEO.berlin.hermes.internal/"),
        (&bob, "http://VIDEO/"),
        (&alice, "http://VIDEO.berlin.hermes.internal/"),
        (&alice, "http://x.paris.hermes.internal/"),
    ] {
        assert_eq!(asks(device, url), 403, "{url}");
    }
    let why = berlin.ask(&[
        "why",
        "--overlay",
        "http://VIDEO.berlin.hermes.internal/",
        "--user",
        "bob@paris.hermes.internal",
    ]);
    assert!(
        why.is_some_and(|why| why.to_string().contains("service-video")),
        "bob is known to `why`"
    );

    the_other_authority_is_another(&mut paris, &berlin, folder.path());
    let bob = paris.device("bob", "bob-desk-2");
    assert_eq!(asks(&bob, "http://VIDEO.berlin.hermes.internal/"), 200);

    // The end ends tunnels that are open, too.
    let mut open = tunnel(&bob, "VIDEO.berlin.hermes.internal");
    berlin
        .ask(&["delete", "Peering/paris", "Policy/peering-paris"])
        .unwrap();
    let mut rest = Vec::new();
    // A time-out would be an error of another kind.
    if let Err(error) = open.read_to_end(&mut rest) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    eventually_true("the exports are gone", || {
        asks(&bob, "http://VIDEO.berlin.hermes.internal/") >= 400
    });
    assert!(asks(&alice, "http://DB.paris.hermes.internal/") >= 400);
    assert_eq!(asks(&alice, "http://VIDEO/"), 200);
}

/// An overlay that has lost its authority is a stranger until its new description is there.
fn the_other_authority_is_another(paris: &mut Hub, berlin: &Hub, folder: &Path) {
    let resources = paris.ask(&["get"]).unwrap();
    let resources = resources["yaml"].as_str().unwrap().to_owned();
    paris.kill();
    fs::remove_dir_all(paris.state()).unwrap();
    paris.run();
    paris.apply(&resources, &["--force"]);
    let carol = paris.device("bob", "bob-desk-1");
    let status = asks(&carol, "http://VIDEO.berlin.hermes.internal/");
    assert!(status >= 500, "berlin does not believe it: {status}");

    let of_paris = export(paris, folder, "paris-2");
    import(berlin, &of_paris, &[]);
    let peering = berlin.ask(&["get", "Peering"]).unwrap();
    let kept = peering["yaml"].as_str().unwrap();
    assert!(
        kept.contains("x-hermes-priority") && kept.contains("bob"),
        "{kept}"
    );
    eventually_true("berlin believes the new authority", || {
        asks(&carol, "http://VIDEO.berlin.hermes.internal/") == 200
    });
}

/// A description of an overlay of our own making, with this authority.
fn described(domain: &str, authority: &Path) -> String {
    let authority = serde_json::to_string(&fs::read_to_string(authority).unwrap()).unwrap();
    format!(
        "apiVersion: hermes/v1
kind: Peering
metadata: {{ name: paris }}
spec:
  domain: {domain}
  bundle: {{ inline: {authority} }}
  border: [{{ node: hub }}]
"
    )
}

/// Asks the border of an overlay as the node of another one.
fn asks_as(border: &Hub, node: &Issued, arguments: &[&str], url: &str) -> u16 {
    let proxy = format!("https://{}", border.exchanges());
    let [cert, key] = [&node.cert, &node.key].map(|file| file.to_str().unwrap().to_owned());
    let tls = [
        "--proxy-insecure",
        "--proxy-cert",
        &cert,
        "--proxy-key",
        &key,
    ];
    curl(&[&["-x", &proxy][..], &tls, arguments, &[url]].concat()).status
}

#[test]
fn a_border_node_of_another_operator_is_believed_about_its_own_users_alone() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origins::http();
    let berlin = Hub::of_overlay("berlin");
    serve(&berlin, "VIDEO", &origin.address().to_string(), "alice");
    serve(&berlin, "SECRET", &origin.address().to_string(), "\"*\"");
    let pki = Pki::new();
    let file = folder.path().join("paris.yaml");
    fs::write(&file, described("paris.hermes.internal", &pki.ca())).unwrap();
    import(&berlin, file.to_str().unwrap(), &["--export", "VIDEO"]);

    let hub = pki.issue(&[
        "hub.paris.hermes.internal",
        "spiffe://paris.hermes.internal/node/hub",
    ]);
    let video = "http://VIDEO.berlin.hermes.internal/";
    let ask = |arguments: &[&str], url: &str| asks_as(&berlin, &hub, arguments, url);
    let as_user = |user: &str| vec!["-H".to_owned(), format!("user: {user}")];
    let asks_for = |user: &str, url: &str| {
        let user = as_user(user);
        ask(&[&user[0], &user[1]], url)
    };
    assert_eq!(asks_for("alice", video), 200);
    let seen = origin.seen().pop().unwrap();
    assert_eq!(
        seen.field("user").as_deref(),
        Some("alice@paris.hermes.internal")
    );
    // Fields that would say more, by any spelling.
    let words = [
        "-H",
        "user: alice",
        "-H",
        "x-hermes-slice: home",
        "-H",
        "x_hermes_team: red",
        "-H",
        "x-forwarded-for: 10.0.0.1",
    ];
    assert_eq!(ask(&words, video), 200);
    let seen = origin.seen().pop().unwrap();
    for field in ["x-hermes-slice", "x_hermes_team", "x-forwarded-for"] {
        assert_eq!(seen.field(field), None, "{field}");
    }

    // A user of ours, of a third overlay, of none, and two at once.
    let count = origin.seen().len();
    for user in ["alice@berlin.hermes.internal", "carol@rome.hermes.internal"] {
        assert_eq!(asks_for(user, "http://VIDEO/"), 403, "{user}");
        assert_eq!(
            asks_for(user, "http://SECRET.berlin.hermes.internal/"),
            403,
            "{user}"
        );
    }
    assert_eq!(ask(&[], video), 403);
    assert_eq!(ask(&["-H", "user;"], video), 403);
    assert_eq!(ask(&["-H", "user: alice", "-H", "user: bob"], video), 403);
    // Our own words for the names, and theirs, and another node's.
    for url in [
        "http://VIDEO/",
        "http://SECRET/",
        "http://x.paris.hermes.internal/",
        "http://hub.berlin.hermes.internal/",
    ] {
        assert_eq!(asks_for("alice", url), 403, "{url}");
    }
    // Their other members are strangers.
    for names in [
        [
            "spare.paris.hermes.internal",
            "spiffe://paris.hermes.internal/node/spare",
        ],
        [
            "desk.paris.hermes.internal",
            "spiffe://paris.hermes.internal/user/alice/desk",
        ],
    ] {
        let member = pki.issue(&names);
        assert_eq!(
            asks_as(&berlin, &member, &["-H", "user: alice"], video),
            403,
            "{names:?}"
        );
    }
    // Names of ours, or beside theirs: no connection comes about.
    for names in [
        &[
            "hub.berlin.hermes.internal",
            "spiffe://berlin.hermes.internal/node/hub",
        ][..],
        &[
            "laptop.berlin.hermes.internal",
            "spiffe://berlin.hermes.internal/user/alice/laptop",
        ],
        &[
            "hub.berlin.hermes.internal",
            "spiffe://paris.hermes.internal/node/hub",
        ],
        &[
            "hub.paris.hermes.internal",
            "spiffe://paris.hermes.internal/node/hub",
            "spiffe://berlin.hermes.internal/node/hub",
        ],
        &[
            "hub.rome.hermes.internal",
            "spiffe://rome.hermes.internal/node/hub",
        ],
        &["hub.paris.hermes.internal"],
    ] {
        let forged = pki.issue(names);
        assert_eq!(
            asks_as(&berlin, &forged, &["-H", "user: alice"], "http://VIDEO/"),
            0,
            "{names:?}"
        );
        assert_eq!(
            asks_as(&berlin, &forged, &["-H", "user: alice"], video),
            0,
            "{names:?}"
        );
    }
    assert_eq!(origin.seen().len(), count);
}

#[test]
fn descriptions_that_would_take_something_of_ours_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let berlin = Hub::of_overlay("berlin");
    serve(&berlin, "VIDEO", "127.0.0.1:1", "alice");
    let pki = Pki::new();
    let file = folder.path().join("d.yaml");
    let imported = |text: &str, arguments: &[&str]| {
        fs::write(&file, text).unwrap();
        let said =
            berlin.say(&[&["peering", "import", file.to_str().unwrap()], arguments].concat());
        (said.code, format!("{}{}", said.stdout, said.stderr))
    };
    let paris = described("paris.hermes.internal", &pki.ca());

    // An overlay of our own name is our own domain.
    let (code, said) = imported(
        &described("berlin.hermes.internal", &pki.ca()),
        &["--name", "other"],
    );
    assert!(
        code == 2 && said.contains("the domain of this overlay itself"),
        "{said}"
    );
    let (code, said) = imported(&paris.replace("inline:", "file:"), &[]);
    assert_eq!(code, 2, "{said}");
    // What the other operator writes about our names does not count.
    let greedy = format!(
        "{paris}  exports: [{{ name: video }}]\n  accepts: [\"x-hermes-*\"]\n  at: [hub]\n"
    );
    let (code, said) = imported(&greedy, &[]);
    assert_eq!(code, 0, "{said}");
    let views = berlin.ask(&["peering", "list"]).unwrap();
    assert_eq!(views[0]["exports"], Value::Array(Vec::new()), "{views:#}");
    assert!(views[0]["until"].is_u64());
    // Another overlay does not inherit by its name.
    let (code, said) = imported(
        &described("rome.hermes.internal", &pki.ca()),
        &["--name", "paris"],
    );
    assert!(code == 2 && said.contains("is another overlay"), "{said}");
    // Names that hide others.
    let shadow = "apiVersion: hermes/v1\nkind: Name\nmetadata: { name: db }\nspec: { name: DB.paris.hermes.internal, service: video }\n";
    let said = berlin.try_apply(shadow, &[]);
    assert_eq!(said.code, 2);
    assert!(
        said.stdout.contains("name of another overlay")
            || said.stderr.contains("name of another overlay"),
        "{said:?}"
    );
}

#[test]
fn placements_are_the_planners() {
    let berlin = Hub::of_overlay("berlin");
    let placement = "apiVersion: hermes/v1\nkind: Placement\nmetadata: { name: fast }\nspec: { objective: fast-video, at: [hub] }\n";
    let said = berlin.try_apply(placement, &[]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(
        said.code == 2 && told.contains("the planner alone writes placements"),
        "{told}"
    );
}

//! Who may be attached under which name, and who is believed over an attachment.

use std::os::unix::fs::PermissionsExt;

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins;
use hermes_tests::{Node, Pki, curl};

use super::overlay::{Machine, Overlay, ROUTES, attached, core, node, reaching, refused};
use crate::tokens::Issuer;

/// Nothing runs on this machine.
fn nothing() -> Machine {
    let unused = "127.0.0.1:9".parse().unwrap();
    Machine {
        site: unused,
        db: unused,
        player: unused,
    }
}

#[test]
fn no_one_is_attached_under_another_users_name() {
    let overlay = Overlay::start(2);
    let Overlay { core, pki, .. } = &overlay;
    let before = core.status()["attached"].clone();
    let address = core.address("overlay");
    let bob = Node::start(
        "bob",
        &reaching(pki, "bob", address, 2, nothing(), "{ to: core, as: alice }"),
    );
    refused(&bob, "403");
    refused(
        &bob,
        "user bob may be attached under no name but that, not as alice",
    );
    // Neither by his word: his certificate does not speak for her.
    let liar = reaching(pki, "bob", address, 2, nothing(), "{ to: core, as: alice }");
    let liar = Node::start("liar", &liar.replace("user: bob }", "user: alice }"));
    refused(&liar, "peer bob does not speak for user alice");
    // Nor by a certificate of the overlay that no one knows.
    let mallory = Node::start(
        "mallory",
        &reaching(
            pki,
            "mallory",
            address,
            2,
            nothing(),
            "{ to: core, as: alice }",
        ),
    );
    refused(
        &mallory,
        "user mallory.overlay may be attached under no name but that",
    );
    let now = core.status()["attached"].clone();
    let names = |views: &serde_json::Value| -> Vec<String> {
        views
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["attachment"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&now), names(&before));
    let record = core.record(|record| record["status"] == 403);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("http_request_denied: "),
        "{record:#}"
    );
    assert_eq!(
        overlay.get("http://alice/").status,
        200,
        "and Alice goes on"
    );
}

#[test]
fn a_route_may_give_names_away() {
    let pki = Pki::new();
    let routes = r#"
routes:
  - { match: { protocol: ptth, user: bob }, attach: [door, "~^printer-[0-9]+$"] }
  - { to: users }
"#;
    let (core, site) = (Node::start("core", &core(&pki, routes)), origins::http());
    let machine = Machine {
        site: site.address(),
        ..nothing()
    };
    let printer = reaching(
        &pki,
        "bob",
        core.address("overlay"),
        2,
        machine,
        "{ to: core, as: printer-7 }",
    );
    let _printer = Node::start("printer", &printer.replace("bob:80", "printer-7"));
    attached(&core, "printer-7", 2);
    assert_eq!(
        curl(&["-x", &core.url("web"), "http://Printer-7/"]).status,
        200
    );
    let bob = Node::start("bob", &node(&pki, "bob", &core, 2, machine));
    refused(&bob, "the route allows no attachment as bob");
    // The route is not for Alice: nothing else lets her be attached.
    let alice = Node::start(
        "alice",
        &reaching(
            &pki,
            "alice",
            core.address("overlay"),
            2,
            machine,
            "{ to: core, as: door }",
        ),
    );
    refused(&alice, "answered 5");
}

#[test]
fn a_changed_user_attaches_anew_under_the_same_name() {
    let pki = Pki::new();
    let routes = "routes:\n  - { match: { protocol: ptth }, attach: [\"~^printer-[0-9]+$\"] }\n  - { to: users }\n";
    let core = core(&pki, routes).replace("speaks_for: [bob]", "speaks_for: [bob, carol]");
    let core = Node::start("core", &core);
    let yaml = reaching(
        &pki,
        "bob",
        core.address("overlay"),
        2,
        nothing(),
        "{ to: core, as: printer-7 }",
    );
    let printer = Node::start("printer", &yaml);
    attached(&core, "printer-7", 2);
    let users = || {
        let status = core.status();
        let all = status["attached"].as_array().unwrap();
        all.iter()
            .map(|one| one["user"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(users(), ["bob", "bob"]);
    assert_eq!(
        printer
            .reload(&yaml.replace("user: bob }", "user: carol }"))
            .0,
        200
    );
    eventually_true("both are carol's", || users() == ["carol", "carol"]);
}

#[test]
fn a_proxy_that_is_no_peer_speaks_for_no_one() {
    let overlay = Overlay::start(2);
    let Overlay {
        core,
        alice,
        pki,
        machine,
        site,
        ..
    } = &overlay;
    let file = node(pki, "alice", core, 2, *machine)
        .replace("certificate: core.overlay", "certificate: other.overlay");
    assert_eq!(alice.reload(&file).0, 200);
    assert_eq!(overlay.get("http://alice/a").status, 200);
    assert_eq!(site.last().field("user"), None, "not even for Alice");
    let record = alice.record(|record| record["kind"] == "http");
    assert!(record["user"].is_null(), "{record:#}");
    let refused =
        hermes_tests::raw::Raw::tunnel(core.address("web"), "alice:5432", "").unwrap_err();
    assert_eq!(refused.status(), 404, "the route wants a user: {refused:?}");
}

#[test]
fn over_a_clear_link_addresses_are_trusted_that_are_named() {
    let pki = Pki::new();
    let clear = core(&pki, ROUTES).replace(
        "  web:",
        "  clear: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }\n  web:",
    );
    let (core, site) = (Node::start("core", &clear), origins::http());
    let (clear, site_at) = (core.address("clear"), site.address());
    let file = |trust: &str| {
        format!(
            "identity: {{ user: alice }}\nlisteners: {{ reach: {{ attach: core{trust} }} }}\nroutes: [ {{ terminate: site, expose: [user] }} ]\n\
             upstreams:\n  core: {{ endpoints: [\"{clear}\"] }}\n  site: {{ endpoints: [\"{site_at}\"] }}\n"
        )
    };
    let alice = Node::start("alice", &file(", insecure_trust: [127.0.0.1/32]"));
    attached(&core, "alice", 2);
    let get = || curl(&["-x", &core.url("web"), "http://alice/"]).status;
    assert_eq!(
        (get(), site.last().field("user").as_deref()),
        (200, Some("server"))
    );
    assert_eq!(alice.reload(&file("")).0, 200);
    assert_eq!((get(), site.last().field("user")), (200, None));
}

#[test]
fn a_token_says_who_is_attached_and_no_one_is_without_one() {
    let issuer = Issuer::eddsa();
    let folder = |file: &str, content: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), content).unwrap();
        std::fs::set_permissions(
            folder.path().join(file),
            std::fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        folder
    };
    let file = "listeners:\n  overlay: { http: 127.0.0.1:0, auth: { bearer: { jwks_file: keys.json, issuer: \"https://issuer.test\", audience: hermes } } }\n  \
                web: { http: 127.0.0.1:0, user: server }\nroutes:\n  - { match: { protocol: ptth }, attach: true }\n  - { to: users }\n\
                upstreams: { users: { attached: \"{target.host}\" } }\n";
    let core = Node::start_in(folder("keys.json", &issuer.key_set()), "core", file, &[]);
    let site = origins::http();
    let start = |token: &str, identity: &str| {
        let file = format!(
            "identity: {{ user: alice{identity} }}\nlisteners: {{ reach: {{ attach: core }} }}\nroutes: [ {{ terminate: site }} ]\n\
             upstreams:\n  core: {{ endpoints: [\"{}\"], http: 2 }}\n  site: {{ endpoints: [\"{}\"] }}\n",
            core.address("overlay"),
            site.address()
        );
        Node::start_in(folder("token", token), "alice", &file, &[])
    };
    refused(&start("", ""), "407");
    let bob = issuer.token(&issuer.claims("bob"));
    refused(
        &start(&bob, ", token_file: token"),
        "user bob may be attached under no name but that, not as alice",
    );
    let _alice = start(
        &issuer.token(&issuer.claims("alice")),
        ", token_file: token",
    );
    attached(&core, "alice", 2);
    assert_eq!(curl(&["-x", &core.url("web"), "http://alice/"]).status, 200);
}

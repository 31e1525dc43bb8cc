//! An overlay with a controller: five commands, changes, outages, members.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_harness::curl::curl;
use hermes_harness::cut::{self, Allowance};
use hermes_harness::eventually::{eventually, eventually_true};
use hermes_harness::overlay::{Hub, Joined, Machine};
use hermes_harness::resources::Resources;
use hermes_harness::{free, origins, program};

pub(crate) fn asks(device: &Joined, url: &str) -> (u16, String) {
    let answer = curl(&["-x", &format!("http://{}", device.web), url]);
    (answer.status, answer.text())
}

#[test]
fn five_commands_carry_a_request_from_a_laptop_to_a_server_behind_the_hub() {
    let origin = origins::http();
    let hub = Hub::start();
    let device = hub.device("alice", "laptop");
    let exposed = hub.ask(&[
        "expose",
        "VIDEO",
        &origin.address().to_string(),
        "--to",
        "alice",
    ]);
    assert!(exposed.is_some_and(|exposed| exposed["outcome"]["stopped"].is_null()));
    assert_eq!(asks(&device, "http://VIDEO/hello").0, 200);
    assert_eq!(asks(&device, "http://OTHER/").0, 403);

    // Another user's device enters the overlay, and not the service.
    let other = hub.device("bob", "desk");
    assert_eq!(asks(&other, "http://VIDEO/hello").0, 403);
}

#[test]
fn a_join_is_repeated_by_the_same_key_and_refused_to_another() {
    let hub = Hub::start();
    let token = hub.token("alice");
    let mut first = Joined::start(&hub.url(), &token, "laptop");
    eventually("the device has joined", || hub.node("laptop"));
    first.kill();
    first.run();
    eventually_true("the device attends again", || {
        hub.node("laptop")
            .is_some_and(|node| node["attends"] == true)
    });

    let mut thief = Joined::start(&hub.url(), &token, "thief");
    assert_eq!(eventually("the thief ends", || thief.ended()), 1);
    assert!(thief.log().contains("another key"), "{}", thief.log());
}

/// Bytes between two places at which a join is cut; of a join, some 2,000 go up and 3,000 down.
const CUTS: usize = 251;

#[test]
fn a_join_that_is_cut_anywhere_is_repeated_and_makes_one_member() {
    const UNCUT: usize = usize::MAX;
    let controller = Hub::controller();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("node").display().to_string();
    let token = controller.token("alice");
    let join = |allowance| {
        let path = cut::one_connection(controller.agents(), allowance);
        let url = format!("https://{path}");
        program::run(&[
            "join", &url, "--token", &token, "--name", "laptop", "--state", &state, "--only",
        ])
    };

    let mut cuts = 0;
    for direction in ["up", "down"] {
        for bytes in (0..).step_by(CUTS) {
            // Each begins anew, but for the key: as after an answer that was lost.
            let _ = std::fs::remove_file(folder.path().join("node/membership.json"));
            let said = join(match direction {
                "up" => Allowance {
                    up: bytes,
                    down: UNCUT,
                },
                _ => Allowance {
                    up: UNCUT,
                    down: bytes,
                },
            });
            if said.code == 0 {
                break;
            }
            assert_eq!(said.code, 3, "{direction} {bytes}: {said:?}");
            cuts += 1;
        }
    }
    assert!(cuts > 12, "{cuts}");
    let nodes = controller.ask(&["nodes"]).unwrap();
    assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes:#}");
    assert_eq!(nodes[0]["node"], "laptop");
}

#[test]
fn without_a_controller_nodes_go_on_and_start_from_their_disks() {
    let origin = origins::http();
    let mut controller = Hub::controller();
    let (listen, address) = (free::tcp(), origin.address());
    controller.apply(&edge(listen, address), &[]);
    let mut edge = controller.member("edge");
    let mut device = controller.device("alice", "laptop");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);

    controller.kill();
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
    for node in [&mut edge, &mut device] {
        node.kill();
        node.run_again();
    }
    eventually_true("they serve again", || {
        asks(&device, "http://VIDEO/").0 == 200
    });

    controller.run();
    controller.await_step("edge");
    controller.await_step("laptop");
}

#[test]
fn a_restored_controller_is_followed_by_the_nodes_of_the_one_before() {
    let hub = Hub::controller();
    let listen = free::tcp();
    hub.apply(&edge(listen, listen), &[]);
    let _edge = hub.member("edge");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    hub.ask(&["backup", file.to_str().unwrap()]).unwrap();
    // What came after the backup is lost, and yet older for the node.
    let later = edge(listen, listen).replace("VIDEO", "LATER");
    hub.apply(&later, &[]);
    let hub = hub.restored(&file);
    hub.await_step("edge");
    assert!(
        hub.node("edge").unwrap()["revision"]
            .as_str()
            .unwrap()
            .starts_with("2.")
    );
}

/// A node by which devices enter, with a server that Alice may ask.
pub(crate) fn edge(listen: SocketAddr, server: SocketAddr) -> String {
    let resources = Resources::new().ingress("edge", listen);
    video(resources, "edge", server)
}

/// With a server at a node that Alice may ask.
fn video(resources: Resources, node: &str, server: SocketAddr) -> String {
    resources
        .service("video", &[(node, server)])
        .name("VIDEO", "video")
        .allow("video", "target: VIDEO, user: alice")
        .text()
}

#[test]
fn a_change_that_a_node_refuses_is_stopped_and_taken_back() {
    let origin = origins::http();
    let controller = Hub::controller();
    let (listen, address) = (free::tcp(), origin.address());
    controller.apply(&edge(listen, address), &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");

    // Another process has this address: only the node finds that out.
    let taken = std::net::TcpListener::bind(free::tcp()).unwrap();
    let bad = edge(listen, address).replace(
        &format!("listen: {listen}"),
        &format!("listen: {}", taken.local_addr().unwrap()),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, bad).unwrap();
    let said = controller.say(&["apply", file.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("edge") && told.contains("in use"), "{told}");
    controller.await_step("edge");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
    let resources = controller.ask(&["get", "Node"]).unwrap();
    assert!(
        resources["yaml"]
            .as_str()
            .unwrap()
            .contains(&listen.to_string())
    );
}

#[test]
fn a_change_with_which_exchanges_fail_is_stopped_and_taken_back() {
    let origin = origins::http();
    let controller = Hub::controller();
    let (listen, address) = (free::tcp(), origin.address());
    let overlay = "apiVersion: hermes/v1
kind: Overlay
metadata: { name: hermes }
spec: { rollout: { bake: 20s } }
---
";
    let good = edge(listen, address);
    controller.apply(&good, &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");
    controller.apply(&format!("{overlay}{good}"), &["--now"]);

    // The new server is one that no one serves at.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, edge(listen, free::tcp())).unwrap();
    let is_over = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                asks(&device, "http://VIDEO/");
            }
        });
        let said = controller.say(&["apply", file.to_str().unwrap()]);
        is_over.store(true, Ordering::Relaxed);
        said
    });
    assert_eq!(said.code, 1, "{said:?}");
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("edge"), "{told}");
    assert!(told.contains("exchanges failed"), "{told}");
    controller.await_step("edge");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
}

/// Writes a text to a file of a folder that lives as long as the test.
fn written(folder: &tempfile::TempDir, text: &str) -> String {
    let file = folder.path().join("overlay.yaml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_change_that_takes_everything_from_a_user_has_to_be_forced_and_then_waits_for_no_one() {
    let origin = origins::http();
    let controller = Hub::controller();
    let (listen, address) = (free::tcp(), origin.address());
    controller.apply(&edge(listen, address), &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);

    let folder = tempfile::tempdir().unwrap();
    let denied = edge(listen, address).replace("allow: true", "deny: true");
    let file = written(&folder, &denied);
    let said = controller.say(&["apply", &file]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert_ne!(said.code, 0, "{told}");
    assert!(told.contains("user alice reaches nothing"), "{told}");
    assert!(told.contains("Policy/default/video"), "{told}");
    assert!(told.contains("--force"), "{told}");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);

    controller.apply(&denied, &["--force"]);
    assert_eq!(asks(&device, "http://VIDEO/").0, 403);
}

#[test]
fn a_program_that_is_not_in_the_list_gets_nothing() {
    let controller = Hub::controller();
    let listen = free::tcp();
    controller.apply(&edge(listen, listen), &[]);
    let _edge = controller.member("edge");
    let binary = controller.node("edge").unwrap()["binary"].clone();
    let binary = binary.as_str().unwrap();
    let other = "0".repeat(64);
    let overlay = |binaries: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Overlay\nmetadata: {{ name: hermes }}\nspec: {{ binaries: [{binaries}] }}\n"
        )
    };

    controller.apply(&overlay(&format!("\"{binary}\", \"{other}\"")), &[]);
    controller.await_step("edge");
    controller.apply(&overlay(&format!("\"{other}\"")), &[]);
    eventually_true("the node is sent away", || {
        controller
            .node("edge")
            .is_some_and(|node| node["attends"] == false)
    });
    assert_ne!(controller.say(&["nodes", "--update", "edge"]).code, 0);
    // One that joins with it is told why not, and has no certificate.
    let token = controller.token("alice");
    let mut stranger = Joined::start(&controller.url(), &token, "laptop");
    assert_eq!(eventually("it ends", || stranger.ended()), 1);
    assert!(stranger.log().contains("program"), "{}", stranger.log());

    controller.apply(&overlay(""), &[]);
    controller.await_step("edge");
    assert_eq!(controller.say(&["nodes", "--update", "edge"]).code, 0);
}

#[test]
fn a_controller_pushes_nothing_that_the_operator_has_not_signed() {
    let origin = origins::http();
    let controller = Hub::controller();
    let (listen, address) = (free::tcp(), origin.address());
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("operator.key");
    let key = key.to_str().unwrap();
    let public = program::run(&["operator-key", key, "--json"]);
    let public: serde_json::Value = serde_json::from_str(&public.stdout).unwrap();
    let public = public["public_key"].as_str().unwrap();
    let good = edge(listen, address);
    let unknown = controller.say(&["apply", &written(&folder, &good), "--sign", key]);
    assert_ne!(
        unknown.code, 0,
        "a state that no one has signed: {unknown:?}"
    );
    controller.apply(&good, &["--sign", key, "--adopt"]);

    let made = controller
        .ask(&["token", "create", "--name", "edge"])
        .unwrap();
    let token = made["token"].as_str().unwrap();
    let extra = ["--operator-key", public];
    let _edge = Joined::start_with(&controller.url(), token, "edge", &extra);
    controller.await_step("edge");
    let device = controller.device("alice", "laptop");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);

    // Who has the controller could do the same.
    let bad = written(
        &folder,
        &good.replace("user: alice", "user: [alice, mallory]"),
    );
    let said = controller.say(&["apply", &bad]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert_eq!(said.code, 1, "{told}");
    assert!(told.contains("signed"), "{told}");
    controller.await_step("edge");

    // The controller has taken it back: the state is again the one that was signed.
    let signed = written(&folder, &good.replace("user: alice", "user: [alice, bob]"));
    let said = controller.say(&["apply", &signed, "--sign", key]);
    assert_eq!(said.code, 0, "{said:?}");
    controller.await_step("edge");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
}

#[test]
fn a_device_that_joins_changes_no_document() {
    let hub = Hub::start();
    let revision = |hub: &Hub| hub.node("hub").unwrap()["revision"].clone();
    let before = revision(&hub);
    let _first = hub.device("alice", "laptop");
    let _second = hub.device("bob", "desk");
    assert_eq!(revision(&hub), before);
    assert_eq!(hub.ask(&["history"]).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn a_revoked_device_is_told_and_no_exchange_of_it_is_carried() {
    let origin = origins::http();
    let hub = Hub::start();
    let mut device = hub.device("alice", "laptop");
    let address = origin.address().to_string();
    hub.ask(&["expose", "VIDEO", &address, "--to", "alice"])
        .unwrap();
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
    hub.ask(&["revoke", "laptop"]).unwrap();
    assert_eq!(eventually("the device ends", || device.ended()), 1);
    assert!(device.log().contains("revoked"), "{}", device.log());
}

#[test]
fn a_mistake_is_told_with_file_and_line_and_changes_nothing() {
    let hub = Hub::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overlay.yaml");
    let text = "apiVersion: hermes/v1\nkind: Name\nmetadata: { name: video }\nspec:\n  name: VIDEO\n  service: vidio\n";
    std::fs::write(&file, text).unwrap();
    let said = hub.say(&["apply", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("overlay.yaml"), "{told}");
    assert!(told.contains("vidio"), "{told}");
    assert!(
        hub.ask(&["get", "Name"])
            .is_some_and(|answer| answer["yaml"] == "")
    );
}

#[test]
fn a_change_that_is_not_confirmed_returns_by_itself() {
    let origin = origins::http();
    let hub = Hub::start();
    let device = hub.device("alice", "laptop");
    let address = origin.address().to_string();
    hub.ask(&["expose", "VIDEO", &address, "--to", "alice"])
        .unwrap();
    let yaml = hub.ask(&["get"]).unwrap()["yaml"]
        .as_str()
        .unwrap()
        .to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overlay.yaml");
    std::fs::write(&file, yaml.replace("alice", "bob")).unwrap();
    let file = file.to_str().unwrap();
    // Alice loses all that she has, for a moment.
    hub.ask(&["apply", "--confirm", "2s", "--force", file])
        .unwrap();
    assert_eq!(asks(&device, "http://VIDEO/").0, 403);
    eventually_true("it has returned", || {
        asks(&device, "http://VIDEO/").0 == 200
    });
    eventually_true("the hub is in step again", || {
        hub.node("hub")
            .is_some_and(|node| node["state"] == "in step")
    });
}

#[test]
fn a_controller_that_starts_anew_returns_from_an_unconfirmed_change_and_keeps_a_confirmed_one() {
    let origin = origins::http();
    let listen = free::tcp();
    let text = |users: &str| edge(listen, origin.address()).replace("user: alice", users);
    let mut controller = Hub::controller();
    controller.apply(&text("user: alice"), &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");
    eventually_true("the service is reached", || {
        asks(&device, "http://VIDEO/").0 == 200
    });

    controller.apply(&text("user: bob"), &["--confirm", "4s", "--force", "--now"]);
    assert_eq!(asks(&device, "http://VIDEO/").0, 403);
    controller.kill();
    controller.run();
    eventually_true("it has returned, and so have the nodes", || {
        let state = controller.say(&["get"]).stdout;
        !state.contains("bob") && controller.is_in_step("edge")
    });
    eventually_true("the service is reached again", || {
        asks(&device, "http://VIDEO/").0 == 200
    });

    controller.apply(&text("user: [alice, bob]"), &["--confirm", "3s", "--now"]);
    controller.ask(&["confirm", "--overlay"]).unwrap();
    let revision = controller.ask(&["get"]).unwrap()["revision"].clone();
    controller.kill();
    controller.run();
    // It would return in that time.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(controller.ask(&["get"]).unwrap()["revision"], revision);
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
}

#[test]
fn a_service_that_moves_between_nodes_under_traffic_loses_no_request() {
    let origin = origins::http();
    let controller = Hub::controller();
    let places = [free::tcp(), free::tcp(), free::tcp()];
    let text = |node: &str| moving(places, node, origin.address());
    controller.apply(&text("a"), &[]);
    let _nodes = ["edge", "a", "b"].map(|name| controller.member(name));
    let device = controller.device("alice", "laptop");
    eventually_true("the service is reached", || {
        asks(&device, "http://VIDEO/").0 == 200
    });

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = Vec::new();
            while !done.load(Ordering::Relaxed) {
                answers.push(asks(&device, "http://VIDEO/"));
            }
            answers
        });
        for node in ["b", "a", "b", "a"] {
            controller.apply(&text(node), &[]);
        }
        done.store(true, Ordering::Relaxed);
        let answers = asking.join().unwrap();
        let failed: Vec<_> = answers.iter().filter(|answer| answer.0 != 200).collect();
        assert!(
            failed.is_empty(),
            "{} of {}: {failed:?}",
            failed.len(),
            answers.len()
        );
        assert!(answers.len() > 4, "{}", answers.len());
    });
}

/// An ingress, two nodes behind it, and a service at one of these.
fn moving(places: [SocketAddr; 3], node: &str, server: SocketAddr) -> String {
    let [edge, a, b] = places;
    let resources = Resources::new().ingress("edge", edge);
    video(resources.node("a", a).node("b", b), node, server)
}

#[test]
fn a_revoked_certificate_opens_nothing_any_more() {
    let origin = origins::http();
    let controller = Hub::controller();
    let listen = free::tcp();
    controller.apply(&edge(listen, origin.address()), &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");
    // Someone has copied the device's files, and asks its controller nothing.
    let copied = tempfile::tempdir().unwrap();
    for file in ["node.pem", "node.key", "authorities.pem"] {
        std::fs::copy(device.state().join(file), copied.path().join(file)).unwrap();
    }
    let file = |name: &str| copied.path().join(name).display().to_string();
    let thief = || {
        curl(&[
            "--proxy",
            &format!("https://edge.hermes.hermes.internal:{}", listen.port()),
            "--resolve",
            &format!(
                "edge.hermes.hermes.internal:{}:{}",
                listen.port(),
                listen.ip()
            ),
            "--proxy-cert",
            &file("node.pem"),
            "--proxy-key",
            &file("node.key"),
            "--proxy-cacert",
            &file("authorities.pem"),
            "-H",
            "user: alice",
            "http://VIDEO/",
        ])
    };
    assert_eq!(thief().status, 200, "{:?}", thief());
    controller.ask(&["revoke", "laptop"]).unwrap();
    eventually_true("the certificate opens nothing", || thief().status == 0);
}

#[test]
fn nodes_whose_clocks_are_a_day_off_join_and_are_served() {
    let origin = origins::http();
    let hub = Hub::start();
    let address = origin.address().to_string();
    hub.ask(&["expose", "VIDEO", &address, "--to", "alice"])
        .unwrap();
    for (clock, name) in [("+1d", "early"), ("-1d", "late")] {
        let device = Joined::start_on(
            Machine::WithClock(clock),
            &hub.url(),
            &hub.token("alice"),
            name,
        );
        hub.await_step(name);
        assert_eq!(asks(&device, "http://VIDEO/").0, 200, "{clock}");
    }

    // With a week, no certificate counts any more: the clock is named.
    let mut lost = Joined::start_on(
        Machine::WithClock("+8d"),
        &hub.url(),
        &hub.token("alice"),
        "lost",
    );
    assert_eq!(eventually("the node ends", || lost.ended()), 3);
    assert!(lost.log().contains("set the clocks"), "{}", lost.log());
}

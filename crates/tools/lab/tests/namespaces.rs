//! Namespaces and links with real traffic. They need root, and fail without it.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Stdio};

use hermes_lab::emulator::wire::{End, Wire};
use hermes_lab::emulator::{Loss, Profile, Rate, Schedule};
use hermes_lab::report::Sheet;
use hermes_lab::topology::{Plug, Topology};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Namespaces `near` and `far` with a link between them.
fn linked(profile: &Profile) -> (Topology, Wire) {
    let mut topology = Topology::new();
    topology.add("near").unwrap();
    topology.add("far").unwrap();
    let end = |namespace, device, address| End {
        namespace: topology.namespace(namespace).unwrap(),
        device,
        address,
        profile,
    };
    let wire = Wire::lay(
        end("near", "far", "10.9.0.1/24"),
        end("far", "near", "10.9.0.2/24"),
        7,
    )
    .unwrap();
    (topology, wire)
}

/// Round trips of `ping`, in milliseconds.
fn round_trips(topology: &Topology, count: &str) -> Vec<f64> {
    let ping = [
        "ping", "-n", "-c", count, "-i", "0.01", "-W", "2", "10.9.0.2",
    ];
    // It fails when packets are lost.
    let output = topology
        .namespace("near")
        .unwrap()
        .command(ping[0])
        .args(&ping[1..])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text
        .lines()
        .filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok());
    times.collect()
}

#[test]
fn what_is_behind_a_neighbour_is_reached_by_a_route() {
    let mut topology = Topology::new();
    for name in ["a", "b", "c"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("a", "10.0.1.1/24"), plug("b", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("b", "10.0.2.1/24"), plug("c", "10.0.2.2/24"))
        .unwrap();
    let ping = ["ping", "-c", "1", "-W", "2", "10.0.2.2"];
    assert!(
        topology.namespace("a").unwrap().run(&ping).is_err(),
        "without a route"
    );
    topology.route("a", "10.0.2.0/24", "10.0.1.2").unwrap();
    topology.route("c", "10.0.1.0/24", "10.0.2.1").unwrap();
    topology.namespace("a").unwrap().run(&ping).unwrap();
}

#[test]
fn a_namespace_sees_none_of_the_machines_devices() {
    let mut topology = Topology::new();
    let links = topology
        .add("alone")
        .unwrap()
        .run(&["ip", "-oneline", "link"])
        .unwrap();
    assert_eq!(links.lines().count(), 1, "{links}");
}

#[test]
fn nothing_is_left_after_a_kill() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_hermes-lab"))
        .args(["link", "--", "sh", "-c", "echo up; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(lab.stdout.as_mut().unwrap(), &mut up).unwrap();
    let children = children(lab.id());
    assert!(
        children.len() >= 3,
        "two holders and a program: {children:?}"
    );
    let open: Vec<_> = children
        .iter()
        .filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok())
        .collect();
    kill_process(Pid::from_child(&lab), Signal::KILL).unwrap();
    lab.wait().unwrap();
    for process in &open {
        // Readable once the process has ended; the test hangs if it does not.
        poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
    }
}

fn children(of: u32) -> Vec<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    text.split_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}

#[test]
fn every_packet_takes_the_delay_of_both_directions() {
    let (topology, _wire) = linked(&Profile {
        delay: std::time::Duration::from_millis(15),
        ..Profile::default()
    });
    let times = round_trips(&topology, "20");
    assert_eq!(times.len(), 20);
    assert!(times.iter().all(|time| *time >= 30.0), "{times:?}");
}

#[test]
fn a_lossy_link_loses_some_and_a_dead_one_all() {
    let (topology, wire) = linked(&Profile {
        loss: Loss::Random(0.5),
        ..Profile::default()
    });
    let came = round_trips(&topology, "60").len();
    // Both directions lose half: a quarter comes back, with a deviation of 3.4.
    assert!((2..=32).contains(&came), "{came}");
    drop((topology, wire));
    let schedule = Schedule {
        offset: std::time::Duration::from_secs(3600),
        up: std::time::Duration::ZERO,
        down: std::time::Duration::from_secs(1),
    };
    let (topology, _wire) = linked(&Profile {
        schedule,
        ..Profile::default()
    });
    assert!(round_trips(&topology, "3").is_empty());
}

#[test]
fn tcp_gets_through_a_slow_link_with_losses() {
    let rate = Some(Rate {
        bits_per_second: 50_000_000,
        queue_bytes: 64_000,
    });
    let loss = Loss::Bursts {
        begin: 0.002,
        end: 0.5,
    };
    let (topology, _wire) = linked(&Profile {
        rate,
        loss,
        reorder: 0.01,
        ..Profile::default()
    });
    let far = topology.namespace("far").unwrap();
    let send = "head -c 2000000 /dev/zero | nc -q 1 -l -p 7000";
    let mut server = far
        .command("sh")
        .args(["-c", send])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let receive = "until nc -d 10.9.0.2 7000 | wc -c | grep -v '^0$'; do :; done";
    let came = topology
        .namespace("near")
        .unwrap()
        .run(&["sh", "-c", receive])
        .unwrap();
    assert_eq!(came.trim(), "2000000");
    server.wait().unwrap();
}

/// Of a chain of two hops, forwarded and nested: what `hops` measures, in little. `HERMES_BIN` is the program.
#[test]
fn hops_measures_chains() {
    let hermes = std::env::var_os("HERMES_BIN")
        .expect("HERMES_BIN names the program; ./test system sets it");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("hops.json");
    let words = [
        "hops",
        "--short",
        "--repeats",
        "1",
        "--only",
        "fast,latency,flows,quic,2",
        "--systems",
        "direct,hermes",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_hermes-lab"))
        .args(words)
        .args([
            "--json".as_ref(),
            json.as_os_str(),
            "--hermes".as_ref(),
            &hermes,
        ])
        .args(["--svg".as_ref(), folder.path().as_os_str()])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let results: hermes_lab::hops::plan::HopResults = hermes_lab::report::load(&json).unwrap();
    for figure in [
        "kept flow",
        "new flow",
        "jitter",
        "last answer",
        "QUIC round trip",
        "congestion window",
    ] {
        let ways = results
            .series
            .iter()
            .filter(|series| series.figure.name == figure);
        assert_eq!(ways.count(), 2, "forwarded and nested: {figure}");
    }
    assert!(folder.path().join("hops-latency.svg").is_file());
}

#[test]
fn ip_tunnels_are_measured_beside_each_other() {
    const SYSTEMS: &str =
        "veth,copier,wireguard-go,boringtun,connect-ip-go,hermes-h2,hermes-h3,hermes-h3-2";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ip.json");
    let lab = Path::new(env!("CARGO_BIN_EXE_hermes-lab"));
    let hermes = lab.with_file_name("hermes");
    let measured = Command::new(env!("CARGO_BIN_EXE_hermes-lab"))
        .args(["ip", "--short", "--repeats", "1", "--hermes"])
        .arg(hermes)
        .args(["--systems", SYSTEMS, "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&measured.stdout);
    let errors = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{said}{errors}");

    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let systems = results["systems"].as_array().unwrap();
    let names: Vec<_> = systems.iter().map(|system| &system[0]).collect();
    assert_eq!(names, SYSTEMS.split(',').collect::<Vec<_>>());
    for system in systems {
        for figure in [
            "up",
            "up_crowd",
            "down",
            "down_crowd",
            "ping",
            "udp_trip",
            "request",
        ] {
            let value = system[1][0][figure].as_f64().unwrap();
            assert!(value > 0.0, "{figure} of {}", system[0]);
        }
    }
}

/// The results of a short run of an experiment that makes figures by case and system, and its page.
fn short(words: &[&str]) -> (Sheet, String) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let page = folder.path().join("page.md");
    let lab = Path::new(env!("CARGO_BIN_EXE_hermes-lab"));
    let measured = Command::new(lab)
        .args(words)
        .args(["--short", "--repeats", "1", "--hermes"])
        .arg(lab.with_file_name("hermes"))
        .arg("--json")
        .arg(&json)
        .arg("--markdown")
        .arg(&page)
        .arg("--svg")
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&measured.stdout);
    let errors = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{said}{errors}");
    let sheet = hermes_lab::report::load(&json).unwrap();
    (sheet, std::fs::read_to_string(&page).unwrap())
}

#[test]
fn functions_are_measured_as_in_the_paper() {
    let (sheet, page) = short(&["functions"]);
    let is_measured = |case: &str, system: &str, figure: &str| {
        let value = sheet.of(case, system, figure);
        let value = value.unwrap_or_else(|| panic!("{case}, {system}, {figure}: {page}"));
        assert!(value.median > 0.0, "{case}, {system}, {figure}: {page}");
    };
    for system in [
        "direct", "nginx", "hermes", "hermes5", "hermes6", "chain1", "chain2", "chain3", "chain4",
        "outside",
    ] {
        for clients in [
            "1 client",
            "2 clients",
            "4 clients",
            "8 clients",
            "16 clients",
        ] {
            is_measured(clients, system, "rate");
        }
    }
    let rows = [
        "DOCKER 1: 5, 5, 10 ms",
        "DOCKER 2: 5, 10, 15 ms",
        "DOCKER 3: 10, 5, 15 ms",
        "DOCKER 4: 1, 1, 1 ms",
        "DOCKER 5: 5, 5, 5 ms",
        "DOCKER 6: 10, 10, 10 ms",
    ];
    for row in rows {
        for system in [
            "direct", "nginx", "hermes", "hermes5", "hermes6", "chain4", "outside",
        ] {
            is_measured(row, system, "a request");
        }
    }
    is_measured(rows[5], "paper's SOCKS6", "longer than direct");
}

#[test]
fn plans_are_measured_for_sparse_and_dense_areas() {
    let (sheet, page) = short(&["plan", "--areas", "10,100"]);
    for (areas, pairs) in [("10 areas", 90.0), ("100 areas", 9900.0)] {
        for sample in ["sparse", "dense"] {
            let of = |figure| sheet.of(areas, sample, figure).unwrap().median;
            let judged = of("bridged") + of("cannot be bridged");
            assert!((1.0..=pairs).contains(&judged), "{page}");
            assert!(of("search") > 0.0 && of("by the clock") > 0.0, "{page}");
        }
    }
}

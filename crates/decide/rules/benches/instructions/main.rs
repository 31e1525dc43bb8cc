//! The cost of hot paths in instructions, counted by valgrind: the same on a busy machine. Linux
//! only.
//!
//! `./test count` runs this. Each path is run under cachegrind twice, the second time with more
//! rounds; the difference is the path's own cost, without that of the start. The costs are compared
//! with those in `counts.txt`, which the argument `renew` writes anew.
#![allow(clippy::unwrap_used, reason = "it stops at the first surprise")]
#![allow(clippy::print_stdout, reason = "it prints what it counted")]

mod agreed;
mod datagrams;
mod decisions;
mod http1;
mod http2;
mod http3;
mod packets;
mod policies;

use std::env;
use std::process::{Child, Command, ExitCode, Stdio};

use agreed::{Agreed, Build};

/// Says in the environment which path this process runs, and for how many rounds.
const RUN: &str = "HERMES_COUNT_RUN";

/// Rounds of the first run, enough that buffers have grown, and those that the second run has beyond them.
const WARM: usize = 100;
const COUNTED: usize = 1000;

/// Has glibc choose the same memory functions on every processor; other C libraries ignore it.
/// Paths copy few bytes all the same: the cost of a longer copy says nothing about our code.
const PLAIN: &str = "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM";

/// A path: its name, and the function that runs it for this many rounds.
type Path = (&'static str, fn(usize));

const PATHS: [Path; 43] = [
    ("http1.request.decode", http1::request_decode),
    ("http1.request.encode", http1::request_encode),
    ("http1.response.decode", http1::response_decode),
    ("http1.response.encode", http1::response_encode),
    ("http1.chunks.decode", http1::chunks_decode),
    ("http1.chunks.encode", http1::chunks_encode),
    ("http2.request.decode", http2::request_decode),
    ("http2.request.encode", http2::request_encode),
    ("http2.response.decode", http2::response_decode),
    ("http2.response.encode", http2::response_encode),
    ("http2.repeated.decode", http2::repeated_decode),
    ("http2.repeated.encode", http2::repeated_encode),
    ("http3.request.decode", http3::request_decode),
    ("http3.request.encode", http3::request_encode),
    ("http3.frames.decode", http3::frames_decode),
    ("http3.frames.encode", http3::frames_encode),
    ("qpack.decode", http3::qpack_decode),
    ("qpack.encode", http3::qpack_encode),
    ("qpack.repeated.decode", http3::repeated_decode),
    ("qpack.repeated.encode", http3::repeated_encode),
    ("capsules.decode", datagrams::capsules_decode),
    ("capsules.encode", datagrams::capsules_encode),
    ("batch", datagrams::batch),
    ("proxy_header.decode.v1", datagrams::proxy_header_decode_v1),
    ("proxy_header.decode.v2", datagrams::proxy_header_decode_v2),
    ("route.decide.10", decisions::route_decide_10),
    ("route.decide.100", decisions::route_decide_100),
    ("route.decide.10000", decisions::route_decide_10000),
    ("policy.decide.10", policies::decide_10),
    ("policy.decide.10000", policies::decide_10000),
    ("policy.decide.names", policies::decide_names),
    ("believe.client", decisions::believe_client),
    ("believe.peer", decisions::believe_peer),
    ("fields.change", decisions::fields_change),
    ("ip.read", packets::read),
    ("ip.check.from_peer", packets::check_from_peer),
    ("ip.check.to_peer", packets::check_to_peer),
    ("ip.flow_cache", packets::flow_cache),
    ("ip.route.10000", packets::route_10000),
    ("ip.split.1000", packets::split_1000),
    ("ip.policy.10000", packets::policy_10000),
    ("ip.merge", packets::merge),
    ("ip.cut", packets::cut),
];

fn main() -> ExitCode {
    if let Ok(run) = env::var(RUN) {
        let (name, rounds) = run.split_once(' ').unwrap();
        let (_, path) = PATHS.into_iter().find(|(known, _)| *known == name).unwrap();
        path(rounds.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let build = Build::this();
    let counts: Vec<(&str, u64)> = PATHS.iter().map(|(name, _)| (*name, count(name))).collect();
    if env::args().any(|argument| argument == "renew") {
        agreed::write(&build, &counts);
        return ExitCode::SUCCESS;
    }
    Agreed::read().compare(&build, &counts)
}

/// Instructions of one round of a path. The two runs go on at the same time.
fn count(name: &str) -> u64 {
    let [warm, all] = [WARM, WARM + COUNTED].map(|rounds| start(name, rounds));
    let [warm, all] = [warm, all].map(|child| instructions(name, child));
    (all - warm) / COUNTED as u64
}

fn start(name: &str, rounds: usize) -> Child {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]);
    command
        .arg(env::current_exe().unwrap())
        .env(RUN, format!("{name} {rounds}"))
        .env("GLIBC_TUNABLES", PLAIN);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("valgrind starts; ./test install brings it")
}

/// The count that cachegrind prints at its end, as `==1== I refs: 1,234`.
fn instructions(name: &str, child: Child) -> u64 {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
    let line = text.lines().find(|line| line.contains("refs:"));
    let number = line
        .and_then(|line| line.rsplit(':').next())
        .unwrap_or_else(|| panic!("{name}: no count in {text}"));
    number
        .chars()
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

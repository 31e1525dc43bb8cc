//! A foreign name server that answers with addresses of the overlay's names (DNS rebinding).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::{Attack, Effort, Party, Place, Stage};
use crate::free;

/// Questions about names of others.
const QUESTIONS: u64 = 500;

/// How long an answer is awaited.
const ANSWER: Duration = Duration::from_secs(2);

/// For how long the name server of the device may not be there yet.
const START: Duration = Duration::from_secs(10);

/// The name server of the node's device.
const NAMES: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 2);

/// The address in answers of others: one that a name of the overlay may have.
const WITHIN: [u8; 4] = [100, 64, 0, 5];

/// Answers with addresses of the overlay's names.
pub(super) const REBOUND: Attack = Attack {
    name: "rebinding",
    by: Party::Origin,
    place: Place::Devices,
    summary: "500 names of others whose name server answers with an address of the overlay's names",
    prepare,
    run,
};

fn prepare() -> Stage {
    let at = free::udp();
    serve(at);
    let listeners = format!(
        "vpn: {{ user: alice, tun: {{ name: hermes0, dns: {{ pool: 100.64.0.0/24, names: [VIDEO], resolvers: [\"{at}\"] }} }} }}"
    );
    Stage::start(
        &listeners,
        "{ match: { target: VIDEO }, respond: { status: 204 } }",
        "",
    )
}

/// Answers every question about an address with the same one, for as long as the process lives.
fn serve(at: SocketAddr) {
    let socket = UdpSocket::bind(at).unwrap();
    thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            if length > 12 {
                drop(socket.send_to(&answered(&room[..length]), from));
            }
        }
    });
}

/// A question with its answer (RFC 1035, section 4): whatever stands behind the question is left out.
fn answered(question: &[u8]) -> Vec<u8> {
    let labels = question[12..].iter().position(|byte| *byte == 0);
    let end = (12 + labels.unwrap_or_default() + 5).min(question.len());
    let mut answer = question[..end].to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(WITHIN);
    answer
}

fn run(_: &Stage) -> Effort {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    let mut effort = Effort::default();
    let begin = Instant::now();
    while ask(&socket, &question("video")).is_none() {
        assert!(begin.elapsed() < START, "the device has no name server");
        thread::sleep(Duration::from_millis(50));
    }

    for number in 0..QUESTIONS {
        let question = question(&format!("n{number}.rebound.example"));
        effort.attempts += 1;
        effort.bytes += question.len() as u64;
        let answer = ask(&socket, &question);
        let leads = answer.is_some_and(|answer| answer.ends_with(&WITHIN));
        effort.passed += u64::from(leads);
    }
    effort
}

/// The answer to a question; most get none.
fn ask(socket: &UdpSocket, question: &[u8]) -> Option<Vec<u8>> {
    socket.send_to(question, (NAMES, 53)).ok()?;
    let mut room = [0; 512];
    loop {
        let length = socket.recv(&mut room).ok()?;
        if length > 12 && room[..2] == question[..2] {
            return Some(room[..length].to_vec());
        }
    }
}

/// A question about the IPv4 address of a name.
fn question(name: &str) -> Vec<u8> {
    let number = name.bytes().fold(7_u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u16::from(byte))
    });
    let mut question = number.to_be_bytes().to_vec();
    question.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    question
}

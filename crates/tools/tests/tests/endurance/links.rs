//! Links of every version, with periods that are a hundred times shorter: what is on them stays, idle and busy, over reloads.

use std::time::{Duration, Instant};

use hermes_tests::crowd::resident;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Node, Pki, curl, origins};

use crate::{asked, other_program};

/// How long it takes. `HERMES_LINK_MINUTES` asks for more: an hour of it is four days of a link that is asked for signs of life every 15 s.
const LONG: Duration = Duration::from_secs(12);

/// Rounds between two reloads of the first node.
const RELOAD: usize = 40;

/// By how many bytes a node may grow from the middle third of the rounds to the last.
const GROWTH: usize = 8 * 1024 * 1024;

/// The links: by each version, and by HTTP/2 with a tunnel that would outlive it.
const LINKS: [&str; 4] = ["h1", "h2", "h3", "resumable"];

/// Memory that is free goes back to the system at once, so that what a node holds can be seen from outside.
pub(crate) const AT_ONCE: [(&str, &str); 1] = [("MIMALLOC_PURGE_DELAY", "0")];

/// Of links over HTTP/2: the hundredth part of the usual 15 s. Those over HTTP/3 are asked twice a second anyway.
pub(crate) const PERIODS: &str = ", keepalive: { every: 150ms, timeout: 2s }";

/// Where the links end.
fn far(pki: &Pki, [web, db, voice]: [String; 3]) -> String {
    let own = pki.issue(&["127.0.0.1"]).yaml();
    format!(
        "
        listeners: {{ overlay: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], tls: {{ {own} }} }} }}
        routes:
          - {{ match: {{ target: WEB }}, terminate: \"{web}\" }}
          - {{ match: {{ target: DB }}, terminate: \"{db}\" }}
          - {{ match: {{ target: VOICE }}, terminate: \"{voice}\", timeouts: {{ udp: 2h }} }}
        "
    )
}

/// Where they begin: a listener for requests, one for tunnels and one for datagrams over each.
fn near(pki: &Pki, far: &Node) -> String {
    let overlay = far.address("overlay");
    let ca = pki.ca().display().to_string();
    let mut listeners = String::new();
    let mut routes = String::new();
    let mut upstreams = String::new();
    for (version, link) in [1, 2, 3, 2].into_iter().zip(LINKS) {
        listeners += &format!(
            "  web-{link}: {{ http: 127.0.0.1:0 }}\n  db-{link}: {{ tcp: 127.0.0.1:0, target: \"DB:1\" }}\n  \
             voice-{link}: {{ udp: 127.0.0.1:0, target: \"VOICE:1\" }}\n"
        );
        let tunnel = match link {
            "resumable" => ", tunnel: { resume: true }",
            _ => "",
        };
        routes += &format!(
            "  - {{ match: {{ listener: db-{link} }}, to: {link}{tunnel} }}\n  \
             - {{ match: {{ listener: [web-{link}, voice-{link}] }}, to: {link} }}\n"
        );
        let periods = match version {
            2 => PERIODS,
            _ => "",
        };
        upstreams += &format!(
            "  {link}: {{ endpoints: [\"{overlay}\"], http: {version}, tls: {{ ca_file: {ca} }}, timeouts: {{ udp: 2h }}{periods} }}\n"
        );
    }
    format!("listeners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}")
}

/// What is carried for as long as it takes.
pub(crate) trait LongCarried {
    /// Everything but what is idle says a word and hears it.
    fn speak(&mut self, word: &str);
    /// What is idle does.
    fn idle_speaks(&mut self, word: &str);
    /// A short exchange beside the long ones.
    fn ask(&self);
}

/// Speaks on everything for the time that was asked for, with reloads of the near node, and at the end on what was idle. Returns the
/// time, and what the nodes held in each round.
pub(crate) fn carry_on(
    carried: &mut [impl LongCarried],
    [near, far]: [&Node; 2],
    yaml: &str,
) -> (Duration, Vec<usize>) {
    let minutes = asked("HERMES_LINK_MINUTES", 0) as u64;
    let long = Duration::from_mins(minutes).max(LONG);
    let began = Instant::now();
    let mut held = Vec::new();
    while began.elapsed() < long {
        let word = format!("round {}", held.len());
        for one in carried.iter_mut() {
            one.speak(&word);
        }
        // One a round is asked, so that all of them rest meanwhile.
        carried[held.len() % carried.len()].ask();
        if held.len() % RELOAD == RELOAD - 1 {
            let (status, said) = near.reload(yaml);
            assert_eq!(status, 200, "{said:#}");
        }
        held.push(resident(near).max(resident(far)));
        std::thread::sleep(pause(minutes));
    }

    for one in carried {
        one.idle_speaks("end");
    }
    (long, held)
}

/// What one link carries for as long as it takes.
struct Carried {
    link: &'static str,
    busy: Raw,
    idle: Raw,
    voice: Client,
    idle_voice: Client,
    web: String,
}

impl Carried {
    fn open(node: &Node, link: &'static str) -> Self {
        let db = node.address(&format!("db-{link}"));
        let voice = node.address(&format!("voice-{link}"));
        let mut carried = Self {
            link,
            busy: Raw::connect(db),
            idle: Raw::connect(db),
            voice: Client::connect(voice),
            idle_voice: Client::connect(voice),
            web: node.url(&format!("web-{link}")),
        };
        carried.speak("begin");
        // Sessions of a single question are ended soon: these are conversations.
        for word in ["begin", "go on", "wait"] {
            carried.idle_speaks(word);
        }
        carried
    }
}

impl LongCarried for Carried {
    fn speak(&mut self, word: &str) {
        talk(&mut self.busy, self.link, word);
        self.voice.send(word);
        assert_eq!(self.voice.receive(), word.as_bytes(), "{}", self.link);
    }

    fn idle_speaks(&mut self, word: &str) {
        talk(&mut self.idle, self.link, word);
        self.idle_voice.send(word);
        assert_eq!(self.idle_voice.receive(), word.as_bytes(), "{}", self.link);
    }

    fn ask(&self) {
        let answer = curl(&["-x", &self.web, "http://WEB/"]);
        assert_eq!(answer.status, 200, "{}", self.link);
    }
}

pub(crate) fn talk(raw: &mut Raw, link: &str, word: &str) {
    raw.send(word);
    assert_eq!(raw.exactly(word.len()), word.as_bytes(), "{link}");
}

#[test]
fn links_of_every_version_stay_with_all_that_is_on_them() {
    let pki = Pki::new();
    let (web, db) = (origins::http(), origins::tcp_echo());
    let voice = origins::udp_echo(origins::V4);
    let origins = [web.address(), db.address(), voice.address()].map(|origin| origin.to_string());
    let folder = || tempfile::tempdir().unwrap();
    let far = Node::start_in_by(folder(), other_program(), "far", &far(&pki, origins));
    let yaml = near(&pki, &far);
    let near = Node::start_in(folder(), "near", &yaml, &AT_ONCE);
    let mut carried = LINKS.map(|link| Carried::open(&near, link));

    let (long, held) = carry_on(&mut carried, [&near, &far], &yaml);

    // All of it is what was opened first, and not by a second try.
    for node in [&near, &far] {
        let long_lived = node.exchanges().into_iter().filter(|exchange| {
            let age = exchange["age_ms"].as_u64().unwrap();
            u128::from(age) >= long.as_millis() && exchange["resumed"] == 0
        });
        assert_eq!(
            long_lived.count(),
            4 * LINKS.len(),
            "{:#?}",
            node.exchanges()
        );
    }
    stays_flat(&held);
}

/// Between two rounds: long ones leave the machine to others.
fn pause(minutes: u64) -> Duration {
    Duration::from_millis(if minutes == 0 { 20 } else { 500 })
}

/// Whether what nodes held, round by round, did not grow from the middle third to the last.
pub(crate) fn stays_flat(held: &[usize]) {
    let third = held.len() / 3;
    let least = |part: &[usize]| part.iter().min().copied().unwrap_or_default();
    let [middle, last] = [&held[third..2 * third], &held[2 * third..]].map(least);
    assert!(last < middle + GROWTH, "{middle} bytes, then {last}");
}

//! How long a user's tunnel takes to another ingress, and his packets to another server, while he asks for echoes: what it takes, what is lost,
//! and how long a round trip is before and after.

use std::net::Ipv4Addr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::PaperBench;
use crate::emulator::Profile;
use crate::emulator::wire::{End, Wire};
use crate::ip::ping;
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, SheetGoal, median};
use crate::topology::{Namespace, Topology};

pub(super) const HEAD: PageHead = PageHead {
    title: "Another ingress, and another server",
    command: "papers rehoming",
    notes: "",
    words: "A user's packets enter at a far ingress and end at a far server. First his tunnel is sent to a near ingress, then his packets to a near \
            server: each is one reload at one node. He asks for an echo every 10 ms meanwhile. An update takes from the reload to the first of \
            three echoes in a row that are as quick as the new way is. The delays are those of the paper: 382 ms, 206 ms and 80 ms.",
};

/// One way delays from the user to the far ingress and the near one, and from an ingress to the far server and the near one.
const FAR_INGRESS: Duration = Duration::from_millis(103);
const NEAR_INGRESS: Duration = Duration::from_millis(15);
const FAR_SERVER: Duration = Duration::from_millis(88);
const NEAR_SERVER: Duration = Duration::from_millis(25);

/// The address that the servers' devices have.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Between two echoes.
const PACE: Duration = Duration::from_millis(10);

/// Echoes before and after a change, of which round trips are taken.
const AROUND: usize = 20;

/// How long a way may take until echoes come back.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long an update may take.
const UPDATE_LIMIT: Duration = Duration::from_secs(20);

/// The longest update of the paper, in milliseconds.
const PAPER: f64 = 10_000.0;

/// The nodes, the first of two being the far one.
const INGRESSES: [&str; 2] = ["north", "south"];
const SERVERS: [&str; 2] = ["one", "two"];

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let mut sheet = Sheet::default();
    let mut progress = Progress::new(bench.options.rounds.repeats as usize);
    for round in 0..bench.options.rounds.repeats {
        progress.step(&format!("round {round}"));
        if let Err(error) = once(bench, u64::from(round), &mut sheet) {
            sheet.failures.push(format!("round {round}: {error:#}"));
        }
    }
    progress.end();
    Ok(sheet)
}

/// The networks: the user is cabled to each ingress, and each ingress to each server.
struct World {
    topology: Topology,
    _wires: Vec<Wire>,
}

impl World {
    fn lay(seed: u64) -> Result<Self> {
        let mut topology = Topology::new();
        for name in ["user"].iter().chain(&INGRESSES).chain(&SERVERS) {
            topology.add(name)?;
        }
        let mut wires = Vec::new();
        for (number, delay) in (1..).zip([FAR_INGRESS, NEAR_INGRESS]) {
            let cable = Cable {
                ends: ["user", INGRESSES[number - 1]],
                number,
                delay,
            };
            wires.push(cable.lay(&topology, seed)?);
        }
        // From the near ingress the near server is near; the far one is as far from both.
        for (at, ingress) in INGRESSES.iter().enumerate() {
            for (number, delay) in (1..).zip([FAR_SERVER, NEAR_SERVER]) {
                let cable = Cable {
                    ends: [*ingress, SERVERS[number - 1]],
                    number: 10 * (at + 1) + number,
                    delay,
                };
                wires.push(cable.lay(&topology, seed)?);
            }
        }
        Ok(Self {
            topology,
            _wires: wires,
        })
    }

    fn of(&self, name: &str) -> Result<&Namespace> {
        self.topology.namespace(name)
    }
}

/// A cable between two namespaces.
struct Cable {
    ends: [&'static str; 2],
    /// The third byte of its network, which no other cable has.
    number: usize,
    delay: Duration,
}

impl Cable {
    fn lay(&self, topology: &Topology, seed: u64) -> Result<Wire> {
        let [from, to] = self.ends;
        let profile = Profile {
            delay: self.delay,
            ..Profile::default()
        };
        let addresses = [1, 2].map(|host| format!("10.91.{}.{host}/24", self.number));
        Wire::lay(
            End {
                namespace: topology.namespace(from)?,
                device: to,
                address: &addresses[0],
                profile: &profile,
            },
            End {
                namespace: topology.namespace(to)?,
                device: from,
                address: &addresses[1],
                profile: &profile,
            },
            seed,
        )
    }
}

fn once(bench: &PaperBench<'_>, seed: u64, sheet: &mut Sheet) -> Result<()> {
    let world = World::lay(bench.options.rounds.seed + seed)?;
    let folder = tempfile::tempdir_in(bench.folder())?;
    let pki = Pki::create(folder.path())?;
    let _nodes = start(bench, &world, &pki)?;
    let user = world.of("user")?;

    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            user.enter()?;
            updates(bench, &pki, sheet)
        });
        load.join()
            .map_err(|_| anyhow::anyhow!("the thread of the load panicked"))?
    })
}

fn start(bench: &PaperBench<'_>, world: &World, pki: &Pki) -> Result<Vec<Process>> {
    let mut nodes = Vec::new();
    for name in SERVERS {
        nodes.push(bench.node(Some(world.of(name)?), name, &server(pki))?);
    }
    for name in INGRESSES {
        nodes.push(bench.node(Some(world.of(name)?), name, &ingress(pki, name, "one"))?);
    }
    nodes.push(bench.node(Some(world.of("user")?), "user", &user(pki, "north"))?);
    Ok(nodes)
}

fn updates(bench: &PaperBench<'_>, pki: &Pki, sheet: &mut Sheet) -> Result<()> {
    let before = ready()?;
    sheet.add("before", "hermes", Figure::less("round trip", "ms"), before);

    let quick = (FAR_INGRESS + FAR_SERVER + NEAR_INGRESS + FAR_SERVER).as_secs_f64() * 1e3;
    let change = || bench.reload("user", &user(pki, "south"));
    update(sheet, "another ingress", quick, change)?;

    let quick = (NEAR_INGRESS + FAR_SERVER + NEAR_INGRESS + NEAR_SERVER).as_secs_f64() * 1e3;
    let change = || bench.reload("south", &ingress(pki, "south", "two"));
    update(sheet, "another server", quick, change)
}

/// Waits until echoes come back; the middle of some round trips, in milliseconds.
fn ready() -> Result<f64> {
    let begin = Instant::now();
    loop {
        match trips(AROUND) {
            Ok(times) => return Ok(median(&times)),
            Err(error) => ensure!(begin.elapsed() < START_LIMIT, error),
        }
        std::thread::sleep(PACE);
    }
}

/// Round trips in milliseconds, one after the other.
fn trips(count: usize) -> Result<Vec<f64>> {
    let mut socket = ping::open(SERVER)?;
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let trip = ping::round_trip(&mut socket, u16::try_from(number)?)?;
        times.push(trip.as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// One update under echoes; done when three in a row take less than `quick` milliseconds, which is between the old way and the new.
fn update(
    sheet: &mut Sheet,
    case: &str,
    quick: f64,
    change: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let asked = Echoes::begin()?;
    let begin = Instant::now();
    change()?;
    while trips(3).map_or(true, |times| times.iter().any(|time| *time > quick)) {
        ensure!(begin.elapsed() < UPDATE_LIMIT, "not done after 20 s");
    }
    let took = begin.elapsed().as_secs_f64() * 1e3;
    let after = median(&trips(AROUND)?);
    let [sent, lost] = asked.end()?;

    sheet.add(case, "hermes", Figure::less("update", "ms"), took);
    sheet.add(
        case,
        "hermes",
        Figure::less("round trip after", "ms"),
        after,
    );
    sheet.add(case, "hermes", Figure::more("echoes", "asked"), sent);
    sheet.add(
        case,
        "hermes",
        Figure::less("echoes lost", "of those"),
        lost,
    );
    Ok(())
}

/// Echoes that `ping` asks for, one every 10 ms.
struct Echoes(Child);

impl Echoes {
    fn begin() -> Result<Self> {
        let mut command = std::process::Command::new("ping");
        command
            .args(["-n", "-q", "-i", "0.01", "-W", "2"])
            .arg(SERVER.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let echoes = Self(command.spawn().context("ping")?);
        std::thread::sleep(PACE * 50);
        Ok(echoes)
    }

    /// How many were asked for, and lost.
    fn end(self) -> Result<[f64; 2]> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let counts = counted(&text).context(text)?;
        Ok(counts)
    }
}

/// The figures in the last lines of `ping`. Echoes on their way at its end are not lost.
fn counted(text: &str) -> Option<[f64; 2]> {
    let line = text
        .lines()
        .find(|line| line.contains("packets transmitted"))?;
    let counts: Vec<f64> = line
        .split([' ', ','])
        .filter_map(|word| word.parse().ok())
        .collect();
    let [sent, received, ..] = counts[..] else {
        return None;
    };
    let pipe = text.rsplit("pipe ").next()?.split(',').next()?;
    let on_the_way: f64 = pipe.trim().parse().unwrap_or(0.0);
    Some([sent, (sent - received - on_the_way).max(0.0)])
}

fn tls(pki: &Pki) -> [String; 2] {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = pki.ca();
    let own = format!("cert_file: {}, key_file: {}", cert.display(), key.display());
    [
        format!("tls: {{ {own}, client_ca_file: {} }}", ca.display()),
        format!(
            "tls: {{ {own}, ca_file: {}, server_name: {PROXY} }}",
            ca.display()
        ),
    ]
}

fn user(pki: &Pki, through: &str) -> String {
    let [_, tls] = tls(pki);
    format!(
        "identity: {{ user: alice }}\nlisteners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.9.0.0/24] }} }} }}\n\
         routes: [ {{ match: {{ kind: connect-ip }}, to: {through} }} ]\nupstreams:\n  \
         north: {{ endpoints: [\"10.91.1.2:8443\"], http: 3, {tls} }}\n  south: {{ endpoints: [\"10.91.2.2:8443\"], http: 3, {tls} }}\n"
    )
}

fn ingress(pki: &Pki, name: &str, to: &str) -> String {
    let [listens, connects] = tls(pki);
    let at = match name {
        "north" => 1,
        _ => 2,
    };
    format!(
        "listeners: {{ overlay: {{ http: \"0.0.0.0:8443\", public: true, auth: mtls, {listens} }} }}\n\
         peers: {{ before: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         routes: [ {{ match: {{ kind: connect-ip }}, to: {to} }} ]\nupstreams:\n  \
         one: {{ endpoints: [\"10.91.{at}1.2:8443\"], http: 3, {connects} }}\n  two: {{ endpoints: [\"10.91.{at}2.2:8443\"], http: 3, {connects} }}\n"
    )
}

fn server(pki: &Pki) -> String {
    let [listens, _] = tls(pki);
    format!(
        "listeners: {{ overlay: {{ http: \"0.0.0.0:8443\", public: true, auth: mtls, {listens} }} }}\n\
         peers: {{ before: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         routes: [ {{ match: {{ kind: connect-ip }}, terminate: {{ tun: hermes1, pool: 10.9.0.0/24 }} }} ]\n\
         egress: {{ allow: [{SERVER}/32] }}\n"
    )
}

pub(super) fn goals(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for case in ["another ingress", "another server"] {
        if let Some(took) = sheet.of(case, "hermes", "update") {
            goals.push(SheetGoal {
                words: format!("{case}: milliseconds until the new way is used, below 10,000"),
                value: took.median,
                is_reached: took.most < PAPER,
            });
        }
        if let Some(lost) = sheet.of(case, "hermes", "echoes lost") {
            goals.push(SheetGoal {
                words: format!("{case}: echoes lost of those that go every 10 ms, none"),
                value: lost.most,
                is_reached: lost.most == 0.0,
            });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ping_counts_is_read() {
        let text = "--- 10.9.0.1 ping statistics ---\n104 packets transmitted, 100 received, 3.8% packet loss, time 1030ms\nrtt min/avg/max/mdev = 0.1/0.2/0.3/0.1 ms, pipe 3, ipg/ewma 10/0.2 ms\n";
        assert_eq!(counted(text), Some([104.0, 1.0]));
        assert_eq!(counted("ping: unknown host"), None);
    }
}

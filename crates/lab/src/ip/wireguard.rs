//! WireGuard in user space: two programs that are configured alike, over their control sockets.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::network::{FAR_INNER, FAR_OUTER, IpNetwork, NEAR_INNER, inner};
use crate::process::Process;
use crate::topology::Namespace;

/// Where WireGuard listens, on the server's side.
const PORT: u16 = 51820;

/// What WireGuard takes for its devices by default.
const MTU: u32 = 1420;

/// How long a program may take until its socket is there.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(10);

/// Two pairs of keys (X25519) that guard nothing, private and public.
const KEYS: [[&str; 2]; 2] = [
    [
        "b8d05509aa20d494c6ed3828c998550d4a6fb9886a688c66a232e1fd11e32e58",
        "a6bee843822450def0a54780af9368b9ba2c426b9188770a763f47837f4f1d08",
    ],
    [
        "d0116b7102b8e38b9dccc109ee201ccb09b259b1cbf4d81b9cf473f2a5dc7a4f",
        "c6bdb87d69b8360937af2b6c63e4d57613e8b969b47dbb4cb4148408293d6d60",
    ],
];

/// One of the programs, and what it is told before the name of its device.
pub struct WireguardProgram<'a> {
    pub program: &'a Path,
    pub arguments: &'a [&'a str],
    /// Begins the names of its devices, whose control sockets are in one folder for all namespaces.
    pub prefix: &'a str,
}

/// Starts both ends.
///
/// # Errors
/// When one does not start, or does not take its configuration.
pub fn start(
    program: &WireguardProgram<'_>,
    network: &IpNetwork,
    folder: &Path,
) -> Result<Vec<Process>> {
    let far = WireguardEnd {
        label: "far",
        own: 0,
        lines: format!("listen_port={PORT}\n"),
        peer: String::new(),
        address: inner(FAR_INNER).to_string(),
    };
    let near = WireguardEnd {
        label: "near",
        own: 1,
        lines: String::new(),
        peer: format!("endpoint={FAR_OUTER}:{PORT}\n"),
        address: inner(NEAR_INNER).to_string(),
    };
    Ok(vec![
        far.start(program, network.far()?, folder)?,
        near.start(program, network.near()?, folder)?,
    ])
}

/// One end, and what its configuration has of its own.
struct WireguardEnd {
    label: &'static str,
    /// Which of the keys are its own.
    own: usize,
    lines: String,
    peer: String,
    address: String,
}

impl WireguardEnd {
    fn start(
        &self,
        program: &WireguardProgram<'_>,
        namespace: &Namespace,
        folder: &Path,
    ) -> Result<Process> {
        let number = std::process::id() % 100_000;
        let device = format!("{}{}{number}", program.prefix, &self.label[..1]);
        // wireguard-go refuses to run where the kernel could do it, unless it is asked like this.
        let mut words = vec![
            "WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD=1".to_owned(),
            program.program.display().to_string(),
        ];
        words.extend(program.arguments.iter().map(|word| (*word).to_owned()));
        words.push(device.clone());

        let mut process = Process::start_in(
            Some(namespace),
            self.label,
            folder,
            Path::new("env"),
            &words,
        )?;
        self.configure(&device, &mut process)?;
        namespace.attach(&device, &self.address)?;
        let mtu = MTU.to_string();
        namespace.run(&["ip", "link", "set", "dev", &device, "mtu", &mtu])?;
        Ok(process)
    }

    /// Tells it its keys and its peer (the cross-platform interface of WireGuard).
    fn configure(&self, device: &str, process: &mut Process) -> Result<()> {
        let mut control = connect(device, process)?;
        let own = KEYS[self.own];
        let other = KEYS[1 - self.own];
        let said = format!(
            "set=1\nprivate_key={}\n{}public_key={}\n{}allowed_ip=10.41.0.0/24\n\n",
            own[0], self.lines, other[1], self.peer
        );
        control.write_all(said.as_bytes())?;

        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer)?;
        ensure!(answer == "errno=0\n", "{device} answers {answer:?}");
        Ok(())
    }
}

fn connect(device: &str, process: &mut Process) -> Result<UnixStream> {
    let path = PathBuf::from(format!("/var/run/wireguard/{device}.sock"));
    let begin = Instant::now();
    loop {
        match UnixStream::connect(&path) {
            Ok(control) => return Ok(control),
            Err(error) if begin.elapsed() > START_LIMIT => {
                return Err(error)
                    .with_context(|| format!("{}: {}", path.display(), process.log()));
            }
            Err(_) => process.check()?,
        }
        std::thread::sleep(STEP);
    }
}

//! WireGuard in user space: two programs that are configured alike, over their control sockets, or one of them and a node.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermes_noise::{PrivateKey, PublicKey};

use super::network::{FAR_INNER, FAR_OUTER, IpNetwork, NEAR_INNER, inner};
use crate::process::Process;
use crate::topology::Namespace;

/// Where WireGuard listens, on the server's side.
pub const PORT: u16 = 51820;

/// WireGuard's default MTU.
const MTU: u32 = 1420;

/// How long a program may take until its socket is there.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(10);

/// The keys of both ends.
pub struct EndKeys {
    pub far: PrivateKey,
    pub near: PrivateKey,
}

impl EndKeys {
    /// New ones.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self> {
        Ok(Self {
            far: PrivateKey::generate()?,
            near: PrivateKey::generate()?,
        })
    }
}

/// One of the programs, and its arguments before the name of the device.
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
    let keys = EndKeys::generate()?;
    let far = WireguardEnd {
        label: "far",
        own: &keys.far,
        other: keys.near.public(),
        lines: format!("listen_port={PORT}\n"),
        peer: String::new(),
        address: inner(FAR_INNER).to_string(),
    };
    Ok(vec![
        far.start(program, network.far()?, folder)?,
        start_near(program, &keys, network.near()?, NEAR_INNER, folder)?,
    ])
}

/// Starts the client's end alone, with this address inside.
///
/// # Errors
/// When it does not start, or does not take its configuration.
pub fn start_near(
    program: &WireguardProgram<'_>,
    keys: &EndKeys,
    network: &Namespace,
    address: Ipv4Addr,
    folder: &Path,
) -> Result<Process> {
    let near = WireguardEnd {
        label: "near",
        own: &keys.near,
        other: keys.far.public(),
        lines: String::new(),
        peer: format!("endpoint={FAR_OUTER}:{PORT}\n"),
        address: inner(address).to_string(),
    };
    near.start(program, network, folder)
}

/// One end, and the part of its configuration that the other end does not share.
struct WireguardEnd<'a> {
    label: &'static str,
    /// Its own key, and that by which it knows the other end.
    own: &'a PrivateKey,
    other: PublicKey,
    lines: String,
    peer: String,
    address: String,
}

impl WireguardEnd<'_> {
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
        let said = format!(
            "set=1\nprivate_key={}\n{}public_key={}\n{}allowed_ip=10.41.0.0/24\n\n",
            hex(self.own.bytes()),
            self.lines,
            hex(&self.other.0),
            self.peer
        );
        control.write_all(said.as_bytes())?;

        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer)?;
        ensure!(answer == "errno=0\n", "{device} answers {answer:?}");
        Ok(())
    }
}

/// A key as that interface has it.
fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
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

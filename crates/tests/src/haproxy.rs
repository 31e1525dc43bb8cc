//! HAProxy as a peer: a load balancer in front of a node, or behind one.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::eventually::eventually;

/// Tries at a port that nobody else takes between our look and HAProxy's.
const TRIES: usize = 5;

/// A running HAProxy. Dropping it ends the process.
#[derive(Debug)]
pub struct Haproxy {
    _folder: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Haproxy {
    /// Starts HAProxy on this configuration, in which `ADDRESS` is where it listens, and waits until it does.
    ///
    /// # Panics
    /// With what HAProxy says when it does not start.
    pub fn start(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("haproxy.cfg"), folder.path().join("log"));
        let program = std::env::var_os("HERMES_HAPROXY").unwrap_or_else(|| "haproxy".into());
        for _ in 0..TRIES {
            let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
            fs::write(&file, configuration.replace("ADDRESS", &address.to_string())).unwrap();
            let spawned = Command::new(&program)
                // In the foreground, as one process.
                .arg("-db")
                .arg("-f")
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(&log).unwrap())
                .spawn();
            let mut process = match spawned {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    panic!("there is no {}; run `./test install`, or set HERMES_HAPROXY", program.display())
                }
                Err(error) => panic!("{}: {error}", program.display()),
            };
            let up = eventually("HAProxy listens", || match process.try_wait().unwrap() {
                Some(_) => Some(false),
                None => TcpStream::connect(address).is_ok().then_some(true),
            });
            if up {
                return Self { _folder: folder, process, address };
            }
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(said.contains("cannot bind"), "HAProxy did not start:\n{said}");
        }
        panic!("HAProxy found no free port in {TRIES} tries");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

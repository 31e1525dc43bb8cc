//! HAProxy as a peer: a load balancer in front of a node, or behind one.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::eventually::eventually;

/// Tries at a port that no one else takes between our look and HAProxy's.
const TRIES: usize = 5;

/// A running HAProxy. Dropping it ends the process; if the test has failed, its output is printed.
#[derive(Debug)]
pub struct Haproxy {
    folder: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Haproxy {
    /// Starts HAProxy on this configuration, in which `ADDRESS` is where it listens, and waits until it does.
    ///
    /// # Panics
    /// With HAProxy's output, when it does not start.
    pub fn start(configuration: &str) -> Self {
        // In the foreground, as one process.
        Self::start_as("-db", configuration)
    }

    /// As [`Self::start`], with a worker that [`Self::reload`] replaces.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_reloadable(configuration: &str) -> Self {
        Self::start_as("-W", configuration)
    }

    /// Has a new worker take over: the old one ends its exchanges and closes its connections.
    ///
    /// # Panics
    /// When the old one does not end.
    pub fn reload(&self) {
        let before = self.workers();
        kill_process(Pid::from_child(&self.process), Signal::USR2).unwrap();

        // A master that is not done with one reload does not hear of the next.
        eventually("a new worker serves alone", || {
            let workers = self.workers();
            (!workers.is_empty() && workers.iter().all(|worker| !before.contains(worker)))
                .then_some(())
        });
    }

    /// Identifiers of the master's children.
    fn workers(&self) -> Vec<String> {
        let master = self.process.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))
            .unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect()
    }

    fn start_as(mode: &str, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("haproxy.cfg"), folder.path().join("log"));
        let program = std::env::var_os("HERMES_HAPROXY").unwrap_or_else(|| "haproxy".into());

        for _ in 0..TRIES {
            let address = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .unwrap();
            fs::write(
                &file,
                configuration.replace("ADDRESS", &address.to_string()),
            )
            .unwrap();
            let spawned = Command::new(&program)
                // A master that ends sends SIGTERM to its whole group.
                .process_group(0)
                .arg(mode)
                .arg("-f")
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(&log).unwrap())
                .spawn();

            let mut process = match spawned {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    panic!(
                        "there is no {}; run `./test install`, or set HERMES_HAPROXY",
                        program.display()
                    )
                }
                Err(error) => panic!("{}: {error}", program.display()),
            };

            let up = eventually("HAProxy listens", || match process.try_wait().unwrap() {
                Some(_) => Some(false),
                None => TcpStream::connect(address).is_ok().then_some(true),
            });
            if up {
                return Self {
                    folder,
                    process,
                    address,
                };
            }

            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(
                said.contains("cannot bind"),
                "HAProxy did not start:\n{said}"
            );
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
        // It may have ended already. A master that is killed would leave its workers.
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap_or_default();
        drop(self.process.wait());
        if std::thread::panicking() {
            let said = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- HAProxy:\n{said}---");
        }
    }
}

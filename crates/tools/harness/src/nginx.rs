//! nginx as a peer: an origin, or a reverse proxy in front of a node.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::eventually::eventually;

/// Tries at a port that no one else takes between our look and nginx's.
const TRIES: usize = 5;

/// Its configuration, in its folder.
const CONFIGURATION: &str = "nginx.conf";

/// A running nginx. Dropping it ends the process; if the test has failed, its error log is shown.
#[derive(Debug)]
pub struct Nginx {
    folder: TempDir,
    process: Child,
    address: SocketAddr,
}

/// How nginx runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One process.
    Alone,
    /// A master and a worker, which a reload replaces.
    Master,
}

/// A request in nginx's access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Number of the connection that it came on.
    pub connection: u64,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub uri: String,
    /// The status it got.
    pub status: u16,
}

impl Nginx {
    /// Starts nginx with these directives in its `server` block, and waits until it answers.
    ///
    /// Files are served from [`Self::root`], which `prepare` fills; the folder can be written with `PUT` where `dav_methods`
    /// says so.
    ///
    /// # Panics
    /// With nginx's error log when it does not start.
    pub fn start(server: &str, prepare: impl Fn(&Path)) -> Self {
        Self::start_as(Mode::Alone, server, prepare)
    }

    /// As [`Self::start`], with a worker that [`Self::reload`] replaces.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_reloadable(server: &str) -> Self {
        Self::start_as(Mode::Master, server, |_| {})
    }

    /// Has a new worker take over: the old one ends its exchanges and closes its connections.
    ///
    /// # Panics
    /// When no new worker comes.
    pub fn reload(&self) {
        let before = self.workers();
        kill_process(Pid::from_child(&self.process), Signal::HUP).unwrap();
        eventually("a new worker serves", || {
            self.workers()
                .into_iter()
                .find(|worker| !before.contains(worker))
        });
    }

    /// Identifiers of the master's children.
    fn workers(&self) -> Vec<String> {
        let master = self.process.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))
            .unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect()
    }

    fn start_as(mode: Mode, server: &str, prepare: impl Fn(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("www")).unwrap();
        prepare(&folder.path().join("www"));

        for _ in 0..TRIES {
            // nginx cannot tell which port it got, so it is given one that was free just now.
            let address = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .unwrap();
            let mut process = run(folder.path(), address, server, mode);
            let up = eventually("nginx listens", || match process.try_wait().unwrap() {
                Some(_) => Some(false),
                None => listens(folder.path(), &process).then_some(true),
            });

            if up {
                return Self {
                    folder,
                    process,
                    address,
                };
            }

            let log = error_log(folder.path());
            assert!(
                log.contains("Address already in use"),
                "nginx did not start:\n{log}"
            );
        }

        panic!("nginx found no free port in {TRIES} tries");
    }

    /// Kills it (SIGKILL). Not for one with a master process: its worker would stay.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again at its address, after it was killed.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.process = run_again(self.folder.path());
        eventually("nginx listens again", || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", error_log(self.folder.path()));
            listens(self.folder.path(), &self.process).then_some(())
        });
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder that it serves.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// The requests that it has logged, in the order in which they ended.
    ///
    /// # Panics
    /// When a line of the log does not have the configured form.
    pub fn access(&self) -> Vec<Access> {
        let text = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        whole.lines().map(parse).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended already. A master that is killed would leave its workers.
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap_or_default();
        drop(self.process.wait());
        if std::thread::panicking() {
            eprintln!("--- nginx: error log\n{}---", error_log(self.folder.path()));
        }
    }
}

fn run(folder: &Path, address: SocketAddr, server: &str, mode: Mode) -> Child {
    let at = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};\n"))
        .concat();

    // Workers would give up the rights to the folder.
    let master = match mode {
        Mode::Alone => "master_process off;",
        Mode::Master if getuid().is_root() => "user root; worker_processes 1;",
        Mode::Master => "worker_processes 1;",
    };

    let configuration = format!(
        "daemon off; {master} pid {at}/pid; error_log {at}/error.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n\
         log_format requests '$connection $request_method $request_uri $status';\n\
         access_log {at}/access.log requests;\n\
         {temporary}\
         server {{ listen {address}; root {at}/www; keepalive_timeout 30s;\n{server}\n}}\n\
         }}\n"
    );

    fs::write(folder.join(CONFIGURATION), configuration).unwrap();
    run_again(folder)
}

/// Runs it by the configuration that was written.
fn run_again(folder: &Path) -> Child {
    let file = folder.join(CONFIGURATION);
    let program = std::env::var_os("HERMES_NGINX").unwrap_or_else(|| "nginx".into());

    let spawned = Command::new(&program)
        .arg("-p")
        .arg(folder)
        .arg("-e")
        .arg(folder.join("error.log"))
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();

    match spawned {
        Ok(process) => process,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!(
                "there is no {}; run `./test install`, or set HERMES_NGINX",
                program.display()
            )
        }
        Err(error) => panic!("{}: {error}", program.display()),
    }
}

/// Whether it is this process that listens: it writes its identifier down once it has bound its sockets.
fn listens(folder: &Path, process: &Child) -> bool {
    let written = fs::read_to_string(folder.join("pid")).unwrap_or_default();
    written.trim() == process.id().to_string()
}

fn error_log(folder: &Path) -> String {
    fs::read_to_string(folder.join("error.log")).unwrap_or_default()
}

fn parse(line: &str) -> Access {
    let parts: Vec<_> = line.split(' ').collect();
    let [connection, method, uri, status] = parts[..] else {
        panic!("nginx logged {line:?}")
    };

    Access {
        connection: connection.parse().unwrap(),
        method: method.to_owned(),
        uri: uri.to_owned(),
        status: status.parse().unwrap(),
    }
}

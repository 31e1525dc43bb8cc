//! A laptop's day: `git clone`, `apt-get`, a download and an ssh session, while the proxies that they go through die and come back.
//!
//! What can be expected depends on which one dies. One in the middle: all of them go on. The last one: what is a request goes on, and a
//! session does not, because its connection to the target is that process's. So are the clients' connections that of the laptop's own proxy:
//! it is not killed but succeeded. Another process takes new clients from the same sockets, and the first one ends when its own have gone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, scope, sleep};
use std::time::Duration;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::nginx::Nginx;
use hermes_tests::{Node, Pki, free, program};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::apt::{apt, repository, run};

/// Bytes of the download, and of the file in the repository of git.
const SIZE: usize = 6 << 20;

/// What nginx gives of a file a second, so that each transfer is under way when a proxy dies.
const RATE: &str = "1m";

/// What lies between two lines that are said in the session.
const BETWEEN: Duration = Duration::from_millis(50);

/// How long a proxy is gone.
const GONE: Duration = Duration::from_millis(500);

/// A server of ssh that lets in whom the test has made a key for. Dropping it ends it.
struct Sshd {
    folder: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Sshd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for key in ["host", "user"] {
            let file = folder.path().join(key);
            let file = file.to_str().unwrap();
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", file]);
        }
        let address = free::tcp();
        let at = folder.path().display();
        let configuration = format!(
            "ListenAddress {address}\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/user.pub\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        );
        let file = folder.path().join("sshd_config");
        fs::write(&file, configuration).unwrap();
        // Where it gives up its rights; a package makes it when the service starts, which it does not here.
        fs::create_dir_all("/run/sshd").unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(&file)
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        eventually("sshd", || std::net::TcpStream::connect(address).ok());
        Self {
            folder,
            process,
            address,
        }
    }

    /// A session by way of this address, in which the other side says back what it hears.
    fn session(&self, by: SocketAddr) -> Child {
        let key = self.folder.path().join("user");
        Command::new("ssh")
            .args(["-F", "none", "-T", "-i", key.to_str().unwrap()])
            .args(["-o", "StrictHostKeyChecking=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null"])
            .args(["-p", &by.port().to_string(), &by.ip().to_string(), "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log"));
            eprintln!("sshd: {}", log.unwrap_or_default());
        }
    }
}

/// The sockets of the laptop's proxy, as a service manager keeps them while its process is another.
struct Sockets {
    web: SocketAddr,
    ssh: SocketAddr,
    kept: [OwnedFd; 2],
}

impl Sockets {
    fn open() -> Self {
        let (web, ssh) = (free::tcp(), free::tcp());
        let kept = [web, ssh].map(|address| {
            let listener = TcpListener::bind(address).unwrap();
            // Out of the way of the numbers by which they are passed.
            let kept = fcntl_dupfd_cloexec(&listener, 100).unwrap();
            fcntl_setfd(&kept, FdFlags::empty()).unwrap();
            kept
        });
        Self { web, ssh, kept }
    }

    /// A command that passes them to our program (sd_listen_fds(3)).
    fn passed(&self) -> Command {
        let [web, ssh] = self.kept.each_ref().map(AsRawFd::as_raw_fd);
        let script = format!("exec 3<&{web} 4<&{ssh}; export LISTEN_PID=$$; exec \"$0\" \"$@\"");
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .arg(program::path())
            .env("LISTEN_FDS", "2")
            .env("LISTEN_FDNAMES", "web:ssh");
        command
    }
}

/// The laptop's node, two on the way, and the last; sshd, and the files of an origin.
struct Day {
    sockets: Sockets,
    home: String,
    hops: Vec<Node>,
    end: Node,
    sshd: Sshd,
    origin: Nginx,
    content: Vec<u8>,
    _pki: Pki,
}

impl Day {
    fn start() -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let content: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(SIZE)
            .collect();
        let origin = Nginx::start(&format!("location / {{ limit_rate {RATE}; }}"), |root| {
            files(root, &content);
        });
        let sshd = Sshd::start();
        let sockets = Sockets::open();
        let pki = Pki::new();
        let tls = format!(
            "{}, ca_file: {}",
            // Where free ports are.
            pki.issue(&["127.9.8.7"]).yaml(),
            pki.ca().display()
        );
        let common = format!("workers: 1\ndefaults: {{ tls: {{ {tls} }} }}\n");
        let overlay = |at: SocketAddr| format!("overlay: {{ http: \"{at}\", tls: true }}");
        let next = |to: SocketAddr| {
            format!("upstreams: {{ next: {{ endpoints: [\"{to}\"], http: 2, tls: true }} }}\n")
        };

        let at = [free::tcp(), free::tcp(), free::tcp()];
        let end = format!(
            "{common}listeners: {{ {} }}\nroutes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n",
            overlay(at[2])
        );
        let hop = |index: usize| {
            format!(
                "{common}listeners: {{ {} }}\nroutes: [ {{ to: next }} ]\n{}",
                overlay(at[index]),
                next(at[index + 1])
            )
        };
        let home = format!(
            "{common}drain: 2m\nlisteners: {{ web: {{ http: \"{}\" }}, ssh: {{ tcp: \"{}\", target: \"{}\" }} }}\n\
             routes: [ {{ match: {{ listener: ssh }}, to: next, tunnel: {{ resume: true }} }}, {{ to: next, retry: \
             {{ keep_for: 2m, per_try_timeout: 5s, on: [gateway-error, interrupted] }} }} ]\n{}",
            sockets.web,
            sockets.ssh,
            sshd.address,
            next(at[0])
        );
        Self {
            end: Node::start("end", &end),
            hops: vec![Node::start("one", &hop(0)), Node::start("two", &hop(1))],
            sockets,
            home,
            sshd,
            origin,
            content,
            _pki: pki,
        }
    }

    /// The laptop's proxy, or its successor.
    fn start_home(&self) -> Node {
        Node::start_by(self.sockets.passed(), "home", &self.home)
    }

    fn proxy(&self) -> String {
        format!("http://{}", self.sockets.web)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.origin.address())
    }

    fn clone_repository(&self, folder: &Path) {
        let to = folder.join("clone");
        let proxy = format!("http.proxy={}", self.proxy());
        let url = self.url("project.git");
        let words = ["-c", &proxy, "clone", "-q", &url, to.to_str().unwrap()];
        run("git", &words);
        assert!(fs::read(to.join("file")).unwrap() == self.content, "git");
    }

    fn install(&self, folder: &Path) {
        let list = folder.join("etc/apt/sources.list");
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        let line = format!("deb [trusted=yes] {} ./\n", self.url("deb"));
        fs::write(list, line).unwrap();
        let proxy = self.proxy();
        apt(folder, &proxy, &["update"]);
        let install = ["install", "--yes", "--download-only", "greeting"];
        apt(folder, &proxy, &install);
        assert!(folder.join("cache/archives/greeting_1.0_all.deb").exists());
    }

    fn download(&self, folder: &Path) {
        let file = folder.join("download");
        let proxy = self.proxy();
        let url = self.url("file");
        let words = ["-sSf", "-x", &proxy, "-o", file.to_str().unwrap(), &url];
        run("curl", &words);
        assert!(fs::read(file).unwrap() == self.content, "curl");
    }

    /// A session in which each line comes back before the next is said, until the day is over.
    fn talk(&self, so_far: &SoFar) {
        let mut session = self.sshd.session(self.sockets.ssh);
        let mut says = session.stdin.take().unwrap();
        let mut hears = BufReader::new(session.stdout.take().unwrap()).lines();
        while !so_far.is_over() {
            let line = format!("line {}", so_far.lines());
            writeln!(says, "{line}").unwrap();
            let heard = hears.next().expect("the session is over").unwrap();
            assert_eq!(heard, line);
            so_far.lines.fetch_add(1, Ordering::SeqCst);
            sleep(BETWEEN);
        }
        drop(says);
        assert!(session.wait().unwrap().success());
    }

    /// Clones, installs and downloads again and again, each at least once, until the day is over.
    fn work<'scope, 'env>(
        &'scope self,
        threads: &'scope Scope<'scope, 'env>,
        so_far: &'scope SoFar,
    ) -> Vec<std::thread::ScopedJoinHandle<'scope, ()>> {
        let again = |one: fn(&Self, &Path)| {
            threads.spawn(move || {
                loop {
                    let folder = tempfile::tempdir().unwrap();
                    one(self, folder.path());
                    if so_far.is_over() {
                        return;
                    }
                }
            })
        };
        vec![
            again(Self::clone_repository),
            again(Self::install),
            again(Self::download),
        ]
    }
}

/// What has happened of the day.
#[derive(Default)]
struct SoFar {
    /// Lines of the session that came back.
    lines: AtomicUsize,
    is_over: AtomicBool,
}

impl SoFar {
    fn lines(&self) -> usize {
        self.lines.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Waits until another line has come back.
    fn await_line(&self) {
        let before = self.lines();
        eventually_true("another line of the session", || self.lines() > before);
    }
}

/// A repository of git, one of Debian, and a file.
fn files(root: &Path, content: &[u8]) {
    fs::write(root.join("file"), content).unwrap();
    repository(root);
    let work = root.join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("file"), content).unwrap();
    let bare: PathBuf = root.join("project.git");
    let git = |folder: &Path, words: &[&str]| {
        let name = ["-C", folder.to_str().unwrap(), "-c", "user.name=t"];
        let mail = ["-c", "user.email=t@example.org"];
        run("git", &[&name[..], &mail, words].concat())
    };
    git(&work, &["init", "-q"]);
    git(&work, &["add", "file"]);
    git(&work, &["commit", "-q", "-m", "one"]);
    git(
        &work,
        &["clone", "-q", "--bare", ".", bare.to_str().unwrap()],
    );
    git(&bare, &["update-server-info"]);
}

/// A node is killed, is gone for a while, and comes back.
fn dies(node: &mut Node) {
    node.kill();
    sleep(GONE);
    node.restart();
}

/// Whether the session is an exchange of this node.
fn has_session(node: &Node) -> bool {
    let exchanges = node.exchanges();
    exchanges.iter().any(|one| one["listener"] == "ssh")
}

/// Waits until a transfer of this node is under way.
fn await_transfer(node: &Node) {
    let is_transfer = |one: &serde_json::Value| {
        one["listener"] == "web" && one["target_to_client"].as_u64() > Some(0)
    };
    eventually_true("a transfer", || node.exchanges().iter().any(is_transfer));
}

#[test]
fn what_a_laptop_does_goes_on_while_each_proxy_is_restarted_once() {
    let mut day = Day::start();
    let mut home = day.start_home();
    let mut hops = std::mem::take(&mut day.hops);
    let so_far = SoFar::default();
    scope(|threads| {
        let day = &day;
        let talking = threads.spawn(|| day.talk(&so_far));
        // A tunnel that is not open yet is opened as often as `retry` says, and no longer.
        so_far.await_line();
        let working = day.work(threads, &so_far);
        for hop in &mut hops {
            await_transfer(&home);
            dies(hop);
            so_far.await_line();
        }

        await_transfer(&home);
        let mut first = std::mem::replace(&mut home, day.start_home());
        first.signal(Signal::TERM);
        so_far.await_line();
        // New clients come to the successor only.
        await_transfer(&home);
        so_far.await_line();
        assert!(has_session(&first) && !has_session(&home));

        so_far.end();
        working.into_iter().for_each(|one| one.join().unwrap());
        talking.join().unwrap();
        assert!(first.wait().success());
    });

    let so_far = SoFar::default();
    let mut end = std::mem::replace(&mut day.end, hops.remove(0));
    scope(|threads| {
        let day = &day;
        let working = day.work(threads, &so_far);
        await_transfer(&home);
        dies(&mut end);
        so_far.end();
        working.into_iter().for_each(|one| one.join().unwrap());
    });
    day.end = end;
}

//! haproxy and Apache as peers: programs with a file of their own on a loopback port, one process each, and a log of requests.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::eventually::eventually;

/// A running peer. Dropping it ends the process; if the test has failed, its output is printed.
#[derive(Debug)]
pub struct Peer {
    folder: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Peer {
    /// haproxy that answers every request with 200 itself.
    ///
    /// # Panics
    /// When it does not start.
    pub fn haproxy() -> Self {
        haproxy("http-request return status 200 content-type text/plain string ok")
    }

    /// haproxy in front of `behind`, over kept connections.
    ///
    /// # Panics
    /// When it does not start.
    pub fn haproxy_before(behind: SocketAddr) -> Self {
        haproxy(&format!(
            "http-reuse always\n  retry-on conn-failure empty-response\n  server behind {behind}"
        ))
    }

    /// Apache with an empty folder of files.
    ///
    /// # Panics
    /// When it does not start.
    pub fn apache() -> Self {
        apache(&[], |_| String::new())
    }

    /// Apache as a company's proxy: for HTTP, and for CONNECT to this port, of the users in these lines,
    /// as `htpasswd -B` writes them.
    ///
    /// # Panics
    /// When it does not start.
    pub fn apache_proxy(port: u16, lines: &str) -> Self {
        const MODULES: [&str; 7] = [
            "proxy",
            "proxy_http",
            "proxy_connect",
            "authn_core",
            "authn_file",
            "authz_user",
            "auth_basic",
        ];
        apache(&MODULES, |folder| {
            let users = folder.join("users");
            fs::write(&users, lines).unwrap();
            format!(
                "ProxyRequests On\nAllowCONNECT {port}\n<Proxy *>\nAuthType Basic\nAuthName company\n\
                 AuthBasicProvider file\nAuthUserFile {}\nRequire valid-user\n</Proxy>\n",
                users.display()
            )
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests that it logged so far, as `GET /path`; malformed ones are left out.
    pub fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default();
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        whole
            .lines()
            .filter(|line| line.contains(" /") || line.starts_with("CONNECT "))
            .map(str::to_owned)
            .collect()
    }
}

/// Apache with these modules, and the lines that `more` makes for its folder at the end of its file.
fn apache(modules: &[&str], more: impl Fn(&Path) -> String) -> Peer {
    start("HERMES_APACHE2", "apache2", |folder, address| {
        let at = folder.display();
        let modules: String = ["mpm_event", "authz_core"]
            .iter()
            .chain(modules)
            .map(|name| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
            })
            .collect();

        // Started by root, it takes another user's rights; started by anybody else, it ignores this.
        let file = format!(
            "{modules}ServerRoot {at}\nServerName video\nListen {address}\nPidFile {at}/pid\nDefaultRuntimeDir {at}\n\
             User nobody\nGroup nogroup\nDocumentRoot {at}\nErrorLog {at}/error.log\nKeepAliveTimeout 30\n\
             LogFormat \"%m %U%q\" requests\nCustomLog {at}/requests requests\n{}",
            more(folder)
        );
        fs::write(folder.join("apache.conf"), file).unwrap();
        vec![
            "-X".into(),
            "-f".into(),
            folder.join("apache.conf").display().to_string(),
        ]
    })
}

fn haproxy(end: &str) -> Peer {
    start("HERMES_HAPROXY", "haproxy", |folder, address| {
        let file = format!(
            "global\n  log stdout format raw local0 info\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             listen web\n  bind {address}\n  log global\n  log-format \"%HM %HU\"\n  {end}\n"
        );
        fs::write(folder.join("haproxy.cfg"), file).unwrap();
        vec![
            "-db".into(),
            "-f".into(),
            folder.join("haproxy.cfg").display().to_string(),
        ]
    })
}

/// Starts a program at a port that was free just now; `prepare` writes its file and says its arguments.
fn start(variable: &str, name: &str, prepare: impl Fn(&Path, SocketAddr) -> Vec<String>) -> Peer {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap();
    let arguments = prepare(folder.path(), address);
    let program = std::env::var_os(variable).unwrap_or_else(|| name.into());
    let create = |name| File::create(folder.path().join(name)).unwrap();
    let said = if name == "haproxy" {
        "requests"
    } else {
        "stdout"
    };

    let spawned = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(create(said))
        .stderr(create("stderr"))
        .spawn();

    let process = spawned.unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => panic!(
            "there is no {}; run `./test install`, or set {variable}",
            program.display()
        ),
        _ => panic!("{}: {error}", program.display()),
    });

    let mut peer = Peer {
        folder,
        process,
        address,
    };

    eventually("the peer listens", || {
        let ended = peer.process.try_wait().unwrap();
        assert!(ended.is_none(), "{name} ended:\n{}", peer.said());
        TcpStream::connect(address).ok()
    });

    peer
}

impl Peer {
    fn said(&self) -> String {
        ["stderr", "error.log"]
            .map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default())
            .concat()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
        if std::thread::panicking() {
            eprintln!("--- peer\n{}---", self.said());
        }
    }
}

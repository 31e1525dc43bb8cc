//! An etcd of several members, each a process with a folder of its own. Members believe each other and clients by certificates.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::pki::Issued;
use crate::{Pki, free};

/// A running etcd. Dropping it ends its members; if the test has failed, their logs are shown.
#[derive(Debug)]
pub struct Etcd {
    folder: TempDir,
    pki: Pki,
    own: Issued,
    members: Vec<Member>,
}

/// One of its processes.
#[derive(Debug)]
struct Member {
    name: String,
    clients: SocketAddr,
    peers: SocketAddr,
    process: Option<Child>,
}

impl Etcd {
    /// Starts one of so many members. Clients may speak to it at once, and are answered once most members are there.
    ///
    /// # Panics
    /// When there is no program `etcd`.
    pub fn start(count: usize) -> Self {
        let places = (0..count).map(|_| [free::tcp(), free::tcp()]);
        let mut etcd = Self::at(places);
        for index in 0..count {
            etcd.run(index);
        }
        etcd
    }

    /// One with members at these addresses, each for clients and for other members, none of which runs yet.
    pub fn at(places: impl IntoIterator<Item = [SocketAddr; 2]>) -> Self {
        let member = |(number, [clients, peers]): (usize, [SocketAddr; 2])| Member {
            name: format!("member{number}"),
            clients,
            peers,
            process: None,
        };
        let members: Vec<_> = places.into_iter().enumerate().map(member).collect();
        let names: Vec<_> = members
            .iter()
            .map(|member| member.clients.ip().to_string())
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let pki = Pki::new();
        Self {
            own: pki.issue(&names),
            folder: tempfile::tempdir().unwrap(),
            pki,
            members,
        }
    }

    /// Starts a member's process.
    ///
    /// # Panics
    /// When there is no program `etcd`.
    pub fn run(&mut self, index: usize) {
        let all: Vec<_> = self.members.iter().map(Member::named).collect();
        let member = &self.members[index];
        let clients = format!("https://{}", member.clients);
        let peers = format!("http://{}", member.peers);
        let data = self.folder.path().join(&member.name);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join(format!("{}.log", member.name)))
            .unwrap();
        let spawned = Command::new("etcd")
            .args(["--name", &member.name])
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &all.join(",")])
            .arg("--cert-file")
            .arg(&self.own.cert)
            .arg("--key-file")
            .arg(&self.own.key)
            .arg("--client-cert-auth")
            .arg("--trusted-ca-file")
            .arg(self.pki.ca())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let process = spawned.unwrap_or_else(|error| {
            panic!("etcd: {error}; `./test install` or `apt-get install etcd-server` installs it")
        });
        self.members[index].process = Some(process);
    }

    /// Kills a member's process, without a chance to tidy up.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self, index: usize) {
        let mut process = self.members[index].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// The arguments by which a controller uses it for this overlay.
    pub fn arguments(&self, overlay: &str) -> Vec<String> {
        let clients: Vec<_> = self
            .members
            .iter()
            .map(|member| member.clients.to_string())
            .collect();
        let store = format!("etcd://{}/{overlay}", clients.join(","));
        let shown = |path: &std::path::Path| path.display().to_string();
        [
            "--store",
            &store,
            "--store-ca",
            &shown(&self.pki.ca()),
            "--store-cert",
            &shown(&self.own.cert),
            "--store-key",
            &shown(&self.own.key),
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl Member {
    fn named(&self) -> String {
        format!("{}=http://{}", self.name, self.peers)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            if std::thread::panicking() {
                let log = self.folder.path().join(format!("{}.log", member.name));
                let log = std::fs::read_to_string(log).unwrap_or_default();
                eprintln!("{}:\n{log}", member.name);
            }
            if let Some(mut process) = member.process.take() {
                // One that has ended is gone anyway.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

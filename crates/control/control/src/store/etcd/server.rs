//! A real etcd for tests, on free ports of loopback, with its data in a folder that goes with it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::messages::{PutRequest, Request, TxnRequest};
use super::{EtcdAddress, EtcdStore};

/// A process of etcd, killed when this is dropped.
pub(crate) struct EtcdServer {
    process: Child,
    clients: SocketAddr,
    folder: TempDir,
}

/// The one that tests share as long as one of them runs.
static SHARED: Mutex<Weak<EtcdServer>> = Mutex::new(Weak::new());

impl EtcdServer {
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(&[]));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clients = free();
        let peers = format!("http://{}", free());
        let url = format!("http://{clients}");
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let data = folder.path().join("data");
        let spawned = Command::new("etcd")
            .args(["--name", "one", "--data-dir", data.to_str().unwrap()])
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let process = spawned.unwrap_or_else(|error| {
            panic!("etcd: {error}; `./test install` or `apt-get install etcd-server` installs it")
        });
        let server = Self {
            process,
            clients,
            folder,
        };
        server.await_answer();
        server
    }

    fn await_answer(&self) {
        let began = Instant::now();
        while EtcdStore::open(&self.address("probe"), None).is_err() {
            let log = || std::fs::read_to_string(self.folder.path().join("log"));
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "etcd: {}",
                log().unwrap_or_default()
            );
        }
    }

    pub(crate) fn address(&self, overlay: &str) -> EtcdAddress {
        format!("etcd://{}/{overlay}", self.clients)
            .parse()
            .unwrap()
    }

    /// A store that no one has used, whose leader this is.
    pub(crate) fn leading_store(&self) -> EtcdStore {
        let store = self.store();
        let shared = store.shared.clone();
        let put = PutRequest {
            key: shared.keys.leader(),
            ..PutRequest::default()
        };
        let request = TxnRequest {
            success: vec![Request::Put(put).into()],
            ..TxnRequest::default()
        };
        let put = store
            .runtime
            .wait(async move { shared.client.txn(request).await });
        let revision = put.unwrap().header.map(|header| header.revision);
        *store.shared.term.lock() = revision;
        store
    }

    /// The store of another controller of the same overlay.
    pub(crate) fn again(&self, store: &EtcdStore) -> EtcdStore {
        let overlay = store.shared.keys.overlay();
        EtcdStore::open(&self.address(&overlay), None).unwrap()
    }

    /// Sends the process a signal, such as to stop it for a while.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// A store that no one has used.
    pub(crate) fn store(&self) -> EtcdStore {
        let overlay = format!("o{:016x}", fastrand::u64(..));
        EtcdStore::open(&self.address(&overlay), None).unwrap()
    }
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        // One that has ended is gone anyway.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

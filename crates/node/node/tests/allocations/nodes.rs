//! Nodes in this process.

use std::net::SocketAddr;

use hermes_node::LogFilter;
use hermes_node::Proxy;
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// What is the same in every file.
const REST: &str = "version: 1\nworkers: 1\nlog: { access: off }\nadmin: { socket: admin.sock }\n";

/// A node with one worker, and the runtime where its administration would run: no one drives that, so that
/// what is counted is the worker's.
pub struct Node {
    proxy: Proxy,
    _runtime: Runtime,
    _folder: TempDir,
}

impl Node {
    /// Starts a node whose only listener is in `yaml`, at port 0. Nodes of one name take each other for a loop.
    pub fn start(name: &str, yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.yaml");
        std::fs::write(&file, format!("node: {name}\n{REST}{yaml}")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let guard = runtime.enter();
        let loaded = hermes_config::load(&file, &|_| None).unwrap();
        let proxy = Proxy::start(loaded, file, Box::new(NoLog), Vec::new(), Plugs::new()).unwrap();
        drop(guard);
        Self {
            proxy,
            _runtime: runtime,
            _folder: folder,
        }
    }

    /// Where its listener is.
    pub fn address(&self) -> SocketAddr {
        self.proxy.listeners()[0].address.parse().unwrap()
    }
}

/// Nothing is logged.
struct NoLog;

impl LogFilter for NoLog {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

//! The nodes of the demo: their files, and the changes to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermes_net::network::Network;
use http::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::networks::{INGRESSES, Networks, SERVERS, USERS, number, to_ingress, to_server};
use crate::admin;
use crate::commands::cert;
use crate::demo::children::{Children, Node};
use crate::demo::files::save;
use crate::demo::says::{Says, expect};

const USER: &str = include_str!("nodes/user.yaml");
const INGRESS: &str = include_str!("nodes/ingress.yaml");
const SERVER: &str = include_str!("nodes/server.yaml");

/// The folder of the demo, in which each node has its file.
pub struct IpNodes {
    folder: TempDir,
}

impl IpNodes {
    /// Writes the files of all nodes, with an authority of the demo's own and a certificate for each.
    pub fn write() -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("hermes-demo-")
            .tempdir()
            .says("a folder for the demo")?;
        let nodes = Self { folder };
        let names = USERS.iter().chain(&INGRESSES).chain(&SERVERS);
        let wanted: Vec<String> = names.map(|name| format!("{name}={name}.overlay")).collect();
        cert::make(nodes.folder.path(), &wanted)?;

        for user in USERS {
            save(&nodes.file(user), &user_file(user, INGRESSES[0]))?;
        }
        for ingress in INGRESSES {
            save(&nodes.file(ingress), &ingress_file(ingress, "two"))?;
        }
        for server in SERVERS {
            save(&nodes.file(server), &filled(SERVER, &[("NAME", server)]))?;
        }
        Ok(nodes)
    }

    /// Starts all of them, each in its network.
    pub fn start(&self, networks: &Networks) -> Result<Children, String> {
        let runtime = Handle::current();
        let start = |name: &'static str| {
            let network = networks.of(name).says(name)?;
            let spawn = |command: &mut Command| spawn_in(network, &runtime, command);
            Node::start(name, &self.file(name), self.socket(name), spawn)
        };
        let all = SERVERS.iter().chain(&INGRESSES).chain(&USERS);
        let nodes: Result<Vec<Node>, String> = all.map(|name| start(name)).collect();
        nodes.map(Children::of)
    }

    /// Has the users enter there from now on.
    pub async fn enter_at(&self, user: &str, ingress: &str) -> Result<(), String> {
        self.change(user, &user_file(user, ingress)).await
    }

    /// Has an ingress send Bob's packets to another server.
    pub async fn send_bob_to(&self, ingress: &str, server: &str) -> Result<(), String> {
        self.change(ingress, &ingress_file(ingress, server)).await
    }

    /// The status of a node.
    pub async fn ask(&self, node: &str, path: &str) -> Result<Value, String> {
        let answer = admin::call(&self.socket(node), Method::GET, path, "").await;
        let (_, said) = answer.map_err(|failure| failure.reason)?;
        Ok(said)
    }

    /// Tunnels for IP that a node carries now.
    pub async fn tunnels(&self, node: &str) -> Result<usize, String> {
        let said = self.ask(node, "/exchanges").await?;
        let live = said["exchanges"].as_array().map_or(&[][..], Vec::as_slice);
        let is_ip = |exchange: &&Value| exchange["kind"] == "connect-ip";
        Ok(live.iter().filter(is_ip).count())
    }

    /// The file of a node.
    pub fn file(&self, node: &str) -> PathBuf {
        self.folder.path().join(format!("{node}.yaml"))
    }

    /// Its admin socket.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.folder.path().join(format!("{node}.sock"))
    }

    async fn change(&self, node: &str, text: &str) -> Result<(), String> {
        let file: &Path = &self.file(node);
        std::fs::write(file, text).says(file.display())?;
        let answer = admin::call(&self.socket(node), Method::POST, "/reload", "").await;
        let (status, said) = answer.map_err(|failure| failure.reason)?;
        expect(status == 200, || {
            format!("{node} does not take its file: {said}")
        })
    }
}

/// Starts a process in a network.
fn spawn_in(network: &Network, runtime: &Handle, command: &mut Command) -> std::io::Result<Child> {
    network.within(|| {
        let _entered = runtime.enter();
        command.spawn()
    })?
}

/// The address that a user's machine asks for.
pub fn own_address(user: &str) -> String {
    format!("10.9.0.{}7", number(&USERS, user))
}

fn user_file(user: &str, ingress: &str) -> String {
    let [north, south] = INGRESSES.map(|ingress| to_ingress(user, ingress).to_string());
    let address = own_address(user);
    let values = [
        ("NAME", user),
        ("ADDRESS", &address),
        ("INGRESS", ingress),
        ("NORTH", &north),
        ("SOUTH", &south),
    ];
    filled(USER, &values)
}

fn ingress_file(ingress: &str, of_bob: &str) -> String {
    let [one, two, three] = SERVERS.map(|server| to_server(ingress, server).to_string());
    let values = [
        ("NAME", ingress),
        ("BOB", of_bob),
        ("ONE", &one),
        ("TWO", &two),
        ("THREE", &three),
    ];
    filled(INGRESS, &values)
}

fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    let fill =
        |text: String, (name, value): (&&str, &&str)| text.replace(&format!("@{name}@"), value);
    values.iter().fold(template.to_owned(), fill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_valid_document() {
        let nodes = IpNodes::write().unwrap();
        for name in USERS.iter().chain(&INGRESSES).chain(&SERVERS) {
            let loaded = hermes_config::load(&nodes.file(name), &|_| None).unwrap();
            assert_eq!(loaded.document.node.as_deref(), Some(*name));
            hermes_node::check(loaded).unwrap();
        }
    }
}

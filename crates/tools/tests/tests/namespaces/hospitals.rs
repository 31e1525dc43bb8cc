//! Two hospitals of the EPI framework: data of one reaches the other by a path that an orchestrator asks for, through the functions that
//! the second one lacks, as long as both consent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, program};
use serde_json::Value;

use super::packets::networks;
use super::rehoming::parrot;
use super::{command, within};

/// The port of the paper's allow-list.
const SERVICE: &str = "ehr.umc.example:54321";

/// Data of the AMC is compressed, and goes to listed ports alone; the UMC does neither. The list is the hub's, with the paper's port.
const AREAS: &str = "\
version: 1
places:
  amc: {}
  hub: { reached: { endpoints: [\"10.0.1.2:8443\"] } }
  umc: { reached: { endpoints: [\"10.0.2.2:8443\"] } }
areas:
  amc-ehr: { at: amc, has: [compact, listed], clients: { listener: app } }
  amc-lab: { at: amc, has: [certified] }
  umc-ehr: { at: umc, targets: [ehr.umc.example], terminate: \"127.0.0.1:54321\" }
functions:
  compress: { adds: [compact], cost: 3, at: [amc] }
  allow-ports: { adds: [listed], cost: 2, at: [hub], through: { allow: { ports: [54321] } } }
links: [{ between: [amc, hub], cost: 5 }, { between: [hub, umc], cost: 5 }]
";

/// The settings of a place, with its partners and who may have which paths.
fn plug(place: &str, partners: &str, allow: &str) -> String {
    format!(
        "plugs: {{ areas: {{ file: FOLDER/areas.yaml, at: {place}, folder: FOLDER, partners: {{ {partners} }}, allow: [ {allow} ] }} }}"
    )
}

const ALLOWED: &str = "{ users: [orchestrator], to: [umc-ehr] }";

fn amc() -> String {
    let plug = plug(
        "amc",
        "hub: \"areas.hub:80\", umc: \"areas.umc:80\"",
        ALLOWED,
    );
    format!(
        "
include: [routes.yaml]
{plug}
listeners:
  api: {{ http: 127.0.0.1:8081, gateway: true, auth: {{ basic: {{ file: users }} }} }}
  app: {{ http: 127.0.0.1:3128 }}
routes:
  - {{ match: {{ target: [\"areas.hub:80\", \"areas.umc:80\"], listener: api }}, to: hub }}
  - {{ match: {{ listener: api, path: /areas/* }}, handle: areas }}
upstreams: {{ hub: {{ endpoints: [10.0.1.2:8443] }} }}
"
    )
}

fn hub() -> String {
    let plug = plug("hub", "", ALLOWED);
    format!(
        "
include: [routes.yaml]
{plug}
listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] }} }}
routes:
  - {{ match: {{ target: \"areas.hub:80\" }}, handle: areas }}
  - {{ match: {{ target: \"areas.umc:80\" }}, to: umc }}
upstreams: {{ umc: {{ endpoints: [10.0.2.2:8443] }} }}
"
    )
}

fn umc(allow: &str) -> String {
    let plug = plug("umc", "", allow);
    format!(
        "
include: [routes.yaml]
{plug}
listeners: {{ overlay: {{ http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24] }} }}
routes: [ {{ match: {{ target: \"areas.umc:80\" }}, handle: areas }} ]
"
    )
}

/// Starts a node whose folder has the areas, no routes yet and the users.
fn start(topology: &Topology, namespace: &'static str, name: &'static str, yaml: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let hash = |user: &str| format!("{user}:{}\n", bcrypt::hash("secret", 4).unwrap());
    for (file, content) in [
        ("areas.yaml", AREAS.to_owned()),
        ("routes.yaml", "version: 1\n".to_owned()),
        ("users", hash("orchestrator") + &hash("mallory")),
    ] {
        let path = folder.path().join(file);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let yaml = placed(yaml, folder.path());
    let hermes = program::path();
    let command = command(topology, namespace, hermes.to_str().unwrap());
    Node::start_in_by(folder, command, name, &yaml)
}

fn placed(yaml: &str, folder: &Path) -> String {
    yaml.replace("FOLDER", folder.to_str().unwrap())
}

/// Both hospitals, and a hub between them.
struct Hospitals {
    topology: Topology,
    amc: Node,
    hub: Node,
    umc: Node,
}

impl Hospitals {
    fn new() -> Self {
        let topology = networks();
        parrot(&topology, "server", "127.0.0.1:54321");
        Self {
            umc: start(&topology, "server", "umc", &umc(ALLOWED)),
            hub: start(&topology, "edge", "hub", &hub()),
            amc: start(&topology, "alice", "amc", &amc()),
            topology,
        }
    }

    /// A request of the API, and the status and content of its answer.
    fn ask(&self, user: &str, method: &str, path: &str, content: &str) -> (u16, Value) {
        let alice = self.topology.namespace("alice").unwrap();
        let credentials = format!("{user}:secret");
        let url = format!("http://127.0.0.1:8081/areas/v1/{path}");
        let mut curl = alice.command("curl");
        curl.args([
            "-s",
            "-u",
            &credentials,
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            &url,
        ]);
        if !content.is_empty() {
            curl.args(["-d", content]);
        }
        let said = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let (content, status) = said.rsplit_once('\n').unwrap();
        let json = serde_json::from_str(content).unwrap_or(Value::Null);
        (status.parse().unwrap(), json)
    }

    fn path(&self, user: &str) -> (u16, Value) {
        self.ask(
            user,
            "POST",
            "paths",
            r#"{"from":"amc-ehr","to":"umc-ehr"}"#,
        )
    }

    /// A connection of an application of the AMC.
    fn connect(&self, target: &'static str) -> Option<Raw> {
        within(&self.topology, "alice", || {
            Raw::tunnel("127.0.0.1:3128".parse().unwrap(), target, "").ok()
        })
    }

    fn refuses(&self, target: &'static str) {
        eventually_true("no route to the service", || self.connect(target).is_none());
    }
}

fn speaks(client: &mut Raw) {
    client.send("records");
    assert_eq!(client.exactly(7), b"records");
}

#[test]
fn data_of_one_hospital_reaches_the_other_by_a_path_that_was_asked_for() {
    let hospitals = Hospitals::new();
    hospitals.refuses(SERVICE);

    let (status, path) = hospitals.path("orchestrator");
    assert_eq!(status, 201, "{path:#}");
    assert_eq!(path["name"], "amc-ehr~umc-ehr");
    assert_eq!(path["plan"]["cost"], 15);
    assert_eq!(
        path["plan"]["stops"][0]["functions"][0]["function"],
        "compress"
    );

    // Many connections by one port.
    let mut clients: Vec<Raw> = (0..20)
        .map(|_| hospitals.connect(SERVICE).unwrap())
        .collect();
    clients.iter_mut().for_each(speaks);
    let umc = hospitals.umc.status();
    assert_eq!(
        umc["plugs"]["areas"]["paths"][0]["name"], "amc-ehr~umc-ehr",
        "{umc:#}"
    );
    assert!(
        hospitals.connect("ehr.umc.example:54322").is_none(),
        "another port"
    );

    // The same again changes nothing, and connections stay.
    assert_eq!(hospitals.path("orchestrator").0, 200);
    speaks(&mut clients[0]);

    let (status, gone) = hospitals.ask("orchestrator", "DELETE", "paths/amc-ehr~umc-ehr", "");
    assert_eq!(
        (status, &gone["state"]),
        (200, &"withdrawn".into()),
        "{gone:#}"
    );
    for client in &mut clients {
        client.rest();
    }
    hospitals.refuses(SERVICE);
    for node in [&hospitals.amc, &hospitals.hub, &hospitals.umc] {
        let paths = node.status()["plugs"]["areas"]["paths"].clone();
        assert_eq!(paths, Value::Array(Vec::new()));
    }
}

#[test]
fn both_domains_decide_and_consent_that_is_withdrawn_ends_a_path() {
    let hospitals = Hospitals::new();
    let (status, why) = hospitals.path("mallory");
    assert_eq!(status, 403, "{why:#}");
    let (status, why) = hospitals.ask(
        "orchestrator",
        "POST",
        "paths",
        r#"{"from":"amc-lab","to":"umc-ehr"}"#,
    );
    assert_eq!(status, 422);
    assert!(
        why["error"]
            .as_str()
            .unwrap()
            .contains("`certified`: no function gives it"),
        "{why:#}"
    );

    // The other hospital does not consent: nothing is left anywhere.
    let folder = hospitals.umc.folder().to_owned();
    let without = placed(&umc(""), &folder);
    assert_eq!(hospitals.umc.reload(&without).0, 200);
    let (status, why) = hospitals.path("orchestrator");
    assert_eq!(status, 403, "{why:#}");
    assert!(
        why["error"]
            .as_str()
            .unwrap()
            .starts_with("umc answers 403"),
        "{why:#}"
    );
    assert_eq!(
        hospitals.hub.status()["plugs"]["areas"]["paths"],
        Value::Array(Vec::new())
    );

    // It consents, and then no longer: open connections end without a word to the others.
    assert_eq!(hospitals.umc.reload(&placed(&umc(ALLOWED), &folder)).0, 200);
    assert_eq!(hospitals.path("orchestrator").0, 201);
    let mut client = hospitals.connect(SERVICE).unwrap();
    speaks(&mut client);
    assert_eq!(hospitals.umc.reload(&without).0, 200);
    client.rest();
    hospitals.refuses(SERVICE);
}

#[test]
fn paths_outlive_a_node_that_is_killed() {
    let mut hospitals = Hospitals::new();
    assert_eq!(hospitals.path("orchestrator").0, 201);
    let hermes = program::path();
    hospitals.umc.kill();
    let command = command(&hospitals.topology, "server", hermes.to_str().unwrap());
    hospitals.umc.restart_by(command);
    let mut client = hospitals.connect(SERVICE).unwrap();
    speaks(&mut client);
    let (status, paths) = hospitals.ask("orchestrator", "GET", "paths", "");
    assert_eq!(
        (status, &paths["paths"][0]["state"]),
        (200, &"ready".into())
    );
}

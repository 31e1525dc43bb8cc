//! A node as containers run it: not as root, with a file system that cannot be written, and secrets that belong to root and its own group
//! (`fsGroup` of Kubernetes, 0440; Debian's `ssl-cert`, 0640).

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Pki, curl, free, program};
use tempfile::TempDir;

/// The user and the group of the node.
const USER: u32 = 65_534;
const GROUP: u32 = 4711;

/// Every kind of secret that a file of the node can hold.
const SECRETS: [&str; 7] = [
    "tls.key",
    "token",
    "custody.key",
    "wireguard.key",
    "preshared.key",
    "password",
    "header",
];

/// A volume with the configuration and its secrets.
struct Volume {
    folder: TempDir,
    pki: Pki,
    web: SocketAddr,
}

impl Volume {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let pki = Pki::new();
        let web = free::tcp();
        let at = |name: &str| folder.path().join(name);

        let own = pki.issue(&[&web.ip().to_string()]);
        fs::copy(&own.cert, at("tls.crt")).unwrap();
        fs::copy(&own.key, at("tls.key")).unwrap();
        for secret in ["token", "password", "header"] {
            fs::write(at(secret), "s3cret\n").unwrap();
        }
        let public = |command: &str, name: &str| {
            let said = program::run(&[command, at(name).to_str().unwrap()]);
            said.stdout.trim().to_owned()
        };
        let custody = public("custody-key", "custody.key");
        let wireguard = public("wireguard-key", "wireguard.key");
        // As `wg genpsk` writes it.
        fs::copy(at("wireguard.key"), at("preshared.key")).unwrap();
        let peer = public("wireguard-key", "peer.key");
        assert_ne!(wireguard, peer);

        let port = free::udp();
        let yaml = format!(
            "version: 1
node: pod
identity: {{ user: pod, token_file: token }}
defaults: {{ custody: {{ key_file: custody.key, neighbours: {{ far: {{ key: \"{custody}\", address: \"127.0.0.1:9\" }} }} }} }}
listeners:
  web: {{ http: \"{web}\", gateway: true, public: true, tls: {{ cert_file: tls.crt, key_file: tls.key }} }}
  phone: {{ user: alice, tun: {{ name: phone, addresses: [10.9.0.7/24], wireguard: {{ listen: \"{port}\", private_key_file: wireguard.key, peer: {{ public_key: \"{peer}\", preshared_key_file: preshared.key, allowed: [10.8.0.0/16] }} }} }} }}
routes:
  - {{ match: {{ kind: connect-ip }}, terminate: {{ intercept: true, pool: 10.9.0.0/24, routes: [10.8.0.0/16] }} }}
  - {{ match: {{ path: /far }}, to: far, retry: {{ custody: true }} }}
  - {{ match: {{ path: /next }}, to: next }}
  - {{ respond: {{ status: 204 }} }}
upstreams:
  far: {{ endpoints: [\"127.0.0.1:9\"] }}
  next: {{ endpoints: [\"127.0.0.1:9\"], credentials: {{ user: us, password_file: password }}, fields: {{ x-api-key: {{ file: header }} }} }}
"
        );
        fs::write(at("node.yaml"), yaml).unwrap();
        Self { folder, pki, web }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Gives a secret this owner and this mode; the group is that of the node.
    fn give(&self, name: &str, owner: u32, mode: u32) {
        chown(self.at(name), Some(owner), Some(GROUP)).unwrap();
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
    }

    /// Runs a command of the program where nothing can be written; its output is `said`.
    fn run(&self, words: &str) -> Child {
        let file = self.at("node.yaml");
        let script = format!(
            "mount --make-rprivate / && mount -o remount,bind,ro / && mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp && \
             exec setpriv --reuid {USER} --regid {USER} --groups {GROUP} --bounding-set=-all --inh-caps=-all -- \"$0\" {words} {}",
            file.display()
        );
        let said = fs::File::create(self.at("said")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", &script]);
        command.arg(program::path()).env_remove("XDG_RUNTIME_DIR");
        command.stdout(said.try_clone().unwrap()).stderr(said);
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.at("said")).unwrap()
    }
}

#[test]
fn a_node_that_is_not_root_reads_what_root_shares_with_its_group_and_needs_no_place_to_write() {
    let volume = Volume::new();
    for mode in [0o440, 0o640] {
        SECRETS.iter().for_each(|name| volume.give(name, 0, mode));
        let mut node = volume.run("run");
        eventually_true("it is ready", || {
            assert!(node.try_wait().unwrap().is_none(), "{}", volume.said());
            volume.said().contains("node pod is ready")
        });
        let said = volume.said();
        assert!(said.contains("there is no admin socket"), "{said}");
        let url = format!("https://{}/", volume.web);
        let ca = volume.pki.ca();
        let answer = curl(&["--cacert", ca.to_str().unwrap(), &url]);
        assert_eq!(answer.status, 204, "{answer:?}");
        node.kill().unwrap();
        node.wait().unwrap();
    }
}

#[test]
fn a_secret_that_more_than_its_group_can_use_is_refused_with_a_remedy_that_works() {
    let volume = Volume::new();
    for name in SECRETS {
        SECRETS.iter().for_each(|name| volume.give(name, 0, 0o440));
        let refused = |owner: u32, mode: u32, remedy: &str| {
            volume.give(name, owner, mode);
            let code = volume.run("check").wait().unwrap().code();
            let said = volume.said();
            let remedy = format!("chmod {remedy}");
            assert!(code == Some(2) && said.contains(&remedy), "{name}: {said}");
        };
        refused(0, 0o444, "640");
        // Who owns it can give it to others at any time: it is for them alone.
        refused(USER, 0o640, "600");
        volume.give(name, USER, 0o600);
        let is_valid = volume.run("check").wait().unwrap().success();
        assert!(is_valid, "{name}: {}", volume.said());
    }
}

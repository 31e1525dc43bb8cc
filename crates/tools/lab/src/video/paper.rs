//! The topology of the paper (Fig. 5): a user's proxy, an ingress, two distributors that decide, and the proxy of a video server.
//!
//! The user asks for a film by a name of the overlay, and with a token. Each distributor has a policy that looks at both. The server sends RTP to its
//! own proxy, and it comes back the same way; the last hop is a connection that the user's proxy has opened, as no one can connect to that.

use std::path::Path;

use super::stage::{ENTRY, EXIT, LINK_PORT, SERVER};
use super::systems::{VideoNode, VideoPlace};
use crate::pki::{PROXY, Pki};

/// Where the user's programs ask for films.
pub(super) const USER_PORT: u16 = 8080;

/// Where the video server listens.
pub(super) const VIDEO_PORT: u16 = 8000;

const DISTRIBUTORS: [u16; 2] = [6101, 6102];
const SERVER_PORT: u16 = 6201;

/// The token that a policy allows.
pub(super) const TOKEN: &str = "Bearer film";

/// The policy of the distributors.
fn policy() -> String {
    format!(
        "package overlay\n\nimport rego.v1\n\ndefault decision := {{\"allow\": false, \"reason\": \"no access to films\"}}\n\n\
         decision := {{\"allow\": true}} if {{\n    input.user == \"alice\"\n    input.host == \"video\"\n    input.fields[\"authorization\"] == \"{TOKEN}\"\n}}\n\n\
         decision := {{\"allow\": true}} if {{\n    input.user == \"video-server\"\n    input.host == \"alice\"\n}}\n"
    )
}

/// The nodes, those first that others connect to.
///
/// # Errors
/// The policy cannot be written.
pub(super) fn nodes(folder: &Path) -> std::io::Result<Vec<VideoNode>> {
    let policy_file = folder.join("access.rego");
    std::fs::write(&policy_file, policy())?;
    let keys = NodeKeys::of(folder);
    let video = VideoNode::at(VideoPlace::Server, "server", ENTRY, &keys.video_server());
    let ingress = VideoNode::at(VideoPlace::Server, "ingress", LINK_PORT, &keys.ingress());
    let distributors = DISTRIBUTORS.map(|port| {
        let name = format!("distributor-{port}");
        let yaml = keys.distributor(port, &policy_file);
        VideoNode::at(VideoPlace::Server, &name, port, &yaml)
    });
    let user = VideoNode::at(VideoPlace::Viewer, "user", USER_PORT, &keys.user());
    Ok([ingress]
        .into_iter()
        .chain(distributors)
        .chain([video, user])
        .collect())
}

/// The keys of all nodes, as they stand in a configuration.
struct NodeKeys {
    certificate: String,
    authority: String,
}

impl NodeKeys {
    fn of(folder: &Path) -> Self {
        let pki = Pki::open(folder);
        Self {
            certificate: format!(
                "cert_file: {}, key_file: {}",
                pki.cert(PROXY).display(),
                pki.key(PROXY).display()
            ),
            authority: pki.ca().display().to_string(),
        }
    }

    /// A listener for other nodes, who are known by their certificates.
    fn listener(&self, address: &str) -> String {
        let Self {
            certificate,
            authority,
        } = self;
        format!(
            "{{ http: \"{address}\", auth: mtls, tls: {{ {certificate}, client_ca_file: {authority} }} }}"
        )
    }

    /// Other nodes over HTTP/2, as in the paper.
    fn upstream(&self, addresses: &[String]) -> String {
        let Self {
            certificate,
            authority,
        } = self;
        format!(
            "{{ endpoints: {addresses:?}, http: 2, tls: {{ ca_file: {authority}, {certificate}, server_name: {PROXY} }} }}"
        )
    }

    fn ingress(&self) -> String {
        format!(
            "listeners: {{ overlay: {} }}\n{PEERS}\nroutes:\n  - {{ match: {{ protocol: ptth }}, attach: true }}\n\
             \x20 - {{ match: {{ target: \"ALICE:{EXIT}\" }}, to: users }}\n  - {{ match: {{ target: \"VIDEO:80\" }}, to: distributors }}\n\
             upstreams:\n  users: {{ attached: \"{{target.host}}\" }}\n  distributors: {}\n",
            self.listener(&ingress()),
            self.upstream(&DISTRIBUTORS.map(local)),
        )
    }

    fn distributor(&self, port: u16, policy: &Path) -> String {
        format!(
            "listeners: {{ overlay: {} }}\n{PEERS}\nauthorize: [ {{ name: access, rego: {{ files: {}, query: data.overlay.decision }} }} ]\n\
             routes:\n  - {{ match: {{ target: \"VIDEO:80\" }}, to: server }}\n  - {{ match: {{ target: \"ALICE:{EXIT}\" }}, to: ingress }}\n\
             upstreams:\n  server: {}\n  ingress: {}\n",
            self.listener(&local(port)),
            policy.display(),
            self.upstream(&[local(SERVER_PORT)]),
            self.upstream(&[ingress()]),
        )
    }

    fn video_server(&self) -> String {
        format!(
            "listeners:\n  overlay: {}\n  stream: {{ udp: \"127.0.0.1:{ENTRY}\", target: \"ALICE:{EXIT}\", user: video-server, datagrams: {{ hold_bytes: 1MiB }} }}\n{PEERS}\n\
             routes:\n  - {{ match: {{ listener: stream }}, to: distributors }}\n  - {{ match: {{ target: \"VIDEO:80\" }}, terminate: video }}\n\
             upstreams:\n  video: {{ endpoints: [\"127.0.0.1:{VIDEO_PORT}\"] }}\n  distributors: {}\n",
            self.listener(&local(SERVER_PORT)),
            self.upstream(&DISTRIBUTORS.map(local)),
        )
    }

    fn user(&self) -> String {
        format!(
            "identity: {{ user: alice }}\nlisteners: {{ web: {{ http: \"127.0.0.1:{USER_PORT}\" }}, reach: {{ attach: ingress }} }}\n{PEERS}\n\
             routes:\n  - {{ match: {{ listener: reach, target: \"ALICE:{EXIT}\" }}, terminate: player }}\n  - {{ match: {{ listener: web }}, to: ingress }}\n\
             upstreams:\n  player: {{ endpoints: [\"127.0.0.1:{EXIT}\"] }}\n  ingress: {}\n",
            self.upstream(&[ingress()]),
        )
    }
}

/// All nodes have a certificate of one name, and speak for the users that they have checked.
const PEERS: &str = "peers: { nodes: { certificate: proxy.lab, speaks_for: [\"*\"] } }";

fn ingress() -> String {
    format!("{SERVER}:{LINK_PORT}")
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

//! Documents enter by one door, with a file and without.

use std::path::Path;

use hermes_config::model::Document;
use hermes_config::{Loaded, parse};
use hermes_plug::Plugs;
use tempfile::TempDir;

use super::NotReloaded;
use crate::administered::LogFilter;
use crate::node::Proxy;

/// Nothing is logged.
struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

fn document(folder: &TempDir, rest: &str) -> Loaded {
    let socket = folder.path().join("admin.sock");
    let text = format!(
        "version: 1\nworkers: 1\nlog: {{ access: off }}\nadmin: {{ socket: {} }}\n{rest}",
        socket.display()
    );
    parse(Path::new("edge.yaml"), &text, &|_| None).unwrap()
}

/// As an agent would hand it in: a document that no file says.
fn plain(folder: &TempDir, rest: &str) -> Document {
    document(folder, rest).document
}

const ONE: &str =
    "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [{ respond: { status: 200 } }]\n";
const TWO: &str = "listeners: { web: { http: 127.0.0.1:0 }, db: { tcp: 127.0.0.1:0, target: \"db:1\" } }\nroutes: [{ respond: { status: 201 } }]\n";
const WRONG: &str = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [{ to: nowhere }]\n";

#[tokio::test]
async fn a_document_without_a_file_is_put_in_force_or_refused_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.yaml");
    let proxy = Proxy::start(
        document(&folder, ONE),
        file,
        Box::new(Silent),
        Vec::new(),
        Plugs::new(),
    )
    .unwrap();

    let before = proxy.listeners();

    let report = proxy.apply(plain(&folder, TWO)).unwrap();
    assert_eq!(
        (report.revision, report.listeners.opened.as_slice()),
        (2, ["db".to_owned()].as_slice())
    );
    assert_eq!(report.listeners.kept, ["web"]);
    assert_eq!(report.unconfirmed, None);
    assert!(
        report.needs_restart.is_empty(),
        "it has the name of the node's file"
    );
    assert_eq!(&*proxy.node(), "edge");

    let refused = proxy.apply(plain(&folder, WRONG)).unwrap_err();
    assert!(matches!(refused, NotReloaded::Invalid(_)), "{refused}");
    assert!(
        refused.to_string().starts_with("routes[0].to: "),
        "{refused}"
    );
    assert_eq!(proxy.listeners().len(), 2);

    let report = proxy.apply(plain(&folder, ONE)).unwrap();
    assert_eq!(report.listeners.closed, ["db"]);
    let address = |views: &[hermes_listen::table::ListenerView]| views[0].address.clone();
    assert_eq!(
        address(&proxy.listeners()),
        address(&before),
        "the socket stayed"
    );
}

//! Documents enter by one door, with a file and without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::model::Document;
use hermes_config::{Loaded, Place, Places, parse};
use hermes_plug::Plugs;
use tempfile::TempDir;

use super::{Confirmed, NotReloaded, TooLate};
use crate::documents::{DocumentSource, last_confirmed};
use crate::node::Proxy;
use crate::process::LogFilter;

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

    let report = proxy.handle().apply(plain(&folder, TWO), None).unwrap();
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

    let refused = proxy
        .handle()
        .apply(plain(&folder, WRONG), None)
        .unwrap_err();
    assert!(matches!(refused, NotReloaded::Invalid(_)), "{refused}");
    assert!(
        refused.to_string().starts_with("routes[0].to: "),
        "{refused}"
    );
    assert_eq!(proxy.listeners().len(), 2);

    let report = proxy.handle().apply(plain(&folder, ONE), None).unwrap();
    assert_eq!(report.listeners.closed, ["db"]);
    let address = |views: &[hermes_listen::table::ListenerView]| views[0].address.clone();
    assert_eq!(
        address(&proxy.listeners()),
        address(&before),
        "the socket stayed"
    );
}

/// A node whose documents are handed in, and the file that keeps the last confirmed one.
fn handed_in(folder: &TempDir, first: impl Into<Loaded>) -> (Proxy, PathBuf) {
    let kept = folder.path().join("state/kept.yaml");
    let source = DocumentSource::Caller { kept: kept.clone() };
    let proxy = Proxy::start(
        first.into(),
        source,
        Box::new(Silent),
        Vec::new(),
        Plugs::new(),
    )
    .unwrap();
    proxy.await_confirmation(None);
    (proxy, kept)
}

fn listeners(document: Option<Loaded>) -> Vec<String> {
    let listeners = document.unwrap().document.listeners;
    listeners.into_keys().collect()
}

#[tokio::test]
async fn a_node_without_a_file_keeps_its_last_confirmed_document_where_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut proxy, kept) = handed_in(&folder, plain(&folder, ONE));
    let node = proxy.handle();
    assert_eq!(listeners(last_confirmed(&kept)), ["web"]);

    let minute = Some(Duration::from_secs(60));
    let report = node.apply(plain(&folder, TWO), minute).unwrap();
    assert_eq!(report.unconfirmed.unwrap().returns_to, Some(1));
    assert_eq!(listeners(last_confirmed(&kept)), ["web"]);

    node.roll_back().unwrap();
    assert_eq!(proxy.listeners().len(), 1);
    let late = TooLate {
        given_up: 2,
        in_force: 3,
    };
    assert_eq!(node.confirm(), Err(late));

    node.apply(plain(&folder, TWO), minute).unwrap();
    assert_eq!(node.confirm(), Ok(Confirmed::Now(4)));
    assert_eq!(listeners(last_confirmed(&kept)), ["web", "db"]);
    assert_eq!(node.confirm(), Ok(Confirmed::Before(4)));

    // A reload has nothing to read but the files that the document names.
    assert_eq!(node.reload().unwrap().revision, 5);
    assert_eq!(proxy.listeners().len(), 2);
    proxy.drain(Duration::ZERO).await;

    let (again, _) = handed_in(&folder, last_confirmed(&kept).unwrap());
    assert_eq!(again.listeners().len(), 2);
}

#[tokio::test]
async fn a_document_that_is_handed_in_and_not_confirmed_is_returned_from() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, kept) = handed_in(&folder, plain(&folder, ONE));
    let mut revision = proxy.node.shared.snapshot.subscribe();
    let soon = Some(Duration::from_millis(1));
    proxy.handle().apply(plain(&folder, TWO), soon).unwrap();

    revision.wait_for(|revision| *revision == 3).await.unwrap();
    assert_eq!(proxy.listeners().len(), 1);
    assert_eq!(listeners(last_confirmed(&kept)), ["web"]);
}

#[tokio::test]
async fn the_time_to_confirm_is_bounded_and_no_time_is_too_long_for_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, _) = handed_in(&folder, plain(&folder, ONE));
    let node = proxy.handle();

    let report = node.apply(plain(&folder, TWO), Some(Duration::MAX));
    let unconfirmed = report.unwrap().unconfirmed.unwrap();
    let year = 365 * 24 * 60 * 60;
    assert!((year - 3600..=year).contains(&unconfirmed.left_seconds));
    assert_eq!(node.confirm(), Ok(Confirmed::Now(2)));
}

#[tokio::test]
async fn a_problem_of_a_compiled_document_names_the_resource() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, _) = handed_in(&folder, plain(&folder, ONE));
    let resource = Place::new(Path::new("overlay/films.yaml"), 12, 5);
    let places = Places::mapped(BTreeMap::from([("routes[0]".to_owned(), resource)]));
    let compiled = Loaded {
        document: plain(&folder, WRONG),
        places,
        files: Vec::new(),
    };

    let refused = proxy.handle().apply(compiled, None).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.starts_with("overlay/films.yaml:12:5: routes[0].to: "),
        "{said}"
    );
}

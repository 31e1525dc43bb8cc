//! Exchanges from begin to end, as records, views and metrics.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hermes_config::model::{Access, FilePath};
use hermes_net::PeerAddress;
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use super::*;

/// Long enough that it does not matter how long it is.
const LIMIT: Duration = Duration::from_secs(60);

/// Memory that the test reads while the writer thread holds it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn records(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn telemetry() -> (Arc<Telemetry>, Shared) {
    let shared = Shared::default();
    (
        Telemetry::new("alice", AccessSink::writer(Box::new(shared.clone()))),
        shared,
    )
}

fn begin(kind: &'static str) -> Begin {
    Begin {
        kind,
        listener: "web".into(),
        source: PeerAddress::Ip(([192, 0, 2, 1], 4711).into()),
        protocol: "h1",
    }
}

/// Whether the metrics hold this line.
fn has(telemetry: &Telemetry, line: &str) -> bool {
    let text = telemetry.metrics_text();
    let found = text.lines().any(|known| known == line);
    if !found {
        println!("{text}");
    }
    found
}

#[test]
fn a_record_says_what_happened_and_no_query() {
    let (telemetry, shared) = telemetry();
    let exchange = telemetry.begin(begin("http"));
    exchange.method(&Method::GET);
    exchange.target("video:80/film?token=secret#x".to_owned());
    exchange.user("bob");
    exchange.route(&"video".into());
    exchange.upstream(&"ingress".into(), &"203.0.113.7:443".into(), None);
    exchange.status(200);
    exchange.counters().from_client(3);
    exchange.counters().to_client(500);
    exchange.counters().dropped.fetch_add(2, Relaxed);
    exchange.finish("done");
    assert!(telemetry.flush_access(LIMIT));
    let mut records = shared.records();
    assert_eq!(records.len(), 1);
    let record = records[0].as_object_mut().unwrap();
    let time = record.remove("time").unwrap();
    assert!(
        time.as_str()
            .is_some_and(|time| time.len() == 24 && time.ends_with('Z')),
        "{time}"
    );
    assert!(
        record
            .remove("duration_ms")
            .is_some_and(|duration| duration.is_u64())
    );
    assert_eq!(record.remove("id").unwrap(), exchange.id().to_string());
    assert_eq!(
        (record.remove("trace"), record.remove("span")),
        (Some(Value::Null), Some(Value::Null))
    );

    let expected = serde_json::json!({
        "kind": "http", "event": "end", "node": "alice", "listener": "web", "source": "192.0.2.1:4711",
        "protocol": "h1", "user": "bob", "method": "GET", "target": "video:80/film", "route": "video",
        "upstream": "ingress", "endpoint": "203.0.113.7:443", "attempts": 1, "status": 200,
        "bytes": { "client_to_target": 3, "target_to_client": 500 },
        "datagrams": { "client_to_target": 0, "target_to_client": 0, "dropped": 2 },
        "reason": "done",
    });

    assert_eq!(Value::Object(record.clone()), expected);
}

#[test]
fn an_exchange_ends_once() {
    let (telemetry, shared) = telemetry();
    let exchange = telemetry.begin(begin("http"));
    exchange.finish("done");
    exchange.finish("idle");
    drop(exchange);
    assert!(telemetry.flush_access(LIMIT));
    assert_eq!(shared.records().len(), 1);
    assert_eq!(telemetry.live_count(), 0);
}

#[test]
fn a_dropped_exchange_is_abandoned() {
    let (telemetry, shared) = telemetry();
    drop(telemetry.begin(begin("connect")));
    assert!(telemetry.flush_access(LIMIT));
    assert_eq!(shared.records()[0]["reason"], "abandoned");
    let line = r#"hermes_exchanges_total{listener="web",kind="connect",route="",status="none",reason="abandoned"} 1"#;
    assert!(has(&telemetry, line));
}

#[test]
fn tunnels_write_a_long_record_each_ten_minutes() {
    let (telemetry, shared) = telemetry();
    let _request = telemetry.begin(begin("http"));
    let tunnel = telemetry.begin(begin("connect-udp"));
    let start = Instant::now();

    for seconds in [0, 599, 601, 1100, 1201, 1202] {
        telemetry.write_long(start + Duration::from_secs(seconds));
    }
    assert!(telemetry.flush_access(LIMIT));
    let records = shared.records();
    assert_eq!(records.len(), 2);

    for record in records {
        assert_eq!(
            (&record["event"], &record["id"]),
            (&"long".into(), &tunnel.id().to_string().into())
        );
        assert!(record.get("reason").is_none());
    }
}

#[test]
fn live_exchanges_are_shown_oldest_first() {
    let (telemetry, _shared) = telemetry();
    let exchanges: Vec<_> = (0..40).map(|_| telemetry.begin(begin("http"))).collect();
    exchanges[0].counters().from_client(7);
    exchanges[3].finish("done");
    let views = telemetry.exchanges();
    assert_eq!(views.len(), 39);
    assert_eq!(views[0].id, exchanges[0].id().to_string());
    assert_eq!(views[0].client_to_target, 7);
    assert_eq!(views[3].id, exchanges[4].id().to_string());
    assert_eq!(
        (views[0].progress.status, views[0].source.as_str()),
        (None, "192.0.2.1:4711")
    );
}

#[test]
fn a_view_has_a_bound() {
    let (telemetry, _shared) = telemetry();
    let exchanges: Vec<_> = (0..=VIEW_LIMIT)
        .map(|_| telemetry.begin(begin("http")))
        .collect();
    assert_eq!(telemetry.exchanges().len(), VIEW_LIMIT);
    assert_eq!(telemetry.live_count(), exchanges.len());
}

#[test]
fn bytes_of_live_exchanges_are_counted_once() {
    let (telemetry, _shared) = telemetry();
    let exchange = telemetry.begin(begin("connect"));
    let sent = |bytes| {
        format!(r#"hermes_bytes_total{{listener="web",direction="client_to_target"}} {bytes}"#)
    };

    exchange.counters().from_client(10);
    assert!(has(&telemetry, &sent(10)) && has(&telemetry, &sent(10)));
    assert!(has(
        &telemetry,
        r#"hermes_exchanges_active{listener="web"} 1"#
    ));
    exchange.counters().from_client(5);
    exchange.finish("done");
    assert!(has(&telemetry, &sent(15)));
    assert!(has(
        &telemetry,
        r#"hermes_exchanges_active{listener="web"} 0"#
    ));
    assert!(has(
        &telemetry,
        r#"hermes_exchange_duration_seconds_count{kind="connect"} 1"#
    ));
}

#[test]
fn every_metric_counts() {
    let (telemetry, _shared) = telemetry();
    let listener = telemetry.listener("web");
    let connection = listener.accepted();
    drop(listener.accepted());
    listener.malformed();
    listener.auth_failure("basic");
    telemetry.connect_failure("ingress", "refused");
    telemetry.datagrams_dropped(DropReason::TooLarge, 3);
    telemetry.reload("applied");
    let version = env!("CARGO_PKG_VERSION");

    let lines = [
        r#"hermes_connections_accepted_total{listener="web"} 2"#.to_owned(),
        r#"hermes_connections_active{listener="web"} 1"#.to_owned(),
        r#"hermes_malformed_requests_total{listener="web"} 1"#.to_owned(),
        r#"hermes_auth_failures_total{listener="web",scheme="basic"} 1"#.to_owned(),
        r#"hermes_connect_failures_total{upstream="ingress",kind="refused"} 1"#.to_owned(),
        r#"hermes_datagrams_dropped_total{reason="too_large"} 3"#.to_owned(),
        r#"hermes_datagrams_dropped_total{reason="queue_full"} 0"#.to_owned(),
        r#"hermes_reloads_total{outcome="applied"} 1"#.to_owned(),
        "hermes_access_records_dropped_total 0".to_owned(),
        format!(r#"hermes_build_info{{version="{version}"}} 1"#),
    ];

    for line in lines {
        assert!(has(&telemetry, &line), "{line}");
    }
    drop(connection);
    let text = telemetry.metrics_text();
    assert!(
        text.contains("process_resident_memory_bytes ") || !cfg!(target_os = "linux"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
}

/// A writer that waits for the test, then fails.
struct Stuck(Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        // Either the test lets go, or it is over.
        let _ = self.0.recv();
        Err(io::Error::other("broken"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_writer_costs_records_and_not_time() {
    let (let_go, wait) = channel();
    let telemetry = Telemetry::new("alice", AccessSink::writer(Box::new(Stuck(wait))));
    let count = 3 * 8192;

    for _ in 0..count {
        telemetry.begin(begin("http")).finish("done");
    }
    assert!(!telemetry.flush_access(Duration::from_millis(1)));
    let lost = |telemetry: &Telemetry| {
        let text = telemetry.metrics_text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("hermes_access_records_dropped_total "));
        line.unwrap().parse::<usize>().unwrap()
    };

    assert!(
        (8192..count).contains(&lost(&telemetry)),
        "{}",
        lost(&telemetry)
    );
    drop(let_go);
}

#[test]
fn a_file_is_appended_to_and_records_can_be_redirected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    std::fs::write(&file, "before\n").unwrap();
    let open = |path: &std::path::Path| AccessSink::open(&Access::File(FilePath(path.to_owned())));
    let telemetry = Telemetry::new("alice", open(&file).unwrap());
    telemetry.begin(begin("http")).finish("done");
    assert!(telemetry.flush_access(LIMIT));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("before\n{") && text.ends_with("}\n"),
        "{text}"
    );

    let second = folder.path().join("second.log");
    telemetry.redirect_access(open(&second).unwrap());
    telemetry.begin(begin("http")).finish("done");
    assert!(telemetry.flush_access(LIMIT));
    assert_eq!(std::fs::read_to_string(&second).unwrap().lines().count(), 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    telemetry.redirect_access(AccessSink::off());
    telemetry.begin(begin("http")).finish("done");
    assert!(telemetry.flush_access(LIMIT));
    let error = open(&folder.path().join("none/access.log")).err().unwrap();
    assert!(error.to_string().contains("none/access.log"), "{error}");
}

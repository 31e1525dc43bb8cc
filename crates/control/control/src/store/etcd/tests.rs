//! Tests of etcd alone; `suite` has those of every store.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::server::EtcdServer;
use crate::store::{Leadership, RecordChange, Role, Store, StoreError};

fn change(key: &str, expected: Option<&str>, new: Option<&str>) -> RecordChange {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    RecordChange {
        key: key.to_owned(),
        expected: bytes(expected),
        new: bytes(new),
    }
}

#[test]
fn who_does_not_lead_changes_nothing_that_a_leader_does() {
    let server = EtcdServer::shared();
    let store = server.store();
    let refused = store.swap_as_leader(&[change("head", None, Some("1"))]);
    assert_eq!(refused, Err(StoreError::NotLeading));
    // A term of before: its revision made no leader that is there now.
    *store.shared.term.lock() = Some(7);
    let refused = store.swap_as_leader(&[change("head", None, Some("1"))]);
    assert_eq!(refused, Err(StoreError::NotLeading));
    store.keep(&[b"one".to_vec()]).unwrap();
    let kept = store.kept().unwrap();
    assert_eq!(store.remove_blobs(&kept), Err(StoreError::NotLeading));
    assert_eq!(store.record("head").unwrap(), None);
    assert_eq!(store.kept().unwrap(), kept);
}

#[test]
fn a_change_that_does_not_fit_a_transaction_says_so() {
    let server = EtcdServer::shared();
    let store = server.store();
    let long = "x".repeat(2_000_000);
    let error = store.swap(&[change("a", None, Some(&long))]).unwrap_err();
    assert!(
        error.to_string().contains("too much for one change"),
        "{error}"
    );
    let many: Vec<_> = (0..200)
        .map(|key| change(&key.to_string(), None, Some("x")))
        .collect();
    assert!(store.swap(&many).is_err());
    assert!(store.records("").unwrap().is_empty());
}

fn role(leadership: &Leadership) -> Role {
    leadership.role.borrow().clone()
}

/// Waits for something that other threads do.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn one_controller_leads_and_another_one_follows_it_when_it_resigns() {
    let server = EtcdServer::shared();
    let first = server.store();
    let second = server.again(&first);
    let of_first = first.take_part("https://one:7443");
    eventually("the first leads", || of_first.leads());
    let of_second = second.take_part("https://two:7443");
    eventually(
        "the second follows",
        || matches!(role(&of_second), Role::Follows(Some(leader)) if leader.url == "https://one:7443"),
    );
    eventually("both are known", || {
        of_second.controllers.borrow().len() == 2
    });

    assert!(
        first
            .swap_as_leader(&[change("head", None, Some("1"))])
            .unwrap()
    );
    let refused = second.swap_as_leader(&[change("head", Some("1"), Some("2"))]);
    assert_eq!(refused, Err(StoreError::NotLeading));
    // The term of the first: what it wrote later than it should would be refused.
    let term = *first.shared.term.lock();
    first.resign();
    eventually("the second leads", || of_second.leads());
    assert!(
        second
            .swap_as_leader(&[change("head", Some("1"), Some("2"))])
            .unwrap()
    );
    *first.shared.term.lock() = term;
    let refused = first.swap_as_leader(&[change("head", Some("2"), Some("3"))]);
    assert_eq!(refused, Err(StoreError::NotLeading));
}

#[test]
fn news_come_again_from_an_etcd_that_was_stopped_for_a_while() {
    let server = EtcdServer::start(&[]);
    let store = server.store();
    let leadership = store.take_part("https://one:7443");
    eventually("it leads", || leadership.leads());
    assert!(store.swap(&[change("head", None, Some("0"))]).unwrap());
    server.signal(Signal::STOP);
    // That takes longer than a silent connection is believed.
    eventually("its lease is over", || !leadership.leads());
    server.signal(Signal::CONT);
    eventually("it leads again", || leadership.leads());
    let mut news = leadership.news.clone();
    news.mark_unchanged();
    assert!(store.swap(&[change("head", Some("0"), Some("1"))]).unwrap());
    eventually("news come", || news.has_changed().unwrap());
}

#[test]
fn a_full_database_is_named_with_its_remedy() {
    let server = EtcdServer::start(&["--quota-backend-bytes", "65536"]);
    let store = server.store();
    let blob = |number: u8| vec![number; 100_000];
    let mut numbers = 0..100;
    let error = numbers
        .find_map(|number| store.keep(&[blob(number)]).err())
        .unwrap();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("alarm disarm"), "{error}");
    let shared = store.shared.clone();
    let checked = store
        .runtime
        .wait(async move { super::tending::check(&shared, &mut false).await });
    assert!(
        matches!(checked, Err(StoreError::Full { .. })),
        "{checked:?}"
    );
    // Nothing is lost, and reading goes on.
    assert_eq!(store.record("head").unwrap(), None);
}

#[test]
fn an_etcd_that_does_not_answer_is_named() {
    let server = EtcdServer::start(&[]);
    let store = server.store();
    drop(server);
    let error = store.record("head").unwrap_err();
    assert!(
        matches!(&error, StoreError::Unreachable { endpoints, .. } if endpoints.contains("127.0.0.1")),
        "{error}"
    );
}

//! The library for Rust: its example, and a channel by several ways at once.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use hermes_relay_client::{Channel, ClientError, Event, Multipath, Wish};
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl};
use rustix::process::Signal;

use super::patterns::publish;
use super::versions::Hub;
use super::{channel, relay, subscriptions};
use crate::http3::overlay::VERSIONS;

#[path = "../../../../../plugs/relay-client/examples/relay.rs"]
#[allow(
    dead_code,
    reason = "a program has a `main`, and this test is one of its own"
)]
mod example;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn the_example_hears_what_it_says() {
    let node = relay("");
    let mut said = Vec::new();
    let url = channel(node.address("web"));
    let chatted = example::chat(&url, |line| said.push(line));
    runtime().block_on(chatted).unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].ends_with(", receivers: 1"), "{said:?}");
    assert!(said[1].ends_with(".1: hello"), "{said:?}");
}

/// A program that subscribes by these nodes, until `last` comes.
struct Program {
    events: mpsc::Receiver<String>,
    ends: JoinHandle<Result<(), ClientError>>,
}

impl Program {
    fn begin(ways: &[&Node]) -> Self {
        let ways = ways.iter().map(|way| way.url("web"));
        Self::by(ways.collect(), Multipath::new)
    }

    fn by(ways: Vec<String>, subscribe: fn(Vec<Channel>, &Wish) -> Multipath) -> Self {
        let hub: Channel = "http://relay.test/c/x".parse().unwrap();
        let channels = ways
            .iter()
            .map(|way| hub.clone().through(way.parse().unwrap()));
        let channels: Vec<_> = channels.collect();
        let (sender, events) = mpsc::channel();
        let ends = thread::spawn(move || {
            runtime().block_on(async {
                let mut subscription = subscribe(channels, &Wish::default());
                while let Some(event) = subscription.next().await? {
                    let text = match event {
                        Event::Opened { .. } => "open".to_owned(),
                        Event::Message(message) => {
                            String::from_utf8_lossy(&message.data).into_owned()
                        }
                        Event::Begun(first) => format!("begins {}", first.data.len()),
                        Event::Piece { data, is_last } => format!("piece {} {is_last}", data.len()),
                        other => format!("{other:?}"),
                    };
                    let is_last = text == "last";
                    drop(sender.send(text));
                    if is_last {
                        break;
                    }
                }
                Ok(())
            })
        });
        Self { events, ends }
    }

    fn next(&self) -> String {
        let limit = std::time::Duration::from_secs(20);
        self.events.recv_timeout(limit).unwrap()
    }
}

#[test]
fn a_program_by_two_ways_loses_nothing_with_one_of_them() {
    for version in VERSIONS {
        let hub = Hub::start("");
        // Each way has a version of its own.
        let mut first = hub.way(version);
        let second = hub.way(VERSIONS[usize::from(version) % VERSIONS.len()]);
        let program = Program::begin(&[&first, &second]);
        assert_eq!(program.next(), "open");
        eventually_true("both are open", || subscriptions(&hub.node) == 2);
        for text in ["1", "2"] {
            publish(&second, text);
            assert_eq!(program.next(), text);
        }
        first.signal(Signal::KILL);
        first.wait();
        for text in ["3", "4", "last"] {
            publish(&second, text);
            assert_eq!(program.next(), text);
        }
        program.ends.join().unwrap().unwrap();
    }
}

#[test]
fn a_program_by_two_shares_loses_nothing_with_one_of_the_ways() {
    for version in VERSIONS {
        let hub = Hub::start("");
        let mut first = hub.way(version);
        let second = hub.way(VERSIONS[usize::from(version) % VERSIONS.len()]);
        let ways = vec![first.url("web"), second.url("web")];
        let program = Program::by(ways, Multipath::striped);
        assert_eq!(program.next(), "open");
        assert_eq!(subscriptions(&hub.node), 2);
        // Each message is for one of the two.
        for text in ["1", "2", "3"] {
            publish(&second, text);
            assert_eq!(program.next(), text);
        }
        first.signal(Signal::KILL);
        first.wait();
        eventually_true("the other way brings both shares", || {
            second.exchanges().len() == 2
        });
        for text in ["4", "5", "6", "last"] {
            publish(&second, text);
        }
        for text in ["4", "5", "6", "last"] {
            assert_eq!(program.next(), text);
        }
        program.ends.join().unwrap().unwrap();
    }
}

#[test]
fn nodes_that_subscribe_once_for_all_give_each_program_its_share() {
    let hub = Hub::start("");
    let ways = VERSIONS.map(|version| hub.way(version));
    let urls = || ways.iter().map(|way| way.url("join")).collect();
    let programs: Vec<_> = (0..3)
        .map(|_| Program::by(urls(), Multipath::striped))
        .collect();
    for program in &programs {
        assert_eq!(program.next(), "open");
    }
    assert_eq!(subscriptions(&hub.node), 3);
    for text in ["1", "2", "3", "4", "last"] {
        publish(&ways[0], text);
        for program in &programs {
            assert_eq!(program.next(), text);
        }
    }
    for program in programs {
        program.ends.join().unwrap().unwrap();
    }
}

#[test]
fn a_share_begins_where_one_of_the_ways_leads_nowhere() {
    let hub = Hub::start("");
    let mut first = hub.way(1);
    let second = hub.way(2);
    let ways = vec![first.url("web"), second.url("web")];
    first.signal(Signal::KILL);
    first.wait();
    let program = Program::by(ways, Multipath::striped);
    assert_eq!(program.next(), "open");
    for text in ["1", "2", "3", "last"] {
        publish(&second, text);
        assert_eq!(program.next(), text);
    }
    program.ends.join().unwrap().unwrap();
}

#[test]
fn a_long_message_comes_once_by_two_ways() {
    let hub = Hub::start("message: 64KiB");
    let ways = [hub.way(1), hub.way(2)];
    let program = Program::begin(&[&ways[0], &ways[1]]);
    assert_eq!(program.next(), "open");
    eventually_true("both are open", || subscriptions(&hub.node) == 2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long");
    std::fs::write(&file, vec![b'x'; 300_000]).unwrap();
    let file = file.to_str().unwrap();
    let proxy = ways[0].url("web");
    let url = "http://relay.test/c/x";
    let answer = curl(&[
        "-x",
        &proxy,
        "-H",
        "Hermes-Publish: mode=reliable",
        "-T",
        file,
        url,
    ]);
    assert_eq!(answer.text(), "receivers: 2\n", "{answer:?}");
    publish(&ways[1], "last");
    let mut bytes = 0;
    let mut ends = 0;
    loop {
        let text = program.next();
        let mut words = text.split(' ');
        match words.next() {
            Some("begins" | "piece") => {
                bytes += words.next().unwrap().parse::<usize>().unwrap();
                ends += usize::from(words.next() == Some("true"));
            }
            _ => {
                assert_eq!(text, "last");
                break;
            }
        }
    }
    assert_eq!((bytes, ends), (300_000, 1));
    program.ends.join().unwrap().unwrap();
}

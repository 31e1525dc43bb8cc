//! The scripts of `examples/relay`: connections and paths over a relay.

use std::process::Command;

use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;
use rustix::process::Signal;

use super::script::Script;
use super::versions::{Hub, gate};
use crate::http3::overlay::VERSIONS;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/relay");

/// A script that imports an example.
fn script(url: &str, imports: &str, text: &str) -> Script {
    Script::begin(
        url,
        &format!("import {imports};\n{text}").replace("EXAMPLES", EXAMPLES),
    )
}

/// Publishes to the channel `x` by this way.
pub(super) fn publish(way: &Node, text: &str) {
    let proxy = way.url("web");
    let output = Command::new("curl")
        .args([
            "-q",
            "-sS",
            "-x",
            &proxy,
            "-d",
            text,
            "http://relay.test/c/x",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("receivers: "), "{said}");
}

#[test]
fn a_call_brings_its_first_data_and_is_closed_by_either_side() {
    let hub = Hub::start("");
    for version in VERSIONS {
        call_and_close(&gate(&hub.way(version)));
    }
}

fn call_and_close(url: &str) {
    let script = script(
        url,
        "{ call, listen } from 'EXAMPLES/connection.mjs'",
        r#"
        const url = process.argv[2];
        const abort = new AbortController();
        const answer = async (caller, first) => {
            await caller.send(`echo ${first}`);
            for await (const text of caller) await caller.send(`echo ${text}`);
            await caller.close();
        };
        const listening = new Promise((opened) => {
            listen(url, answer, { signal: abort.signal, opened }).catch(() => {});
        });
        await listening;
        // Two at once, which do not hear each other.
        const calls = await Promise.all([call(url, "one"), call(url, "two")]);
        for (const [index, first] of ["one", "two"].entries()) {
            await calls[index].send("more");
            await calls[index].close();
            const got = [];
            for await (const text of calls[index]) got.push(text);
            assert.deepEqual(got, [`echo ${first}`, "echo more"]);
        }
        // The other side has left: its end is heard by the next that is sent.
        await assert.rejects(async () => {
            for (;;) await calls[0].send("too late");
        }, /gone/);
        abort.abort();
        await assert.rejects(async () => {
            for (;;) await call(url, "late");
        }, /no one listens/);
        "#,
    );
    script.ends();
}

#[test]
fn a_channel_by_two_ways_loses_nothing_with_one_of_them() {
    let hub = Hub::start("");
    for version in VERSIONS {
        // Each way has a version of its own.
        let others = VERSIONS[usize::from(version) % VERSIONS.len()];
        cut_one_way(hub.way(version), &hub.way(others), "subscribeByAll");
    }
}

#[test]
fn a_channel_by_two_shares_loses_nothing_with_one_of_the_ways() {
    let hub = Hub::start("");
    for version in VERSIONS {
        let others = VERSIONS[usize::from(version) % VERSIONS.len()];
        cut_one_way(hub.way(version), &hub.way(others), "subscribeByShares");
    }
}

fn cut_one_way(mut first: Node, second: &Node, subscribe: &str) {
    let urls = [&first, second].map(gate);
    let script = script(
        &urls.join(","),
        &format!("{{ {subscribe} as subscribe }} from 'EXAMPLES/multipath.mjs'"),
        r#"
        const got = [];
        const opened = () => console.log("open");
        for await (const event of subscribe(process.argv[2].split(","), { opened })) {
            assert.equal(event.gap, undefined);
            got.push(event.text());
            console.log(event.text());
            if (event.text() === "last") break;
        }
        assert.deepEqual(got, ["1", "2", "3", "4", "5", "last"]);
        process.exit(0);
        "#,
    );
    eventually_true("both are open", || script.said().contains("open"));
    for text in ["1", "2", "3"] {
        publish(second, text);
    }
    eventually_true("three came", || script.said().contains('3'));
    first.signal(Signal::KILL);
    first.wait();
    if subscribe == "subscribeByShares" {
        eventually_true("the other way brings both shares", || {
            second.exchanges().len() == 2
        });
    }
    for text in ["4", "5", "last"] {
        publish(second, text);
    }
    script.ends();
}

#[test]
fn a_subscriber_that_moves_gets_what_waited_for_it() {
    let hub = Hub::start("");
    for version in VERSIONS {
        move_a_subscriber(&hub, version);
    }
}

fn move_a_subscriber(hub: &Hub, version: u8) {
    let mut device = hub.way_at(version, &hermes_tests::free::tcp().to_string());
    let other = hub.way(version);
    let script = Script::begin(
        &gate(&device),
        r#"
        const opened = () => console.log("open");
        for await (const event of channel.subscribe({ opened })) {
            console.log(event.gap === undefined ? event.text() : `gap ${event.gap}`);
            if (event.text?.() === "last") break;
        }
        "#,
    );
    eventually_true("it subscribes", || script.said() == "open\n");
    publish(&other, "here");
    eventually_true("it reads", || script.said().contains("here"));
    device.signal(Signal::KILL);
    device.wait();
    publish(&other, "on the way");
    device.restart();
    eventually_true("it comes again", || {
        script.said().matches("open\n").count() == 2
    });
    publish(&other, "last");
    // A connection of QUIC that is killed is silent, and its stream has taken the message: that is told.
    let meanwhile = match version {
        3 => "gap 1",
        _ => "on the way",
    };
    assert_eq!(
        script.ends(),
        format!("open\nhere\nopen\n{meanwhile}\nlast\n")
    );
}

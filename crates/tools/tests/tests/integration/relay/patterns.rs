//! The scripts of `examples/relay`: connections and paths over a relay.

use std::process::Command;

use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;
use rustix::process::Signal;

use super::script::Script;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/relay");

/// A script that imports an example.
fn script(url: &str, imports: &str, text: &str) -> Script {
    Script::begin(
        url,
        &format!("import {imports};\n{text}").replace("EXAMPLES", EXAMPLES),
    )
}

/// A node between its users and the relay. The channel is that of one name by each of them.
fn way(hub: &Node) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
        routes: [ {{ to: hub, rewrite: {{ target: "hub.test:80" }} }} ]
        upstreams: {{ hub: {{ endpoints: ["{}"] }} }}
        "#,
        hub.address("web")
    );
    Node::start("way", &yaml)
}

fn publish(hub: &Node, text: &str) {
    let url = super::channel(hub.address("web"));
    let output = Command::new("curl")
        .args(["-q", "-sS", "-H", "Host: hub.test", "-d", text, &url])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("receivers: "), "{said}");
}

#[test]
fn a_call_brings_its_first_data_and_is_closed_by_either_side() {
    let node = super::relay("");
    let script = script(
        &super::channel(node.address("web")),
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
    let hub = super::relay("");
    let mut first = way(&hub);
    let second = way(&hub);
    let urls = [&first, &second].map(|way| super::channel(way.address("web")));
    let script = script(
        &urls.join(","),
        "{ subscribeByAll } from 'EXAMPLES/multipath.mjs'",
        r#"
        const got = [];
        const opened = () => console.log("open");
        for await (const event of subscribeByAll(process.argv[2].split(","), { opened })) {
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
        publish(&hub, text);
    }
    eventually_true("three came", || script.said().contains('3'));
    first.signal(Signal::KILL);
    first.wait();
    for text in ["4", "5", "last"] {
        publish(&hub, text);
    }
    script.ends();
}

#[test]
fn a_subscriber_that_moves_gets_what_waited_for_it() {
    let hub = super::relay("");
    let place = hermes_tests::free::tcp();
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: "{place}", gateway: true }} }}
        routes: [ {{ to: hub, rewrite: {{ target: "hub.test:80" }} }} ]
        upstreams: {{ hub: {{ endpoints: ["{}"] }} }}
        "#,
        hub.address("web")
    );
    let mut device = Node::start("device", &yaml);
    let script = Script::begin(
        &format!("http://{place}/c/x"),
        r#"
        const opened = () => console.log("open");
        for await (const event of channel.subscribe({ opened })) {
            console.log(event.gap === undefined ? event.text() : `gap ${event.gap}`);
            if (event.text?.() === "last") break;
        }
        "#,
    );
    eventually_true("it subscribes", || script.said() == "open\n");
    publish(&hub, "here");
    eventually_true("it reads", || script.said().contains("here"));
    device.signal(Signal::KILL);
    device.wait();
    for text in ["on the way", "last"] {
        publish(&hub, text);
    }
    device.restart();
    assert_eq!(script.ends(), "open\nhere\nopen\non the way\nlast\n");
}

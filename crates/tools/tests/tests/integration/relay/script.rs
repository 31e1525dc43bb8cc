//! The JavaScript client, `clients/hermes-relay.mjs`, in Node.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, free};
use rustix::process::Signal;

/// Its folder.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../clients");

/// A script of Node, with the client's `Channel` and the channel of its first argument.
pub struct Script {
    child: Child,
    folder: tempfile::TempDir,
}

impl Script {
    /// Begins.
    pub fn begin(url: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.mjs");
        let client = Path::new(CLIENTS).join("hermes-relay.mjs");
        let head = format!(
            "import assert from 'node:assert';\nimport {{ Channel, RelayError }} from '{}';\n\
             const channel = new Channel(process.argv[2]);\n",
            client.display()
        );
        fs::write(&file, head + text).unwrap();
        let output = |name: &str| File::create(folder.path().join(name)).unwrap();
        let child = Command::new("node")
            .arg(&file)
            .arg(url)
            .stdout(output("out"))
            .stderr(output("errors"))
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    /// Waits until it says this.
    pub fn sees(&self, wanted: &str) {
        eventually_true(wanted, || {
            let errors = fs::read_to_string(self.folder.path().join("errors")).unwrap();
            assert_eq!(errors, "");
            self.said().contains(wanted)
        });
    }

    /// Waits until it ends well.
    pub fn ends(mut self) -> String {
        let status = self.child.wait().unwrap();
        let errors = fs::read_to_string(self.folder.path().join("errors")).unwrap();
        assert!(status.success(), "{}{errors}", self.said());
        self.said()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_script_publishes_and_subscribes_and_leaves() {
    let node = super::relay("message: 1MiB");
    let script = Script::begin(
        &super::channel(node.address("web")),
        r#"
        const got = [];
        const reading = (async () => {
            for await (const event of channel.subscribe()) {
                got.push(event);
                if (event.text() === "last") break;
            }
        })();
        while ((await channel.publish("first")).receivers === 0);
        const how = { reliable: true, topic: 'a "b"', seq: 7, wait: 3 };
        const counts = await channel.publish("h\u00e4llo", how);
        assert.deepEqual([counts.receivers, counts.enqueued, counts.dropped, counts.exact], [1, 1, 0, true]);
        // The same again: delivered once.
        assert.deepEqual(await channel.publish("h\u00e4llo", how), counts);
        const large = new Uint8Array(200_000).map((_, index) => index % 251);
        await channel.publish(large, { reliable: true, type: "application/octet-stream" });
        await assert.rejects(channel.publish(new Uint8Array(2_000_000)), { name: "Error", status: 413 });
        await channel.publish("last", { reliable: true });
        await reading;

        const [, second, third] = got;
        assert.equal(got.length, 4);
        assert.deepEqual(got.map((event) => event.seq), [1, 2, 3, 4]);
        assert.deepEqual([second.text(), second.topic], ["h\u00e4llo", 'a "b"']);
        assert.equal(third.type, "application/octet-stream");
        assert.deepEqual(third.data, large);
        const refused = channel.subscribe({ timeout: 10 ** 9 }).next();
        await assert.rejects(refused, (error) => error instanceof RelayError && error.status === 422);
        "#,
    );
    script.ends();
    eventually_true("it leaves, without a grace", || {
        super::subscriptions(&node) == 0
    });
}

#[test]
fn a_script_comes_again_behind_a_relay_that_was_killed_and_hears_of_the_gap() {
    let place = free::tcp();
    let yaml = format!(
        "listeners: {{ web: {{ http: \"{place}\", gateway: true }} }}\nroutes: [ {{ handle: relay }} ]\n"
    );
    let mut hub = Node::start("hub", &yaml);
    let script = Script::begin(
        &format!("http://{place}/c/x"),
        r#"
        for await (const event of channel.subscribe()) {
            console.log(event.gap === undefined ? event.text() : `gap ${event.gap} ${event.reason}`);
            if (event.seq !== undefined && event.text() === "last") break;
        }
        "#,
    );
    eventually_true("it subscribes", || super::subscriptions(&hub) == 1);
    let publish = |text: &str| {
        let output = Command::new("curl")
            .args(["-q", "-sS", "-d", text, &format!("http://{place}/c/x")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "receivers: 1\n");
    };
    publish("before");
    eventually_true("it reads", || script.said() == "before\n");
    hub.signal(Signal::KILL);
    hub.wait();
    hub.restart();
    eventually_true("it comes again", || super::subscriptions(&hub) == 1);
    publish("last");
    assert_eq!(script.ends(), "before\ngap 0 restarted\nlast\n");
}

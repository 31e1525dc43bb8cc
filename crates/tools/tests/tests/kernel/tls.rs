//! TLS that the kernel goes on with.

use std::fs;

use hermes_tests::pki::Pki;

use crate::emulated::{Machine, tool};

/// Every end of a tunnel, as the tests of `hermes-net` have it, where the kernel has to go on with TLS.
#[test]
fn tunnels_go_on_in_the_kernel() {
    let machine = Machine::new();
    machine.program("work/loopback", &tool("HERMES_LOOPBACK"));
    let said = machine.run("HERMES_KERNEL_TLS=1 ./loopback kernel_tls --test-threads=2\n");
    assert!(said.contains("test result: ok. 7 passed"), "{said}");
}

/// A file through two nodes, three times: the first shows that it is bulk, which then has connections of its own.
const DOWNLOADS: &str = r#"
mkdir www
dd if=/dev/urandom of=www/file bs=1M count=20 2>/dev/null
httpd -p 127.0.0.1:9000 -h www
./hermes netcheck --require ktls >netcheck.log || { cat netcheck.log; exit 1; }
chmod 600 *.key
./hermes run far.yaml >far.log 2>&1 &
./hermes run near.yaml >near.log 2>&1 &
for node in far near; do
    for try in $(seq 600); do grep -q "is ready" $node.log && break; sleep 0.1; done
done
for time in 1 2 3; do
    wget -q -O got http://127.0.0.1:8000/file && cmp got www/file && echo "download $time is whole"
done
sleep 1
grep -o '"protocol":"[^"]*"' far.json
cat /proc/net/tls_stat
cat near.log far.log
"#;

const NEAR: &str = "version: 1
node: near
workers: 1
admin: { socket: near.sock }
log: { access: off }
listeners: { files: { tcp: \"127.0.0.1:8000\", target: \"files.lab:80\" } }
routes: [ { to: next } ]
upstreams:
  next: { endpoints: [\"127.0.0.1:8443\"], tls: { ca_file: ca.pem, server_name: far.lab } }
";

const FAR: &str = "version: 1
node: far
workers: 1
admin: { socket: far.sock }
log: { access: { file: far.json } }
listeners:
  link: { http: \"127.0.0.1:8443\", tls: { cert_file: far.pem, key_file: far.key } }
routes: [ { terminate: \"127.0.0.1:9000\" } ]
";

#[test]
fn bulk_under_tls_is_carried_by_the_kernel() {
    let pki = Pki::new();
    let issued = pki.issue(&["far.lab"]);
    let machine = Machine::new();
    machine.program("work/hermes", &tool("HERMES_BIN"));
    for (name, file) in [
        ("ca.pem", &pki.ca()),
        ("far.pem", &issued.cert),
        ("far.key", &issued.key),
    ] {
        machine.write_work(name, &fs::read_to_string(file).unwrap());
    }
    machine.write_work("near.yaml", NEAR);
    machine.write_work("far.yaml", FAR);

    let said = machine.run(DOWNLOADS);
    for time in 1..=3 {
        assert!(
            said.contains(&format!("download {time} is whole")),
            "{said}"
        );
    }
    let count = |name: &str| {
        let mut lines = said.lines().filter_map(|line| line.strip_prefix(name));
        lines
            .next()
            .and_then(|rest| rest.trim().parse::<u32>().ok())
    };
    // Both ends of two connections, as the first download shared the link; and each node has tried whether its kernel can.
    assert_eq!(count("TlsTxSw"), Some(6), "{said}");
    assert_eq!(count("TlsRxSw"), Some(6), "{said}");
    assert_eq!(count("TlsDecryptError"), Some(0), "{said}");
    assert_eq!(said.matches("\"protocol\":\"h1\"").count(), 2, "{said}");
}

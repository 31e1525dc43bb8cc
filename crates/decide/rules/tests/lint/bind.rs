//! Findings of sockets that wait for peers.

use serde_json::{Value, json};

use super::finds;

fn route(bind: Value) -> Value {
    json!({ "routes": [{ "terminate": true, "bind": bind }] })
}

#[test]
fn sockets_stand_on_one_address_of_each_family() {
    finds(route(json!({ "listen": "192.0.2.45" })), &[]);
    finds(
        route(
            json!({ "listen": ["192.0.2.45", "2001:db8::1"], "public": ["203.0.113.7", "2001:db8::2"] }),
        ),
        &[],
    );
    finds(
        route(json!({ "listen": ["192.0.2.45", "192.0.2.46", "0.0.0.0", "here"] })),
        &[
            "routes[0].bind.listen[1]: there is an address of this family already; keep one of each",
            "routes[0].bind.listen[2]: `0.0.0.0` is not an address that a peer could send to; write an address of this machine",
            "routes[0].bind.listen[3]: `here` is not an IP address; write one such as `192.0.2.45`",
        ],
    );
    finds(
        route(json!({ "listen": [] })),
        &["routes[0].bind.listen: there is no address; give one, such as `192.0.2.45`"],
    );
    finds(
        route(json!({ "listen": "192.0.2.45", "public": "2001:db8::2" })),
        &[
            "routes[0].bind.public: each address of `listen` needs one of its own family here; \
           give as many as in `listen`, in the same order",
        ],
    );
}

#[test]
fn tunnels_end_where_they_are_bound() {
    finds(
        json!({ "routes": [{ "to": "next", "bind": { "listen": "192.0.2.45" } }] }),
        &[
            "routes[0].bind: `bind` is for routes that end tunnels at their targets; remove it, or write `terminate: true`",
        ],
    );
}

#[test]
fn ports_for_connections_are_few_and_wait_for_a_time() {
    let tcp = |tcp: Value| route(json!({ "listen": "192.0.2.45", "tcp": tcp }));
    finds(tcp(json!({ "ports": "40000-41023", "wait": "10m" })), &[]);
    finds(
        tcp(json!({ "ports": "40000-41024", "wait": "11m", "per_user": 0 })),
        &[
            "routes[0].bind.tcp.ports: `40000-41024` is more than 1024 ports; write a smaller range, such as `40000-40099`",
            "routes[0].bind.tcp.wait: a port waits between 1ms and 600 s; write a time such as `2m`",
            "routes[0].bind.tcp.per_user: no one may wait for a connection; write 1 or more, or remove `tcp`",
        ],
    );
}

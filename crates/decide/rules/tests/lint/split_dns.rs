//! Findings of names that `tun` listeners answer about.

use serde_json::{Value, json};

use super::finds;

fn answering(device: Value) -> Value {
    let mut tun = json!({ "name": "hermes0" });
    super::merge(&mut tun, device);
    json!({
        "listeners": { "vpn": { "tun": tun } },
        "routes": [{ "match": { "target": "VIDEO" }, "to": "next" }],
    })
}

#[test]
fn names_that_hold() {
    finds(
        answering(json!({ "dns": { "pool": "100.64.0.0/16" } })),
        &[],
    );
    finds(
        answering(json!({
            "routes": ["0.0.0.0/0", "::/0"],
            "dns": {
                "pool": ["100.64.0.0/29", "fd64::/125"], "names": ["VIDEO", "*.hermes"], "others": "forward",
                "resolvers": ["192.0.2.53", "[2001:db8::53]:5353"], "echo": "refuse",
            },
        })),
        &[],
    );
}

#[test]
fn a_pool_has_room_for_names_and_one_prefix_of_each_family() {
    finds(
        answering(
            json!({ "dns": { "pool": ["100.64.0.1/16", "100.65.0.0/30", "fd64::/64", "fd65::/64"] } }),
        ),
        &[
            "listeners.vpn.tun.dns.pool[0]: 100.64.0.1/16 has bits beyond its length; write 100.64.0.0/16",
            "listeners.vpn.tun.dns.pool[1]: 100.65.0.0/30 has no address left for a name; give a /29 or a shorter one",
            "listeners.vpn.tun.dns.pool[1]: a name has one address of each family; keep one prefix of each",
            "listeners.vpn.tun.dns.pool[3]: a name has one address of each family; keep one prefix of each",
        ],
    );
    finds(
        answering(json!({ "dns": { "pool": [] } })),
        &[
            "listeners.vpn.tun.dns.pool: no name gets an address; name a prefix that is not in use, such as 100.64.0.0/16",
        ],
    );
}

#[test]
fn the_addresses_of_names_are_those_of_nothing_else() {
    let pool = json!({ "pool": "100.64.0.0/16" });
    finds(
        answering(json!({ "dns": pool, "routes": ["10.9.0.0/16", "100.64.8.0/24"] })),
        &[
            "listeners.vpn.tun.dns.pool[0]: 100.64.8.0/24 is led to a tunnel, and 100.64.0.0/16 has it for names; give names a prefix that nothing else has",
        ],
    );
    finds(
        answering(json!({ "dns": pool, "tunnels": { "all": { "prefixes": "100.64.0.0/16" } } })),
        &[
            "listeners.vpn.tun.dns.pool[0]: 100.64.0.0/16 is led to a tunnel, and 100.64.0.0/16 has it for names; give names a prefix that nothing else has",
        ],
    );
    finds(
        answering(
            json!({ "dns": pool, "addresses": ["100.64.0.9/32"], "exclude": ["100.64.0.0/10"] }),
        ),
        &[
            "listeners.vpn.tun.dns.pool[0]: the device has the address 100.64.0.9/32 of 100.64.0.0/16; give it another address, or none",
            "listeners.vpn.tun.dns.pool[0]: `exclude` lets 100.64.0.0/10 pass by the device; remove it there, or give names another prefix",
        ],
    );
    let mut two = answering(json!({ "dns": pool }));
    two["listeners"]["other"] =
        json!({ "tun": { "name": "hermes2", "dns": { "pool": "100.64.7.0/24" } } });
    finds(
        two,
        &[
            "listeners.other.tun.dns.pool[0]: another listener has 100.64.0.0/16 for names; give each listener a prefix of its own",
        ],
    );
}

#[test]
fn names_are_names_and_there_are_some() {
    finds(
        answering(
            json!({ "dns": { "pool": "100.64.0.0/16", "names": ["VIDEO", "10.0.0.1", "10.0.0.0/8", "service:web"] } }),
        ),
        &[
            "listeners.vpn.tun.dns.names[1]: 10.0.0.1 is not a name: DNS is not asked for its address; remove it; `routes` lead addresses to tunnels",
            "listeners.vpn.tun.dns.names[2]: 10.0.0.0/8 is not a name: DNS is not asked for its address; remove it; `routes` lead addresses to tunnels",
            "listeners.vpn.tun.dns.names[3]: there is no service `web`; define it under `services`",
        ],
    );
    let mut none = answering(json!({ "dns": { "pool": "100.64.0.0/16" } }));
    none["routes"] = json!([{ "to": "next" }]);
    finds(
        none,
        &[
            "listeners.vpn.tun.dns: no name is one of the overlay: no route of this listener has a name as `target`; give `names`, such as `names: [VIDEO, \"*.hermes\"]`, or a route for one",
        ],
    );
}

#[test]
fn others_are_asked_of_others() {
    finds(
        answering(
            json!({ "dns": { "pool": "100.64.0.0/16", "others": "refuse", "resolvers": "192.0.2.53" } }),
        ),
        &[
            "listeners.vpn.tun.dns.resolvers: with `others: refuse` no one is asked; remove one of both",
        ],
    );
    finds(
        answering(
            json!({ "dns": { "pool": "100.64.0.0/16", "resolvers": ["192.0.2.53", "100.64.0.2"] } }),
        ),
        &[
            "listeners.vpn.tun.dns.resolvers[1]: 100.64.0.2 is this name server itself; name the one that the machine would ask without it",
        ],
    );
    finds(
        answering(json!({ "stack": true, "dns": { "pool": "100.64.0.0/16" } })),
        &[
            "listeners.vpn.tun.dns: a stack has the packets of routes with `terminate: { ip: .. }`, and no others; remove `dns`, or `stack: true`",
        ],
    );
}

//! Checks of the policy, and of groups and services.

use serde_json::{Value, json};

use super::finds;

/// The sound document with these rules.
fn rules(rules: Value) -> Value {
    json!({ "policy": { "rules": rules } })
}

#[test]
fn a_sound_policy_is_not_reported() {
    finds(
        json!({
            "groups": { "admins": ["alice", "*@ops.example"] },
            "services": { "database": ["DB:5432"] },
            "policy": { "default": "deny", "rules": [
                { "name": "admins", "match": { "user": "group:admins", "target": "service:database" }, "allow": true,
                  "set": { "service": "{user}" } },
                { "match": { "user": "group:admins" }, "hours": "08:00-18:00", "deny": { "status": 404, "reason": "not now" } },
                { "match": { "user": "group:admins" }, "allow": true },
                { "set": { "X-Hermes-Seen": "1" } },
                { "match": { "kind": "http" }, "allow": true },
            ] },
        }),
        &[],
    );
}

#[test]
fn each_rule_does_one_thing() {
    finds(
        rules(json!([
            { "match": { "port": 1 } },
            { "match": { "port": 2 }, "allow": false },
            { "match": { "port": 3 }, "deny": false },
            { "match": { "port": 4 }, "allow": true, "deny": true },
            { "match": { "port": 5 }, "deny": true, "set": { "service": "a" } },
        ])),
        &[
            "policy.rules[0]: the rule does nothing; give one of `allow`, `deny` and `set`",
            "policy.rules[1].allow: `allow: false` does nothing; write `deny: true`",
            "policy.rules[2].deny: `deny: false` does nothing; write `allow: true`",
            "policy.rules[3].deny: the rule allows and denies; keep one of them",
            "policy.rules[4].set: what is denied goes nowhere, so no one sees these fields; remove them",
        ],
    );
}

#[test]
fn only_what_clients_cannot_write_is_set() {
    finds(
        rules(
            json!([{ "allow": true, "set": { "x-secure": "1", "User": "root", "te": "x", "namespace": "n" } }]),
        ),
        &[
            "policy.rules[0].set.x-secure: `x-secure` is not an overlay field: clients could write it themselves; declare it in `fields`",
            "policy.rules[0].set.User: whose an exchange is, authentication says; set another field",
            "policy.rules[0].set.te: `te` belongs to the connection or to the proxy and cannot be changed; remove it",
        ],
    );
}

#[test]
fn names_are_each_their_own() {
    finds(
        rules(json!([
            { "name": "a", "match": { "port": 1 }, "allow": true },
            { "name": "a", "match": { "port": 2 }, "allow": true },
            { "name": "default", "match": { "port": 3 }, "allow": true },
        ])),
        &[
            "policy.rules[1].name: policy.rules[0] has the name `a` already; give each rule a name of its own",
            "policy.rules[2].name: `default` cannot be the name of a rule; write another one",
        ],
    );
}

#[test]
fn rules_that_can_never_match() {
    finds(
        rules(json!([
            { "match": { "target": "*.example" }, "set": { "service": "a" } },
            { "match": { "target": "*.example" }, "hours": "08:00-18:00", "allow": true },
            { "match": { "target": "a.example" }, "deny": true },
            { "name": "all", "match": { "user": "*" }, "allow": true },
            { "match": { "user": "alice" }, "deny": true },
            { "match": { "target": "b.example" }, "hours": "08:00-18:00", "deny": true },
        ])),
        &[
            "policy.rules[4]: the rule can never match: policy.rules[3] (all) decides everything that it would; move it before policy.rules[3], or remove it",
            "policy.rules[5]: the rule can never match: policy.rules[1] decides everything that it would; move it before policy.rules[1], or remove it",
        ],
    );
}

#[test]
fn groups_and_services_that_are_not_there() {
    finds(
        json!({
            "groups": { "admins": ["alice", "group:ops"], "a b": [] },
            "services": { "database": ["DB", "service:films"], "443": ["x"] },
            "listeners": { "web": { "tls": { "cert_file": "a", "key_file": "b", "client_ca_file": "c" } } },
            "peers": { "core": { "certificate": "core", "speaks_for": ["group:admin"] } },
            "policy": { "rules": [{ "match": { "user": ["bob", "group:guests"], "target": "service:databse" }, "allow": true }] },
            "routes": [{ "match": { "authority": "service:database", "user": "group:admins" }, "to": "next",
                "broadcast": { "users": ["group:x"] } }],
        }),
        &[
            "groups[\"a b\"]: `a b` cannot be a name here; write letters, digits and `-`, not digits alone",
            "services.443: `443` cannot be a name here; write letters, digits and `-`, not digits alone",
            "groups.admins[1]: a group cannot be in a group; list its users",
            "services.database[1]: a service cannot be in a service; list its targets",
            "routes[0].match.authority[0]: a service is what exchanges are for, and this names the proxy itself; match it in `target`",
            "policy.rules[0].match.target[0]: there is no service `databse`; did you mean `database`?",
            "peers.core.speaks_for[0]: there is no group `admin`; did you mean `admins`?",
            "routes[0].broadcast.users[0]: there is no group `x`; groups are: admins, a b",
            "policy.rules[0].match.user[1]: there is no group `guests`; groups are: admins, a b",
        ],
    );
}

#[test]
fn groups_of_tokens_where_no_token_is_known() {
    finds(
        json!({
            "groups": { "admins": ["claim-group:ops"] },
            "listeners": { "web": { "tls": { "cert_file": "a", "key_file": "b", "client_ca_file": "c" } } },
            "peers": { "core": { "certificate": "core", "speaks_for": ["claim-group:ops"] } },
            "routes": [{ "match": { "user": ["group:admins", "claim-group:ops"] }, "to": "next" }],
        }),
        &[
            "groups.admins[0]: a group cannot be in a group; list its users",
            "peers.core.speaks_for[0]: what a token claims is not known here; name users or a group of the file",
            "routes[0].match.user[1]: no listener checks tokens, so no one is in this group; add `auth: { bearer: ... }` to one",
        ],
    );
}

#[test]
fn conditions_are_checked_as_those_of_routes() {
    finds(
        rules(json!([{ "match": { "listener": "wep", "method": "get" }, "deny": true }])),
        &[
            "policy.rules[0].match.listener[0]: there is no listener `wep`; did you mean `web`?",
            "policy.rules[0].match.method[0]: method `get` would not match: methods are in capitals; write GET",
        ],
    );
}

#[test]
fn each_rule_on_packets_does_one_thing_that_can_be() {
    let packets =
        |rules: Value| json!({ "policy": { "default": "allow", "packets": { "rules": rules } } });
    finds(
        packets(json!([
            { "name": "web", "user": "group:admins", "to": "10.0.0.0/8", "protocol": ["tcp", 17], "port": [443, "8000-8999"], "allow": true },
            { "opened_by": "target", "from": ["10.0.0.0/8"], "protocol": "icmp", "deny": true },
        ])),
        &["policy.packets.rules[0].user[0]: there is no group `admins`; define it under `groups`"],
    );
    finds(
        packets(json!([
            { "name": "web", "allow": true, "deny": true },
            { "name": "web", "allow": false },
            { "name": "default", "deny": false },
            { "protocol": ["tcp", "icmp"], "port": 1 },
        ])),
        &[
            "policy.packets.rules[0].deny: the rule says both `allow` and `deny`; keep one of them",
            "policy.packets.rules[1].allow: `allow: false` does nothing; write `deny: true`",
            "policy.packets.rules[2].deny: `deny: false` does nothing; write `allow: true`",
            "policy.packets.rules[3]: the rule does nothing; give `allow` or `deny`",
            "policy.packets.rules[1].name: another rule on packets has the name `web` already; give each rule a name of its own",
            "policy.packets.rules[2].name: `default` cannot be the name of a rule; write another one",
            "policy.packets.rules[3].port: icmp has no ports; give such protocols a rule without `port`",
        ],
    );
}

#[test]
fn rules_on_packets_that_can_never_match() {
    finds(
        json!({ "policy": { "default": "allow", "packets": { "rules": [
            { "name": "net", "to": "10.0.0.0/8", "protocol": "tcp", "allow": true },
            { "to": "10.1.2.0/24", "protocol": "tcp", "port": 22, "deny": true },
            { "to": "10.1.2.0/24", "protocol": "udp", "port": 22, "deny": true },
        ] } } }),
        &[
            "policy.packets.rules[1]: the rule can never match: policy.packets.rules[0] (net) decides everything that it would; move it \
             before policy.packets.rules[0], or remove it",
        ],
    );
}

#[test]
fn bounds_of_users_name_groups_that_there_are() {
    finds(
        json!({
            "groups": { "gold": ["alice"] },
            "listeners": { "web": { "http": "127.0.0.1:8080", "user": "alice", "limits": { "users": [
                { "user": "group:gold", "per_user": 5 },
                { "user": ["bob", "group:silver"], "per_user": 2 },
            ] } } },
        }),
        &["listeners.web.limits.users[1].user[1]: there is no group `silver`; groups are: gold"],
    );
}

#[test]
fn names_of_users_are_one_user_s_each() {
    finds(
        json!({
            "users": {
                "alice": ["auth0|5f", "bob", " x"],
                "bob": ["auth0|5f", "bob"],
                "carol": ["alice"],
                "crowd": (0..65).map(|number| format!("name-{number}")).collect::<Vec<_>>(),
            },
            "groups": { "gold": ["carol", "auth0|5f", "*@gold.example"] },
            "identity": { "user": "name-1" },
            "listeners": { "web": { "http": "127.0.0.1:8080", "user": "name-2" } },
            "policy": { "rules": [{ "match": { "user": ["group:gold", "name-3"] }, "allow": true }] },
        }),
        &[
            "users.alice[1]: `bob` is a name of bob already; each name is one user's: remove it here or there",
            "users.alice[2]: \" x\" cannot be a user: it becomes the field `user`; write a name without control characters and without space around it",
            "users.bob[0]: `auth0|5f` is a name of alice already; each name is one user's: remove it here or there",
            "users.bob[1]: `bob` is a name of bob already; each name is one user's: remove it here or there",
            "users.carol[0]: `alice` is a name of alice already; each name is one user's: remove it here or there",
            "users.crowd: 65 other names are more than 64; remove some",
            "groups.gold[1]: `auth0|5f` is another name of bob; write bob",
            "policy.rules[0].match.user[1]: `name-3` is another name of crowd; write crowd",
            "identity.user: `name-1` is another name of crowd; write crowd",
            "listeners.web.user: `name-2` is another name of crowd; write crowd",
        ],
    );
}

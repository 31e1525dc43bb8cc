//! Each format: the result for a realistic file, line by line.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::fs;
use std::path::Path;

use hermes_config::model::Document;
use hermes_convert::{Converted, Format, Loss, NewFileContent, convert, convert_beside};

fn of(format: Format, file: &str) -> Converted {
    let bytes = fs::read(Path::new("corpus").join(file)).unwrap();
    convert(format, &bytes).unwrap()
}

/// The document, which has to be one of ours.
fn document(converted: &Converted) -> Document {
    let yaml = converted.yaml();
    let loaded = hermes_config::parse(Path::new("converted.yaml"), &yaml, &|_| None);
    loaded
        .unwrap_or_else(|problems| panic!("{problems}\n{yaml}"))
        .document
}

/// Whether something in this line was left out, or differs, and the reason says so.
fn notes(converted: &Converted, loss: Loss, line: u32, reason: &str) {
    let mut notes = converted.notes.iter();
    let found = notes
        .any(|note| note.loss == loss && note.line == line && note.to_string().contains(reason));
    assert!(
        found,
        "no note in line {line} says `{reason}`: {:#?}",
        converted.notes
    );
}

/// Whether the text of the document has these lines, as they are.
fn has(converted: &Converted, parts: &[&str]) {
    let yaml = converted.yaml();
    for part in parts {
        assert!(yaml.contains(part), "no {part} in\n{yaml}");
    }
}

#[test]
fn a_site_of_envoy() {
    let converted = of(Format::Envoy, "site.envoy.yaml");
    let document = document(&converted);
    has(
        &converted,
        &[
            "node: edge-1",
            "http: 0.0.0.0:443",
            "gateway: true",
            "auth: mtls",
            "client_ca_file: clients.pem",
            "x-forwarded-for: \"{peer.address}\"",
            "head_bytes: 32KiB",
            "idle_time: 3600s",
            "kind: grpc",
            "timeout: 500ms",
            "fail: open",
            "path: \"~^/cart\"",
            "hash: { cookie: session }",
            "balance: ring_hash",
            "location: \"https://www.example.org{path}\"",
            "pending: 50",
            "consecutive: 7",
            "most: 30%",
            "unix:/run/authority.sock",
            "every: 30s",
        ],
    );
    // The more specific host stands first, and a path that it lacks falls to no other.
    let targets: Vec<String> = document
        .routes
        .iter()
        .map(|route| format!("{:?}", route.matches.target))
        .collect();
    assert!(targets[1].contains("shop"), "{targets:?}");
    let answers: Vec<Option<u16>> = document
        .routes
        .iter()
        .map(|route| route.respond.as_ref().map(|answer| answer.status))
        .collect();
    assert_eq!(
        answers,
        [Some(404), None, Some(501), None, Some(501), Some(404), None]
    );

    notes(&converted, Loss::LeftOut, 1, "admin");
    notes(&converted, Loss::LeftOut, 26, "access_log");
    notes(&converted, Loss::LeftOut, 49, "query_parameters");
    notes(&converted, Loss::LeftOut, 53, "all go to cart");
    notes(
        &converted,
        Loss::LeftOut,
        55,
        "cluster images was not carried over",
    );
    notes(&converted, Loss::LeftOut, 82, "type EDS");
    notes(&converted, Loss::Differs, 96, "believes any certificate");
}

const DISCOVERED: &str = r#"
static_resources:
  secrets:
  - { name: edge, tls_certificate: { certificate_chain: { filename: edge.pem }, private_key: { filename: edge.key } } }
  listeners:
  - name: web
    address: { socket_address: { address: 0.0.0.0, port_value: 443 } }
    filter_chains:
    - filter_chain_match: { server_names: ["*.example"] }
      transport_socket: &socket
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: { tls_certificate_sds_secret_configs: [ { name: edge } ] }
      filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          rds: { route_config_name: rest, config_source: { path_config_source: { path: routes.yaml } } }
    - filter_chain_match: { server_names: [shop.example] }
      transport_socket: *socket
      filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          route_config:
            virtual_hosts:
            - name: shop
              domains: ["*"]
              response_headers_to_add: [ { header: { key: strict-transport-security, value: max-age=1 }, append: false } ]
              response_headers_to_remove: [server]
              routes:
              - match: { prefix: /v1/ }
                route: { cluster: shop, regex_rewrite: { pattern: { regex: "^/v1/(.*)$" }, substitution: "/\\1" } }
    - filter_chain_match: { server_names: [other.example] }
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: { tls_certificates: [ { certificate_chain: { filename: o.pem }, private_key: { filename: o.key } } ] }
      filters:
      - name: http
        typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager }
  clusters:
  - name: shop
    type: EDS
    eds_cluster_config: { service_name: shops, eds_config: { path: ends.yaml } }
  - name: gone
    type: EDS
    eds_cluster_config: { eds_config: { path: gone.yaml } }
"#;

#[test]
fn what_stands_in_other_files_and_chains_of_one_certificate() {
    let read = |name: &str| match name {
        "routes.yaml" => Ok(ROUTES.into()),
        "ends.yaml" => Ok(ENDS.into()),
        _ => Err("there is no such file".to_owned()),
    };
    let converted = convert_beside(Format::Envoy, DISCOVERED.as_bytes(), &read).unwrap();
    let document = document(&converted);
    has(
        &converted,
        &[
            "cert_file: edge.pem",
            "endpoints: [10.0.0.5:8080]",
            "strict-transport-security: max-age=1",
            "remove: [server]",
            "path: { prefix: /v1/, with: / }",
        ],
    );
    // A chain for a whole name stands before that for its suffix, and lets nothing fall to it.
    let targets: Vec<String> = document
        .routes
        .iter()
        .filter(|route| route.matches.kind.is_none())
        .map(|route| {
            let status = route.respond.as_ref().map(|answer| answer.status);
            format!("{:?} {status:?}", route.matches.target)
        })
        .collect();
    let shown = targets.join("\n");
    assert_eq!(targets.len(), 3, "{shown}");
    assert!(
        targets[1].contains("shop.example") && targets[1].ends_with("Some(404)"),
        "{shown}"
    );
    assert!(
        targets[2].contains(".example") && targets[2].ends_with("None"),
        "{shown}"
    );

    notes(&converted, Loss::LeftOut, 35, "one certificate");
    notes(&converted, Loss::LeftOut, 50, "no such file");
    notes(&converted, Loss::LeftOut, 19, "validate");
    notes(&converted, Loss::Differs, 25, "host of the request");
}

const ROUTES: &str = r#"
resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: rest
  validated: true
  virtual_hosts: [ { name: all, domains: ["*"], routes: [ { match: { prefix: / }, route: { cluster: shop } } ] } ]
"#;

const ENDS: &str = r#"
resources:
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: shops
  endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.5, port_value: 8080 } } } } ] } ]
"#;

#[test]
fn a_laptop_of_sing_box() {
    let converted = of(Format::SingBox, "laptop.sing-box.json");
    document(&converted);
    has(
        &converted,
        &[
            "log: { level: warn }",
            "http: 127.0.0.1:2080",
            "http: \"[::1]:2081\"",
            "socks: 127.0.0.1:1080",
            "multipath: true",
            "file: users.txt",
            "tcp: 127.0.0.1:5432",
            "target: 10.1.0.9:5432",
            "exclude: [192.168.0.0/16]",
            "intercept: true",
            "via: office",
            "credentials: { user: a, password_file: behind.password }",
            "endpoint: 192.0.2.9:51820",
            "stack: true",
            "\"~^x[0-9]+\\\\.example$\"",
            "port: [22, 443, 8000-8999]",
            "target: [ads.example, \"*.ads.example\", \"*.track.example\"]",
        ],
    );
    let users = converted
        .files
        .iter()
        .find(|file| file.name == "users.txt")
        .unwrap();
    assert!(matches!(&users.content, NewFileContent::Users(users) if users.len() == 1));
    let password = NewFileContent::Secret("b\n".to_owned());
    assert!(converted.files.iter().any(|file| file.content == password));
    let yaml = converted.yaml();
    assert!(
        !yaml.contains("secret") && !yaml.contains("AKkYz"),
        "{yaml}"
    );

    notes(&converted, Loss::LeftOut, 4, "dns");
    notes(&converted, Loss::LeftOut, 6, "SOCKS");
    notes(&converted, Loss::LeftOut, 16, "shadowsocks");
    notes(&converted, Loss::LeftOut, 33, "rule_set");
    notes(&converted, Loss::LeftOut, 39, "experimental");
}

#[test]
fn a_laptop_of_wireguard() {
    let converted = of(Format::Wireguard, "laptop.wireguard.conf");
    document(&converted);
    has(
        &converted,
        &[
            "addresses: [10.9.0.7/24, fd09::7/64]",
            "routes: [10.0.0.0/16, fd00::/16]",
            "pool: [10.9.0.0/24, fd09::/64]",
            "endpoint: 192.0.2.7:51820",
            "preshared_key_file: wireguard-peer1.psk",
            "keepalive: 25s",
            "mtu: 1380",
        ],
    );
    assert_eq!(converted.files.len(), 2);
    notes(&converted, Loss::LeftOut, 4, "dns");
}

#[test]
fn a_server_of_wireguard() {
    let converted = of(Format::Wireguard, "server.wireguard.conf");
    let document = document(&converted);
    assert_eq!(document.listeners.len(), 2);
    has(
        &converted,
        &[
            "listen: 0.0.0.0:51821",
            "addresses: [10.9.0.2/24]",
            "other_address: nat",
            "nat: true",
            "allow: [10.9.0.1/32]",
        ],
    );
    notes(&converted, Loss::LeftOut, 6, "became `nat`");
    notes(&converted, Loss::LeftOut, 7, "runs no commands");
}

#[test]
fn a_file_of_an_office() {
    let converted = of(Format::Pac, "office.pac");
    let document = document(&converted);
    has(
        &converted,
        &[
            "http: 127.0.0.1:8080",
            "\"*.corp.example\"",
            "endpoints: [proxy.example.org:8080, backup.example.org:8080]",
            "endpoints: [video.example:443]",
            "tls: true",
        ],
    );
    let route = |index: usize| format!("{:?}", document.routes[index]);
    // Neighbours with the same destination are merged: exceptions stand before them.
    assert!(route(0).contains("localhost"), "{}", route(0));
    assert!(route(1).contains("10.9.0.0/16"), "{}", route(1));
    notes(&converted, Loss::LeftOut, 12, "weekdayRange");
    notes(&converted, Loss::LeftOut, 13, "SOCKS");
    notes(&converted, Loss::LeftOut, 14, "DIRECT");
}

#[test]
fn files_that_hold_nothing_are_refused() {
    for (format, text) in [
        (Format::Envoy, "static_resources: { listeners: [] }"),
        (Format::Envoy, "a: b"),
        (
            Format::SingBox,
            "{ \"inbounds\": [ { \"type\": \"socks\" } ] }",
        ),
        (Format::Wireguard, "[Peer]\nPublicKey = a\n"),
        (
            Format::Wireguard,
            "[Interface]\nPrivateKey = a\nAddress = 10.0.0.1/24\n",
        ),
        (Format::Pac, "var a = 1;"),
    ] {
        let error = convert(format, text.as_bytes()).unwrap_err();
        assert!(!error.reason.is_empty(), "{error}");
    }
}

#[test]
fn few_branches_do_not_become_many_routes() {
    let branch = |number: u32| format!("if (host == 'h{number}') p = p + 'x';\n");
    let branches: String = (0..64).map(branch).collect();
    let text = format!(
        "function FindProxyForURL(url, host) {{ var p = 'PROXY a:1';\n{branches} return p; }}"
    );
    let error = convert(Format::Pac, text.as_bytes()).unwrap_err();
    assert!(error.reason.contains("branches"), "{error}");
}

#[test]
fn a_long_list_of_hosts_is_a_short_list_of_routes() {
    let hosts: String = (0..2000)
        .map(|number| format!("if (host == 'h{number}.example') return 'DIRECT';\n"))
        .collect();
    let text =
        format!("function FindProxyForURL(url, host) {{ {hosts} return 'PROXY a.example:1'; }}");
    let converted = convert(Format::Pac, text.as_bytes()).unwrap();
    assert_eq!(document(&converted).routes.len(), 2);
}

#[test]
fn as_many_conditions_are_converted_as_is_said() {
    let of = |count: u32| {
        let rules: String = (0..count)
            .map(|number| {
                let to = ["DIRECT", "PROXY a.example:1"][number as usize % 2];
                format!("if (dnsDomainIs(host, 'h{number}.example')) return '{to}';\n")
            })
            .collect();
        let text = format!(
            "function FindProxyForURL(url, host) {{ {rules} return 'PROXY b.example:1'; }}"
        );
        convert(Format::Pac, text.as_bytes())
    };
    let converted = of(20_000).unwrap();
    assert_eq!(converted.yaml().matches("terminate: true").count(), 10_000);
    assert!(
        of(20_001)
            .unwrap_err()
            .reason
            .contains("more than 20000 routes")
    );
}

/// The blocks of code of a section.
fn blocks(section: &str) -> Vec<String> {
    let mut parts = section.split("```");
    let mut blocks = Vec::new();
    while let Some(block) = parts.nth(1) {
        let text = block.split_once('\n').map_or("", |(_, text)| text);
        blocks.push(text.to_owned());
    }
    blocks
}

#[test]
fn the_page_for_those_who_come_shows_what_is_written() {
    let page = fs::read_to_string("../../../docs/migration.md").unwrap();
    let mut sections = page.split("\n## ").skip(1);
    for format in Format::ALL {
        let blocks = blocks(sections.next().unwrap());
        let converted = convert(format, blocks[0].as_bytes()).unwrap();
        assert_eq!(converted.yaml(), blocks[1], "{format}");
        document(&converted);
    }
}

/// Converts a proxy auto-configuration file with these statements.
fn pac(statements: &str) -> Result<Converted, String> {
    let file = format!("function FindProxyForURL(u, h) {{ {statements} }}");
    convert(Format::Pac, file.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn texts_and_conditions_that_double_do_not_become_many() {
    for (begin, double) in [
        ("var a = \"x\";", "a = a + a;"),
        ("var a = h == \"x\";", "a = a || a;"),
        ("var a = h == \"x\";", "a = h == \"y\" ? a : a;"),
    ] {
        let error = pac(&format!("{begin} {} return a;", double.repeat(64))).unwrap_err();
        assert!(error.contains("become ever more by copies"), "{error}");
    }
    let error = pac(&"if (h == \"a\") { x = \"1\" }".repeat(10_000)).unwrap_err();
    assert!(error.contains("stand in one another"), "{error}");

    // One that becomes ever deeper is not understood.
    let negations = "a = !a;".repeat(3_000);
    let deep = pac(&format!(
        "var a = h == \"x\"; {negations} if (a) return \"DIRECT\";"
    ))
    .unwrap();
    notes(&deep, Loss::LeftOut, 1, "`a`, which stands for very much,");
}

#[test]
fn long_results_and_patterns_are_said_in_short() {
    let converted = pac(&format!("return \"{}\";", "PROXY a:1; ".repeat(10_000))).unwrap();
    notes(&converted, Loss::LeftOut, 1, "more than 256 proxies");
    let said: usize = converted
        .notes
        .iter()
        .map(|note| note.to_string().len())
        .sum();
    assert!(said < 1024, "{said} bytes");

    let pattern = "*a".repeat(10_000);
    let converted = pac(&format!(
        "if (shExpMatch(h, \"{pattern}\")) return \"DIRECT\";"
    ))
    .unwrap();
    notes(&converted, Loss::LeftOut, 1, "a long operand");
}

//! Bootstraps of Envoy that `hermes convert` made configurations of: Envoy and Hermes answer the same requests alike, and origins see the same.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use hermes_tests::origins::{self, Answer, Origin, Question, Request};
use hermes_tests::{Envoy, Node, Pki, curl, program};
use serde_json::Value;

/// One bootstrap, in force at both.
struct Both {
    envoy: Envoy,
    hermes: Node,
    /// What the conversion said on standard error.
    notes: String,
}

impl Both {
    /// `expected` is whether all of it can be carried.
    fn start(file: &str, bootstrap: &str, is_complete: bool) -> Self {
        let envoy = Envoy::start_file("envoy", file, bootstrap);
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join(file);
        let to = folder.path().join("converted.yaml");
        fs::write(&from, bootstrap).unwrap();
        let said = program::run(&[
            "convert",
            "--from",
            "envoy",
            from.to_str().unwrap(),
            "--to",
            to.to_str().unwrap(),
        ]);
        assert_eq!(said.code, i32::from(!is_complete), "{said:?}");
        let checked = program::run(&["check", to.to_str().unwrap()]);
        assert_eq!(checked.code, 0, "{checked:?}");

        let yaml = fs::read_to_string(&to).unwrap();
        Self {
            envoy,
            hermes: Node::start_in(folder, "converted", &yaml, &[]),
            notes: said.stderr,
        }
    }

    /// Has both answer a request to `listener`, and compares status, `fields` of the answers and, unless an origin made it, the content.
    fn ask(&self, listener: &str, arguments: &[&str], fields: &[&str]) -> Asked {
        let said = [self.envoy.address(listener), self.hermes.address(listener)].map(|address| {
            let address = format!("::{address}");
            let mut all = vec!["--connect-to", &address];
            all.extend(arguments);
            let got = curl(&all);
            assert_eq!(got.exit, 0, "{arguments:?}: {got:?}");
            got
        });
        let [envoy, hermes] = &said;
        assert_eq!(
            envoy.status, hermes.status,
            "{arguments:?}: {envoy:?} {hermes:?}"
        );
        for field in fields {
            assert_eq!(
                envoy.field(field),
                hermes.field(field),
                "{arguments:?}: {field}"
            );
        }
        Asked {
            status: envoy.status,
            bodies: [envoy.text(), hermes.text()],
        }
    }
}

struct Asked {
    status: u16,
    bodies: [String; 2],
}

impl Asked {
    /// Both contents, which are the same.
    fn body(&self) -> &str {
        assert_eq!(self.bodies[0], self.bodies[1]);
        &self.bodies[0]
    }

    /// What the origin saw of these keys of the request, both times.
    fn seen(&self, fields: &[&str]) -> Vec<String> {
        let [envoy, hermes] = self.bodies.each_ref().map(|body| {
            let told: Value =
                serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
            let field = |name: &&str| format!("{name}: {}", told["fields"][*name]);
            let mut seen = vec![told["method"].to_string(), told["uri"].to_string()];
            seen.extend(fields.iter().map(field));
            seen
        });
        assert_eq!(envoy, hermes);
        envoy
    }
}

const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "{ name: router, typed_config: { \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router } }";
const ADMIN: &str = "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }";

/// A cluster of one address, in YAML.
fn cluster(name: &str, address: SocketAddr) -> String {
    format!(
        "{{ name: {name}, connect_timeout: 2s, load_assignment: {{ cluster_name: {name}, endpoints: [ {{ lb_endpoints: [ {{ endpoint: \
         {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }} ] }} ] }} }}",
        address.ip(),
        address.port()
    )
}

/// The bootstrap of a site.
fn site(one: &Origin<Request>, two: &Origin<Request>, echo: &Origin<Vec<u8>>) -> String {
    format!(
        r#"
node: {{ id: edge-1, cluster: edge }}
{ADMIN}
static_resources:
  listeners:
  - name: web
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    filter_chains:
    - filters:
      - name: manager
        typed_config:
          "@type": {MANAGER}
          stat_prefix: web
          upgrade_configs: [ {{ upgrade_type: CONNECT }} ]
          http_filters: [ {ROUTER} ]
          route_config:
            name: local
            virtual_hosts:
            - name: any
              domains: ["*"]
              routes:
              - match: {{ connect_matcher: {{}} }}
                route: {{ cluster: echo, upgrade_configs: [ {{ upgrade_type: CONNECT, connect_config: {{}} }} ] }}
              - {{ match: {{ prefix: / }}, route: {{ cluster: two }} }}
            - name: api
              domains: [api.example, "*.api.example"]
              request_headers_to_add:
              - {{ header: {{ key: x-host, value: api }}, append_action: OVERWRITE_IF_EXISTS_OR_ADD }}
              - {{ header: {{ key: x-list, value: "b %% {{c}}" }} }}
              request_headers_to_remove: [x-secret]
              routes:
              - match: {{ prefix: /v1/ }}
                route:
                  cluster: one
                  prefix_rewrite: /internal/
                  timeout: 3s
                  retry_policy: {{ retry_on: "5xx,reset", num_retries: 2, per_try_timeout: 1s }}
              - {{ match: {{ path: /exact }}, route: {{ cluster: one, host_rewrite_literal: "inner.example:8080" }} }}
              - match: {{ path_separated_prefix: /segment }}
                route: {{ cluster: one, regex_rewrite: {{ pattern: {{ regex: "^/segment/(.*)$" }}, substitution: "/part/\\1" }} }}
                response_headers_to_add:
                - {{ header: {{ key: strict-transport-security, value: max-age=63072000 }}, append_action: OVERWRITE_IF_EXISTS_OR_ADD }}
                - {{ header: {{ key: x-from, value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" }} }}
                response_headers_to_remove: [content-type]
              - {{ match: {{ safe_regex: {{ regex: "/item/[0-9]+" }} }}, route: {{ cluster: two }} }}
              - match: {{ prefix: /head, headers: [ {{ name: x-kind, string_match: {{ prefix: b }} }}, {{ name: ":method", string_match: {{ exact: PUT }} }} ] }}
                route: {{ cluster: two }}
              - {{ match: {{ prefix: /head, headers: [ {{ name: x-kind, present_match: true }} ] }}, direct_response: {{ status: 418 }} }}
              - match: {{ path: /down }}
                direct_response: {{ status: 503, body: {{ inline_string: "closed\n" }} }}
                response_headers_to_add: [ {{ header: {{ key: retry-after, value: "120" }} }} ]
              - match: {{ path: /old }}
                redirect: {{ host_redirect: new.example, path_redirect: /new, response_code: FOUND }}
                response_headers_to_add: [ {{ header: {{ key: x-moved, value: "yes" }} }} ]
              - {{ match: {{ prefix: /moved/ }}, redirect: {{ https_redirect: true, host_redirect: new.example }} }}
              - match: {{ prefix: /split }}
                route:
                  weighted_clusters: {{ clusters: [ {{ name: one, weight: 50 }}, {{ name: two, weight: 50 }} ] }}
  clusters:
  - {}
  - {}
  - {}
"#,
        cluster("one", one.address()),
        cluster("two", two.address()),
        cluster("echo", echo.address()),
    )
}

#[test]
fn a_site_answers_as_before() {
    let [one, two] = [origins::http(), origins::http()];
    let echo = origins::tcp_echo();
    let both = Both::start("envoy.yaml", &site(&one, &two, &echo), false);
    assert!(both.notes.contains(":3: left out: admin"), "{}", both.notes);

    let api = |path: &str, more: &[&str], fields: &[&str]| {
        let url = format!("http://api.example{path}");
        let mut all = more.to_vec();
        all.push(&url);
        both.ask("web", &all, fields)
    };
    let fields = ["host", "x-host", "x-list", "x-secret", "user", "service"];
    let sent = [
        "-H",
        "x-host: forged",
        "-H",
        "x-list: a",
        "-H",
        "x-secret: 1",
        "-H",
        "service: mine",
    ];
    let seen = api("/v1/films?of=1936", &sent, &[]).seen(&fields);
    assert_eq!(seen[1], "\"/internal/films?of=1936\"");
    assert!(seen[3].contains("api"), "{seen:?}");
    api("/exact", &[], &[]).seen(&["host"]);
    assert_eq!(api("/exact/", &[], &[]).status, 404);
    assert_eq!(api("/segment", &[], &[]).status, 200);
    let answered = ["strict-transport-security", "x-from", "content-type"];
    let seen = api("/segment/x", &[], &answered).seen(&[]);
    assert_eq!(seen[1], "\"/part/x\"");
    assert_eq!(api("/segments", &[], &[]).status, 404);
    assert_eq!(api("/item/7", &[], &[]).status, 200);
    assert_eq!(api("/item/7a", &[], &[]).status, 404);
    assert_eq!(
        api("/head", &["-X", "PUT", "-H", "x-kind: bag"], &[]).status,
        200
    );
    assert_eq!(api("/head", &["-H", "x-kind: bag"], &[]).status, 418);
    assert_eq!(api("/head", &[], &[]).status, 404);
    assert_eq!(api("/down", &[], &["retry-after"]).body(), "closed\n");
    assert_eq!(api("/old?a=b", &[], &[]).status, 302);
    api("/old", &[], &["location", "x-moved"]);
    api("/moved/x?y=z", &[], &["location"]);
    // Statuses of the origin, after the same attempts.
    assert_eq!(api("/v1/../v1/x", &[], &[]).status, 200);

    let other = |url: &str| both.ask("web", &[url], &[]);
    assert_eq!(other("http://a.api.example/exact").status, 200);
    assert_eq!(other("http://else.example/exact").status, 200);
    for proxy in [&both.envoy.url("web"), &both.hermes.url("web")] {
        one.forget();
        two.forget();
        for _ in 0..64 {
            curl(&["-H", "host: api.example", &format!("{proxy}/split")]);
        }
        let [first, second] = [&one, &two].map(|origin| origin.seen().len());
        assert!(first >= 10 && second >= 10, "{proxy}: {first} and {second}");
    }
    for proxy in [both.envoy.address("web"), both.hermes.address("web")] {
        let mut tunnel = TcpStream::connect(proxy).unwrap();
        tunnel
            .write_all(b"CONNECT db:5432 HTTP/1.1\r\nhost: db:5432\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        let mut byte = [0];
        while !answer.ends_with("\r\n\r\n") {
            tunnel.read_exact(&mut byte).unwrap();
            answer.push(char::from(byte[0]));
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        tunnel.write_all(b"hello").unwrap();
        let mut echoed = [0; 5];
        tunnel.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, b"hello");
    }
}

fn decide(question: &Question) -> Answer {
    match question.request.field("x-token").as_deref() {
        Some("good") => Answer::new(200, &[("x-role", "admin")]),
        _ => Answer {
            content: "who are you?\n".to_owned(),
            ..Answer::new(403, &[("x-why", "no token")])
        },
    }
}

#[test]
fn an_authorisation_server_and_tls_of_both_sides_are_asked_as_before() {
    let pki = Pki::new();
    let site = pki.issue(&["site.example"]);
    let authority = origins::deciding(decide);
    let origin = origins::https(&pki, &["inner.example"]);
    let ca = pki.ca().display().to_string();
    let files = |certificate: &std::path::Path, key: &std::path::Path| {
        format!(
            "{{ certificate_chain: {{ filename: {} }}, private_key: {{ filename: {} }} }}",
            certificate.display(),
            key.display()
        )
    };
    let inner = cluster("inner", origin.address());
    let bootstrap = format!(
        r#"
{ADMIN}
static_resources:
  listeners:
  - name: secure
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: {{ alpn_protocols: [h2, http/1.1], tls_certificates: [ {} ] }}
      filters:
      - name: manager
        typed_config:
          "@type": {MANAGER}
          stat_prefix: secure
          http_filters:
          - name: ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              http_service:
                server_uri: {{ uri: "http://authority", cluster: authority, timeout: 5s }}
                path_prefix: /check
                authorization_request: {{ allowed_headers: {{ patterns: [ {{ exact: x-token }} ] }} }}
                authorization_response:
                  allowed_upstream_headers: {{ patterns: [ {{ exact: x-role }} ] }}
                  allowed_client_headers: {{ patterns: [ {{ exact: x-why }} ] }}
          - {ROUTER}
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: / }}, route: {{ cluster: inner }} }} ] }}
  clusters:
  - {}
  - {},
      transport_socket: {{ name: tls, typed_config: {{ "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext,
        sni: inner.example, common_tls_context: {{ validation_context: {{ trusted_ca: {{ filename: {ca} }} }} }} }} }} }}
"#,
        files(&site.cert, &site.key),
        cluster("authority", authority.address()),
        inner.strip_suffix('}').unwrap().trim_end(),
    );
    let both = Both::start("envoy.yaml", &bootstrap, false);
    let ask = |token: &str| {
        let token = format!("x-token: {token}");
        let arguments = [
            "--cacert",
            &ca,
            "-H",
            &token,
            "-H",
            "x-role: forged",
            "https://site.example/films",
        ];
        both.ask("secure", &arguments, &["x-why"])
    };
    let seen = ask("good").seen(&["x-role", "host"]);
    assert!(seen[2].contains("admin"), "{seen:?}");
    let refused = ask("bad");
    assert_eq!(refused.status, 403);
    assert_eq!(refused.body(), "who are you?\n");
}

#[test]
fn chains_by_name_and_what_stands_in_further_files_answer_as_before() {
    let pki = Pki::new();
    let site = pki.issue(&["shop.example", "*.rest.example"]);
    let ca = pki.ca().display().to_string();
    let [one, two] = [origins::http(), origins::http()];
    let folder = tempfile::tempdir().unwrap();
    let beside = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!(
            "{{ path_config_source: {{ path: {} }}, resource_api_version: V3 }}",
            path.display()
        )
    };
    let ends = beside(
        "ends.yaml",
        format!(
            "resources:\n- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n  cluster_name: two\n  \
             endpoints: [ {{ lb_endpoints: [ {{ endpoint: {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }} ] }} ]\n",
            two.address().ip(),
            two.address().port()
        ),
    );
    let routes = beside(
        "routes.yaml",
        "resources:\n- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n  name: rest\n  \
         virtual_hosts: [ { name: all, domains: [\"*\"], routes: [ { match: { prefix: / }, route: { cluster: two } } ] } ]\n"
            .to_owned(),
    );
    let bootstrap = format!(
        r#"
{ADMIN}
node: {{ id: edge, cluster: edge }}
static_resources:
  secrets:
  - {{ name: site, tls_certificate: {{ certificate_chain: {{ filename: {} }}, private_key: {{ filename: {} }} }} }}
  listeners:
  - name: secure
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    listener_filters:
    - name: names
      typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector }}
    filter_chains:
    - filter_chain_match: {{ server_names: ["*.rest.example"] }}
      transport_socket: &socket
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: {{ alpn_protocols: [h2, http/1.1], tls_certificate_sds_secret_configs: [ {{ name: site }} ] }}
      filters:
      - name: manager
        typed_config:
          "@type": {MANAGER}
          stat_prefix: rest
          http_filters: [ {ROUTER} ]
          rds: {{ route_config_name: rest, config_source: {routes} }}
    - filter_chain_match: {{ server_names: [shop.example] }}
      transport_socket: *socket
      filters:
      - name: manager
        typed_config:
          "@type": {MANAGER}
          stat_prefix: shop
          http_filters: [ {ROUTER} ]
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: /cart }}, route: {{ cluster: one }} }} ] }}
  clusters:
  - {}
  - {{ name: two, type: EDS, connect_timeout: 2s, eds_cluster_config: {{ eds_config: {ends} }} }}
"#,
        site.cert.display(),
        site.key.display(),
        cluster("one", one.address()),
    );
    let both = Both::start("envoy.yaml", &bootstrap, false);
    let ask = |url: &str| both.ask("secure", &["--cacert", &ca, url], &[]);
    assert_eq!(ask("https://shop.example/cart").status, 200);
    assert_eq!(one.seen().len(), 2);
    assert_eq!(ask("https://shop.example/other").status, 404);
    assert_eq!(ask("https://a.rest.example/other").status, 200);
    assert_eq!(two.seen().len(), 2);
    assert!(!both.notes.contains("to mend"), "{}", both.notes);
}

#[test]
fn plain_connections_and_tunnels_of_a_json_bootstrap_arrive_as_before() {
    let echo = origins::tcp_echo();
    let udp = origins::udp_echo([127, 0, 0, 1].into());
    let proxy = Node::forward_proxy();
    let socket = |address: SocketAddr, protocol: &str| serde_json::json!({ "socketAddress": { "address": address.ip().to_string(), "portValue": address.port(), "protocol": protocol } });
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let proto = |name: &str| format!("type.googleapis.com/envoy.extensions.filters.{name}");
    let tcp = |name: &str, cluster: &str, target: Option<String>| {
        let mut config = serde_json::json!({ "@type": proto("network.tcp_proxy.v3.TcpProxy"), "statPrefix": name, "cluster": cluster });
        if let Some(target) = target {
            config["tunnelingConfig"] = serde_json::json!({ "hostname": target });
        }
        let filters = serde_json::json!([{ "name": "tcp", "typedConfig": config }]);
        serde_json::json!({ "name": name, "address": socket(any, "TCP"), "filterChains": [{ "filters": filters }] })
    };
    let cluster = |name: &str, address: SocketAddr, protocol: &str| {
        let endpoint = serde_json::json!({ "endpoint": { "address": socket(address, protocol) } });
        serde_json::json!({ "name": name, "connectTimeout": "2s", "loadAssignment": { "clusterName": name, "endpoints": [{ "lbEndpoints": [endpoint] }] } })
    };
    let datagrams = serde_json::json!({
        "@type": proto("udp.udp_proxy.v3.UdpProxyConfig"),
        "statPrefix": "voice",
        "matcher": { "onNoMatch": { "action": { "name": "route", "typedConfig": { "@type": proto("udp.udp_proxy.v3.Route"), "cluster": "udp" } } } },
    });
    let voice = serde_json::json!({
        "name": "voice", "address": socket(any, "UDP"),
        "listenerFilters": [{ "name": "udp", "typedConfig": datagrams }],
    });
    let bootstrap = serde_json::json!({
        "admin": { "address": socket(any, "TCP") },
        "staticResources": {
            "listeners": [tcp("plain", "echo", None), tcp("tunnel", "proxy", Some(echo.address().to_string())), voice],
            "clusters": [cluster("echo", echo.address(), "TCP"), cluster("proxy", proxy.address("web"), "TCP"), cluster("udp", udp.address(), "UDP")],
        },
    });
    let both = Both::start("envoy.json", &format!("{bootstrap:#}"), false);

    for listener in ["plain", "tunnel"] {
        for address in [both.envoy.address(listener), both.hermes.address(listener)] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut echoed = [0; 5];
            stream.read_exact(&mut echoed).unwrap();
            assert_eq!(&echoed, b"hello", "{listener}");
        }
    }
    for address in [both.envoy.address("voice"), both.hermes.address("voice")] {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(hermes_tests::eventually::PATIENCE))
            .unwrap();
        socket.send_to(b"hello", address).unwrap();
        let mut buffer = [0; 16];
        let (length, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"hello");
    }
}

#[test]
fn filters_that_keep_requests_out_are_not_forgotten() {
    let origin = origins::http();
    let bootstrap = format!(
        r#"
{ADMIN}
static_resources:
  listeners:
  - name: web
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    filter_chains:
    - filters:
      - name: manager
        typed_config:
          "@type": {MANAGER}
          stat_prefix: web
          http_filters:
          - name: rbac
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
              rules: {{ action: DENY, policies: {{ all: {{ permissions: [ {{ any: true }} ], principals: [ {{ any: true }} ] }} }} }}
          - {ROUTER}
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: / }}, route: {{ cluster: one }} }} ] }}
  clusters: [ {} ]
"#,
        cluster("one", origin.address())
    );
    let both = Both::start("envoy.yaml", &bootstrap, false);
    assert!(both.notes.contains("filter rbac"), "{}", both.notes);
    let [envoy, hermes] =
        [both.envoy.url("web"), both.hermes.url("web")].map(|url| curl(&[&url]).status);
    assert_eq!((envoy, hermes), (403, 503));
    assert!(origin.seen().is_empty());
}

//! One node, asked alike over HTTP/1.1, HTTP/2 and HTTP/3.

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, h3c};
use http::{Method, Request};

/// A node with the listener `web` for HTTP/1.1 and HTTP/2 and the listener `quic` for HTTP/3, which do the same.
pub struct Versions {
    pub node: Node,
    pki: Pki,
}

/// What came of a request: the status, and all that was said with it.
#[derive(Debug)]
pub struct Came {
    pub status: u16,
    pub said: String,
}

impl Versions {
    /// Starts it; `keys` are of both listeners, `rest` are routes and what follows.
    pub fn start(keys: &str, rest: &str) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1"]).yaml();
        let head = format!(
            "listeners:\n  web: {{ http: 127.0.0.1:0{keys} }}\n  quic: {{ http: 127.0.0.1:0, tls: {{ {tls} }}{keys} }}\n"
        );
        let yaml = head + &hermes_tests::node::dedent(rest);
        Self {
            node: Node::start("edge", &yaml),
            pki,
        }
    }

    /// A GET with these field lines, over each version in turn.
    pub fn get(&self, authority: &str, path: &str, fields: &[(&'static str, &str)]) -> [Came; 3] {
        [
            self.h1("GET", authority, path, fields),
            self.h2("GET", authority, path, fields),
            self.h3("GET", authority, path, fields),
        ]
    }

    pub fn h1(
        &self,
        method: &str,
        authority: &str,
        path: &str,
        fields: &[(&'static str, &str)],
    ) -> Came {
        let mut raw = Raw::connect(self.node.address("web"));
        let lines: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        raw.send(format!(
            "{method} http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n"
        ));
        let (head, content) = raw.response();
        Came {
            status: head.status(),
            said: format!("{head:?} {}", String::from_utf8_lossy(&content)),
        }
    }

    pub fn h2(
        &self,
        method: &str,
        authority: &str,
        path: &str,
        fields: &[(&'static str, &str)],
    ) -> Came {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{authority}{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let answer = Client::connect(self.node.address("web")).send(request.body(()).unwrap(), b"");
        answer.map_or_else(
            |error| Came {
                status: 0,
                said: error.to_string(),
            },
            |answer| Came {
                status: answer.status,
                said: format!(
                    "{:?} {}",
                    answer.fields,
                    String::from_utf8_lossy(&answer.body)
                ),
            },
        )
    }

    pub fn h3(
        &self,
        method: &str,
        authority: &str,
        path: &str,
        fields: &[(&'static str, &str)],
    ) -> Came {
        let target = [
            (":method", method),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
        ];
        self.h3_lines(&[&target, fields].concat())
    }

    /// Exactly these lines over HTTP/3; a reset has the status 0.
    pub fn h3_lines(&self, lines: &[(&str, &str)]) -> Came {
        let came = h3c::ask(&self.pki.ca(), self.node.address("quic"), lines);
        Came {
            status: came["status"].as_u64().map_or(0, |status| status as u16),
            said: came.to_string(),
        }
    }

    /// An Upgrade to `protocol`, or the extended CONNECT that means the same, over each version in turn.
    pub fn upgrade(&self, protocol: &'static str, authority: &str, path: &str) -> [Came; 3] {
        [
            self.h1_upgrade(protocol, authority, path),
            self.h2_upgrade(protocol, authority, path),
            self.h3_upgrade(protocol, authority, path),
        ]
    }

    pub fn h1_upgrade(&self, protocol: &str, authority: &str, path: &str) -> Came {
        self.h1(
            Method::GET.as_str(),
            authority,
            path,
            &[("Connection", "upgrade"), ("Upgrade", protocol)],
        )
    }

    pub fn h2_upgrade(&self, protocol: &'static str, authority: &str, path: &str) -> Came {
        let client = Client::connect(self.node.address("web"));
        match client.extended(protocol, &format!("http://{authority}{path}"), &[]) {
            Ok(_) => Came {
                status: 200,
                said: String::new(),
            },
            Err(answer) => Came {
                status: answer.status,
                said: format!(
                    "{:?} {}",
                    answer.fields,
                    String::from_utf8_lossy(&answer.body)
                ),
            },
        }
    }

    pub fn h3_upgrade(&self, protocol: &str, authority: &str, path: &str) -> Came {
        let connect = (":method", "CONNECT");
        self.h3_lines(&[
            connect,
            (":protocol", protocol),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
        ])
    }
}

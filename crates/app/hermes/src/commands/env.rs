//! `hermes env`: shell lines that make programs use a node as their proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use hermes_config::model::{Document, ListenAddress};
use serde_json::{Map, Value};

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

/// Destinations that no proxy is asked for.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// Arguments of `hermes env`.
#[derive(Debug, Args)]
pub struct Env {
    #[command(flatten)]
    source: Source,
}

/// Where the proxy's address comes from: what is named, else the running node's first `http` listener.
#[derive(Debug, Args)]
pub struct Source {
    /// The proxy itself, such as http://127.0.0.1:8080.
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "admin", "node"])]
    proxy: Option<String>,
    /// A node's configuration, whose first `http` listener for programs is used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["admin", "node"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

impl Source {
    /// The proxy's URL.
    ///
    /// # Errors
    /// When the file is not valid, no node runs, or there is no `http` listener on an IP address.
    pub async fn proxy(&self) -> Result<String, Failure> {
        match (&self.proxy, &self.file) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(file)) => in_file(&super::load(file)?.document, file),
            (None, None) => match self.only_for_programs().await {
                Some(url) => Ok(url),
                None => {
                    let socket = self.which.socket()?;
                    in_status(&admin::ask(&socket, "/status").await?)
                }
            },
        }
    }
}

impl Source {
    /// Which running node is meant.
    pub fn which(&self) -> &Which {
        &self.which
    }

    /// The listener for programs of the only node that has one, of several that run: a hub and a device on one machine are told apart by it.
    async fn only_for_programs(&self) -> Option<String> {
        let running = admin::all();
        if self.which.names_one() || running.len() < 2 {
            return None;
        }
        let mut found = Vec::new();
        for socket in running {
            // One that does not answer is no choice.
            let Ok(status) = admin::ask(&socket, "/status").await else {
                continue;
            };
            let mut listeners = http_listeners(&status);
            let of_programs = listeners.find(|(is_for_nodes, _)| !is_for_nodes);
            found.extend(of_programs.map(|(_, url)| url));
        }
        let url = found.pop()?;
        found.is_empty().then_some(url)
    }
}

/// Prints the lines; `eval "$(hermes env)"` uses them.
///
/// # Errors
/// As [`Source::proxy`].
pub async fn run(env: &Env, output: Output) -> Result<(), Failure> {
    let variables = variables(&env.source.proxy().await?);
    if output.json {
        let object: Map<_, _> = variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        output.value(&object);
        return Ok(());
    }

    for (name, value) in variables {
        output.line(format_args!("export {name}={}", quoted(&value)));
    }
    Ok(())
}

/// The variables that programs look at; some read only small letters, some only capitals.
pub fn variables(proxy: &str) -> Vec<(&'static str, String)> {
    let proxied = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]
        .map(|name| (name, proxy.to_owned()));
    let direct = ["no_proxy", "NO_PROXY"].map(|name| (name, DIRECT.to_owned()));
    proxied.into_iter().chain(direct).collect()
}

/// In single quotes, where a shell might read something into it.
fn quoted(value: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@%+=".contains(letter);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

fn in_file(document: &Document, file: &Path) -> Result<String, Failure> {
    let found = document.listeners.values().filter_map(|listener| {
        let http = listener.http()?;
        let ListenAddress::Ip(address) = http.address else {
            return None;
        };
        let url = url(address, http.tls.is_some())?;
        Some((listener.is_for_nodes(), url))
    });
    for_programs(found).ok_or_else(|| {
        Failure::failed(format!(
            "{}: no `http` listener on an IP address and a fixed port",
            file.display()
        ))
    })
}

/// The `http` listeners of a node: whether each is for nodes, and its URL.
fn http_listeners(status: &Value) -> impl Iterator<Item = (bool, String)> {
    let listeners = status["listeners"].as_array().into_iter().flatten();
    let http = listeners.filter(|listener| listener["kind"] == "http");
    http.filter_map(|listener| {
        let url = url(
            listener["address"].as_str()?.parse().ok()?,
            listener["tls"].as_bool().unwrap_or(false),
        )?;
        Some((listener["for_nodes"].as_bool().unwrap_or(false), url))
    })
}

fn in_status(status: &Value) -> Result<String, Failure> {
    let none = || Failure::failed("the node has no `http` listener on an IP address");
    for_programs(http_listeners(status))
        .ok_or_else(|| none().remedy("name a proxy with --proxy URL"))
}

/// The first listener for programs, or else the first of all: each is its URL, and whether it is for nodes.
fn for_programs(listeners: impl Iterator<Item = (bool, String)>) -> Option<String> {
    let mut of_nodes = None;
    for (is_for_nodes, url) in listeners {
        if !is_for_nodes {
            return Some(url);
        }
        of_nodes = of_nodes.or(Some(url));
    }
    of_nodes
}

/// The URL of a listener, as seen from this machine.
fn url(address: SocketAddr, tls: bool) -> Option<String> {
    let host = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    let scheme = if tls { "https" } else { "http" };
    (address.port() != 0).then(|| format!("{scheme}://{}", SocketAddr::new(host, address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_http_listener_of_a_running_node_is_used() {
        let status = json!({"listeners": [
            {"name": "db", "kind": "tcp", "address": "127.0.0.1:5432"},
            {"name": "local", "kind": "http", "address": "unix:/run/a.sock"},
            {"name": "overlay", "kind": "http", "address": "127.0.0.1:8443", "for_nodes": true},
            {"name": "web", "kind": "http", "address": "[::]:8080"},
        ]});
        assert_eq!(in_status(&status), Ok("http://[::1]:8080".to_owned()));
        assert!(in_status(&json!({})).is_err());
    }

    #[test]
    fn a_listener_under_tls_is_an_https_proxy() {
        assert_eq!(
            url("0.0.0.0:443".parse().unwrap(), true).as_deref(),
            Some("https://127.0.0.1:443")
        );
        assert_eq!(url("0.0.0.0:0".parse().unwrap(), true), None);
    }

    #[test]
    fn values_are_safe_for_a_shell() {
        assert_eq!(quoted("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(quoted("a'b $c"), r"'a'\''b $c'");
        assert_eq!(quoted(""), "''");
    }
}

//! `hermes sign URL --key FILE`: a URL that may be fetched for a while, on routes with `signed`.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hermes_config::model::{self, DataSource, SignedUrls};
use hermes_identity::signed_url::{
    SHORTEST_KEY, SignedText, UrlKey, add_signature, take_signature,
};
use hermes_net::clock::unix_seconds;
use hermes_proto::authority::HostPort;
use hermes_proto::path;
use http::Uri;
use http::uri::PathAndQuery;
use serde_json::json;

use crate::failure::Failure;
use crate::key_file;
use crate::output::Output;

/// How long a signature counts, where no one says.
const USUALLY: &str = "1h";

/// Arguments of `hermes sign`.
#[derive(Debug, Args)]
pub struct Sign {
    /// The URL, with its query, as clients will ask for it.
    url: String,
    /// The file of the key, as `signed.key_file` of a route names it; it is made if need be.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// How long the signature counts: 90s, 10m, 1h.
    #[arg(long = "for", value_name = "TIME", value_parser = lasting, default_value = USUALLY)]
    lasts: Duration,
    /// The parameter of the query, as `signed.parameter` of the route has it.
    #[arg(long, value_name = "NAME", default_value = SignedUrls::PARAMETER)]
    parameter: String,
}

/// A URL in its parts.
struct UrlParts {
    /// The scheme and the authority, as they were written.
    origin: String,
    host: HostPort,
    path: PathAndQuery,
}

/// Prints the URL with a signature, in place of one that it has.
///
/// # Errors
/// The text is no URL, or the key can neither be read nor made.
pub fn run(command: &Sign, output: Output) -> Result<(), Failure> {
    let UrlParts { origin, host, path } = read(&command.url).map_err(Failure::invalid)?;
    let key = key(&command.key).map_err(Failure::failed)?;
    let expires = unix_seconds().saturating_add(command.lasts.as_secs());

    let (path, _) = take_signature(path.as_str(), &command.parameter);
    let signature = key.sign(&SignedText::new(&host.host, host.port, &path), expires);
    let signed = add_signature(&path, &command.parameter, &signature);
    let url = format!("{origin}{signed}");
    if output.json {
        output.value(&json!({ "url": url, "expires": expires }));
    } else {
        output.line(url);
    }
    Ok(())
}

fn lasting(text: &str) -> Result<Duration, String> {
    let read: Result<model::Duration, model::scalar::ScalarError> = text.parse();
    let time = read.map_err(|error| error.to_string())?.0;
    match time.as_secs() {
        0 => Err("a signature counts for whole seconds".to_owned()),
        _ => Ok(time),
    }
}

/// The URL as a node reads it, so that the same one is signed that is asked for.
fn read(url: &str) -> Result<UrlParts, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("`{url}`: {reason}");
    let shape = "it is no URL such as https://host/path";
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong(&shape))?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return Err(wrong(&"only http and https are signed")),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path = path::decode(Bytes::from(format!("{slash}{path}"))).map_err(|bad| wrong(&bad))?;
    path::refuse_dots(path.path()).map_err(|bad| wrong(&bad))?;
    let host = HostPort::parse_with_default(authority, default).map_err(|bad| wrong(&bad))?;

    let origin = format!("{scheme}://{authority}");
    origin.parse::<Uri>().map_err(|bad| wrong(&bad))?;
    Ok(UrlParts { origin, host, path })
}

/// The key in a file, which gets a new one where there is none.
fn key(file: &std::path::Path) -> Result<UrlKey, String> {
    key_file::make_secret(file)?;
    let secret = DataSource::from(file.to_owned()).secret()?;
    UrlKey::new(&secret).ok_or_else(|| {
        let file = file.display();
        format!("{file}: the key is shorter than {SHORTEST_KEY} characters")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Result<(String, u16, String), String> {
        let parts = read(url)?;
        let path = parts.path.as_str().to_owned();
        Ok((parts.host.host, parts.host.port, path))
    }

    #[test]
    fn a_url_is_read_as_a_node_reads_it() {
        let of = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(parts("http://h"), of("h", 80, "/"));
        assert_eq!(parts("HTTPS://h:8443/a/../b?c"), of("h", 8443, "/b?c"));
        assert_eq!(parts("https://h?c={d}"), of("h", 443, "/?c=%7Bd%7D"));
        assert_eq!(parts("http://[::1]/%7e"), of("::1", 80, "/%7e"));
    }

    #[test]
    fn a_text_that_is_no_url_is_refused() {
        for wrong in [
            "",
            "h/a",
            "ftp://h/a",
            "http:///a",
            "http://h/a b",
            "http://h/a#b",
            "http://h/..",
            "http://u@h/",
        ] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }
}

//! Where a server is that the node itself asks or tells something.

use std::fmt;
use std::str::FromStr;

use super::{HostPort, ScalarError, scalar};

/// A server, and the path under which it is addressed: `http://127.0.0.1:4318`, `https://c.example:443/otlp`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// Whether it is reached over TLS.
    pub tls: bool,
    /// Host and port.
    pub address: HostPort,
    /// Empty, or begins with `/` and does not end with it.
    pub path: String,
}

scalar!(
    HttpUrl,
    "hermes-http-url",
    "A server: http://127.0.0.1:4318, https://server.example:443/path."
);

impl FromStr for HttpUrl {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let example = "write it like http://127.0.0.1:4318";
        let tls = text.starts_with("https://");
        let rest = text.strip_prefix(if tls { "https://" } else { "http://" });
        let rest = rest.ok_or_else(|| {
            ScalarError::new(format!("`{text}` is not http://host:port")).remedy(example)
        })?;
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));

        if !path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte))
        {
            // A query may hold a key, which is in no error.
            let shown = path.split_once(['?', '#']);
            let shown = shown.map_or_else(|| path.to_owned(), |(shown, _)| format!("{shown}?…"));
            return Err(ScalarError::new(format!("`{shown}` is not a path")).remedy(example));
        }

        Ok(Self {
            tls,
            address: address.parse()?,
            path: path.trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.address, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::HttpUrl;

    #[test]
    fn servers_round_trip() {
        for text in [
            "http://127.0.0.1:4318",
            "http://[::1]:4318/otlp/here",
            "https://c.example:443",
        ] {
            assert_eq!(text.parse::<HttpUrl>().unwrap().to_string(), text);
        }
        assert_eq!("http://c:1/".parse::<HttpUrl>().unwrap().path, "");
        assert!("https://c:1".parse::<HttpUrl>().unwrap().tls);
    }

    #[test]
    fn odd_servers_are_refused() {
        for text in [
            "",
            "127.0.0.1:4318",
            "http://",
            "http://c",
            "http://c:0",
            "http://c:1/a?b",
            "http://u@c:1",
            "ftp://c:1",
        ] {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_query_is_in_no_error() {
        let error = "http://c:1/a?key=918273".parse::<HttpUrl>().unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("`/a?…`") && !said.contains("918273"),
            "{said}"
        );
    }
}

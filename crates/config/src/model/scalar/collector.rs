//! Where traces and metrics are sent.

use std::fmt;
use std::str::FromStr;

use super::{HostPort, ScalarError, scalar};

/// The base of an OTLP/HTTP collector's addresses: `http://127.0.0.1:4318`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collector {
    /// Host and port.
    pub address: HostPort,
    /// Path before `/v1/traces`; empty, or begins with `/` and does not end with it.
    pub path: String,
}

scalar!(Collector, "hermes-collector", "An OTLP/HTTP collector: http://127.0.0.1:4318.");

impl FromStr for Collector {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let example = "write it like http://127.0.0.1:4318";
        if text.starts_with("https://") {
            let reason = "a collector is reached without TLS only";
            return Err(ScalarError::new(reason).remedy("let a collector beside the node forward over TLS"));
        }
        let rest = text.strip_prefix("http://");
        let rest = rest.ok_or_else(|| ScalarError::new(format!("`{text}` is not http://host:port")).remedy(example))?;
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte)) {
            return Err(ScalarError::new(format!("`{path}` is not a path")).remedy(example));
        }
        Ok(Self { address: address.parse()?, path: path.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}{}", self.address, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::Collector;

    #[test]
    fn collectors_round_trip() {
        for text in ["http://127.0.0.1:4318", "http://[::1]:4318/otlp/here"] {
            assert_eq!(text.parse::<Collector>().unwrap().to_string(), text);
        }
        assert_eq!("http://c:1/".parse::<Collector>().unwrap().path, "");
    }

    #[test]
    fn odd_collectors_are_refused() {
        for text in ["", "127.0.0.1:4318", "http://", "http://c", "http://c:0", "http://c:1/a?b", "http://u@c:1"] {
            assert!(text.parse::<Collector>().is_err(), "{text}");
        }
        let error = "https://c:4318".parse::<Collector>().unwrap_err();
        assert!(error.to_string().contains("beside the node"), "{error}");
    }
}

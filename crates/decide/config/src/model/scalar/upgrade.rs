//! Names of protocols that a request may upgrade to.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// An upgrade token, in small letters: `name` or `name/version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeName(String);

scalar!(
    UpgradeName,
    "hermes-upgrade",
    "An upgrade token that is not one of a connection: irc/6.9, my-protocol."
);

/// Protocols that turn a connection into another one, so that routes would not see its requests.
/// `hermes_proto::upgrade` refuses the same.
const OF_CONNECTIONS: [&str; 5] = ["h2", "h2c", "h3", "http", "tls"];

impl UpgradeName {
    /// As it is compared: in small letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UpgradeName {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let name = text.to_ascii_lowercase();
        let is_tchar =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_tchar);

        if !name.splitn(2, '/').all(is_token) {
            let reason = format!("`{text}` is no upgrade token");
            return Err(ScalarError::new(reason)
                .remedy("write it like my-protocol or irc/6.9, each on its own"));
        }

        if OF_CONNECTIONS.contains(&name.split('/').next().unwrap_or_default()) {
            let reason = format!("`{text}` would hide the requests of the connection from routes");
            return Err(ScalarError::new(reason)
                .remedy("remove it; HTTP/2 and TLS have `http` and `tls` of the upstream"));
        }

        Ok(Self(name))
    }
}

impl fmt::Display for UpgradeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::UpgradeName;

    #[test]
    fn a_name_is_one_token_with_at_most_one_version() {
        assert_eq!(
            "IRC/6.9".parse::<UpgradeName>().unwrap().as_str(),
            "irc/6.9"
        );
        for text in ["", "a b", "a, b", "a/", "/1", "a/b/c"] {
            assert!(text.parse::<UpgradeName>().is_err(), "{text}");
        }
    }

    #[test]
    fn protocols_of_connections_are_refused() {
        for text in ["h2c", "H2C", "h2", "h3", "TLS/1.0", "http/2.0", "HTTP"] {
            let error = text.parse::<UpgradeName>().unwrap_err();
            assert!(
                error.reason.contains("would hide the requests"),
                "{text}: {error}"
            );
        }
    }
}

//! Scalars with a syntax of their own: durations, sizes, addresses, patterns, templates.
//!
//! Each parses with [`FromStr`](std::str::FromStr), prints in the syntax that it was parsed from, and names
//! itself in the JSON Schema's `format` (`hermes-duration`, ...), by which the loader finds its parser.

mod address;
mod certificate;
mod format;
mod host;
mod hours;
mod http_url;
mod ip_protocol;
mod many;
mod name_server;
mod path;
mod pattern;
mod percent;
mod pointer;
mod port;
mod prefix;
mod protocol_port;
mod quantity;
mod range;
mod rate;
mod status;
mod system_users;
mod template;
mod upgrade;
mod wireguard_key;
mod zone;

pub use address::{EndpointAddress, FilePath, HostPort, ListenAddress};
pub use certificate::{CertificateName, FamilyMember, SpiffeFamily};
pub use host::{HostMatch, TargetMatch};
pub use hours::{Hours, WEEK, second_of_week};
pub use http_url::HttpUrl;
pub use ip_protocol::IpProtocol;
pub use many::OneOrMany;
pub use name_server::NameServerAddress;
pub use path::PathMatch;
pub use pattern::{FieldPattern, TextMatch, UserMatch, UserPattern};
pub use percent::Percent;
pub use pointer::DecisionPointer;
pub use port::PortMatch;
pub use protocol_port::{FlowProtocol, ProtocolPort};
pub use quantity::{ByteSize, Duration};
pub use rate::Rate;
pub use status::StatusMatch;
pub use system_users::SystemUsers;
pub use template::{Template, TemplatePart, Variable};
pub use upgrade::UpgradeName;
pub use wireguard_key::WireguardKey;
pub use zone::zone_index;

pub(crate) use address::UNIX;
pub(crate) use format::{END, PATH, check};
pub(crate) use many::one_or_many;
pub(crate) use prefix::{Prefix, Prefixes};

/// Why a text is not a valid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct ScalarError {
    /// The mistake.
    pub reason: String,
    /// The remedy, if it is known.
    pub remedy: Option<String>,
}

impl ScalarError {
    /// An error without a remedy.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// The same error with a remedy.
    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    fn message(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// Reads a regular expression; its compiled size is bounded (1 MiB), so that a file cannot exhaust memory.
fn regex(text: &str, case_insensitive: bool) -> Result<regex::Regex, ScalarError> {
    const COMPILED_BYTES: usize = 1 << 20;
    regex::RegexBuilder::new(text)
        .case_insensitive(case_insensitive)
        .size_limit(COMPILED_BYTES)
        .build()
        .map_err(|error| {
            ScalarError::new(format!(
                "`{text}` is not a regular expression: {}",
                last_line(&error)
            ))
        })
}

/// The regex crate draws a picture over several lines; its last line is the reason.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}

/// Deserialises a scalar through `FromStr` and gives it a schema with a `format`.
macro_rules! scalar {
    ($type:ident, $format:literal, $description:literal) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": $format, "description": $description })
            }
        }
    };
}
use scalar;

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    use proptest::prelude::{Strategy, proptest};

    use super::{
        ByteSize, CertificateName, DecisionPointer, Duration, EndpointAddress, FieldPattern,
        HostMatch, HostPort, Hours, HttpUrl, ListenAddress, NameServerAddress, PathMatch, Percent,
        PortMatch, StatusMatch, SystemUsers, TargetMatch, Template, TextMatch, UpgradeName,
        UserMatch, UserPattern, WireguardKey,
    };

    /// A parsed value is printed in a form that parses to the same.
    fn round_trips<T: FromStr + Display + PartialEq + Debug>(text: &str) {
        if let Ok(value) = text.parse::<T>() {
            let printed = value.to_string();
            assert_eq!(
                printed.parse::<T>().ok(),
                Some(value),
                "{text:?} is printed as {printed:?}"
            );
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        proptest::prop_oneof![
            "[0-9]{1,4}(ms|s|m|h|B|KiB|KB|MB)([0-9]{1,2}(s|ms))?",
            "~?[a-zA-Z*./:{}@\\[\\]0-9 -]{0,16}",
            "(\\[[0-9a-f:]{2,9}\\]|[a-zA-Z0-9.*]{1,9})(:[0-9]{1,5})?",
            "[a-z ]{0,4}(\\{(user|node|target\\.host)\\}|\\{\\{)[a-z}]{0,4}",
            "[0-9]{1,5}-[0-9]{1,5}",
            "((mon|tue|sun)(-fri|,sat)? )?[012][0-9]:[0-5]0-[012][0-9]:[0-5]0( [+-]0[0-9]:00)?",
            "(group|service):[a-z0-9]{1,4}",
            "spiffe://[a-z.]{1,4}(/(\\{user\\}|\\*|[a-z.]{0,3})){0,3}",
            "[A-Za-z0-9+/]{42}[AE]=",
            "/(input|result)/(fields/)?[a-zA-Z~01/]{0,6}",
            ".{0,8}",
        ]
    }

    proptest! {
        #[test]
        fn what_parses_round_trips(text in texts()) {
            round_trips::<Duration>(&text);
            round_trips::<ByteSize>(&text);
            round_trips::<HostPort>(&text);
            round_trips::<EndpointAddress>(&text);
            round_trips::<ListenAddress>(&text);
            round_trips::<NameServerAddress>(&text);
            round_trips::<FieldPattern>(&text);
            round_trips::<UserPattern>(&text);
            round_trips::<CertificateName>(&text);
            round_trips::<UserMatch>(&text);
            round_trips::<Hours>(&text);
            round_trips::<TextMatch>(&text);
            round_trips::<HostMatch>(&text);
            round_trips::<TargetMatch>(&text);
            round_trips::<PathMatch>(&text);
            round_trips::<PortMatch>(&text);
            round_trips::<SystemUsers>(&text);
            round_trips::<Percent>(&text);
            round_trips::<HttpUrl>(&text);
            round_trips::<Template>(&text);
            round_trips::<StatusMatch>(&text);
            round_trips::<DecisionPointer>(&text);
            round_trips::<UpgradeName>(&text);
            round_trips::<WireguardKey>(&text);
        }
    }
}

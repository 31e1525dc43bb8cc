//! The registry of `format` names: from the schema's word to the parser.

use std::str::FromStr;

use super::{
    ByteSize, CertificateName, DecisionPointer, Duration, EndpointAddress, FieldPattern, FilePath,
    HostMatch, HostPort, Hours, HttpUrl, IpProtocol, ListenAddress, NameServerAddress, PathMatch,
    Percent, PortMatch, Prefix, Rate, ScalarError, StatusMatch, SystemUsers, TargetMatch, Template,
    TextMatch, UpgradeName, UserMatch, UserPattern, WireguardKey,
};

/// The `format` of a path, which the loader makes absolute.
pub(crate) const PATH: &str = "hermes-path";

/// The `format` of where the overlay ends: the name of an upstream, or an address.
pub(crate) const END: &str = "hermes-end";

type Check = fn(&str) -> Result<(), ScalarError>;

const FORMATS: [(&str, Check); 29] = [
    ("hermes-duration", parses::<Duration>),
    ("hermes-byte-size", parses::<ByteSize>),
    ("hermes-rate", parses::<Rate>),
    (PATH, parses::<FilePath>),
    ("hermes-host-port", parses::<HostPort>),
    ("hermes-endpoint-address", parses::<EndpointAddress>),
    ("hermes-listen-address", parses::<ListenAddress>),
    ("hermes-prefix", parses::<Prefix>),
    ("hermes-name-server", parses::<NameServerAddress>),
    ("hermes-field-pattern", parses::<FieldPattern>),
    ("hermes-user-pattern", parses::<UserPattern>),
    ("hermes-certificate-name", parses::<CertificateName>),
    ("hermes-user-match", parses::<UserMatch>),
    ("hermes-hours", parses::<Hours>),
    ("hermes-text-match", parses::<TextMatch>),
    ("hermes-host-match", parses::<HostMatch>),
    ("hermes-target-match", parses::<TargetMatch>),
    ("hermes-path-match", parses::<PathMatch>),
    ("hermes-port-match", parses::<PortMatch>),
    ("hermes-ip-protocol", parses::<IpProtocol>),
    ("hermes-system-users", parses::<SystemUsers>),
    ("hermes-template", parses::<Template>),
    ("hermes-status-match", parses::<StatusMatch>),
    ("hermes-percent", parses::<Percent>),
    ("hermes-http-url", parses::<HttpUrl>),
    ("hermes-decision-pointer", parses::<DecisionPointer>),
    // Which of both it is, and whether there is such an upstream, says the whole document.
    (END, |_| Ok(())),
    ("hermes-upgrade", parses::<UpgradeName>),
    ("hermes-wireguard-key", parses::<WireguardKey>),
];

/// Checks a text against a format; formats that are not ours accept everything.
pub(crate) fn check(format: &str, text: &str) -> Result<(), ScalarError> {
    match FORMATS.iter().find(|(name, _)| *name == format) {
        Some((_, check)) => check(text),
        None => Ok(()),
    }
}

fn parses<T: FromStr<Err = ScalarError>>(text: &str) -> Result<(), ScalarError> {
    text.parse::<T>().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::FORMATS;

    #[test]
    fn every_format_of_the_schema_has_a_parser() {
        let schema = crate::schema().to_string();
        let mut seen = 0;
        for part in schema.split("\"format\":\"hermes-").skip(1) {
            let format = format!("hermes-{}", part.split('"').next().unwrap());
            assert!(FORMATS.iter().any(|(name, _)| *name == format), "{format}");
            seen += 1;
        }
        assert!(seen >= FORMATS.len() - 1);
    }
}

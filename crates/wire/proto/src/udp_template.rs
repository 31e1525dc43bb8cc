//! The default template of CONNECT-UDP: `/.well-known/masque/udp/{target_host}/{target_port}/` (RFC 9298, sections 2 and 3).

pub use crate::uri_template::TemplateError;
use crate::uri_template::UDP;

/// The beginning of every path of the default template.
pub const PREFIX: &str = "/.well-known/masque/udp/";

/// The path that asks for UDP to `host` (no brackets) and `port`; see [`UriTemplate::expand`](crate::uri_template::UriTemplate::expand).
pub fn expand(host: &str, port: u16) -> String {
    UDP.expand(host, port)
}

/// The host, without brackets, and the port that `path` asks for; see
/// [`UriTemplate::matches`](crate::uri_template::UriTemplate::matches).
///
/// # Errors
/// [`TemplateError`], which knows the status to answer with.
pub fn parse(path: &str) -> Result<(String, u16), TemplateError> {
    UDP.matches(path)
}

/// Parses arbitrary text as a path: an accepted path expands to one with the same meaning.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(path) = str::from_utf8(data) else {
        return;
    };
    match parse(path) {
        Ok((host, port)) => {
            assert!(path.starts_with(PREFIX));
            assert_ne!(port, 0);
            let path = path.split_once('?').map_or(path, |(path, _)| path);
            assert!(
                !path.contains("%25"),
                "a percent sign is decoded once and then refused"
            );
            assert_eq!(crate::host::parse(&host).as_ref(), Ok(&host));
            assert_eq!(parse(&expand(&host, port)), Ok((host, port)));
        }
        Err(error) => assert!(error.status().is_client_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use http::StatusCode;
    use proptest::prelude::*;

    use super::*;
    use crate::host::HostError;

    #[test]
    fn expands_the_examples_of_rfc_9298() {
        assert_eq!(
            expand("192.0.2.6", 443),
            "/.well-known/masque/udp/192.0.2.6/443/"
        );
        assert_eq!(
            expand("2001:db8::42", 443),
            "/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/"
        );
    }

    #[test]
    fn parses_names_and_addresses() {
        let cases = [
            ("/.well-known/masque/udp/VIDEO/5004/", "VIDEO", 5004),
            ("/.well-known/masque/udp/my_service/1/", "my_service", 1),
            (
                "/.well-known/masque/udp/2001%3adb8%3A%3A42/443/",
                "2001:db8::42",
                443,
            ),
            (
                "/.well-known/masque/udp/%61.example/%34%34%33/",
                "a.example",
                443,
            ),
        ];
        for (path, host, port) in cases {
            assert_eq!(parse(path), Ok((host.to_owned(), port)));
        }
    }

    #[test]
    fn answers_404_when_the_path_is_another_resource() {
        let paths = [
            "/",
            "",
            "/index.html",
            PREFIX,
            "/.well-known/masque/udp/host/",
            "/.well-known/masque/udp/host/443",
        ];
        let more = [
            "/.well-known/masque/udp/host/443/x/",
            "/.well-known/masque/tcp/host/443/",
            "/.well-known/masque/udp/h/1//",
        ];
        for path in paths.into_iter().chain(more) {
            assert_eq!(
                parse(path).map_err(TemplateError::status),
                Err(StatusCode::NOT_FOUND),
                "{path}"
            );
        }
    }

    #[test]
    fn answers_400_when_a_variable_does_not_hold() {
        let cases = [
            ("/443", TemplateError::Host(HostError::Empty)),
            ("host/", TemplateError::Port),
            ("host/0", TemplateError::Port),
            ("host/65536", TemplateError::Port),
            ("host/+443", TemplateError::Encoding),
            ("host/%2B443", TemplateError::Port),
            ("host/0443", TemplateError::Port),
            ("::1/443", TemplateError::Encoding),
            (
                "%5B%3A%3A1%5D/443",
                TemplateError::Host(HostError::BadAddress),
            ),
            (
                "fe80%3A%3A1%25eth0/443",
                TemplateError::Host(HostError::Zone),
            ),
            ("a%2Fb/443", TemplateError::Host(HostError::BadCharacter)),
            ("%2541/443", TemplateError::Host(HostError::BadCharacter)),
            ("a%4/443", TemplateError::Encoding),
            ("a%/443", TemplateError::Encoding),
            ("a%zz/443", TemplateError::Encoding),
            ("a%+1/443", TemplateError::Encoding),
            ("%ff/443", TemplateError::Encoding),
            ("a b/443", TemplateError::Encoding),
            ("%00/443", TemplateError::Host(HostError::BadCharacter)),
        ];
        for (variables, error) in cases {
            assert_eq!(
                parse(&format!("{PREFIX}{variables}/")),
                Err(error),
                "{variables}"
            );
            assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        }
    }

    proptest! {
        #[test]
        fn survives_a_round_trip_of_names(host in "([a-zA-Z0-9_-]{1,20}\\.){0,3}[a-zA-Z][a-zA-Z0-9_]{0,10}", port in 1_u16..) {
            prop_assert_eq!(parse(&expand(&host, port)), Ok((host, port)));
        }

        #[test]
        fn survives_a_round_trip_of_addresses(address in any::<IpAddr>(), port in 1_u16..) {
            let canonical = address.to_canonical().to_string();
            prop_assert_eq!(parse(&expand(&address.to_string(), port)), Ok((canonical, port)));
        }

        #[test]
        fn expands_any_text_to_one_segment(host in ".*", port in any::<u16>()) {
            let path = expand(&host, port);
            prop_assert_eq!(path.matches('/').count(), PREFIX.matches('/').count() + 2);
            prop_assert!(path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%/".contains(&byte)));
        }
    }
}

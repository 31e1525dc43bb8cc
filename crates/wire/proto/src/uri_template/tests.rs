//! Templates of the specifications, of mistakes, and of chance.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::host::HostError;

fn template(text: &str) -> UriTemplate {
    UriTemplate::parse(text).unwrap()
}

#[test]
fn expands_the_examples_of_rfc_9298() {
    let cases = [
        (
            "https://example.org/.well-known/masque/udp/{target_host}/{target_port}/",
            "/.well-known/masque/udp/192.0.2.6/443/",
        ),
        (
            "https://proxy.example.org:4443/masque?h={target_host}&p={target_port}",
            "/masque?h=192.0.2.6&p=443",
        ),
        (
            "https://proxy.example.org:4443/masque{?target_host,target_port}",
            "/masque?target_host=192.0.2.6&target_port=443",
        ),
    ];

    for (text, path) in cases {
        assert_eq!(template(text).expand("192.0.2.6", 443), path);
        assert_eq!(
            template(text).matches(path),
            Ok(("192.0.2.6".to_owned(), 443))
        );
    }

    let (scheme, authority) = template(cases[1].0).origin.unwrap();
    assert_eq!(
        (scheme, authority.as_str()),
        (Scheme::HTTPS, "proxy.example.org:4443")
    );
}

#[test]
fn the_default_templates_are_those_of_their_specifications() {
    for (known, text) in [
        (&UDP, "/.well-known/masque/udp/{target_host}/{target_port}/"),
        (&TCP, "/.well-known/masque/tcp/{target_host}/{target_port}/"),
    ] {
        assert_eq!(template(text), **known);
    }
}

#[test]
fn colons_of_an_address_are_encoded() {
    assert_eq!(
        UDP.expand("2001:db8::42", 443),
        "/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/"
    );
    assert_eq!(
        template("/p{?target_port}{&target_host}").expand("::1", 53),
        "/p?target_port=53&target_host=%3A%3A1"
    );
    assert_eq!(
        template("/p?a=b{&target_host,target_port}").expand("::1", 53),
        "/p?a=b&target_host=%3A%3A1&target_port=53"
    );
    assert_eq!(
        template("/{target_host,target_port}").expand("a", 53),
        "/a,53"
    );
}

#[test]
fn a_query_counts_where_the_template_has_one() {
    assert!(UDP.matches("/.well-known/masque/udp/a/53/?x=y").is_ok());
    let query = template("/p{?target_host,target_port}");
    assert_eq!(
        query.matches("/p?target_host=a&target_port=53"),
        Ok(("a".to_owned(), 53))
    );
    assert_eq!(
        query.matches("/p?target_port=53&target_host=a"),
        Err(TemplateError::NotTemplate)
    );
    assert_eq!(
        query.matches("/p?target_host=a&target_port=53&x=y"),
        Err(TemplateError::Encoding)
    );
    assert_eq!(query.matches("/p"), Err(TemplateError::NotTemplate));
}

#[test]
fn a_star_for_both_values_is_any_target() {
    let query = template("/p{?target_host,target_port}");
    assert_eq!(
        (query.expand_any(), UDP.expand_any()),
        (
            "/p?target_host=%2A&target_port=%2A".to_owned(),
            "/.well-known/masque/udp/%2A/%2A/".to_owned()
        )
    );

    assert!(UDP.matches_any(&UDP.expand_any()) && query.matches_any(&query.expand_any()));
    for path in [
        "/.well-known/masque/udp/%2A/53/",
        "/.well-known/masque/udp/a/%2A/",
        "/.well-known/masque/udp/*/*/",
        "/%2A/%2A/",
    ] {
        assert!(!UDP.matches_any(path), "{path}");
        assert!(UDP.matches(path).is_err());
    }
}

#[test]
fn a_bad_value_is_the_clients_error() {
    let query = template("/p?h={target_host}&p={target_port}");
    assert_eq!(
        query.matches("/p?h=&p=53"),
        Err(TemplateError::Host(HostError::Empty))
    );
    assert_eq!(query.matches("/p?h=::1&p=53"), Err(TemplateError::Encoding));
    assert_eq!(query.matches("/p?h=a&p=0"), Err(TemplateError::Port));
    assert_eq!(
        query.matches("/p?h=fe80%3A%3A1%25eth0&p=1"),
        Err(TemplateError::Host(HostError::Zone))
    );
    assert_eq!(
        query.matches("/p?h=%2A&p=%2A"),
        Err(TemplateError::Host(HostError::BadCharacter))
    );
}

#[test]
fn what_rfc_9298_forbids_is_refused_with_a_remedy() {
    let cases = [
        ("", "`` is neither a path nor a URI"),
        (
            "masque/{target_host}/{target_port}/",
            "`masque/{target_host}/{target_port}/` is neither a path nor a URI",
        ),
        (
            "ftp://a/{target_host}/{target_port}/",
            "`ftp://a/{target_host}/{target_port}/` is neither a path nor a URI",
        ),
        (
            "https://{target_host}/{target_port}",
            "`{target_host}` is not the authority of a proxy",
        ),
        (
            "https://me@a/{target_host}/{target_port}",
            "`me@a` is not the authority of a proxy",
        ),
        (
            "https://a?{target_host}{target_port}",
            "`https://a?{target_host}{target_port}` is neither a path nor a URI",
        ),
        (
            "/{target_host}/{target_port}#x",
            "a fragment (`#`) never reaches a proxy",
        ),
        (
            "/{target_host}/{+target_port}",
            "`{+...}` is not allowed (RFC 9298, section 2)",
        ),
        (
            "/{target_host}/{#target_port}",
            "`{#...}` is not allowed (RFC 9298, section 2)",
        ),
        (
            "/{target_host}{.target_port}",
            "`{....}` is not allowed (RFC 9298, section 2)",
        ),
        (
            "/{/target_host}/{target_port}",
            "`{/...}` is not allowed (RFC 9298, section 2)",
        ),
        (
            "/{;target_host}/{target_port}",
            "`{;...}` is not allowed (RFC 9298, section 2)",
        ),
        (
            "/{target_host:3}/{target_port}",
            "`target_host:3` is of level 4, and only level 3 is allowed (RFC 9298, section 2)",
        ),
        (
            "/{target_host*}/{target_port}",
            "`target_host*` is of level 4, and only level 3 is allowed (RFC 9298, section 2)",
        ),
        (
            "/{target_host}/{port}",
            "there is no value for a variable `port`",
        ),
        ("/{target_host}/{}", "there is no value for a variable ``"),
        ("/{target_host}/", "`target_port` is missing"),
        ("/{?target_port}", "`target_host` is missing"),
        (
            "/{target_host}/{target_host}",
            "`target_host` stands there twice",
        ),
        ("/{target_host}/{target_port", "a brace has no partner"),
        ("/target_host}/{target_port}", "a brace has no partner"),
        (
            "/?a=b{?target_host,target_port}",
            "`{?...}` begins a query, and there is one already",
        ),
        (
            "/{&target_host,target_port}",
            "`{&...}` continues a query, and there is none",
        ),
        (
            "/a b/{target_host}/{target_port}",
            "` ` cannot stand in a URI",
        ),
        (
            "/ü/{target_host}/{target_port}",
            "`ü` cannot stand in a URI",
        ),
        (
            "/%4/{target_host}/{target_port}",
            "a `%` is not followed by two hexadecimal digits",
        ),
    ];
    for (text, reason) in cases {
        let mistake = UriTemplate::parse(text).unwrap_err();
        assert_eq!(mistake.to_string(), reason, "{text}");
        assert!(!mistake.remedy().is_empty());
    }
}

#[test]
fn a_template_that_can_be_read_in_two_ways_says_so() {
    for text in [
        "/{target_host}{target_port}",
        "/{target_host}-{target_port}",
        "/{target_port}%2F{target_host}",
    ] {
        assert!(template(text).is_ambiguous(), "{text}");
    }
    for text in [
        "/.well-known/masque/udp/{target_host}/{target_port}/",
        "/{target_host}:{target_port}",
        "/{target_host,target_port}",
        "/a{?target_host,target_port}",
    ] {
        assert!(!template(text).is_ambiguous(), "{text}");
    }
}

/// Templates that are not ambiguous.
fn templates() -> impl Strategy<Value = UriTemplate> {
    let literal = "[a-z0-9._~:@!$'()*+;=-]{0,6}(/[a-z%0-9]{0}[a-z]{0,4}){0,2}";
    let form = prop_oneof![
        Just("/{target_host}/{target_port}"),
        Just("/{target_port}/{target_host}/"),
        Just("/{target_host,target_port}"),
        Just("{?target_host,target_port}"),
        Just("?x={target_port}{&target_host}"),
        Just("/{target_host}?p={target_port}&z"),
    ];

    (literal, form).prop_map(|(literal, form)| template(&format!("/{literal}{form}")))
}

proptest! {
    #[test]
    fn matches_what_it_expands_to(
        template in templates(),
        host in "([a-zA-Z0-9_-]{1,20}\\.){0,3}[a-zA-Z][a-zA-Z0-9_]{0,10}",
        port in 1_u16..,
    ) {
        prop_assert_eq!(template.matches(&template.expand(&host, port)), Ok((host, port)));
    }

    #[test]
    fn matches_addresses_that_it_expands_to(template in templates(), address in any::<IpAddr>(), port in 1_u16..) {
        let path = template.expand(&address.to_string(), port);
        prop_assert_eq!(template.matches(&path), Ok((address.to_canonical().to_string(), port)));
    }

    #[test]
    fn keeps_its_invariants(text in "/?[a-z{}?&,_/%]{0,12}(\\{[?&]?target_host\\}|\\{target_port\\}|[/-]){0,4}\n?.{0,20}") {
        fuzz_one(text.as_bytes());
    }
}

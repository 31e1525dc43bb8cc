//! Ends of the overlay that are addresses: `terminate: 127.0.0.1:8000`.

use hermes_config::model::{Document, Endpoint, EndpointAddress, Terminate, Upstream};

/// Gives the document an upstream for each address that a route terminates at: it has that one endpoint, and is called by
/// its address, in records, figures and `status` too.
pub fn expand(document: &mut Document) {
    for route in &document.routes {
        let Some(Terminate::Upstream(name)) = &route.terminate else {
            continue;
        };
        if document.upstreams.contains_key(name) {
            continue;
        }

        // Any other text is an unknown name, which is reported as such.
        if let Ok(address) = name.parse::<EndpointAddress>() {
            let upstream = Upstream {
                endpoints: vec![Endpoint::Address(address)],
                ..Upstream::default()
            };
            document.upstreams.insert(name.clone(), upstream);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_an_upstream_of_its_own_unless_there_is_one_of_that_name() {
        let end = |end: &str| json!({ "terminate": end });
        let mut document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": {},
            "routes": [
                end("127.0.0.1:8000"), end("unix:/run/x.sock"), end("127.0.0.1:8000"), end("video"), end("a:1"),
                end("no-one"), { "terminate": true },
            ],
            "upstreams": { "video": { "endpoints": ["v:1"] }, "a:1": { "endpoints": ["b:2"] } },
        }))
        .unwrap();
        expand(&mut document);
        let ends: Vec<_> = document
            .upstreams
            .iter()
            .map(|(name, upstream)| (name.as_str(), upstream.endpoints[0].address().to_string()))
            .collect();
        let expected = [
            ("video", "v:1"),
            ("a:1", "b:2"),
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("unix:/run/x.sock", "unix:/run/x.sock"),
        ];
        assert_eq!(
            ends,
            expected.map(|(name, address)| (name, address.to_owned()))
        );
    }
}

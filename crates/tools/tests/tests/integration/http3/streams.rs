//! How many exchanges a link carries: as many as its peer allows.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, origins};

use crate::http3::changes::entry;
use crate::http3::overlay::end;

#[test]
fn a_further_link_is_made_where_the_peer_allows_no_more_streams() {
    let (pki, origin) = (Pki::new(), origins::tcp_echo());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    for (streams, links) in [(5, 3), (3000, 1)] {
        let yaml = end(&tls).replace("tls:", &format!("limits: {{ streams: {streams} }}, tls:"));
        let end = Node::start("end", &yaml);
        let entry = entry(&pki, &end, "3");
        let open = || {
            let mut raw =
                Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").unwrap();
            raw.send("ping");
            assert_eq!(raw.exactly(4), b"ping");
            raw
        };
        let tunnels: Vec<Raw> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..12).map(|_| scope.spawn(open)).collect();
            opening.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(tunnels.len(), 12);
        let expected = format!("hermes_connections_active{{listener=\"web\"}} {links}\n");
        assert!(
            end.metrics().contains(&expected),
            "{streams} streams: {}",
            end.metrics()
        );
    }
}

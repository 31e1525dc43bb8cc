//! `hermes-lab socks`, in little: dante and microsocks beside Hermes, and round trips counted over slow links.

use hermes_tests::lab::Measured;

/// Without sing-box, which takes minutes to build.
const SYSTEMS: [&str; 5] = ["direct", "hermes", "hermes6", "dante", "microsocks"];

#[test]
fn proxies_of_socks_are_measured_and_round_trips_are_those_of_the_formulas() {
    let measured = Measured::short("socks", &["--systems", &SYSTEMS.join(",")]);
    for system in SYSTEMS {
        for (case, figure) in [
            ("new connection", "p50"),
            ("1,000 at once", "all answered"),
            ("bulk, 8 flows", "rate"),
        ] {
            assert!(
                measured.value(case, system, figure) > 0.0,
                "{case} of {system}"
            );
        }
    }
    // SOCKS5: the connection, method, request, and the byte itself. SOCKS6: the connection, and all the rest.
    let trips = |system, way| measured.value("round trips to the first byte", system, way);
    for (system, to_proxy) in [("direct", 2.0), ("hermes", 4.0), ("hermes6", 2.0)] {
        assert_eq!(trips(system, "client to proxy"), to_proxy, "{system}");
        assert_eq!(trips(system, "proxy to server"), 2.0, "{system}");
    }
    // With TCP Fast Open neither connection costs one of its own.
    for way in ["client to proxy, Fast Open", "proxy to server, Fast Open"] {
        assert_eq!(trips("hermes6", way), 1.0, "{way}");
    }
}

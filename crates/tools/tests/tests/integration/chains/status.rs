//! What `status` says of the hops of a chain.

use hermes_tests::{curl, eventually, origins};
use serde_json::Value;

use crate::chains::overlay::Chains;

/// The hop that is reached under this name.
fn hop(status: &Value, name: &str) -> Value {
    let mut hops = status["hops"].as_array().unwrap().iter();
    hops.find(|hop| hop["hop"] == name)
        .unwrap_or_else(|| panic!("no hop {name} in {status:#}"))
        .clone()
}

#[test]
fn status_shows_what_carries_each_hop_and_how_much() {
    let chains: [&[u8]; 3] = [&[3, 3, 3, 3], &[2, 3], &[3, 2]];
    let nodes = Chains::start(&chains);
    let origin = origins::http();
    for chain in chains {
        let proxy = format!("http://{}", nodes.address(chain));
        assert_eq!(
            curl(&["-x", &proxy, &format!("http://{}/", origin.address())]).status,
            200
        );
    }
    let names = [
        "hop0v3",
        "hop0v3 > hop1v3",
        "hop0v3 > hop1v3 > hop2v3",
        "hop0v3 > hop1v3 > hop2v3 > hop3v3",
    ];
    // Each connection finds out by itself what those around it carry.
    let sizes = eventually("the sizes of all hops", || {
        let status = nodes.entry.status();
        let sizes: Vec<u64> = names
            .iter()
            .map(|name| hop(&status, name)["largest_datagram"].as_u64().unwrap())
            .collect();
        (sizes[3] >= 1200).then_some(sizes)
    });
    for (outer, inner) in sizes.iter().zip(&sizes[1..]) {
        assert!(
            (30..=80).contains(&(outer - inner)),
            "each layer costs a little: {sizes:?}"
        );
    }
    let status = nodes.entry.status();
    assert_eq!(hop(&status, names[0])["carried_by"], "udp");
    for name in &names[1..] {
        let hop = hop(&status, name);
        assert_eq!(
            (&hop["http"], &hop["carried_by"]),
            (&3.into(), &"datagrams".into()),
            "{hop:#}"
        );
        assert!(hop["stream_because"].is_null(), "{hop:#}");
    }
    let capsules = hop(&status, "hop0v2 > hop1v3");
    assert_eq!(
        (&capsules["http"], &capsules["carried_by"]),
        (&3.into(), &"stream".into()),
        "{capsules:#}"
    );
    assert_eq!(
        capsules["stream_because"],
        "the hop before it has no QUIC datagrams"
    );
    let bytes = hop(&status, "hop0v3 > hop1v2");
    assert_eq!(
        (&bytes["http"], &bytes["carried_by"]),
        (&2.into(), &"stream".into()),
        "{bytes:#}"
    );
    assert_eq!(bytes["stream_because"], "it uses HTTP/2");
}

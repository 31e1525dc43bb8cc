//! Chains whose proxies end or whose configuration changes while they carry something.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::{curl, eventually, origins};

use crate::chains::overlay::{Chains, entry};

const CHAIN: &[u8] = &[3, 3, 3];

#[test]
fn a_chain_is_built_again_after_an_outer_hop_was_killed() {
    let mut chains = Chains::start(&[CHAIN]);
    let origin = origins::http();
    let proxy = format!("http://{}", chains.address(CHAIN));
    let url = format!("http://{}/", origin.address());
    assert_eq!(curl(&["-x", &proxy, &url]).status, 200);
    let addresses: Vec<_> = chains.hops.iter().map(|hop| hop.address("web")).collect();
    chains.hops[0].kill();
    let failed = curl(&["-x", &proxy, "-m", "20", &url]);
    assert!(
        [502, 504].contains(&failed.status),
        "the first hop is gone: {failed:?}"
    );
    let _again = chains.hop(addresses[0]);
    eventually("the chain carries again", || {
        (curl(&["-x", &proxy, "-m", "20", &url]).status == 200).then_some(())
    });
}

#[test]
fn tunnels_in_a_chain_outlast_a_reload_and_move_to_another_chain() {
    let (long, short): (&[u8], &[u8]) = (&[3, 3, 3], &[3, 3]);
    let chains = Chains::start(&[long]);
    let addresses: Vec<_> = chains.hops.iter().map(|hop| hop.address("web")).collect();
    let file = |chain: &[u8], extra: &str| {
        let yaml = entry(&chains.pki, &addresses, &[long]);
        let passed = |chain: &[u8]| {
            let hops: Vec<String> = (0..chain.len())
                .map(|number| format!("hop{number}v3"))
                .collect();
            format!("to: [{}]", hops.join(", "))
        };
        assert!(yaml.contains(&passed(long)));
        format!("{extra}\n{}", yaml.replace(&passed(long), &passed(chain)))
    };
    let origin = origins::udp_echo(origins::V4);
    let mut tunnel = UdpTunnel::h1(chains.address(long), "127.0.0.1", origin.port(), "").unwrap();
    tunnel.send("before");
    assert_eq!(tunnel.receive(), b"before");
    let (status, report) = chains.entry.reload(&file(long, "drain: 20s"));
    assert_eq!(
        (status, &report["tunnels"]["kept"]),
        (200, &1.into()),
        "{report:#}"
    );
    assert_eq!(
        report["upstreams_changed"].as_array().map(Vec::len),
        Some(0),
        "{report:#}"
    );
    tunnel.send("kept");
    assert_eq!(tunnel.receive(), b"kept");
    let (status, report) = chains.entry.reload(&file(short, "drain: 20s"));
    assert_eq!(
        (status, &report["tunnels"]["moved"]),
        (200, &1.into()),
        "{report:#}"
    );
    eventually("the tunnel ends at the second hop", || {
        tunnel.send("moved");
        assert_eq!(tunnel.receive(), b"moved");
        let live = chains.hops[1].exchanges();
        let port = format!(":{}", origin.port());
        live.iter()
            .any(|one| {
                one["target"]
                    .as_str()
                    .is_some_and(|target| target.contains(&port))
            })
            .then_some(())
    });
}

//! What the proxies of a chain can see.

use hermes_tests::{curl, origins};

use crate::overlay::Chains;

#[test]
fn an_outer_hop_sees_only_the_next_one() {
    let chain: &[u8] = &[2, 2, 2];
    let chains = Chains::start(&[chain]);
    let origin = origins::http();
    let proxy = format!("http://{}", chains.address(chain));
    let sent = curl(&["-x", &proxy, &format!("http://{}/secret", origin.address())]);
    assert_eq!(sent.status, 200, "{sent:?}");
    let last = chains.hops[2].record(|record| record["kind"] == "http");
    assert_eq!(last["target"].as_str(), Some(format!("{}/secret", origin.address()).as_str()));
    let outer: Vec<_> = chains.hops.into_iter().take(3).collect();
    drop(chains.entry);
    for pair in outer.windows(2) {
        let record = pair[0].record(|record| record["event"] == "end");
        assert_eq!(record["kind"], "connect");
        assert_eq!(record["target"].as_str(), Some(pair[1].address("web").to_string().as_str()));
        assert_eq!(pair[0].access().len(), 1, "nothing else passed");
    }
}

//! One verdict for each flow.

use hermes_ip::{FlowCache, MAX_FLOWS};
use hermes_proto::ip::IpFlow;
use proptest::prelude::*;

fn flow(source_port: u16) -> IpFlow {
    IpFlow {
        source: [192, 0, 2, 1].into(),
        destination: [198, 51, 100, 2].into(),
        protocol: 17,
        source_port,
        destination_port: 443,
    }
}

#[test]
fn rules_are_asked_once_a_flow_until_they_change() {
    let mut cache = FlowCache::new(16, 1);
    let mut asked = 0;
    let mut verdict = |cache: &mut FlowCache<bool>, flow: &IpFlow| {
        cache.verdict(flow, |flow| {
            asked += 1;
            flow.source_port % 2 == 0
        })
    };
    for _ in 0..10 {
        assert!(verdict(&mut cache, &flow(2)));
    }
    cache.forget();
    for _ in 0..10 {
        assert!(verdict(&mut cache, &flow(2)));
    }
    assert_eq!(asked, 2);
}

#[test]
fn more_flows_than_fit_are_judged_again_and_use_no_more_memory() {
    let mut cache = FlowCache::new(4, 1);
    let mut asked = 0;
    for _ in 0..3 {
        for port in 0..1000 {
            cache.verdict(&flow(port), |_| asked += 1);
        }
    }
    assert!(asked > 2900);
    // The flow that was seen last is kept while another comes and goes.
    for port in 0..1000 {
        let known = flow(2000);
        cache.verdict(&known, |_| ());
        cache.verdict(&flow(port), |_| ());
        cache.verdict(&known, |_| panic!("it was just asked about"));
    }
    let _ = FlowCache::<bool>::new(usize::MAX, 0).verdict(&flow(1), |_| true);
    assert!(MAX_FLOWS.is_power_of_two());
}

proptest! {
    #[test]
    fn a_verdict_is_always_that_of_the_flow(steps in prop::collection::vec((0_u16..40, any::<bool>()), 0..200), seed: u64) {
        let mut cache = FlowCache::new(16, seed);
        let mut generation = 0;
        for (port, changes) in steps {
            if changes && port < 4 {
                cache.forget();
                generation += 1;
            }
            let verdict = cache.verdict(&flow(port), |flow| (flow.source_port, generation));
            prop_assert_eq!(verdict, (port, generation));
        }
    }
}

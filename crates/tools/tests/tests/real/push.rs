//! `hermes-lab push`, in little: the relay beside NATS.

use hermes_tests::lab::Measured;

#[test]
fn the_relay_and_nats_are_measured_and_no_message_of_either_is_lost() {
    // It counts each message that it sent, at each subscriber, and fails if one does not come.
    let measured = Measured::short("push", &[]);
    for system in ["hermes", "nats"] {
        for (case, figure) in [
            ("100 B to 1,000 subscribers", "p50"),
            ("100 B without pause to 100 subscribers", "deliveries"),
            ("1 MB to 1 subscriber", "rate"),
            ("idle subscribers", "2000, each"),
        ] {
            assert!(
                measured.value(case, system, figure) > 0.0,
                "{case} of {system}"
            );
        }
    }
    for system in ["direct", "indirect", "hermes", "nats", "paper"] {
        let case = "ping of 100 B, one machine (Table 1)";
        assert!(
            measured.value(case, system, "RTT, p50") > 0.0,
            "{case} of {system}"
        );
    }
    // The link to 20 receivers carries a copy for each, or one for a node that subscribes for all.
    let link = |case| measured.value(case, "hermes", "link, of one copy");
    assert!(link("50 KB to 20 receivers of one site (Fig. 8a)") > 20.0);
    assert!(link("50 KB to 20 behind an aggregating node (Fig. 8a)") < 1.5);
    for picture in ["push.svg", "push-paper.svg"] {
        let picture = measured.picture(picture);
        assert!(picture.contains("nats"), "{picture}");
    }
}

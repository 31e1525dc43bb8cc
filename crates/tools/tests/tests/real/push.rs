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
    let picture = measured.picture("push.svg");
    assert!(picture.contains("nats"), "{picture}");
}

//! `hermes-lab split`, in little: each way to capture carries all that is measured.

use hermes_tests::lab::Measured;

const SYSTEMS: [&str; 4] = ["direct", "hermes", "hermes-split", "hermes-stack"];

#[test]
fn each_way_to_capture_is_measured_and_only_one_that_holds_shows_refusals() {
    let measured = Measured::short("split", &["--systems", &SYSTEMS.join(",")]);
    for system in SYSTEMS {
        for case in ["connect", "new connection", "kept connection", "256 MB"] {
            assert!(
                measured.has(case, system),
                "{case} of {system}: {}",
                measured.table
            );
        }
        // A client of one that accepts first is told that the server has accepted it.
        assert_eq!(
            measured.has("refused", system),
            system != "hermes",
            "{system}: {}",
            measured.table
        );
    }
}

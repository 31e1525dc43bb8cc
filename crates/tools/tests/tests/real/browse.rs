//! `hermes-lab browse`, in little: a page in Chromium over a slow link that loses packets, directly and from a cache at the client.

use hermes_tests::lab::Measured;

const CASE: &str = "1 client, small page";

#[test]
fn a_page_comes_over_a_link_that_loses_packets_and_sooner_where_it_was_before() {
    let measured = Measured::short("browse", &["--systems", "direct,hermes-one-cache"]);
    let load = |system| measured.value(CASE, system, "page load");
    let ended = measured.value(CASE, "hermes-one-cache", "loads that ended");
    assert_eq!(ended, 100.0, "{}", measured.table);
    assert!(
        load("hermes-one-cache") < load("direct"),
        "{}",
        measured.table
    );
    let picture = measured.picture("browse.svg");
    assert!(picture.contains("<svg"), "{picture}");
}

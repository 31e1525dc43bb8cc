//! `hermes-lab rate-limit`, in little: clients of an origin that bounds its rate, alone, behind Hermes and behind Envoy.

use hermes_tests::lab::Measured;

#[test]
fn an_origin_refuses_fewer_requests_of_hermes_than_of_clients_alone_or_of_envoy() {
    let measured = Measured::short("rate-limit", &["--systems", "alone,hermes,envoy"]);
    for case in [
        "100 clients, RateLimit fields",
        "100 clients, Retry-After",
        "100 clients, only 429",
    ] {
        let refused = |system| measured.value(case, system, "refused by the origin");
        let [alone, paced, envoy] = ["alone", "hermes", "envoy"].map(refused);
        assert!(
            paced < alone / 2.0 && paced < envoy,
            "{case}: {}",
            measured.table
        );
    }
    let picture = measured.picture("rate-limit.svg");
    assert!(picture.contains("envoy"), "{picture}");
}

//! `hermes-lab video`, in little: a film that ffmpeg sends by RTP over a link which loses packets, and that ffmpeg receives.

use hermes_tests::lab::Measured;

const CASE: &str = "3 % lost";

#[test]
fn a_film_comes_whole_through_a_tunnel_that_mends_losses_and_broken_without() {
    let systems = "direct,auto,paper";
    let measured = Measured::short("video", &["--seconds", "6", "--systems", systems]);
    let broken = |system| measured.value(CASE, system, "macroblocks in error");
    let frames = |system| measured.value(CASE, system, "frames of the film");
    // Where the first packets are lost, the decoder finds no beginning: no frame then, and none that is broken.
    let is_broken = broken("direct") > 1.0 || frames("direct") < 98.0;
    assert!(is_broken, "{}", measured.table);
    assert!(broken("auto") <= 1.0, "{}", measured.table);
    assert!(frames("auto") > 98.0, "{}", measured.table);
    // Asked for by a name and with a token, and back by an attachment.
    assert!(frames("paper") > 98.0, "{}", measured.table);
    let picture = measured.picture("video.svg");
    assert!(picture.contains("auto"), "{picture}");
}

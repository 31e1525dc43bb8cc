//! The promised figures.

use super::{BROKEN, BYTES, CASES, FRAMES, LATEST, LONG, USUAL, VideoCase};
use crate::emulator::Loss;
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "Video over links that lose packets",
    command: "video",
    words: "A film of one minute (in a short run ten seconds; 640x360, 30 frames a second, 2 Mbit/s of H.264 in MPEG-TS) is sent by ffmpeg as RTP, and received by \
            ffmpeg, which has the same buffers for all. Between them is a link of 10 Mbit/s that loses packets in both directions, 10 or 100 ms each way, and a system. \
            `direct`: RTP over UDP. `http2`: a tunnel over HTTP/2, as in the paper. `http3`: a tunnel over HTTP/3 that mends nothing, with `congestion: off`, as this link loses packets by itself. `retransmit`, `parity`, `auto`, `groups`: \
            the same with `tunnel: { loss: .. }` and 300 ms; `auto-bbr`: `auto` with `congestion: bbr`. `paper`: the paper's topology over HTTP/2, where the film is asked for by a name and with a token, two distributors decide, and its packets come back the same way and over the viewer's attachment. `srt`: srt-live-transmit with a latency of 300 ms. All systems run at once, each over a link of its own. Frames and errors \
            are counted by ffmpeg's decoder, which also fails where packets are whole but behind later ones; lost packets are those that went into a system and did not come out, \
            by their numbers in RTP; delays are those of packets that came, beside the delay of the link.",
    notes: "\n![Frames, errors and delays](video.svg)\n\nThe paper (Table V), with films of 1,800 and 3,600 frames and 1 % lost: directly 26.74 and 55.88 errors, 1,781 and 3,561 frames; through its overlay none, and all frames.\n",
};

/// The losses up to which nothing may be missing.
const MENDED: f64 = 0.05;

/// Bytes beside those that the loss demands.
const MORE: f64 = 1.15;

/// Bytes of RTP, UDP and IP beside those of the film, and of HTTP/3 around them.
const HEADS: f64 = 1.06;

/// The bound of time, in milliseconds.
const WITHIN: f64 = 300.0;

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let films = [USUAL, LONG];
    let rows = CASES
        .iter()
        .flat_map(|case| films.map(|seconds| (case, case.row(seconds))));
    rows.flat_map(|(case, row)| of_case(sheet, case, &row))
        .collect()
}

fn of_case(sheet: &Sheet, case: &VideoCase, name: &str) -> Vec<SheetGoal> {
    let loss = match case.loss {
        Loss::Random(share) => share,
        other => other.share(),
    };
    if loss > MENDED {
        return Vec::new();
    }
    let median = |figure| Some(sheet.of(name, "auto", figure)?.median);
    let goal = |words: String, value: f64, is_reached: bool| SheetGoal {
        words,
        value,
        is_reached,
    };

    let mut goals = Vec::new();
    if let (Some(frames), Some(broken)) = (median(FRAMES), median(BROKEN)) {
        goals.push(goal(
            format!("{name}: all frames, of a hundred"),
            frames,
            frames >= 100.0,
        ));
        goals.push(goal(
            format!("{name}: no macroblock in error"),
            broken,
            broken == 0.0,
        ));
    }
    if let Some(bytes) = median(BYTES) {
        let demanded = HEADS / (1.0 - loss);
        let value = bytes / demanded;
        goals.push(goal(
            format!("{name}: bytes, of those that the loss demands, at most {MORE}"),
            value,
            value <= MORE,
        ));
    }
    if let Some(latest) = median(LATEST) {
        goals.push(goal(
            format!("{name}: delay of 99 % beside the link, at most {WITHIN} ms"),
            latest,
            latest <= WITHIN,
        ));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn a_missing_frame_misses_the_goal_up_to_the_loss_that_is_promised() {
        let mut sheet = Sheet::default();
        for case in [CASES[0].name, CASES[3].name] {
            sheet.add(case, "auto", Figure::more(FRAMES, "%"), 99.9);
            sheet.add(case, "auto", Figure::less(BROKEN, ""), 0.0);
            sheet.add(case, "auto", Figure::less(BYTES, "times"), 1.1);
        }
        let long = CASES[0].row(LONG);
        sheet.add(&long, "auto", Figure::less(BYTES, "times"), 2.0);
        let reached: Vec<_> = of(&sheet).iter().map(|goal| goal.is_reached).collect();
        assert_eq!(
            reached,
            [false, true, true, false],
            "10 % is not promised, and a longer film is another row"
        );
    }
}

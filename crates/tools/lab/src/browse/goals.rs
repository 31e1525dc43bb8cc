//! The promised figures.

use super::case::{CASES, LOAD};
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "Browsing over a slow link that loses packets",
    command: "browse",
    words: "Chromium without a window loads a page of 34 files (1.9 MB, or a tenth of that with more than one browser), each time with a new profile, over a link of 1 Mbit/s \
            that takes 200 ms there and back, loses 10 % of the packets in each direction and has half a second of queue. Every client has such a link of its own; \
            behind it are two hops on cables and nginx. `direct`: HTTP/1.1 over up to six connections; `direct-http2`: HTTP/2 over TLS; both with CUBIC, as Linux has it and the thesis. \
            `direct-bbr`: HTTP/1.1 from a server whose machine uses BBR. `hermes-defaults`: a node at the client, which is Chromium's proxy, and one behind the link, over HTTP/3; `hermes-bbr`: these with `congestion: bbr` at both. `hermes-one`: the \
            same over HTTP/2 between machines that use BBR, here by `ip route change .. congctl bbr`; `hermes-two`: with a further \
            node behind it. `-cache`: with a cache at the client, from where the page was loaded once before. Small files have connected the nodes before. *First byte*: of the document, since \
            the browser set out for it; a page that was not whole in two minutes (three of a whole page, or of 16 browsers behind one link) counts as this long.",
    notes: "\n![Page loads](browse.svg)\n\nThe thesis (7.3.4) did the same with Chrome over HTTP/3 in CONNECT-IP, CUBIC throughout, on machines of their own, and has its figures in plots alone (7.13 to 7.18): \
            loads take longer with each hop and with more browsers, and vary more; the first byte stays as it is.\n",
};

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let cases = CASES.iter().chain([&super::SHORT]);
    cases.flat_map(|case| of_case(sheet, case.name)).collect()
}

fn of_case(sheet: &Sheet, case: &str) -> Vec<SheetGoal> {
    let median = |system| Some(sheet.of(case, system, LOAD)?.median);
    let mut goals = Vec::new();
    let mut goal = |words: &str, pair: Option<(f64, f64)>, is_reached: fn(f64) -> bool| {
        let Some((one, other)) = pair else {
            return;
        };
        let value = one / other;
        goals.push(SheetGoal {
            words: format!("{case}: {words}"),
            value,
            is_reached: is_reached(value),
        });
    };
    let direct = median("direct");
    goal(
        "load with one hop, of direct, at most 1",
        median("hermes-one").zip(direct),
        |value| value <= 1.0,
    );
    goal(
        "load with one hop, of direct from a server with BBR, at most 1.1",
        median("hermes-one").zip(median("direct-bbr")),
        |value| value <= 1.1,
    );
    goal(
        "load with one hop and a cache, of direct, less than 1",
        median("hermes-one-cache").zip(direct),
        |value| value < 1.0,
    );
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn one_hop_may_be_as_slow_as_none_and_a_cache_has_to_be_faster() {
        let mut sheet = Sheet::default();
        for system in ["direct", "hermes-one", "hermes-one-cache"] {
            sheet.add(CASES[0].name, system, Figure::less(LOAD, "s"), 20.0);
        }
        let reached: Vec<_> = of(&sheet).iter().map(|goal| goal.is_reached).collect();
        assert_eq!(reached, [true, false]);
    }
}

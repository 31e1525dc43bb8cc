//! Better, worse, or too close to say.

use crate::experiment::{Case, Experiment};
use crate::peers::Name;
use crate::report::{Better, Figure};

use super::figures::CaseResults;

/// Differences below this share are no verdict.
const TOO_CLOSE: f64 = 0.2;

/// How one system stands to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// So many times better.
    Better(f64),
    /// So many times worse.
    Worse(f64),
    /// Within 20 %.
    Close,
}

/// How Hermes stands to another system. Latencies are compared by what they add to the direct way.
pub fn verdict(results: &CaseResults, case: Case, figure: &Figure, other: Name) -> Option<Verdict> {
    let value = |system| {
        results
            .of(case, figure, system)
            .map(|summary| summary.median)
    };

    let base = match case.experiment {
        Experiment::Latency => value(Name::Direct)?,
        _ => 0.0,
    };

    let ours = value(Name::Hermes)? - base;
    let theirs = value(other)? - base;
    judge(ours, theirs, figure.better)
}

fn judge(ours: f64, theirs: f64, better: Better) -> Option<Verdict> {
    if ours <= 0.0 || theirs <= 0.0 {
        return None;
    }
    let gain = match better {
        Better::Less => theirs / ours,
        Better::More => ours / theirs,
    };

    Some(if gain > 1.0 + TOO_CLOSE {
        Verdict::Better(gain)
    } else if gain < 1.0 / (1.0 + TOO_CLOSE) {
        Verdict::Worse(1.0 / gain)
    } else {
        Verdict::Close
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_verdict_inside_a_fifth() {
        assert_eq!(judge(100.0, 119.0, Better::Less), Some(Verdict::Close));
        assert_eq!(judge(119.0, 100.0, Better::Less), Some(Verdict::Close));
        assert_eq!(judge(50.0, 100.0, Better::Less), Some(Verdict::Better(2.0)));
        assert_eq!(judge(50.0, 100.0, Better::More), Some(Verdict::Worse(2.0)));
        assert_eq!(judge(0.0, 100.0, Better::Less), None);
    }
}

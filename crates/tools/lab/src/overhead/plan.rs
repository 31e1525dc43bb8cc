//! Which cases are measured.

use std::str::FromStr;

use clap::ValueEnum;

use crate::experiment::{Case, Experiment};
use crate::traffic::{Kind, Link};

/// A word of `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverheadPart {
    /// A kind of exchange.
    Kind(Kind),
    /// An experiment.
    Experiment(Experiment),
}

impl FromStr for OverheadPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Kind::from_str(text, false).map(Self::Kind);
        kind.or_else(|_| Experiment::from_str(text, false).map(Self::Experiment))
            .map_err(|_| {
                let words = Kind::ALL
                    .map(Kind::name)
                    .into_iter()
                    .chain(Experiment::ALL.map(Experiment::name));
                format!("expected some of {}", words.collect::<Vec<_>>().join(", "))
            })
    }
}

/// The cases of the kinds and experiments in `only`; of all kinds, or all experiments that are timed, where it names none.
pub fn cases(only: &[OverheadPart], links: &[Link]) -> Vec<Case> {
    let kinds = only.iter().filter_map(|part| match part {
        OverheadPart::Kind(kind) => Some(*kind),
        OverheadPart::Experiment(_) => None,
    });
    let experiments = only.iter().filter_map(|part| match part {
        OverheadPart::Experiment(experiment) => Some(*experiment),
        OverheadPart::Kind(_) => None,
    });
    let (kinds, experiments): (Vec<_>, Vec<_>) = (kinds.collect(), experiments.collect());
    let wanted = |experiment: &Experiment| {
        let timed = *experiment != Experiment::Instructions;
        (experiments.is_empty() && timed) || experiments.contains(experiment)
    };
    let mut cases = Vec::new();

    for experiment in Experiment::ALL.into_iter().filter(wanted) {
        for kind in experiment
            .kinds()
            .iter()
            .copied()
            .filter(|kind| kinds.is_empty() || kinds.contains(kind))
        {
            let usual = experiment.links(kind);
            for link in if links.is_empty() { usual } else { links } {
                cases.push(Case {
                    experiment,
                    kind,
                    link: *link,
                });
            }
        }
    }

    cases
}

/// A case in words.
pub fn spoken(case: Case) -> String {
    format!(
        "{} of {} over {}",
        case.experiment.name(),
        case.kind.name(),
        case.link.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_selects_kinds_and_experiments() {
        let only: Vec<OverheadPart> = ["udp", "latency"]
            .map(|word| word.parse().unwrap())
            .to_vec();
        let found = cases(&only, &[]);
        assert_eq!(
            found,
            [Case {
                experiment: Experiment::Latency,
                kind: Kind::Udp,
                link: Link::H2
            }]
        );
        assert!(
            "latencies"
                .parse::<OverheadPart>()
                .unwrap_err()
                .contains("latency")
        );
    }

    #[test]
    fn links_that_are_asked_for_stand_over_the_usual_ones() {
        let found = cases(
            &[
                OverheadPart::Kind(Kind::Tcp),
                OverheadPart::Experiment(Experiment::Latency),
            ],
            &[Link::Tls],
        );
        assert_eq!(
            found.iter().map(|case| case.link).collect::<Vec<_>>(),
            [Link::Tls]
        );
    }
}

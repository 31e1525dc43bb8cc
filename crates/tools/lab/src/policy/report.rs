//! The cost of decisions: figures of all rounds, and the goals.

use serde::{Deserialize, Serialize};

use super::build::MeasuredBuild;
use super::decider::Decider;
use super::measure::DecisionCost;
use super::rules::MANY;
use crate::options::Published;
use crate::report::{Run, Summary, SystemRounds, number, page_table, plain_table};

/// Goal: the most that rules of Hermes add to an exchange, in microseconds.
const NATIVE_MOST: f64 = 5.0;

/// Goal: the most that they add to its processor time.
const NATIVE_SHARE: f64 = 0.03;

/// Goal: the most that a policy in Rego adds to an exchange, in microseconds.
const REGO_MOST: f64 = 50.0;

/// Where the instructions of a decision are, beside this page.
const PROFILES: &str = "profiles.md#a-decision";

/// Goal: their most, as a share of the addition of Envoy with OPA.
const OF_ENVOY_OPA: f64 = 0.1;

/// One figure of a round.
type PartOfCost = fn(&DecisionCost) -> f64;

/// The figures, with their names.
const FIGURES: [(&str, PartOfCost); 4] = [
    ("kept", |measured| measured.kept),
    ("new", |measured| measured.new),
    ("tunnel", |measured| measured.tunnel),
    ("processor", |measured| measured.processor),
];

/// Everything that was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Decisions {
    /// How.
    pub run: Option<Run>,
    /// The build of Hermes; `None` in results of a version that did not note it.
    #[serde(default)]
    pub build: Option<MeasuredBuild>,
    /// The rounds of each system.
    pub systems: SystemRounds<Decider, DecisionCost>,
}

impl Decisions {
    /// A figure of a system.
    fn of(&self, decider: Decider, figure: PartOfCost) -> Option<Summary> {
        self.systems.summary(decider, |round| Some(figure(round)))
    }

    /// The addition of a decision: in each round, the difference between the system and its proxy alone.
    fn added(&self, decider: Decider, figure: PartOfCost) -> Option<Summary> {
        let with = self.systems.of(decider);
        let without = self.systems.of(decider.bare());
        let more: Vec<_> = with
            .iter()
            .zip(without)
            .map(|(with, without)| figure(with) - figure(without))
            .collect();

        Summary::of(&more)
    }

    /// The middle of that.
    fn usually_added(&self, decider: Decider, figure: PartOfCost) -> Option<f64> {
        self.added(decider, figure).map(|added| added.median)
    }

    /// The build of Hermes that these figures are of.
    fn described_build(&self) -> String {
        let build = self.build.as_ref().map(MeasuredBuild::describe);
        let build = build.unwrap_or_else(|| "a build that was not noted".to_owned());
        format!("Hermes: {build}")
    }

    fn header(&self) -> Vec<String> {
        let names = FIGURES.iter().map(|(name, _)| format!("{name}, us"));
        std::iter::once("system".to_owned()).chain(names).collect()
    }

    fn row(&self, decider: Decider) -> Vec<String> {
        let cell = |(_, figure): &(&str, PartOfCost)| {
            let Some(summary) = self.of(decider, *figure) else {
                return String::new();
            };
            match self.added(decider, *figure) {
                Some(added) if decider != decider.bare() => {
                    let Summary {
                        median,
                        least,
                        most,
                    } = added;
                    let middle = number(summary.median);
                    format!("{middle} ({median:+.1}, {least:+.0} to {most:+.0})")
                }
                _ => number(summary.median),
            }
        };

        std::iter::once(decider.name().to_owned())
            .chain(FIGURES.iter().map(cell))
            .collect()
    }

    /// The goals, and the verdict on each.
    fn goals(&self) -> Vec<String> {
        let kept = FIGURES[0].1;
        let processor = FIGURES[3].1;
        let bare = self.of(Decider::Hermes, processor);
        let share = self
            .usually_added(Decider::Native10000, processor)
            .zip(bare)
            .map(|(added, bare)| added / bare.median);

        let mut goals = vec![
            goal(
                &format!("{MANY} rules of Hermes add to a kept exchange, us"),
                self.usually_added(Decider::Native10000, kept),
                NATIVE_MOST,
            ),
            goal(
                &format!("{MANY} rules of Hermes add to its processor time, share"),
                share,
                NATIVE_SHARE,
            ),
            goal(
                "a policy in Rego adds to a kept exchange, us",
                self.usually_added(Decider::Rego, kept),
                REGO_MOST,
            ),
        ];
        for (decider, words) in [
            (Decider::Native10000, "rules of Hermes add"),
            (Decider::Rego, "a policy in Rego in Hermes adds"),
        ] {
            for (figure, of) in [(kept, "time"), (processor, "processor time")] {
                let envoy = self.usually_added(Decider::EnvoyOpa, figure);
                let share = self.usually_added(decider, figure).zip(envoy);
                goals.push(goal(
                    &format!("{words}, of the {of} that Envoy with OPA adds"),
                    share.map(|(added, envoy)| added / envoy),
                    OF_ENVOY_OPA,
                ));
            }
        }

        goals.into_iter().flatten().collect()
    }
}

impl Published for Decisions {
    fn print(&self) -> String {
        let rows = self.systems.systems().map(|decider| self.row(decider));
        let table = plain_table(self.header(), rows, 1);

        let goals = self.goals().join("\n");
        let build = self.described_build();
        format!(
            "Microseconds an exchange: median (what the decision adds: median, least to most)\n\n{table}\n\n{goals}\n\n{build}"
        )
    }

    fn page(&self) -> String {
        let mut page = "# What a decision costs\n\n\
            One proxy with one thread between a client and an origin, in one run: without a decision, and with rules or a policy that \
            allow what the client does. `kept` is an exchange on a kept connection, `new` one with its connection, `tunnel` a CONNECT with \
            its connection, `processor` the processor time of an exchange of all processes while 16 clients ask at once. In parentheses is what \
            the decision adds to its proxy alone in the same round: the median of the rounds, the least and the most. The conditions of \
            `unindexed10000` are such that no index finds its rules, so that each is looked at.\n\n"
            .to_owned();
        let rows = self.systems.systems().map(|decider| self.row(decider));
        page += &page_table(&self.header(), rows, 1);

        page += "\n";
        for goal in self.goals() {
            page += &format!("- {goal}\n");
        }
        page += &format!(
            "\n{}. The [instructions of a decision]({PROFILES}), which other programs on the machine do not change, are counted apart.\n",
            self.described_build()
        );
        if let Some(run) = &self.run {
            page += &format!("\n{run}\n");
        }

        page
    }
}

/// A line about one goal; `None` without figures for it.
fn goal(what: &str, value: Option<f64>, most: f64) -> Option<String> {
    let value = value?;
    let word = if value <= most { "reached" } else { "missed" };
    Some(format!("{what}: {value:.3}, wanted at most {most}: {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kept: f64) -> DecisionCost {
        DecisionCost {
            kept,
            new: 2.0 * kept,
            tunnel: kept,
            processor: kept / 2.0,
        }
    }

    #[test]
    fn what_a_decision_adds_is_compared_within_each_round() {
        let mut decisions = Decisions::default();
        for (bare, with) in [(100.0, 104.0), (200.0, 203.0), (50.0, 60.0)] {
            decisions.systems.add(Decider::Native10000, measured(with));
            decisions.systems.add(Decider::Hermes, measured(bare));
        }
        let added = decisions.added(Decider::Native10000, FIGURES[0].1).unwrap();
        assert_eq!((added.median, added.least, added.most), (4.0, 3.0, 10.0));

        let text = decisions.print();
        assert!(text.contains("104 (+4.0, +3 to +10)"), "{text}");
        assert!(
            text.contains("us: 4.000, wanted at most 5: reached"),
            "{text}"
        );
        assert!(
            text.contains("share: 0.040, wanted at most 0.03: missed"),
            "{text}"
        );
        assert!(text.ends_with("Hermes: a build that was not noted"));
        assert!(decisions.page().contains("(profiles.md#a-decision)"));
        assert!(
            !text.contains("Envoy with OPA"),
            "nothing was measured of it: {text}"
        );
    }
}

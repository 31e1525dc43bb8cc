//! The results as a page, and in a terminal.

use std::fmt::Write as _;

use super::CacheResults;
use crate::options::Published;

/// Reasons of failures that are decisions.
const REASONS: &[(&str, &str)] = &[(
    "One with must-revalidate is",
    "must-revalidate permits it, and says nothing of the credential: without `public` or `s-maxage` the answer of one user is not given to another.",
)];

/// The processor time of a hit by place: `perf record` of a release with symbols, under `h2load --h1 -c 8`.
const PROFILE: &str = "\nA hit of 1 KiB by place (`perf record` under `h2load --h1 -c 8`): 42 % is the kernel's, for one read and one write, as for any cache; 9 % the allocator, 6 % the syntax of HTTP, \
     6 % policies and routes, 6 % the connection, 5 % the event loop, 4 % the stages of an exchange and as much giving its parts back, 3 % copies, 3 % the record of it, 3 % the cache itself. No function has more \
     than 3.3 %. What nginx does not do for a hit is the exchange: its policy, account, trace and record, which are there whether a function answers or a target.\n";

impl CacheResults {
    /// How many cases of these levels a system passes, and of how many.
    fn passed(&self, system: &str, levels: &[&str]) -> (usize, usize) {
        let of_levels = self.cases.iter().filter(|case| {
            levels.contains(&case.level.as_str()) && !case.section.starts_with("RFC")
        });
        let mut passed = 0;
        let mut all = 0;
        for case in of_levels {
            all += 1;
            passed += usize::from(matches!(case.failures.get(system), Some(None)));
        }
        (passed, all)
    }

    fn summary(&self) -> String {
        let mut text =
            String::from("| of RFC 9111 | MUST, MUST NOT | SHOULD | MAY |\n|---|--:|--:|--:|\n");
        for system in &self.systems {
            let cell = |levels: &[&str]| {
                let (passed, all) = self.passed(system, levels);
                format!("{passed} of {all}")
            };
            let must = cell(&["MUST", "MUST NOT"]);
            let _ = writeln!(
                text,
                "| {system} | {must} | {} | {} |",
                cell(&["SHOULD"]),
                cell(&["MAY"])
            );
        }
        text
    }

    fn table(&self) -> String {
        let mut text = format!("| section | | case | {} |\n", self.systems.join(" | "));
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(self.systems.len()));
        for case in &self.cases {
            let cells = self
                .systems
                .iter()
                .map(|system| match case.failures.get(system) {
                    Some(None) => "yes".to_owned(),
                    Some(Some(reason)) => format!("**no**: {}", reason.replace('|', "/")),
                    None => "-".to_owned(),
                });
            let cells: Vec<_> = cells.collect();
            let claim = &case.claim;
            let _ = writeln!(
                text,
                "| {} | {} | {claim} | {} |",
                case.section,
                case.level,
                cells.join(" | ")
            );
        }
        text
    }

    fn failures(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            let Some(Some(failure)) = case.failures.get("hermes") else {
                continue;
            };
            let known = REASONS.iter().find(|(claim, _)| *claim == case.claim);
            let reason = known.map_or("", |(_, reason)| reason);
            let section = &case.section;
            let _ = writeln!(text, "- {section}, {}: {failure}. {reason}", case.claim);
        }
        text
    }

    fn costs(&self) -> String {
        let mut text = String::from(
            "| | hit ratio | of bytes | processor, 1 KiB | median | 99 % | processor, 100 KiB | median | 99 % |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for system in &self.systems {
            let Some(figures) = self.trace.get(system) else {
                continue;
            };
            let _ = write!(
                text,
                "| {system} | {:.1} % | {:.1} %",
                figures.hit_percent, figures.byte_hit_percent
            );
            for hit in [&figures.small, &figures.large] {
                let _ = write!(
                    text,
                    " | {:.1} µs | {:.0} µs | {:.0} µs",
                    hit.processor_us, hit.median_us, hit.p99_us
                );
            }
            text.push_str(" |\n");
        }
        text
    }
}

impl Published for CacheResults {
    fn print(&self) -> String {
        let mut text = format!("{}\n{}", self.summary(), self.failures());
        for system in self.systems.iter().filter(|system| *system != "hermes") {
            for case in &self.cases {
                if let Some(Some(reason)) = case.failures.get(system) {
                    let _ = writeln!(
                        text,
                        "  {system}: {} {}: {reason}",
                        case.section, case.claim
                    );
                }
            }
        }
        if !self.trace.is_empty() {
            let _ = write!(text, "\n{}", self.costs());
        }
        text
    }

    fn page(&self) -> String {
        let mut text = String::from(
            "# Caches\n\nMade by `hermes-lab cache` ([how](../performance.md)). Each cache stands alone before one origin, with its defaults but for these: nginx has \
             `proxy_cache`, `proxy_cache_revalidate` and `proxy_cache_lock`, Varnish no grace and an hour in which it validates, Squid is an accelerator; each has 64 MiB for stored responses, and Hermes 512 MiB \
             for everything: one client may have a part of it only.\n\n\
             ## RFC 9111\n\nEvery case is a few exchanges, written in [cases.txt](../../crates/tools/lab/src/cache/cases.txt), and is played against all caches in the same run. MAY: \
             a cache that does not is right, too, but of less use.\n\n",
        );
        text += &self.summary();
        text += "\nCases that Hermes fails:\n\n";
        text += &self.failures();
        let _ = write!(text, "\n{}", self.table());
        if !self.trace.is_empty() {
            text += "\n## Hits\n\nThe trace: 40,000 requests of one client by Zipf's law (exponent 0.8) for 8,000 objects of 1 KiB to 1 MiB, five times as much as the caches hold. \
                     nginx keeps its objects in files, and removes those that are too many only now and then. Then one object: the time of the cache's processor with eight clients, \
                     and the time until it is there with one.\n\n";
            text += &self.costs();
            text += PROFILE;
        }
        text
    }
}

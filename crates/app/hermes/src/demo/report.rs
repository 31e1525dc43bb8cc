//! The report of the demo.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table;

use super::evidence::{Checked, Evidence, Latency};

/// Columns of the report: those of a usual terminal.
const WIDTH: usize = 80;

/// The head of the paragraph of a check.
const GOOD: &str = "ok  ";
const BAD: &str = "FAILED  ";

/// Prints the findings.
///
/// # Errors
/// When a check failed.
pub fn show(results: &[Checked], output: Output) -> Result<(), Failure> {
    if output.json {
        output.value(&object(results));
    } else {
        output.line(painted(&text(results), output));
    }
    verdict(results, output)
}

fn verdict(results: &[Checked], output: Output) -> Result<(), Failure> {
    let failed: Vec<_> = results
        .iter()
        .filter(|result| result.outcome.is_err())
        .map(|result| result.what)
        .collect();
    match (failed.is_empty(), output.json) {
        (true, true) => Ok(()),
        (true, false) => {
            output.line(output.paint(
                Colour::Good,
                &format!("all {} checks passed", results.len()),
            ));
            Ok(())
        }
        (false, true) => Err(Failure::told(1)),
        (false, false) => Err(Failure::failed(format!(
            "{} of {} checks failed: {}",
            failed.len(),
            results.len(),
            failed.join("; ")
        ))),
    }
}

/// A paragraph for each check.
fn text(results: &[Checked]) -> String {
    results.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// The verdict and the times, then the path hop by hop, its evidence and the added fields.
fn paragraph(result: &Checked) -> String {
    let (evidence, what) = match &result.outcome {
        Ok(evidence) => (evidence, format!("{GOOD}{}", result.what)),
        Err(reason) => return block(format!("{BAD}{}", result.what), &[reason]),
    };

    let times = evidence.latency.map(times).unwrap_or_default();
    // The times stand at the end of the line.
    let room = WIDTH.saturating_sub(times.chars().count() + 1);
    let title = if times.is_empty() {
        what
    } else {
        format!("{what:<room$} {times}")
    };

    let fields = match evidence.journey.fields.as_slice() {
        [] => String::new(),
        fields => format!("fields added: {}", fields.join(", ")),
    };

    block(
        title,
        &[
            &evidence.journey.hops.join(" -> "),
            &evidence.proof,
            &fields,
        ],
    )
}

/// A line and, indented below it, others that are wrapped to fit.
fn block(title: String, below: &[&str]) -> String {
    let below = below
        .iter()
        .flat_map(|line| table::wrapped(line, GOOD.len(), WIDTH));
    std::iter::once(title)
        .chain(below)
        .collect::<Vec<_>>()
        .join("\n")
}

fn times(latency: Latency) -> String {
    format!(
        "{}, direct {}",
        table::short_time(latency.overlay),
        table::short_time(latency.direct)
    )
}

/// Colours the verdicts. After the text is laid out: colours have no width.
fn painted(text: &str, output: Output) -> String {
    let paint = |line: &str| match (line.strip_prefix(GOOD), line.strip_prefix(BAD)) {
        (Some(rest), _) if !rest.starts_with(' ') => {
            format!("{}{rest}", output.paint(Colour::Good, GOOD))
        }
        (_, Some(rest)) => format!("{}{rest}", output.paint(Colour::Bad, BAD)),
        _ => line.to_owned(),
    };
    text.lines().map(paint).collect::<Vec<_>>().join("\n")
}

fn object(results: &[Checked]) -> Value {
    let failed = results
        .iter()
        .filter(|result| result.outcome.is_err())
        .count();
    json!({
        "passed": results.len() - failed,
        "failed": failed,
        "checks": results.iter().map(check).collect::<Vec<_>>(),
    })
}

fn check(result: &Checked) -> Value {
    match &result.outcome {
        Ok(evidence) => passed(result.what, evidence),
        Err(reason) => json!({ "what": result.what, "ok": false, "error": reason }),
    }
}

fn passed(what: &str, evidence: &Evidence) -> Value {
    let latency = evidence
        .latency
        .map(|latency| json!({ "overlay_us": latency.overlay.as_micros(), "direct_us": latency.direct.as_micros() }));
    json!({
        "what": what,
        "ok": true,
        "path": evidence.journey.hops,
        "fields": evidence.journey.fields,
        "proof": evidence.proof,
        "round_trip": latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::evidence::Journey;
    use std::time::Duration;

    const QUIET: Output = Output {
        json: false,
        terminal: false,
    };

    fn results() -> Vec<Checked> {
        let journey = Journey {
            hops: vec!["alice".into(), "DB".into()],
            fields: vec!["service: db".into()],
        };
        let latency = Latency {
            overlay: Duration::from_micros(640),
            direct: Duration::from_micros(85),
        };
        let evidence = Evidence {
            journey,
            proof: "DB spoke first".into(),
            latency: Some(latency),
        };
        vec![
            Checked {
                what: "TCP",
                outcome: Ok(evidence),
            },
            Checked {
                what: "UDP",
                outcome: Err("nothing came back".into()),
            },
        ]
    }

    #[test]
    fn a_paragraph_tells_path_fields_and_time() {
        let text = text(&results());
        for expected in [
            "ok  TCP",
            "alice -> DB",
            "service: db",
            "640 us, direct 85 us",
            "FAILED  UDP",
            "nothing came back",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
    }

    #[test]
    fn a_failed_check_is_named_in_the_end() {
        let failure = verdict(&results(), QUIET).unwrap_err();
        assert_eq!(
            (failure.code, failure.reason.as_str()),
            (1, "1 of 2 checks failed: UDP")
        );
    }

    #[test]
    fn scripts_see_the_same() {
        let object = object(&results());
        assert_eq!(
            (&object["passed"], &object["failed"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(object["checks"][0]["round_trip"]["overlay_us"], 640);
        assert_eq!(object["checks"][1]["error"], "nothing came back");
    }

    #[test]
    fn colours_come_after_the_layout() {
        let terminal = Output {
            json: false,
            terminal: true,
        };
        assert!(
            painted("ok  TCP\n    ok", QUIET) == "ok  TCP\n    ok"
                && painted("ok  TCP", terminal).ends_with("mTCP")
        );
    }
}

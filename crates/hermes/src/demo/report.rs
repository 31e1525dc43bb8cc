//! What the demo shows for it.

use comfy_table::{ColumnConstraint, Width};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table;

use super::evidence::{Checked, Evidence, Latency};

/// Columns of the path, so that it stands on one line: five names, four arrows, and the space around.
const PATH_WIDTH: u16 = 44;

/// Shows what was found.
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
    let failed: Vec<_> = results.iter().filter(|result| result.outcome.is_err()).map(|result| result.what).collect();
    match (failed.is_empty(), output.json) {
        (true, true) => Ok(()),
        (true, false) => {
            output.line(output.paint(Colour::Good, &format!("all {} checks passed", results.len())));
            Ok(())
        }
        (false, true) => Err(Failure::told(1)),
        (false, false) => {
            Err(Failure::failed(format!("{} of {} checks failed: {}", failed.len(), results.len(), failed.join("; "))))
        }
    }
}

fn text(results: &[Checked]) -> String {
    let mut table = table::framed(&["what", "path, hop by hop", "fields added", "round trip"]);
    table.add_rows(results.iter().map(row));
    if let Some(path) = table.column_mut(1) {
        path.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(PATH_WIDTH)));
    }
    table.trim_fmt()
}

fn row(result: &Checked) -> [String; 4] {
    match &result.outcome {
        Ok(evidence) => [
            format!("ok  {}", result.what),
            format!("{}\n{}", evidence.journey.hops.join(" -> "), evidence.proof),
            evidence.journey.fields.join("\n"),
            evidence.latency.map(times).unwrap_or_default(),
        ],
        Err(reason) => [format!("FAILED  {}", result.what), reason.clone(), String::new(), String::new()],
    }
}

fn times(latency: Latency) -> String {
    format!("{}\ndirect {}", table::short_time(latency.overlay), table::short_time(latency.direct))
}

/// Colours the verdicts. After the table is laid out: colours have no width.
fn painted(text: &str, output: Output) -> String {
    let good = output.paint(Colour::Good, "ok");
    let bad = output.paint(Colour::Bad, "FAILED");
    text.replace("│ ok  ", &format!("│ {good}  ")).replace("│ FAILED  ", &format!("│ {bad}  "))
}

fn object(results: &[Checked]) -> Value {
    let failed = results.iter().filter(|result| result.outcome.is_err()).count();
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

    const QUIET: Output = Output { json: false, terminal: false };

    fn results() -> Vec<Checked> {
        let journey = Journey { hops: vec!["alice".into(), "DB".into()], fields: vec!["service: db".into()] };
        let latency = Latency { overlay: Duration::from_micros(640), direct: Duration::from_micros(85) };
        let evidence = Evidence { journey, proof: "DB spoke first".into(), latency: Some(latency) };
        vec![
            Checked { what: "TCP", outcome: Ok(evidence) },
            Checked { what: "UDP", outcome: Err("nothing came back".into()) },
        ]
    }

    #[test]
    fn a_row_tells_path_fields_and_time() {
        let text = text(&results());
        for expected in
            ["ok  TCP", "alice -> DB", "service: db", "640 us", "direct 85 us", "FAILED  UDP", "nothing came back"]
        {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
    }

    #[test]
    fn a_failed_check_is_named_in_the_end() {
        let failure = verdict(&results(), QUIET).unwrap_err();
        assert_eq!((failure.code, failure.reason.as_str()), (1, "1 of 2 checks failed: UDP"));
    }

    #[test]
    fn scripts_see_the_same() {
        let object = object(&results());
        assert_eq!((&object["passed"], &object["failed"]), (&json!(1), &json!(1)));
        assert_eq!(object["checks"][0]["round_trip"]["overlay_us"], 640);
        assert_eq!(object["checks"][1]["error"], "nothing came back");
    }

    #[test]
    fn colours_come_after_the_layout() {
        let terminal = Output { json: false, terminal: true };
        assert!(
            painted("│ ok  TCP │", QUIET) == "│ ok  TCP │" && painted("│ ok  TCP │", terminal).ends_with("  TCP │")
        );
    }
}

//! Every refusal of a node in a test has a name by which the node can be asked, and says where in the file it comes from.

use serde_json::Value;

use crate::Node;

/// Refusals of one node that are asked about when its test ends; it remembers more.
const ASKED: usize = 100;

/// How exchanges end by the doing of a far end; like the types of proxy errors, these words have an underscore.
const THERE: [&str; 3] = ["client_closed", "client_reset", "target_reset"];

/// Whether the node itself refused or ended the exchange of a record.
fn is_refused(record: &Value) -> bool {
    let reason = record["reason"].as_str().unwrap_or_default();
    let word = reason.split(':').next().unwrap_or_default();
    // A flow of IP is no exchange: its tunnel is.
    record["event"] == "end"
        && record["kind"] != "flow"
        && record["refused_by"].is_null()
        && word.contains('_')
        && !THERE.contains(&word)
}

/// Asks a node about the last of its refusals.
///
/// # Panics
/// It does not know one, or not where it is written.
pub(crate) fn check(node: &Node, records: &[Value]) {
    if let Some(nameless) = records
        .iter()
        .find(|record| is_refused(record) && record["refusal"].is_null())
    {
        panic!("a refusal has no name: {nameless}");
    }

    let names = records
        .iter()
        .rev()
        .filter(|record| record["event"] == "end")
        .filter_map(|record| record["refusal"].as_str());

    for name in names.take(ASKED) {
        let Some((status, answer)) = node.try_ask("GET", &format!("/why/{name}"), "") else {
            // It has ended.
            return;
        };
        assert_eq!(status, 200, "refusal {name} is not remembered: {answer}");

        let account: Value = serde_json::from_str(&answer).unwrap();
        let last = account["steps"].as_array().and_then(|steps| steps.last());
        let last = last.unwrap_or_else(|| panic!("refusal {name} has no step: {account}"));
        assert!(
            last["path"].as_str().is_some_and(|path| !path.is_empty()),
            "refusal {name} has no place: {account}"
        );
        assert!(
            last["place"].is_string() || account["without_lines"].is_string(),
            "refusal {name} has no line: {account}"
        );
    }
}

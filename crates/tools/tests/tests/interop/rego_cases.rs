//! The cases that OPA publishes for evaluators of Rego: what is evaluated here comes to the same.
//!
//! A case that does not is in `rego_cases.txt` with its reason, or needs a builtin that a node does not have; one that does may not be
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use hermes_rego::{Budget, Evaluator, Policy};
use hermes_tests::{Opa, curl};
use serde_json::{Map, Value, json};

/// Cases that come to something else: the reason, and below it each case, indented.
const LISTED: &str = include_str!("rego_cases.txt");

/// Builtins that a node does not have, by how they begin, and why.
const MISSING: &[(&str, &str)] = &[
    ("array.flatten", NEW),
    ("crypto.", "tokens and certificates are checked by the node"),
    ("graphql.", "no exchange is a query of GraphQL"),
    ("http.send", "a policy reaches no network"),
    ("io.jwt.encode", "nothing is signed for others"),
    (
        "json.match_schema",
        "schemas would need a crate of their own",
    ),
    (
        "json.verify_schema",
        "schemas would need a crate of their own",
    ),
    (
        "net.cidr_contains_matches",
        "a policy can say it with net.cidr_contains",
    ),
    (
        "net.cidr_expand",
        "a prefix of a few letters would become millions of texts",
    ),
    ("net.cidr_merge", "no decision needs it"),
    ("net.lookup_ip_addr", "a policy reaches no network"),
    ("opa.runtime", "a policy knows nothing of its node"),
    ("providers.aws.", "nothing is signed for others"),
    ("rand.intn", "a decision is no matter of chance"),
    ("regex.globs_match", NEW),
    ("rego.", "policies do not read policies"),
    (
        "strings.render_template",
        "templates would need a crate of their own",
    ),
    ("strings.split_n", NEW),
    ("uri.", NEW),
    ("uuid.", "a decision is no matter of chance"),
    ("yaml.", "YAML would need a crate of its own"),
];

const NEW: &str = "the interpreter does not know it yet";

/// Long enough on any machine: what ends a case is its budget.
const TIME: Duration = Duration::from_secs(60);

fn cases() -> Vec<Value> {
    let program =
        std::env::var("HERMES_OPA").expect("HERMES_OPA names OPA: ./test interop sets it");
    let said = Command::new(program).arg("cases").output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let text = String::from_utf8(said.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What a case came to.
#[derive(Debug, PartialEq)]
enum Came {
    Value(Option<Value>),
    Broken(String),
}

fn evaluate(case: &Value, rule: &str) -> Came {
    let modules = case["modules"].as_array().into_iter().flatten();
    let mut files: Vec<_> = modules
        .enumerate()
        .map(|(number, module)| {
            (
                format!("{number}.rego"),
                module.as_str().unwrap().to_owned(),
            )
        })
        .collect();
    if !case["data"].is_null() {
        files.push(("data.json".to_owned(), case["data"].to_string()));
    }

    let policy = match Policy::new(&files, rule) {
        Ok(policy) => policy,
        Err(wrong) => return Came::Broken(wrong[0].to_string()),
    };
    let evaluator = match Evaluator::new(policy, Budget::default(), 1) {
        Ok(evaluator) => evaluator,
        Err(wrong) => return Came::Broken(wrong.to_string()),
    };
    let input = match &case["input_term"] {
        Value::String(term) => serde_json::from_str(term).unwrap_or_default(),
        _ => case["input"].clone(),
    };
    match evaluator.ask_blocking(input, TIME) {
        Ok(value) => Came::Value(value),
        Err(failure) => Came::Broken(failure.to_string()),
    }
}

/// Why a case is not to be tried, or what it came to instead.
fn judge(case: &Value) -> Result<(), String> {
    let query = case["query"].as_str().unwrap();
    let rule = query.strip_suffix(" = x").filter(|rule| {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        rule.starts_with("data.") && rule.split('.').all(is_name)
    });
    let rule = rule.ok_or("it asks for more than a rule")?;
    if let Value::String(term) = &case["input_term"]
        && serde_json::from_str::<Value>(term).is_err()
    {
        return Err("its input is no JSON".to_owned());
    }

    let came = evaluate(case, rule);
    let is_error = case.get("want_error").is_some() || case.get("want_error_code").is_some();
    let is_same = match (&came, is_error) {
        (Came::Broken(_), true) => true,
        // Where OPA is not strict, either, the call that fails is undefined.
        (Came::Value(None), true) => case["strict_error"] == json!(true),
        (Came::Value(_), true) | (Came::Broken(_), false) => false,
        (Came::Value(value), false) => *value == wanted(case, value.as_ref()),
    };
    // One that is not there may be said to be a variable without a value, where its result is an operand.
    let called = |name: &str| {
        let mut modules = case["modules"].as_array().into_iter().flatten();
        modules.any(|module| module.as_str().is_some_and(|module| module.contains(name)))
    };
    let missing = MISSING.iter().find(|(name, _)| called(name));
    match (is_same, came) {
        (true, _) => Ok(()),
        (false, Came::Broken(_)) if missing.is_some() => {
            Err(missing.map_or("", |(_, reason)| reason).to_owned())
        }
        (false, Came::Value(value)) => Err(format!("it comes to {}", json!(value))),
        (false, Came::Broken(said)) => Err(said),
    }
}

/// The value that is wanted; in the order of `found` where the order says nothing.
fn wanted(case: &Value, found: Option<&Value>) -> Option<Value> {
    let rows = case["want_result"].as_array()?;
    let value = rows.first()?.get("x")?.clone();
    match found {
        Some(found) if alike(&value, found) => Some(found.clone()),
        _ => Some(value),
    }
}

/// Whether two values are equal, if lists may stand for sets and whole numbers for others.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            let mut rest: Vec<&Value> = other.iter().collect();
            one.len() == other.len()
                && one.iter().all(|value| {
                    let found = rest.iter().position(|candidate| alike(value, candidate));
                    found.map(|at| rest.remove(at)).is_some()
                })
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| alike(value, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// Whether a reason holds of a case without its being listed.
fn is_known(reason: &str) -> bool {
    let missing = MISSING.iter().map(|(_, reason)| *reason);
    let of_cases = ["it asks for more than a rule", "its input is no JSON"];
    missing.chain(of_cases).any(|known| known == reason)
}

/// The cases that are listed, each with its reason.
fn listed() -> BTreeMap<&'static str, &'static str> {
    let mut reason = "";
    let mut listed = BTreeMap::new();
    for line in LISTED
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        match line.strip_prefix("  ") {
            Some(note) => _ = listed.insert(note, reason),
            None => reason = line,
        }
    }
    listed
}

#[test]
fn every_published_case_comes_to_the_same_or_is_listed_with_its_reason() {
    let listed = listed();
    let mut used = BTreeSet::new();
    let mut unlisted = Map::new();
    let mut passed = 0;
    let cases = cases();

    // Some cases share a name.
    for case in &cases {
        let note = case["note"].as_str().unwrap();
        match judge(case) {
            Ok(()) => passed += 1,
            Err(_) if listed.contains_key(note) => _ = used.insert(note),
            Err(reason) if is_known(&reason) => {}
            Err(reason) => _ = unlisted.insert(note.to_owned(), json!(reason)),
        }
    }

    let unlisted = Value::Object(unlisted);
    let all = cases.len();
    assert_eq!(unlisted, json!({}), "{passed} of {all} pass; {unlisted:#}");
    let unused: Vec<_> = listed.keys().filter(|note| !used.contains(*note)).collect();
    assert!(unused.is_empty(), "need not be listed: {unused:?}");
}

/// Times that are written and read by layouts, of which OPA publishes few cases.
const TIMES: &str = r#"
package times

import rego.v1

layouts := [
	"", "ANSIC", "UnixDate", "RubyDate", "RFC822", "RFC822Z", "RFC850", "RFC1123", "RFC1123Z", "RFC3339", "RFC3339Nano",
	"2006-01-02", "Monday January _2 3:04pm", "Mon Jan 2 03 PM", "002 __2 06", "15h4m5s", "05.000 05,999999 .99 .09",
	"-07 -0700 -07:00 -070000 -07:00:00", "Z07 Z0700 Z07:00 Z070000 Z07:00:00", "MST _2006 20060102 Janus Monk Decem", "é 2 ü",
]

zones := ["", "UTC", "Europe/Oslo", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe", "Local", "Nowhere/City"]

moments := [0, 1, -1, 951868799123456789, 1774745999000000000, 1793448000500000000, 4102444800000000000, -2208988800000000000]

written := {sprintf("%v %v %v", [moment, zone, layout]): text |
	some moment in moments
	some zone in zones
	some layout in layouts
	text := time.format([moment, zone, layout])
}

plain := {sprintf("%v", [moment]): text | some moment in moments; text := time.format(moment)}

zoned := {sprintf("%v", [moment]): text | some moment in moments; text := time.format([moment, "Asia/Kolkata"])}

texts := [
	["RFC3339", "2026-02-03T04:05:06Z"], ["RFC3339", "2026-02-03T04:05:06.789+05:30"], ["RFC3339", "2026-02-03 04:05:06Z"],
	["RFC3339Nano", "2026-02-03T04:05:06.123456789123-08:00"], ["RFC1123", "Tue, 03 Feb 2026 04:05:06 GMT"],
	["RFC1123", "Tue, 3 Feb 2026 04:05:06 GMT"], ["RFC1123", "tue, 03 feb 2026 04:05:06 UTC"], ["RFC1123Z", "Tue, 03 Feb 2026 04:05:06 +0100"],
	["RFC850", "Tuesday, 03-Feb-26 04:05:06 XYZ"], ["ANSIC", "Tue Feb  3 04:05:06 2026"], ["ANSIC", "Tue Feb 3 04:05:06 2026"],
	["UnixDate", "Tue Feb  3 04:05:06 GMT+3 2026"], ["2006-01-02", "2026-02-30"], ["2006-01-02", "2024-02-29"], ["2006-1-2", "2026-3-14"],
	["2006-01-02", "2026-3-14"], ["2006-01-02", "2026-03-14 "], ["2006-01-02 15:04", "2026-03-14 24:00"], ["2006-01-02 15:04", "2026-03-14 23:59"],
	["2006 002", "2024 366"], ["2006 002", "2023 366"], ["2006 __2", "2023   7"], ["2006 002 Jan", "2023 032 Feb"], ["2006 002 Jan", "2023 032 Mar"],
	["3PM 2 Jan 06", "12AM 1 Jan 70"], ["3pm 2 Jan 06", "12pm 1 Jan 69"], ["3PM 2 Jan 06", "13PM 1 Jan 70"], ["15:04", "04:05"],
	["2006 -07", "1990 +05"], ["2006 -07:00:00", "1990 -05:30:15"], ["2006 Z0700", "1990 Z"], ["2006 -0700", "1990 Z"], ["2006 -07:00", "1990 +2500"],
	["2006 5", "1990 7.25"], ["2006 5.000", "1990 7.25"], ["2006 05.00", "1990 07,25"], ["2006 January", "1990 September"], ["2006 Jan", "1990 September"],
	["2006   Monday", "1990 Friday"], ["2006 Mon", "1990 Fr"], ["nothing", "nothing"], ["", ""], ["", "2026-02-03T04:05:06Z"], ["2006", "2300"], ["2006", "1600"], ["2006", "19900"],
	["2006 MST", "1990 CEST"], ["2006 MST", "1990 cest"], ["2006 MST", "1990 WITA"], ["2006 MST", "1990 GMT-12"], ["2006 MST", "1990 GMT+99"], ["2006 MST", "1990 +0300"],
]

read := {sprintf("%v", [index]): at | some index, text in texts; at := time.parse_ns(text[0], text[1])}

all := {"written": written, "plain": plain, "zoned": zoned, "read": read}
"#;

#[test]
fn times_are_written_and_read_by_layouts_as_opa_does() {
    let opa = Opa::start(TIMES);
    let socket = opa.socket();
    let said = curl(&[
        "--unix-socket",
        socket.to_str().unwrap(),
        "http://opa/v1/data/times/all",
    ]);
    let said: Value = serde_json::from_str(&said.text()).unwrap();
    let wanted = &said["result"];

    let files = [("times.rego".to_owned(), TIMES.to_owned())];
    let policy = Policy::new(&files, "data.times.all").unwrap();
    let evaluator = Evaluator::new(policy, Budget::default(), 1).unwrap();
    let came = evaluator.ask_blocking(Value::Null, TIME).unwrap().unwrap();
    for (name, wanted) in wanted.as_object().unwrap() {
        for (key, wanted) in wanted.as_object().unwrap() {
            assert_eq!(came[name].get(key), Some(wanted), "{name}: {key}");
        }
        let more = came[name].as_object().unwrap();
        assert_eq!(more.len(), wanted.as_object().unwrap().len(), "{name}");
    }
}

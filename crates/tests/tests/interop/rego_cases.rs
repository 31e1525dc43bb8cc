//! The cases that OPA publishes for evaluators of Rego: what is evaluated here comes to the same.
//!
//! A case that does not is in `rego_cases.txt` with its reason, or needs a builtin that a node does not have; one that does may not be
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use hermes_rego::{Budget, Evaluator, Policy};
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

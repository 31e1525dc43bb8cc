//! What is told of a decision, and what is not.

use hermes_config::model::DecisionPointer;
use hermes_proto::fields::Fields;
use http::HeaderValue;
use serde_json::{Map, Value, json};

use super::mask::{line, without_secrets};

fn event(event: Value) -> Map<String, Value> {
    let Value::Object(event) = event else {
        panic!("{event}")
    };
    event
}

fn told(said: Value, masked: &[&str]) -> Value {
    let masked: Vec<DecisionPointer> = masked.iter().map(|part| part.parse().unwrap()).collect();
    serde_json::from_slice(line(event(said), &masked).as_bytes()).unwrap()
}

#[test]
fn credentials_are_told_to_no_one_whatever_the_mask_says() {
    let mut fields = Fields::new();
    for name in ["cookie", "x-api-key", "token", "x-auth-token", "accept"] {
        fields.append(name, HeaderValue::from_static("1"));
    }
    let mut hidden = HeaderValue::from_static("2");
    hidden.set_sensitive(true);
    fields.append("x-a", HeaderValue::from_static("1"));
    fields.append("x-a", hidden);

    let mut erased = Vec::new();
    let shown = without_secrets(&fields, "/input/fields", &mut erased);
    assert_eq!(shown.names().collect::<Vec<_>>(), ["accept"]);
    assert_eq!(erased.len(), 5);
    assert!(erased.contains(&"/input/fields/x-a".to_owned()));
}

#[test]
fn what_the_mask_names_is_left_out_and_what_is_left_out_is_said() {
    let said = json!({
        "input": { "claims": { "a/b": [1, { "c": 2 }], "d": 3 }, "query": null, "path": "/" },
        "result": { "allow": true },
        "erased": ["/input/fields/cookie"],
    });
    let masked = [
        "/input/claims/a~1b/1/c",
        "/input/claims/d",
        "/input/query",
        "/input/path/x",
        "/result/fields/x-a",
        "/input/claims/a~1b/7",
    ];
    let told = told(said, &masked);
    assert_eq!(
        told,
        json!({
            "input": { "claims": { "a/b": [1, {}] }, "path": "/" },
            "result": { "allow": true },
            "erased": ["/input/fields/cookie", "/input/claims/a~1b/1/c", "/input/claims/d"],
        })
    );
}

#[test]
fn no_client_makes_a_decision_long() {
    let long = "x".repeat(20_000);
    let fields = json!({ "input": { "path": "/", "fields": { "x-a": long } }, "erased": [] });
    assert_eq!(
        told(fields, &[]),
        json!({ "input": { "path": "/" }, "erased": ["/input/fields"] })
    );
    let path = json!({ "input": { "path": long }, "result": { "reason": long }, "erased": [] });
    assert_eq!(
        told(path, &[]),
        json!({ "result": {}, "input": {}, "erased": ["/input/path", "/result/reason"] })
    );
    let names: Vec<String> = (0..2000).map(|at| format!("/input/fields/{at}")).collect();
    let many = told(json!({ "input": {}, "erased": names }), &[]);
    assert_eq!(many["erased"], json!(["/input", "/result/fields"]));
}

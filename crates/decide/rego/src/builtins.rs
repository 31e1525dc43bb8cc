//! Builtins that the interpreter lacks, or that would bring forth too much in one step. `growing.rs` has those that are looked at and
//! then left to the interpreter.
//!
//! An operand of a wrong type makes the call undefined, as in OPA.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regorus::{Engine, Value};
use serde_json::Value as Json;

use crate::input::value_of;
use crate::token_keys::Algorithm;
use crate::{growing, networks, signed_token, times};

/// Numbers in one range.
#[doc(alias = "bound")]
const RANGE: i64 = 10_000;

type Builtin = fn(&[Value]) -> Option<Value>;

const BUILTINS: &[(&str, u8, Builtin)] = &[
    ("io.jwt.decode", 1, jwt),
    ("io.jwt.decode_verify", 2, signed_token::decode_verify),
    ("io.jwt.verify_eddsa", 2, |of| verify(of, "EdDSA")),
    ("io.jwt.verify_es256", 2, |of| verify(of, "ES256")),
    ("io.jwt.verify_es384", 2, |of| verify(of, "ES384")),
    ("io.jwt.verify_es512", 2, |of| verify(of, "ES512")),
    ("io.jwt.verify_hs256", 2, |of| verify(of, "HS256")),
    ("io.jwt.verify_hs384", 2, |of| verify(of, "HS384")),
    ("io.jwt.verify_hs512", 2, |of| verify(of, "HS512")),
    ("io.jwt.verify_ps256", 2, |of| verify(of, "PS256")),
    ("io.jwt.verify_ps384", 2, |of| verify(of, "PS384")),
    ("io.jwt.verify_ps512", 2, |of| verify(of, "PS512")),
    ("io.jwt.verify_rs256", 2, |of| verify(of, "RS256")),
    ("io.jwt.verify_rs384", 2, |of| verify(of, "RS384")),
    ("io.jwt.verify_rs512", 2, |of| verify(of, "RS512")),
    ("json.is_valid", 1, is_json),
    ("json.unmarshal", 1, json),
    ("net.cidr_contains", 2, networks::contains),
    ("net.cidr_intersects", 2, networks::intersects),
    ("net.cidr_is_valid", 1, networks::is_valid),
    ("numbers.range", 2, range),
    ("numbers.range_step", 3, range_step),
    ("strings.count", 2, count),
    ("time.add_date", 4, times::add_date),
    ("time.clock", 1, times::clock),
    ("time.date", 1, times::date),
    ("time.diff", 2, times::diff),
    ("time.format", 1, times::format),
    ("time.now_ns", 0, times::now),
    ("time.parse_duration_ns", 1, times::parse_duration),
    ("time.parse_ns", 2, times::parse),
    ("time.parse_rfc3339_ns", 1, times::parse_rfc3339),
    ("time.weekday", 1, times::weekday),
    ("to_number", 1, number),
];

/// Adds ours. They come before the interpreter's own.
pub(crate) fn add(engine: &mut Engine) {
    for (name, operands, builtin) in BUILTINS {
        let call = |operands: Vec<Value>| Ok(builtin(&operands).unwrap_or(Value::Undefined));
        let added = engine.add_extension((*name).to_owned(), *operands, Box::new(call));
        debug_assert!(added.is_ok(), "{name} is there twice");
    }
    growing::add(engine);
}

/// Whether one of ours has this name.
pub(crate) fn is_there(name: &str) -> bool {
    BUILTINS.iter().any(|(known, ..)| *known == name)
}

/// Header, payload and signature of a token (RFC 7519), without any check: verified claims are in
/// the input.
fn jwt(operands: &[Value]) -> Option<Value> {
    let token = operands.first()?.as_string().ok()?;
    let mut parts = token.split('.');
    let mut part = || URL_SAFE_NO_PAD.decode(parts.next()?).ok();
    let header: Json = serde_json::from_slice(&part()?).ok()?;
    let payload: Json = serde_json::from_slice(&part()?).ok()?;

    let signature: String = part()?.iter().map(|byte| format!("{byte:02x}")).collect();
    if parts.next().is_some() {
        return None;
    }
    Some(Value::from(vec![
        value_of(header),
        value_of(payload),
        Value::from(signature),
    ]))
}

/// A document. The interpreter's own reading takes an object with a certain key for a number of any size, and computes all of it.
fn json(operands: &[Value]) -> Option<Value> {
    let text = operands.first()?.as_string().ok()?;
    serde_json::from_str(text).ok().map(value_of)
}

fn is_json(operands: &[Value]) -> Option<Value> {
    let text = operands.first()?.as_string().ok()?;
    Some(Value::from(serde_json::from_str::<Json>(text).is_ok()))
}

/// A number, or a text that is one in JSON.
fn number(operands: &[Value]) -> Option<Value> {
    match operands.first()? {
        Value::Null => Some(Value::from(0_u64)),
        Value::Bool(is_true) => Some(Value::from(u64::from(*is_true))),
        number @ Value::Number(_) => Some(number.clone()),
        Value::String(text) => {
            let json = serde_json::from_str::<Json>(text).ok();
            json.filter(Json::is_number).map(value_of)
        }
        _ => None,
    }
}

fn verify(operands: &[Value], algorithm: &str) -> Option<Value> {
    signed_token::verify(operands, Algorithm::named(algorithm)?)
}

/// How often a text stands in another, without overlaps. The interpreter's own fails at an empty one, which stands between all letters.
fn count(operands: &[Value]) -> Option<Value> {
    let [text, part] = operands else { return None };
    let text = text.as_string().ok()?;
    let part = part.as_string().ok()?;
    let count = text.matches(&**part).count();
    Some(Value::from(count))
}

fn range(operands: &[Value]) -> Option<Value> {
    let [from, to] = operands else { return None };
    numbers(from, to, 1)
}

fn range_step(operands: &[Value]) -> Option<Value> {
    let [from, to, step] = operands else {
        return None;
    };
    let step = step.as_i64().ok().filter(|step| *step > 0)?;
    numbers(from, to, step)
}

/// From one number to another, up or down, both included where the step meets them.
fn numbers(from: &Value, to: &Value, step: i64) -> Option<Value> {
    let from = from.as_i64().ok()?;
    let to = to.as_i64().ok()?;
    let distance = from.abs_diff(to);
    let count = i64::try_from(distance / step.unsigned_abs()).ok()?;
    if count >= RANGE {
        return None;
    }

    let step = if to < from { -step } else { step };
    let numbers = (0..=count).map(|turn| Value::from(from + turn * step));
    Some(Value::from(numbers.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(values: Json) -> Vec<Value> {
        values
            .as_array()
            .unwrap()
            .iter()
            .cloned()
            .map(Value::from)
            .collect()
    }

    #[test]
    fn ranges_go_up_and_down_and_have_an_end() {
        let of = |operands| range(&list(operands)).map(|value| value.to_string());
        assert_eq!(of(json!([1, 3])).unwrap(), "[1,2,3]");
        assert_eq!(of(json!([1, -1])).unwrap(), "[1,0,-1]");
        assert_eq!(of(json!([0, 1_000_000_000])), None);
        assert_eq!(of(json!([i64::MIN, i64::MAX])), None);
        assert_eq!(of(json!(["a", 1])), None);
        let stepped = range_step(&list(json!([1, 6, 2]))).unwrap();
        assert_eq!(stepped.to_string(), "[1,3,5]");
        assert!(range_step(&list(json!([1, 6, 0]))).is_none());
    }

    #[test]
    fn texts_are_counted_without_overlaps() {
        let of = |text: &str, part: &str| count(&[text.into(), part.into()]).map(|n| n.to_string());
        assert_eq!(of("11111", "11").unwrap(), "2");
        assert_eq!(of("cheese", "").unwrap(), "7");
        assert_eq!(of("", "").unwrap(), "1");
    }

    #[test]
    fn no_text_is_a_number_that_takes_all_memory() {
        let hidden = r#"{"$serde_json::private::Number":"1e999999999"}"#;
        let read = json(&[hidden.into()]).unwrap();
        assert_eq!(read.as_object().unwrap().len(), 1);
        assert_eq!(number(&[hidden.into()]), None);
        assert_eq!(is_json(&[hidden.into()]), Some(Value::from(true)));
        let payload = URL_SAFE_NO_PAD.encode(hidden);
        let token = format!("eyJhbGciOiJIUzI1NiJ9.{payload}.AQI");
        assert!(
            jwt(&[token.into()])
                .unwrap()
                .to_string()
                .contains("1e999999999")
        );
    }

    #[test]
    fn documents_and_numbers_are_read_from_text() {
        let of =
            |builtin: Builtin, value: Json| builtin(&list(json!([value]))).map(|it| it.to_string());
        assert_eq!(
            of(json, json!("{\"a\":[1,null]}")).unwrap(),
            r#"{"a":[1,null]}"#
        );
        assert_eq!(of(json, json!("{")), None);
        assert_eq!(of(is_json, json!("{")).unwrap(), "false");
        assert_eq!(of(number, json!("-1.5")).unwrap(), "-1.5");
        assert_eq!(of(number, json!(true)).unwrap(), "1");
        assert_eq!(of(number, json!("x")), None);
        assert_eq!(of(number, json!([])), None);
    }

    #[test]
    fn a_token_is_taken_apart_and_no_more() {
        // RFC 7515, appendix A.1, shortened.
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UifQ.AQI";
        let parts = jwt(&[Value::from(token)]).unwrap().to_string();
        assert_eq!(parts, r#"[{"alg":"HS256"},{"iss":"joe"},"0102"]"#);
        for bad in ["", "a.b", "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UifQ.AQI.x"] {
            assert!(jwt(&[Value::from(bad)]).is_none(), "{bad}");
        }
    }
}

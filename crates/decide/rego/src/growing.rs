//! Builtins of the interpreter whose results can be far larger than their operands.
//!
//! The memory of an evaluation is looked at between two steps, and such a call is one step: a few bytes of a client (`1e999999999` as a
//! size) would take all that a thread may have, and with it the policy. So their results are estimated first, and a call that would
//! bring forth too much is an error of that one evaluation. An error it has to be: where an undefined value is expected, as in
//! `not contains(replace(..), "x")`, nothing else may open.

use regorus::unstable::{BUILTINS, Expr, Parser, Ref, Rule, RuleHead, Span};
use regorus::{Engine, Source, Value};

use crate::lengths::{RESULT, length_as_text, text};
use crate::paths;

/// Bits by which a number is shifted: a result of this size is cheap to compute and to print.
#[doc(alias = "bound")]
const SHIFT: u64 = 4096;

/// Bytes of a number with a unit.
#[doc(alias = "bound")]
const UNITS: usize = 128;

/// Digits of an exponent.
#[doc(alias = "bound")]
const EXPONENT: usize = 3;

/// Bytes of a glob: its compiled form is kept, and some 20 times as large.
#[doc(alias = "bound")]
const GLOB: usize = 4096;

/// How deep alternatives of a glob may stand within others; the interpreter fails at 250.
#[doc(alias = "bound")]
const NESTED: usize = 32;

/// Characters that separate the parts of a glob.
#[doc(alias = "bound")]
const DELIMITERS: usize = 16;

/// Estimates the size of a call's result in bytes; `None` for operands that the builtin itself refuses.
type Estimate = fn(&[Value]) -> Option<usize>;

const ESTIMATES: &[(&str, Estimate)] = &[
    ("bits.lsh", shifted),
    ("concat", joined),
    ("glob.match", matched_glob),
    ("glob.quote_meta", quoted_glob),
    ("graph.reachable", paths::reached),
    ("graph.reachable_paths", paths::reached_by_paths),
    ("intersection", paths::united),
    ("json.filter", paths::filtered),
    ("json.marshal", written),
    ("json.marshal_with_options", paths::written_in_lines),
    ("json.patch", patched),
    ("json.remove", paths::filtered),
    ("object.subset", paths::compared),
    ("object.union_n", paths::united),
    ("regex.find_all_string_submatch_n", paths::found_with_groups),
    ("regex.replace", replaced_by_pattern),
    ("replace", replaced),
    ("sprintf", formatted),
    ("strings.any_prefix_match", paths::compared),
    ("strings.any_suffix_match", paths::compared),
    ("strings.replace_n", replaced_in_turn),
    ("union", paths::united),
    ("units.parse", with_unit),
    ("units.parse_bytes", with_unit),
    ("urlquery.encode_object", in_query),
    ("walk", paths::walked),
];

/// The place of a call, which the interpreter's builtins need for their errors.
#[derive(Clone)]
struct CallPlace {
    span: Span,
    operands: Vec<Ref<Expr>>,
}

/// The result of a builtin would be too large.
#[derive(Debug, thiserror::Error)]
#[error("{0} would return more than {RESULT} bytes, or takes an operand of such a cost")]
struct TooMuch(&'static str);

/// Puts the estimates before the interpreter's own builtins.
pub(crate) fn add(engine: &mut Engine) {
    let Some(place) = CallPlace::new() else {
        debug_assert!(false, "a call is read as one");
        return;
    };

    for (name, estimate) in ESTIMATES {
        let Some((builtin, operands)) = BUILTINS.get(name).copied() else {
            debug_assert!(false, "{name} is not there");
            continue;
        };
        let place = place.clone();
        let call = move |values: Vec<Value>| {
            if estimate(&values).is_some_and(|bytes| bytes > RESULT) {
                return Err(TooMuch(name).into());
            }
            // The interpreter reads the expressions for errors only, but expects as many as there are values.
            let operands = &place.operands[..values.len().min(place.operands.len())];
            builtin(&place.span, operands, &values, true)
        };
        let added = engine.add_extension((*name).to_owned(), operands, Box::new(call));
        debug_assert!(added.is_ok(), "{name} is there twice");
    }
}

impl CallPlace {
    /// The builtin of a call that was parsed for this alone: the interpreter adds the true place to
    /// an error.
    fn new() -> Option<Self> {
        let text = "package call\nx := f(1, 2, 3)\n".to_owned();
        let source = Source::from_contents("call".to_owned(), text).ok()?;
        let module = Parser::new(&source).ok()?.parse().ok()?;
        module.policy.iter().find_map(|rule| match &**rule {
            Rule::Spec {
                head:
                    RuleHead::Compr {
                        assign: Some(assign),
                        ..
                    },
                ..
            } => Self::of(&assign.value),
            _ => None,
        })
    }

    fn of(expression: &Expr) -> Option<Self> {
        match expression {
            Expr::Call { span, params, .. } => Some(Self {
                span: span.clone(),
                operands: params.clone(),
            }),
            _ => None,
        }
    }
}

fn shifted(operands: &[Value]) -> Option<usize> {
    let by = operands.get(1)?;
    match by.as_u64() {
        Ok(bits) if bits <= SHIFT => None,
        // A fraction or a negative number shifts nothing.
        Err(_) if by.as_f64().is_ok_and(|bits| bits <= SHIFT as f64) => None,
        _ => Some(usize::MAX),
    }
}

fn written(operands: &[Value]) -> Option<usize> {
    Some(length_as_text(operands.first()?, RESULT))
}

fn joined(operands: &[Value]) -> Option<usize> {
    let delimiter = text(operands.first())?.len();
    let parts: Vec<&Value> = match operands.get(1)? {
        Value::Array(array) => array.iter().collect(),
        Value::Set(set) => set.iter_sorted().collect(),
        _ => return None,
    };
    let length = |part: &&Value| part.as_string().map_or(0, |text| text.len()) + delimiter;
    Some(parts.iter().map(length).sum())
}

fn replaced(operands: &[Value]) -> Option<usize> {
    let within = text(operands.first())?;
    Some(length_replaced(
        within,
        text(operands.get(1))?,
        text(operands.get(2))?,
    ))
}

fn length_replaced(within: &str, old: &str, new: &str) -> usize {
    let count = within.matches(old).count();
    count.saturating_mul(new.len()).saturating_add(within.len())
}

/// Replaces one pair after the other, in the interpreter's order.
fn replaced_in_turn(operands: &[Value]) -> Option<usize> {
    let pairs = operands.first()?.as_object().ok()?;
    let mut within = text(operands.get(1))?.to_owned();
    // Replacements can feed each other (`a` to `bb`, `b` to `cc`), so they are carried out, with a check before each.
    for (old, new) in pairs.iter_sorted() {
        let old = text(Some(old))?;
        let new = text(Some(new))?;
        let length = length_replaced(&within, old, new);
        if length > RESULT {
            return Some(length);
        }
        within = within.replace(old, new);
    }
    Some(within.len())
}

/// Matches do not overlap, so one group yields at most the whole text over all matches.
fn replaced_by_pattern(operands: &[Value]) -> Option<usize> {
    let within = text(operands.first())?.len();
    let new = text(operands.get(2))?;
    let groups = new.matches('$').count();
    let words = (within + 1).saturating_mul(new.len());
    let found = groups.saturating_mul(within);
    Some(within.saturating_add(words).saturating_add(found))
}

fn formatted(operands: &[Value]) -> Option<usize> {
    let format = text(operands.first())?;
    let values = operands.get(1)?.as_array().ok()?;
    let mut length = format.len();
    for part in format.split('%').skip(1) {
        length = length.saturating_add(width(part));
    }
    for value in values.iter() {
        length = length.saturating_add(length_as_text(value, RESULT));
    }
    Some(length)
}

/// The width of a value that a format gives it, such as 8 in `%08d`.
fn width(after: &str) -> usize {
    let digits = after.trim_start_matches('.');
    let end = digits.find(|letter: char| !letter.is_numeric());
    let digits = &digits[..end.unwrap_or(digits.len())];
    match digits.is_empty() {
        true => 0,
        false => digits.parse().unwrap_or(usize::MAX),
    }
}

fn with_unit(operands: &[Value]) -> Option<usize> {
    let number = text(operands.first())?;
    let exponents = number.split(['e', 'E']).skip(1);
    let digits = |part: &str| part.bytes().filter(u8::is_ascii_digit).count();
    let is_far = exponents.map(digits).any(|digits| digits > EXPONENT);
    let is_long = number.len() > UNITS;
    (is_far || is_long).then_some(usize::MAX)
}

fn matched_glob(operands: &[Value]) -> Option<usize> {
    let delimiters = match operands.get(1)? {
        Value::Array(delimiters) => delimiters.len(),
        _ => 0,
    };
    if delimiters > DELIMITERS {
        return Some(usize::MAX);
    }
    quoted_glob(operands)
}

fn quoted_glob(operands: &[Value]) -> Option<usize> {
    let glob = text(operands.first())?;
    let mut open = 0_usize;
    let mut deepest = 0;
    for letter in glob.bytes() {
        match letter {
            b'{' => open += 1,
            b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    (glob.len() > GLOB || deepest > NESTED).then_some(usize::MAX)
}

/// Percent-encoding makes three bytes of one.
fn in_query(operands: &[Value]) -> Option<usize> {
    Some(length_as_text(operands.first()?, RESULT).saturating_mul(3))
}

/// A copy may double the document.
fn patched(operands: &[Value]) -> Option<usize> {
    let mut length = length_as_text(operands.first()?, RESULT);
    for operation in operands.get(1)?.as_array().ok()?.iter() {
        let copies = text(Some(&operation["op"])) == Some("copy");
        let more = match copies {
            true => length,
            false => length_as_text(operation, RESULT),
        };
        length = length.saturating_add(more);
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn estimated(name: &str, operands: Json) -> Option<usize> {
        let (_, estimate) = ESTIMATES.iter().find(|(known, _)| *known == name).unwrap();
        let operands = operands.as_array().unwrap().iter().cloned();
        estimate(&operands.map(Value::from).collect::<Vec<_>>())
    }

    #[test]
    fn ordinary_calls_are_estimated_at_what_they_bring_forth() {
        assert_eq!(estimated("replace", json!(["a-b-c", "-", "__"])), Some(9));
        assert_eq!(estimated("replace", json!(["abc", "", "_"])), Some(7));
        assert_eq!(estimated("concat", json!([", ", ["a", "bc"]])), Some(7));
        let pairs = json!({ "<": "&lt;", ">": "&gt;" });
        assert_eq!(
            estimated("strings.replace_n", json!([pairs, "<b>"])),
            Some(9)
        );
        for usual in ["10", "1.5Gi", "1e3", "200m", "1e-3K"] {
            assert_eq!(estimated("units.parse", json!([usual])), None, "{usual}");
        }
        assert_eq!(estimated("bits.lsh", json!([1, 64])), None);
        assert_eq!(
            estimated("glob.match", json!(["*.{a,{b,c}}", ["."], "x.a"])),
            None
        );
        assert!(estimated("sprintf", json!(["%08d %s", [1, "a"]])).unwrap() < 1000);
        let groups = json!({ "a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"] });
        for (name, operands) in [
            ("graph.reachable", json!([groups, ["a"]])),
            ("graph.reachable_paths", json!([groups, ["a"]])),
            ("walk", json!([groups])),
            (
                "json.marshal_with_options",
                json!([groups, { "indent": "  " }]),
            ),
            ("strings.any_prefix_match", json!([["/a", "/b"], "/"])),
            (
                "regex.find_all_string_submatch_n",
                json!(["(a)(b)", "abab", -1]),
            ),
        ] {
            let estimate = estimated(name, operands);
            assert!(
                estimate.is_some_and(|bytes| bytes < 5000),
                "{name}: {estimate:?}"
            );
        }
        assert_eq!(
            estimated("json.filter", json!([groups, ["a/b", ["c"]]])),
            None
        );
    }

    #[test]
    fn what_would_bring_forth_too_much_is_known_before() {
        let long = "a".repeat(40_000);
        let copy = json!({ "op": "copy", "from": "", "path": "/a" });
        let nested = format!("{}{}", "{a,".repeat(200), "}".repeat(200));
        let cases = [
            ("replace", json!([long, "a", long])),
            ("replace", json!([long, "", long])),
            ("concat", json!([long, vec!["a"; 1000]])),
            (
                "strings.replace_n",
                json!([{ "a": "aaaaaaaaaaaaaaaa", "aa": long }, long]),
            ),
            ("regex.replace", json!([long, "a", long])),
            ("sprintf", json!(["%999999999d", [1]])),
            ("sprintf", json!(["%099999999999999999999999d", [1]])),
            ("json.patch", json!([{ "a": {} }, vec![copy; 40]])),
            (
                "urlquery.encode_object",
                json!([{ "a": vec![long.clone(); 100] }]),
            ),
            ("bits.lsh", json!([1, 1_000_000_000])),
            ("bits.lsh", json!([1, 1e300])),
            ("units.parse", json!(["1e999999999"])),
            ("units.parse_bytes", json!(["1e99999999Gi"])),
            ("units.parse", json!([long])),
            ("glob.match", json!([nested, ["."], "a"])),
            ("glob.quote_meta", json!(["*".repeat(50_000)])),
        ];
        let more = what_follows_paths(&long);
        for (name, operands) in cases.into_iter().chain(more) {
            let estimate = estimated(name, operands);
            assert!(
                estimate.is_some_and(|bytes| bytes > RESULT),
                "{name}: {estimate:?}"
            );
        }
    }

    fn what_follows_paths(long: &str) -> Vec<(&'static str, Json)> {
        let names: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        let all_know_all: Json = names
            .iter()
            .map(|name| (name.clone(), json!(names)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let row: Json = (0..10_000)
            .map(|number| (number.to_string(), json!([(number + 1).to_string()])))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut deep = json!([]);
        for _ in 0..100 {
            deep = json!([deep, 1]);
        }
        let many: Vec<String> = (0..4000).map(|number| number.to_string()).collect();
        vec![
            ("graph.reachable_paths", json!([all_know_all, ["0"]])),
            ("graph.reachable_paths", json!([row, ["0"]])),
            (
                "json.marshal_with_options",
                json!([deep, { "indent": long }]),
            ),
            (
                "json.marshal_with_options",
                json!([vec![1; 1000], { "prefix": long }]),
            ),
            ("json.filter", json!([{}, ["/".repeat(40_000)]])),
            ("json.remove", json!([{}, [many]])),
            ("strings.any_prefix_match", json!([many, many])),
            ("object.subset", json!([many, many])),
            (
                "regex.find_all_string_submatch_n",
                json!(["()".repeat(500), long, -1]),
            ),
        ]
    }

    #[test]
    fn a_value_that_stands_in_itself_many_times_is_not_walked_to_its_end() {
        let mut value = Value::from("x".repeat(100));
        for _ in 0..40 {
            value = Value::from(vec![value.clone(), value]);
        }
        assert_eq!(length_as_text(&value, RESULT), RESULT + 1);
        assert_eq!(paths::walked(&[value]), Some(usize::MAX));
    }
}

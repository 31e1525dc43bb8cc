//! Contents in pieces, streamed and whole.

use proptest::prelude::*;

use super::*;
use crate::json::Json;
use crate::member_path::MemberPath;

fn path(text: &str) -> MemberPath {
    text.parse().unwrap()
}

fn plan(moves: &[(&str, &str)], take: &[&str], put: &[&str]) -> ContentPlan {
    let pairs: Vec<_> = moves
        .iter()
        .map(|(from, to)| (path(from), path(to)))
        .collect();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut plan = ContentPlan {
        from: ContentForm::Json,
        to: ContentForm::Json,
        take: names(take),
        put: names(put),
        changes: Changes {
            moves: Changes::moving(&pairs).unwrap(),
            ..Changes::default()
        },
        element: None,
        bounds: ContentBounds {
            bytes: 1000,
            depth: 8,
        },
    };
    plan.element = plan.elements();
    plan
}

/// A plan that needs the whole content.
pub(crate) fn whole_plan() -> Arc<ContentPlan> {
    Arc::new(plan(&[("a", "b")], &[], &[]))
}

fn translated(plan: &ContentPlan, pieces: &[&[u8]]) -> Result<String, String> {
    let scope = Arc::new(Scope::new());
    let mut translator = Arc::new(plan.clone()).begin(&scope);
    let mut out = Vec::new();
    let mut all = || -> Result<(), Unfit> {
        for piece in pieces {
            translator.push(piece, &mut out)?;
        }
        translator.finish(&mut out)
    };
    all().map_err(|unfit| unfit.reason)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn an_array_is_translated_element_by_element_in_memory_for_one() {
    let plan = plan(&[("[].a", "[].b")], &["data", "items"], &["rows"]);
    let scope = Arc::new(Scope::new());
    let mut translator = Arc::new(plan.clone()).begin(&scope);
    let mut out = Vec::new();
    translator
        .push(br#"{"n":[1,{"x":2}],"data":{"items":["#, &mut out)
        .unwrap();
    assert_eq!(out, br#"{"rows":["#);
    for _ in 0..10_000 {
        out.clear();
        translator
            .push(br#"{"a":1,"c":"xxxxxxxxxxxxxxxxxxxxxxxx"},"#, &mut out)
            .unwrap();
        assert!(translator.held() < 2000, "{}", translator.held());
        assert!(out.ends_with(br#"{"c":"xxxxxxxxxxxxxxxxxxxxxxxx","b":1}"#));
    }
    out.clear();
    translator
        .push(br#"{}],"x":{"data":1}},"rest":{"n":[]}}"#, &mut out)
        .unwrap();
    translator.finish(&mut out).unwrap();
    assert_eq!(out, b",{}]}");
}

#[test]
fn an_element_that_is_wrong_is_told_with_its_place() {
    let list = plan(&[("[].a", "[].b.c")], &[], &[]);
    let wrong = |text: &str| translated(&list, &[text.as_bytes()]).unwrap_err();
    assert_eq!(
        wrong(r#"[{},{"a":1,"b":2}]"#),
        "its content: in element 1: b.c: a number is where an object should be"
    );
    assert!(wrong(r#"[{"a":1},{"a":1,"a":2}]"#).contains("a name stands twice in an object"));
    assert!(wrong(r#"{"a":1}"#).contains("no array is there"));
    assert!(wrong("[{}").contains("ends too early"));
    let deep = format!("[{{\"x\":\"{}\"}}]", "x".repeat(990));
    assert!(translated(&list, &[deep.as_bytes()]).is_ok());
    let long: Vec<u8> = format!("[[{}0]]", "0,".repeat(2000)).into_bytes();
    let pieces: Vec<&[u8]> = long.chunks(100).collect();
    assert!(
        translated(&list, &pieces)
            .unwrap_err()
            .contains("longer than 1000 bytes")
    );

    let within = plan(&[("[].a", "[].b")], &["items"], &[]);
    let wrong = |text: &str| translated(&within, &[text.as_bytes()]).unwrap_err();
    assert!(wrong(r#"{"other":[]}"#).contains("has not the array"));
    assert!(wrong(r#"{"items":[],"items":[]}"#).contains("stands twice"));
    assert!(wrong(r#"{"items":{}}"#).contains("no array is there"));
    assert!(wrong("[]").contains("no array is there"));
    let many: String = (0..2000).map(|n| format!("\"m{n}\":0,")).collect();
    assert!(wrong(&format!("{{{many}\"items\":[]}}")).contains("too many members"));
}

#[test]
fn forms_and_json_become_each_other() {
    let mut form = plan(&[("user", "name.full")], &[], &[]);
    form.from = ContentForm::Form;
    form.element = None;
    assert_eq!(
        translated(&form, &[b"user=Ada+L", b"&tag=a&tag=b"]).unwrap(),
        r#"{"tag":["a","b"],"name":{"full":"Ada L"}}"#
    );
    let mut json = plan(&[("name.full", "user")], &["data"], &[]);
    json.to = ContentForm::Form;
    assert_eq!(
        translated(&json, &[br#"{"data":{"name":{"full":"Ada L"},"n":1.50}}"#]).unwrap(),
        "n=1.50&user=Ada%20L"
    );
    assert!(
        translated(&json, &[b"{}"])
            .unwrap_err()
            .contains("it has no `data`")
    );
    let nested = br#"{"data":{"a":{"b":1}}}"#;
    assert!(
        translated(&json, &[nested])
            .unwrap_err()
            .contains("a: an object cannot stand")
    );
    let long = vec![b' '; 1001];
    assert!(
        translated(&json, &[&long])
            .unwrap_err()
            .contains("longer than 1000")
    );
}

proptest! {
    #[test]
    fn a_stream_says_what_the_whole_says(values in prop::collection::vec(0u32..99, 0..6), cut in 0usize..80) {
        let streamed = plan(&[("[].a", "[].b")], &["d"], &["e"]);
        let mut whole = streamed.clone();
        whole.element = None;
        let items: Vec<String> = values.iter().map(|v| format!("{{\"a\": {v}, \"k\": [\"]\"]}}")).collect();
        let text = format!("{{\"x\": {{\"d\": 1}}, \"d\": [{}], \"y\": [\"d\"]}}", items.join(" , "));
        let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
        let said = translated(&streamed, &[first, second]).unwrap();
        prop_assert_eq!(&said, &translated(&whole, &[first, second]).unwrap());
        let read = Json::parse(said.as_bytes(), streamed.bounds.of_scan());
        prop_assert!(read.is_ok());
    }
}

//! Texts, whole and in pieces.

use proptest::prelude::*;

use super::*;

const BOUNDS: ScanBounds = ScanBounds {
    depth: 8,
    string: 1000,
};

fn read(text: &str) -> Result<String, String> {
    let read = Json::parse(text.as_bytes(), BOUNDS);
    read.map(|json| json.text())
        .map_err(|wrong| wrong.to_string())
}

#[test]
fn values_come_back_as_they_were() {
    for text in [
        r#"{"a":[1,-0,2.50,1e400,12345678901234567890123],"b":{"c":null},"":true}"#,
        "[]",
        "{}",
        r#""\"\\\u0001é""#,
        "[[],{},[false]]",
    ] {
        assert_eq!(read(text).as_deref(), Ok(text));
    }
    assert_eq!(
        read(" [ 1 ,\t\"\\u00e9\\ud83d\\ude00\\/\" ]\r\n").as_deref(),
        Ok("[1,\"é😀/\"]")
    );
}

#[test]
fn a_mistake_is_told_with_its_line_its_byte_and_its_path() {
    let wrong = |text: &str| read(text).unwrap_err();
    assert_eq!(
        wrong("{\"users\": [ {\"a\": 1},\n {\"a\": 01} ] }"),
        "neither a number nor a word of JSON, in line 2, at byte 31, in users[1].a"
    );
    assert!(wrong(r#"{"a":1,"a":2}"#).starts_with("a name stands twice in an object"));
    assert!(wrong("[[[[[[[[[").starts_with("arrays and objects are nested too deeply"));
    assert!(wrong("[1,]").starts_with("a value is missing"));
    assert!(wrong("[1").starts_with("the text ends too early"));
    assert!(wrong("").starts_with("the text ends too early"));
    assert!(wrong("[1}").starts_with("the wrong bracket"));
    assert!(wrong("1 2").starts_with("there is more behind the value"));
    assert!(
        wrong("\u{feff}1").starts_with("a value is missing"),
        "no mark of an order of bytes"
    );
    assert!(wrong("\"\n\"").starts_with("a string has a control character"));
    assert!(wrong(r#""\ud800""#).starts_with("a string has half of a surrogate pair"));
    assert!(wrong(r#""\x""#).starts_with("a string has an unknown escape"));
    assert!(wrong(&"1".repeat(200)).starts_with("a number is too long"));
    assert!(wrong(&format!("\"{}\"", "x".repeat(2000))).starts_with("a string is too long"));
    assert!(wrong(&format!("\"{}\"", "\\n".repeat(1000))).starts_with("a string is too long"));
    let many = format!("[{}0]", "0,".repeat(50_000));
    assert!(wrong(&many).starts_with("there are too many values"));
    let bytes = Json::parse(b"\"\xff\"", BOUNDS).unwrap_err().to_string();
    assert!(bytes.starts_with("a string is not UTF-8"));
}

proptest! {
    #[test]
    fn a_text_means_the_same_in_pieces_of_any_size(text in r#"[\[\]{}:,"\\a1e. \n-]{0,40}"#, cut in 0usize..40) {
        let whole = Json::parse(text.as_bytes(), BOUNDS);
        let cut = cut.min(text.len());
        let mut scanner = Scanner::new(BOUNDS);
        let mut builder = Builder::default();
        let mut value = None;
        let mut take = |event: Event| -> Result<(), &'static str> {
            value = builder.take(event)?.or(value.take());
            Ok(())
        };
        let pieces = [&text.as_bytes()[..cut], &text.as_bytes()[cut..]];
        let read = pieces.iter().try_for_each(|piece| scanner.push(piece, &mut take));
        let read = read.and_then(|()| scanner.finish(&mut take));
        prop_assert_eq!(whole, read.map(|()| value.unwrap()));
    }

    #[test]
    fn what_is_written_is_read_again_and_by_others(text in ".{0,30}", number in any::<i64>()) {
        let json = Json::List(vec![Json::Text(text.clone()), Json::Number(number.to_string().into())]);
        prop_assert_eq!(Json::parse(json.text().as_bytes(), BOUNDS).unwrap(), json.clone());
        let other: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
        prop_assert_eq!(other, serde_json::json!([text, number]));
    }

    #[test]
    fn what_we_take_others_take_too(text in r#"[\[\]{}:,"\\a1e. \n-]{0,24}"#) {
        if Json::parse(text.as_bytes(), BOUNDS).is_ok() {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }
}

//! The contents of fields, their order, and how they are written.

use http::header::{COOKIE, HOST, VIA};
use proptest::prelude::*;

use super::*;

fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
    let line =
        |(name, value): &(&'static str, &'static str)| (*name, HeaderValue::from_static(value));
    lines.iter().map(line).collect()
}

fn wire(fields: &Fields, without: Class) -> String {
    let text = fields.wire(without).collect::<Vec<_>>().concat();
    String::from_utf8(text).unwrap()
}

/// Lines as HTTP/1.1 writes them; each is its name, the bytes between, the value, and the bytes
/// behind.
fn came(lines: &[[&str; 4]]) -> Fields {
    let text = lines
        .iter()
        .map(|line| line.concat() + "\r\n")
        .collect::<String>();
    let mut fields = Fields::of_wire(text.as_bytes(), lines.len());
    let mut at = 0;
    for [name, between, value, behind] in lines {
        let start = at + name.len() + between.len();
        fields.came(at..at + name.len(), start..start + value.len());
        at = start + value.len() + behind.len() + 2;
    }
    fields
}

#[test]
fn lines_keep_their_order_and_are_found_by_name() {
    let fields = fields(&[
        ("via", "1.1 a"),
        ("x-own", "1"),
        ("via", "1.1 b"),
        ("x-own", "2"),
    ]);
    assert_eq!(fields.get(VIA).unwrap(), "1.1 a");
    assert!(fields.values(VIA).eq(["1.1 a", "1.1 b"]));
    assert!(fields.values("x-own").eq(["1", "2"]));
    assert_eq!(fields.values("x-other").count(), 0);
    assert!(fields.names().eq(["via", "x-own", "via", "x-own"]));
}

#[test]
fn an_inserted_line_stands_where_the_first_of_its_name_stood() {
    let mut fields = fields(&[("x-a", "1"), ("host", "a"), ("x-a", "2"), ("x-b", "3")]);
    fields.insert("x-a", HeaderValue::from_static("4"));
    fields.insert("x-c", HeaderValue::from_static("5"));
    let wire = wire(&fields, Class::FRAMING);
    assert_eq!(wire, "x-a: 4\r\nx-b: 3\r\nx-c: 5\r\n");
}

#[test]
fn what_came_goes_on_in_one_piece_until_it_is_edited() {
    let mut fields = came(&[
        ["accept", ": ", "*/*", ""],
        ["x-a", ": ", "1", ""],
        ["x-b", ": ", "", ""],
    ]);
    let pieces = |fields: &Fields| {
        fields
            .wire(Class::FRAMING)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    assert_eq!(pieces(&fields), [b"accept: */*\r\nx-a: 1\r\nx-b: \r\n"]);

    assert!(fields.remove("x-a"));
    fields.append(VIA, HeaderValue::from_static("1.1 a"));
    let both: [&[u8]; 2] = [b"accept: */*\r\n", b"x-b: \r\nvia: 1.1 a\r\n"];
    assert_eq!(pieces(&fields), both);
}

#[test]
fn a_line_with_other_white_space_goes_on_without_it() {
    let fields = came(&[
        ["x-a", ":", "1", ""],
        ["x-b", ":\t", "2", " "],
        ["x-c", ": ", "3", ""],
    ]);
    assert_eq!(
        wire(&fields, Class::FRAMING),
        "x-a: 1\r\nx-b: 2\r\nx-c: 3\r\n"
    );
}

#[test]
fn a_line_from_outside_is_checked() {
    let mut fields = Fields::new();
    for name in ["", "A", "a b", ":path", ":a"] {
        assert!(!LineName::parse(name.as_bytes()).is_field(), "{name}");
    }
    for value in ["b\r\nc: d", "\0", "\u{7f}"] {
        let added = fields.append_line(LineName::parse(b"a"), value.as_bytes());
        assert_eq!(added, Err(BadValue), "{value}");
    }
    assert!(fields.is_empty());
    let cookie = fields.append_line(LineName::parse(b"cookie"), "\u{e9}\t".as_bytes());
    assert!(cookie.is_ok_and(|id| id.is(Class::SECRET)));
    assert_eq!(fields.get(COOKIE).unwrap().to_str(), Err(NoText));
}

#[test]
fn a_sensitive_value_stays_so_and_is_not_printed() {
    let mut value = HeaderValue::from_static("swordfish");
    value.set_sensitive(true);
    let mut fields = Fields::new();
    fields.append("x-token", &value);
    assert!(fields.clone().take("x-token").unwrap().is_sensitive());
    assert!(!format!("{fields:?}").contains("swordfish"));
}

#[test]
fn the_order_of_different_names_does_not_count() {
    let one = fields(&[("a", "1"), ("b", "2"), ("a", "3")]);
    assert_eq!(one, fields(&[("b", "2"), ("a", "1"), ("a", "3")]));
    assert_ne!(one, fields(&[("b", "2"), ("a", "3"), ("a", "1")]));
    assert_ne!(one, fields(&[("a", "1"), ("b", "2")]));
}

/// An edit, on a few names that are known and a few that are not.
#[derive(Debug, Clone)]
enum Edit {
    Append(&'static str, String),
    Insert(&'static str, String),
    Remove(&'static str),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = prop::sample::select(vec!["host", "via", "x-a", "x-b", "content-length"]);
    let value = "[a-z,; ]{0,8}";
    let edit = prop_oneof![
        (name.clone(), value).prop_map(|(name, value)| Edit::Append(name, value)),
        (name.clone(), value).prop_map(|(name, value)| Edit::Insert(name, value)),
        name.prop_map(Edit::Remove),
    ];
    prop::collection::vec(edit, 0..24)
}

proptest! {
    #[test]
    fn it_holds_what_a_map_holds(edits in edits()) {
        let mut fields = Fields::new();
        let mut map = HeaderMap::new();
        for edit in edits {
            match edit {
                Edit::Append(name, value) => {
                    let value = HeaderValue::from_str(value.trim()).unwrap();
                    fields.append(name, &value);
                    map.append(name, value);
                }
                Edit::Insert(name, value) => {
                    let value = HeaderValue::from_str(value.trim()).unwrap();
                    fields.insert(name, &value);
                    map.insert(name, value);
                }
                Edit::Remove(name) => {
                    prop_assert_eq!(fields.remove(name), map.remove(name).is_some());
                }
            }
            prop_assert_eq!(&fields, &Fields::from(&map));
            prop_assert_eq!(fields.len(), map.len());
            prop_assert_eq!(fields.contains_key(HOST), map.contains_key(HOST));
        }
        let pieces: usize = fields.wire(Class::HOP).map(<[u8]>::len).sum();
        prop_assert_eq!(pieces, fields.size() + 4 * fields.len());
    }
}

//! Changes to small values.

use super::*;
use crate::json::ScanBounds;

const BOUNDS: ScanBounds = ScanBounds {
    depth: 8,
    string: 1000,
};

fn path(text: &str) -> MemberPath {
    text.parse().unwrap()
}

fn moves(pairs: &[(&str, &str)]) -> Changes {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(from, to)| (path(from), path(to)))
        .collect();
    Changes {
        moves: Changes::moving(&pairs).unwrap(),
        ..Changes::default()
    }
}

fn changed(changes: &Changes, text: &str) -> Result<String, String> {
    let mut value = Json::parse(text.as_bytes(), BOUNDS).unwrap();
    changes
        .apply(&mut value, &Scope::new())
        .map(|()| value.text())
}

#[test]
fn members_move_all_at_once_and_arrays_keep_their_own() {
    let swap = moves(&[("a", "b"), ("b", "a")]);
    assert_eq!(
        changed(&swap, r#"{"a":1,"b":2}"#).unwrap(),
        r#"{"b":1,"a":2}"#
    );
    let names = moves(&[("users", "people"), ("users[].first", "users[].name.given")]);
    assert_eq!(
        changed(&names, r#"{"users":[{"first":"A","x":1},{}]}"#).unwrap(),
        r#"{"people":[{"x":1,"name":{"given":"A"}},{}]}"#
    );
    let flat = moves(&[("name.given", "first")]);
    assert_eq!(
        changed(&flat, r#"{"name":{"given":"A"}}"#).unwrap(),
        r#"{"first":"A"}"#
    );
    let pairs = [(path("a[].b"), path("c"))];
    assert!(
        Changes::moving(&pairs)
            .unwrap_err()
            .contains("not in the same array")
    );
}

#[test]
fn a_value_that_is_in_the_way_is_told_with_its_place() {
    let deep = moves(&[("first", "name.given")]);
    assert_eq!(
        changed(&deep, r#"{"first":"A","name":"B"}"#).unwrap_err(),
        "name.given: a string is where an object should be"
    );
}

#[test]
fn values_types_and_constants_are_those_of_the_new_form() {
    let constant = |text: &str| Constant::Text(Template::parse(text).unwrap());
    let number = |text: &str| Constant::Json(Json::Number(text.into()));
    let values = [
        ("A".to_owned(), constant("active")),
        ("1".to_owned(), number("2")),
    ];
    let changes = Changes {
        values: vec![(path("state"), values.into())],
        types: vec![
            (path("id"), ValueType::Number),
            (path("tags"), ValueType::Array),
        ],
        set: vec![(path("api"), number("2"))],
        default: vec![
            (path("state"), constant("new")),
            (path("q"), constant("{query.q}")),
        ],
        remove: vec![path("secret.key")],
        only: vec![Allowed {
            around: MemberPath::default(),
            names: ["state", "id", "tags", "secret"]
                .map(str::to_owned)
                .to_vec(),
        }],
        ..Changes::default()
    };
    assert_eq!(
        changed(
            &changes,
            r#"{"state":"A","id":"007e1","tags":"x","role":"admin","secret":{"key":1,"x":2}}"#
        )
        .unwrap_err(),
        "id: `007e1` is not a number"
    );
    assert_eq!(
        changed(
            &changes,
            r#"{"state":"A","id":"7","tags":"x","role":"admin","secret":{"key":1}}"#
        )
        .unwrap(),
        r#"{"state":"active","id":7,"tags":["x"],"api":2}"#
    );
    assert_eq!(
        changed(&changes, r#"{"state":1}"#).unwrap(),
        r#"{"state":2,"api":2}"#
    );
    assert_eq!(
        changed(&changes, "{}").unwrap(),
        r#"{"api":2,"state":"new"}"#
    );
}

#[test]
fn changes_of_an_array_alone_are_those_of_each_element() {
    let list = moves(&[("[].a", "[].b")]);
    assert!(list.of_element().is_some());
    assert_eq!(
        changed(&list.of_element().unwrap(), r#"{"a":1}"#).unwrap(),
        r#"{"b":1}"#
    );
    assert!(
        moves(&[("[].a", "[].b"), ("c", "d")])
            .of_element()
            .is_none()
    );
}

//! Names and values of queries and forms (`application/x-www-form-urlencoded`), as an object of texts and back.

use crate::json::{Json, Members};
use crate::percent;

/// Pairs of a query or a form.
#[doc(alias = "bound")]
const PAIRS: usize = 10_000;

/// The object that pairs mean: a name that stands several times has an array.
///
/// # Errors
/// Their mistakes.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    let mut members = Members::new();
    for (index, pair) in text.split('&').enumerate() {
        if pair.is_empty() {
            continue;
        }
        // Each of the shortest pairs takes a hundred times its bytes.
        if index >= PAIRS {
            return Err(format!("there are more than {PAIRS} pairs"));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text| {
            let decoded = percent::decode(text, true);
            decoded.map_err(|reason| format!("{reason}, in pair {}", index + 1))
        };
        let value = Json::Text(decoded(value)?);
        match members.entry(decoded(name)?) {
            indexmap::map::Entry::Vacant(vacant) => {
                vacant.insert(value);
            }
            indexmap::map::Entry::Occupied(mut occupied) => match occupied.get_mut() {
                Json::List(list) => list.push(value),
                first => {
                    let first_value = std::mem::replace(first, Json::Null);
                    *first = Json::List(vec![first_value, value]);
                }
            },
        }
    }
    Ok(Json::Map(Box::new(members)))
}

/// The pairs of an object.
///
/// # Errors
/// Its member that no pair can be.
pub(crate) fn format(json: &Json) -> Result<String, String> {
    let Json::Map(members) = json else {
        return Err(format!("{} is no form", json.kind()));
    };
    let mut text = String::new();
    for (name, value) in members.iter() {
        let values = match value {
            Json::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let plain = value.plain().ok_or_else(|| {
                let kind = value.kind();
                format!("{name}: {kind} cannot stand in a form or a query")
            })?;
            if !text.is_empty() {
                text.push('&');
            }
            percent::encode(name, &mut text);
            text.push('=');
            percent::encode(plain, &mut text);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_an_object_and_pairs_again() {
        let json = parse("a=1&b=x+y%26&a=2&&c&%C3%A9=").unwrap();
        assert_eq!(json.text(), r#"{"a":["1","2"],"b":"x y&","c":"","é":""}"#);
        assert_eq!(format(&json).unwrap(), "a=1&a=2&b=x%20y%26&c=&%C3%A9=");
    }

    #[test]
    fn what_no_pair_can_be_is_told_with_its_place() {
        assert!(parse("a=1&b=%zz").unwrap_err().contains("in pair 2"));
        assert!(parse("a=%ff").unwrap_err().contains("not UTF-8"));
        assert!(
            parse(&"a&".repeat(20_000))
                .unwrap_err()
                .contains("more than")
        );
        let nested = Json::Map(Box::new(Members::from([("a".to_owned(), Json::map())])));
        assert!(format(&nested).unwrap_err().starts_with("a: an object"));
        assert!(format(&Json::Null).is_err());
    }
}

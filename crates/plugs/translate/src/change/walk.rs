//! Ways through a value.

use crate::json::Json;
use crate::member_path::PathStep;

/// Calls `change` with each value at these steps; where there is no such member or element, with nothing.
///
/// # Errors
/// That of `change`.
pub(super) fn each_around(
    value: &mut Json,
    steps: &[PathStep],
    change: &mut dyn FnMut(&mut Json) -> Result<(), String>,
) -> Result<(), String> {
    match (steps, value) {
        ([], value) => change(value),
        ([PathStep::Member(name), rest @ ..], Json::Map(members)) => match members.get_mut(name) {
            Some(member) => each_around(member, rest, change),
            None => Ok(()),
        },
        ([PathStep::Each, rest @ ..], Json::List(list)) => list
            .iter_mut()
            .try_for_each(|element| each_around(element, rest, change)),
        _ => Ok(()),
    }
}

/// Takes the member at these names out, and objects around it that are empty then.
pub(super) fn remove(value: &mut Json, names: &[String]) -> Option<Json> {
    let Json::Map(members) = value else {
        return None;
    };
    match names {
        [] => None,
        [name] => members.shift_remove(name),
        [name, rest @ ..] => {
            let inner = members.get_mut(name)?;
            let removed = remove(inner, rest)?;
            // An object that was there for this member alone means nothing in the other interface.
            if matches!(inner, Json::Map(left) if left.is_empty()) {
                members.shift_remove(name);
            }
            Some(removed)
        }
    }
}

/// Puts a member at these names, in objects that are made where they are missing.
///
/// # Errors
/// Another value is in the way.
pub(super) fn insert(
    value: &mut Json,
    names: &[String],
    new: Json,
    replaces: bool,
) -> Result<(), String> {
    let kind = value.kind();
    let ([name, rest @ ..], Json::Map(members)) = (names, value) else {
        return Err(format!("{kind} is where an object should be"));
    };
    if !rest.is_empty() {
        let inner = members.entry(name.clone()).or_insert_with(Json::map);
        return insert(inner, rest, new, replaces);
    }
    if replaces || !members.contains_key(name) {
        members.insert(name.clone(), new);
    }
    Ok(())
}

//! The user whom a filter names.

use hermes_plug::Changes;
use hermes_rules::UserAliases;
use hermes_rules::fields::USER;
use http::HeaderValue;

/// Has the changes of a filter name their user by the one name that rules, bounds and the next hop know.
///
/// # Errors
/// They name several users, or one whom the next hop would read as another; why, in words.
pub(super) fn unify(changes: &mut Changes, aliases: &UserAliases) -> Result<(), &'static str> {
    const UNUSABLE: &str = "it names no usable user";

    // Whose an exchange is neither depends on what its client claims nor is added to that.
    let others = [&changes.append, &changes.if_absent, &changes.if_present];
    if others.iter().any(|fields| fields.contains_key(USER)) {
        return Err(UNUSABLE);
    }

    let mut lines = changes.set.values(USER);
    let Some(line) = lines.next() else {
        return Ok(());
    };
    let named = std::str::from_utf8(line.as_bytes()).map_err(|_| UNUSABLE)?;
    // A next hop could take another line for the user than this one does.
    if lines.next().is_some() || named.is_empty() {
        return Err(UNUSABLE);
    }

    let user = aliases.user_of(named);
    if user != named {
        let user = HeaderValue::from_bytes(user.as_bytes()).map_err(|_| UNUSABLE)?;
        changes.set.insert(USER, user);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aliases() -> UserAliases {
        let names = vec!["al@corp.example".to_owned()];
        UserAliases::new(&[("alice".to_owned(), names)].into_iter().collect())
    }

    /// Changes that set these users.
    fn naming(users: &[&str]) -> Changes {
        let mut changes = Changes::default();
        for user in users {
            let user = HeaderValue::from_bytes(user.as_bytes()).unwrap();
            changes.set.append(USER, user);
        }
        changes
    }

    #[test]
    fn who_is_named_by_another_name_is_one_user() {
        for (named, user) in [
            ("al@corp.example", "alice"),
            ("alice", "alice"),
            ("bob", "bob"),
        ] {
            let mut changes = naming(&[named]);
            unify(&mut changes, &aliases()).unwrap();
            let lines: Vec<_> = changes.set.values(USER).collect();
            assert_eq!(lines.len(), 1, "{named}");
            assert_eq!(lines[0].as_bytes(), user.as_bytes(), "{named}");
        }
        assert!(unify(&mut Changes::default(), &aliases()).is_ok());
    }

    #[test]
    fn names_that_the_next_hop_reads_otherwise_are_refused() {
        for users in [&[""][..], &["alice", "bob"], &["alice", ""]] {
            assert!(unify(&mut naming(users), &aliases()).is_err(), "{users:?}");
        }

        let mut added = Changes::default();
        added.append.append(USER, HeaderValue::from_static("bob"));
        assert!(unify(&mut added, &aliases()).is_err());
    }
}

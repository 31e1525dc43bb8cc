//! Who may attach under which name.

use hermes_config::model::AttachAs;

/// Whether a route lets a request of `user` be attached as `name`.
///
/// # Errors
/// Why not, in words.
pub fn permits(rule: &AttachAs, name: &str, user: Option<&str>) -> Result<(), String> {
    match (rule, user) {
        (AttachAs::Own(true), Some(user)) if user == name => Ok(()),
        (AttachAs::Own(_), Some(user)) => Err(format!(
            "user {user} may be attached under no name but that, not as {name}"
        )),
        (AttachAs::Own(_), None) => Err(format!(
            "no client is authenticated as user {name}, so none is attached as {name}"
        )),
        (AttachAs::Names(names), _) if names.iter().any(|known| known.matches(name)) => Ok(()),
        (AttachAs::Names(_), _) => Err(format!("the route allows no attachment as {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: serde_json::Value) -> AttachAs {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn only_a_user_himself_is_attached_under_his_name() {
        let own = rule(serde_json::json!(true));
        assert!(permits(&own, "alice", Some("alice")).is_ok());
        for user in [Some("bob"), Some("Alice"), Some("alice2"), Some(""), None] {
            assert!(permits(&own, "alice", user).is_err(), "{user:?}");
        }
    }

    #[test]
    fn names_are_for_whomever_the_route_matches() {
        let names = rule(serde_json::json!(["door", "~^printer-[0-9]+$"]));
        for name in ["door", "printer-7"] {
            assert!(
                permits(&names, name, Some("bob")).is_ok() && permits(&names, name, None).is_ok(),
                "{name}"
            );
        }
        for name in ["alice", "doors", "printer-x"] {
            assert!(permits(&names, name, Some(name)).is_err(), "{name}");
        }
    }
}

//! Who may have which paths.

use hermes_config::Problem;
use hermes_config::model::scalar::UserPattern;
use hermes_config::{child, element};
use hermes_plan::Areas;

use crate::settings::Allowance;

/// The authoriser of a place. Policy and filters of the node have decided before on each request; this decides on paths, also on those
/// that exist, whenever its rules change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Authoriser {
    rules: Vec<AuthoriserRule>,
}

#[derive(Debug, Clone)]
struct AuthoriserRule {
    users: Vec<UserPattern>,
    from: Vec<String>,
    to: Vec<String>,
}

impl Authoriser {
    /// The authoriser of these settings, or their mistakes with paths from the settings on.
    pub(crate) fn new(allow: &[Allowance], areas: &Areas) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut rules = Vec::new();
        for (index, allowance) in allow.iter().enumerate() {
            let path = element("allow", index);
            for (key, names) in [("from", &allowance.from), ("to", &allowance.to)] {
                let unknown = names.iter().filter(|name| areas.area(name).is_none());
                problems.extend(unknown.map(|name| {
                    let reason = format!("there is no area `{name}`");
                    Problem::new(child(&path, key), reason).remedy("`areas` of the file names them")
                }));
            }
            let mut users = Vec::new();
            for user in &allowance.users {
                match user.parse::<UserPattern>() {
                    Ok(pattern)
                        if user.starts_with("group:") || user.starts_with("claim-group:") =>
                    {
                        let reason = format!("`{pattern}` is a group");
                        let remedy = "name users, or leave groups to `policy`";
                        problems.push(Problem::new(child(&path, "users"), reason).remedy(remedy));
                    }
                    Ok(pattern) => users.push(pattern),
                    Err(error) => problems.push(Problem::new(child(&path, "users"), error.reason)),
                }
            }
            rules.push(AuthoriserRule {
                users,
                from: allowance.from.clone(),
                to: allowance.to.clone(),
            });
        }
        match problems.is_empty() {
            true => Ok(Self { rules }),
            false => Err(problems),
        }
    }

    /// Whether a user may have any path at all.
    pub(crate) fn knows(&self, user: &str) -> bool {
        let mut patterns = self.rules.iter().flat_map(|rule| &rule.users);
        patterns.any(|pattern| pattern.matches(user))
    }

    /// Whether a user may have a path.
    pub(crate) fn allows(&self, user: &str, from: &str, to: &str) -> bool {
        let names =
            |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
        self.rules.iter().any(|rule| {
            rule.users.iter().any(|pattern| pattern.matches(user))
                && names(&rule.from, from)
                && names(&rule.to, to)
        })
    }
}

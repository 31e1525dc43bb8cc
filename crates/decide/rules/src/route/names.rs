//! The names of a document: groups of users, and services, which are groups of targets.
//!
//! The names of an exchange are looked up once, for any number of conditions and members.

use std::collections::HashMap;

use hermes_config::model::{Document, Match, OneOrMany, TargetMatch, UserPattern};
use indexmap::IndexMap;

use super::Facts;
use super::facts::{Named, View};
use super::host::TargetTest;
use super::index::Index;

/// The names of a document, compiled.
#[derive(Debug, Clone, Default)]
pub struct Names {
    groups: Vec<String>,
    /// User -> the groups that list this user, by number.
    members: HashMap<String, Vec<usize>>,
    /// Patterns of users, each with its group.
    patterns: Vec<(UserPattern, usize)>,
    services: Vec<String>,
    /// Members of services, each with its service.
    targets: Vec<(TargetTest, usize)>,
    /// Finds targets.
    index: Index,
}

impl Names {
    /// The names in a document.
    pub fn new(document: &Document) -> Self {
        let mut names = Self::default();
        for (number, (name, users)) in document.groups.iter().enumerate() {
            names.groups.push(name.clone());
            users
                .iter()
                .for_each(|pattern| names.add_user(pattern, number));
        }

        let mut conditions = Vec::new();
        for (number, (name, targets)) in document.services.iter().enumerate() {
            names.services.push(name.clone());
            for target in targets {
                names.targets.push((TargetTest::compile(target), number));
                conditions.push(for_target(target));
            }
        }

        names.index = Index::new(conditions.iter());
        names
    }

    fn add_user(&mut self, pattern: &UserPattern, group: usize) {
        match pattern.exact() {
            Some(user) => {
                let groups = self.members.entry(user.to_owned()).or_default();
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
            None => self.patterns.push((pattern.clone(), group)),
        }
    }

    /// Facts with everything prepared that conditions ask for.
    pub(crate) fn view<'a>(&'a self, facts: &'a Facts<'a>) -> View<'a> {
        let mut view = View::new(facts);
        if !self.groups.is_empty() || !self.services.is_empty() {
            self.find(&mut view);
        }

        view
    }

    /// The groups that a user is in.
    pub fn groups_of(&self, user: Option<&str>) -> Vec<&str> {
        let mut found = Vec::new();
        if let Some(user) = user {
            self.find_groups(user, &mut found);
        }
        found
    }

    fn find<'a>(&'a self, view: &mut View<'a>) {
        let mut named = Named::default();
        if let Some(user) = view.facts.user {
            self.find_groups(user, &mut named.groups);
        }
        named.services = self.services_of(view);

        if !named.groups.is_empty() || !named.services.is_empty() {
            view.named = Some(Box::new(named));
        }
    }

    fn find_groups<'a>(&'a self, user: &str, found: &mut Vec<&'a str>) {
        let listed = self.members.get(user).into_iter().flatten();
        found.extend(listed.map(|group| self.groups[*group].as_str()));

        for (pattern, group) in &self.patterns {
            let name = self.groups[*group].as_str();
            if pattern.matches(user) && !found.contains(&name) {
                found.push(name);
            }
        }
    }

    fn services_of<'a>(&'a self, view: &View<'a>) -> Vec<&'a str> {
        let port = view.facts.target.port();
        let mut found = Vec::new();
        for target in self.index.candidates(view) {
            let (test, service) = &self.targets[target];
            let name = self.services[*service].as_str();
            if !found.contains(&name) && test.matches(&view.target, port) {
                found.push(name);
            }
        }

        found
    }
}

/// The condition that an exchange is for this.
fn for_target(target: &TargetMatch) -> Match {
    Match {
        target: Some(OneOrMany(vec![target.clone()])),
        ..Match::default()
    }
}

/// The users that are named, those of groups among them.
pub fn expand_users(
    named: &[UserPattern],
    groups: &IndexMap<String, Vec<UserPattern>>,
) -> Vec<UserPattern> {
    let mut users = Vec::new();
    for pattern in named {
        match pattern.group() {
            Some(group) => users.extend(groups.get(group).into_iter().flatten().cloned()),
            None => users.push(pattern.clone()),
        }
    }

    users
}

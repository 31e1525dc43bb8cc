//! Plugs of one kind, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use hermes_config::model::PlugUse;
use hermes_config::{PlugForm, PlugPlace, Problem, nearest};
use parking_lot::Mutex;

use crate::settings::{Settings, located};

/// Plugs of one kind, by name.
pub struct Names<T: ?Sized> {
    /// Their kind, in a word.
    kind: &'static str,
    known: Arc<BTreeMap<String, Registered<T>>>,
    /// Those that have settings of their own, and are in use.
    configured: Arc<Mutex<Vec<Configured<T>>>>,
}

/// A plug under its name.
struct Registered<T: ?Sized> {
    plug: Arc<T>,
    /// Its settings where it is named.
    settings: Option<Arc<Settings<T>>>,
}

/// A plug that was made for settings.
struct Configured<T: ?Sized> {
    named: PlugUse,
    plug: Weak<T>,
}

impl<T: ?Sized> Names<T> {
    /// No plugs of this kind.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            known: Arc::default(),
            configured: Arc::default(),
        }
    }

    /// Adds a plug, and its settings where it is named; one of the same name is replaced.
    pub fn add(&mut self, name: &str, plug: Arc<T>, settings: Option<Settings<T>>) {
        let settings = settings.map(Arc::new);
        Arc::make_mut(&mut self.known).insert(name.to_owned(), Registered { plug, settings });
    }

    /// These, and of the others those whose names are not taken.
    pub fn over(mut self, others: &Self) -> Self {
        let known = Arc::make_mut(&mut self.known);
        for (name, plug) in &*others.known {
            known.entry(name.clone()).or_insert_with(|| plug.clone());
        }
        self
    }

    /// The plug of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<&Arc<T>, Problem> {
        self.registered(name).map(|registered| &registered.plug)
    }

    /// The plug that a document names at this path, with the settings that it has there. Where another place says the same, now or in
    /// the document before, it is the same plug: its counters and contents survive a reload.
    ///
    /// # Errors
    /// There is none of the name, it takes no settings, or they are wrong.
    pub fn named(&self, path: &str, named: &PlugUse) -> Result<Arc<T>, Vec<Problem>> {
        let registered = self
            .registered(&named.name)
            .map_err(|unknown| vec![located(path, unknown)])?;
        let Some(settings) = &named.settings else {
            return Ok(registered.plug.clone());
        };
        let path = hermes_config::child(path, &named.name);
        let Some(taken) = &registered.settings else {
            let reason = format!("the {} `{}` takes no settings here", self.kind, named.name);
            let remedy = format!("write `{}` alone", named.name);
            return Err(vec![Problem::new(path, reason).remedy(remedy)]);
        };

        let mut configured = self.configured.lock();
        // Held weakly: a plug ends with the last snapshot that uses it.
        configured.retain(|one| one.plug.strong_count() > 0);
        let known = configured.iter().find(|one| one.named == *named);
        if let Some(plug) = known.and_then(|known| known.plug.upgrade()) {
            return Ok(plug);
        }

        let plug = taken.plug(settings).map_err(|problems| {
            let problems = problems.into_iter();
            problems
                .map(|problem| located(&path, problem))
                .collect::<Vec<_>>()
        })?;
        configured.push(Configured {
            named: named.clone(),
            plug: Arc::downgrade(&plug),
        });
        Ok(plug)
    }

    /// The settings of each where it is named.
    pub(crate) fn forms(&self, place: PlugPlace) -> impl Iterator<Item = PlugForm> {
        let form = move |(name, registered): (&String, &Registered<T>)| PlugForm {
            place,
            name: name.clone(),
            schema: registered
                .settings
                .as_ref()
                .map(|settings| settings.schema().clone()),
        };
        self.known.iter().map(form)
    }

    fn registered(&self, name: &str) -> Result<&Registered<T>, Problem> {
        self.known.get(name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Problem {
        let kind = self.kind;
        let known = || self.known.keys().map(String::as_str);
        let remedy = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.known.is_empty() => {
                format!("this program has no {kind}: use one that has, or remove it")
            }
            None => {
                let names: Vec<_> = known().collect();
                format!("{kind}: this program has {}", names.join(", "))
            }
        };
        Problem::new("", format!("there is no {kind} `{name}`")).remedy(remedy)
    }
}

impl<T: ?Sized> Clone for Names<T> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            known: self.known.clone(),
            configured: self.configured.clone(),
        }
    }
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        Self {
            plug: self.plug.clone(),
            settings: self.settings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_no_plug_has_is_answered_with_the_nearest_or_all() {
        let mut names: Names<str> = Names::new("handler");
        let remedy = |names: &Names<str>, name| names.find(name).unwrap_err().remedy.unwrap();
        assert_eq!(
            remedy(&names, "relay"),
            "this program has no handler: use one that has, or remove it"
        );
        names.add("relay", "a".into(), None);
        names.add("cache", "b".into(), None);
        assert_eq!(&**names.find("relay").unwrap(), "a");
        assert_eq!(remedy(&names, "rely"), "did you mean `relay`?");
        assert_eq!(
            remedy(&names, "something"),
            "handler: this program has cache, relay"
        );
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Word {
        word: String,
    }

    fn word(settings: serde_json::Value) -> PlugUse {
        serde_json::from_value(json!({ "say": settings })).unwrap()
    }

    #[test]
    fn the_same_settings_mean_the_same_plug_while_one_has_it() {
        let mut names: Names<str> = Names::new("handler");
        let settings = Settings::new(|word: Word| Ok(Arc::from(word.word)));
        names.add("say", "nothing".into(), Some(settings));
        let one = names.named("a", &word(json!({ "word": "one" }))).unwrap();
        let same = names
            .clone()
            .named("b", &word(json!({ "word": "one" })))
            .unwrap();
        let other = names.named("c", &word(json!({ "word": "two" }))).unwrap();
        assert!(Arc::ptr_eq(&one, &same) && &*other == "two");

        drop((one, same, other));
        names.named("a", &word(json!({ "word": "one" }))).unwrap();
        assert_eq!(names.configured.lock().len(), 1);
    }

    #[test]
    fn settings_that_are_wrong_or_not_taken_are_found_where_they_stand() {
        let mut names: Names<str> = Names::new("handler");
        let settings = Settings::new(|word: Word| Ok(Arc::from(word.word)));
        names.add("say", "nothing".into(), Some(settings));
        names.add("be", "silent".into(), None);
        let found = |named: PlugUse| {
            let findings = names.named("routes[0].handle", &named).unwrap_err();
            let Problem { path, reason, .. } = findings.into_iter().next().unwrap();
            format!("{path}: {reason}")
        };
        assert_eq!(
            found(word(json!({ "word": 5 }))),
            "routes[0].handle.say.word: invalid type: integer `5`, expected a string"
        );
        let settings = PlugUse {
            name: "be".to_owned(),
            ..word(json!({}))
        };
        assert_eq!(
            found(settings),
            "routes[0].handle.be: the handler `be` takes no settings here"
        );
    }
}

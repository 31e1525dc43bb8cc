//! Plugs of one kind, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_config::nearest;

/// Plugs of one kind, by name.
pub struct Names<T: ?Sized> {
    /// What they are, in a word.
    kind: &'static str,
    known: Arc<BTreeMap<String, Arc<T>>>,
}

/// A name that no plug has.
#[derive(Debug, PartialEq, Eq)]
pub struct NoPlug {
    /// What is wrong.
    pub reason: String,
    /// What mends it.
    pub remedy: String,
}

impl<T: ?Sized> Names<T> {
    /// No plugs of this kind.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            known: Arc::default(),
        }
    }

    /// Adds a plug; one of the same name is replaced.
    pub fn add(&mut self, name: &str, plug: Arc<T>) {
        Arc::make_mut(&mut self.known).insert(name.to_owned(), plug);
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
    pub fn find(&self, name: &str) -> Result<&Arc<T>, NoPlug> {
        self.known.get(name).ok_or_else(|| self.unknown(name))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.known.values()
    }

    fn unknown(&self, name: &str) -> NoPlug {
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
        NoPlug {
            reason: format!("there is no {kind} `{name}`"),
            remedy,
        }
    }
}

impl<T: ?Sized> Clone for Names<T> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            known: self.known.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_plug_has_is_answered_with_the_nearest_or_all() {
        let mut names: Names<str> = Names::new("handler");
        let remedy = |names: &Names<str>, name| names.find(name).unwrap_err().remedy;
        assert_eq!(
            remedy(&names, "relay"),
            "this program has no handler: use one that has, or remove it"
        );
        names.add("relay", "a".into());
        names.add("cache", "b".into());
        assert_eq!(&**names.find("relay").unwrap(), "a");
        assert_eq!(remedy(&names, "rely"), "did you mean `relay`?");
        assert_eq!(
            remedy(&names, "something"),
            "handler: this program has cache, relay"
        );
    }
}

//! Files of Rego and data, read into a policy that can be asked.

use std::path::Path;

use regorus::{Engine, PolicyLengthConfig, Value};

use crate::calls::{self, RulesFile};
use crate::wrong::{Wrong, wrong};
use crate::{brief, budget, builtins, clock_rule, zones};

/// Files that were read, and the rule that is asked for.
#[derive(Clone)]
pub struct Policy {
    engine: Engine,
    rule: String,
    is_brief: bool,
    missing: Vec<Wrong>,
}

impl Policy {
    /// Reads files, each with its name and its text: data where the name ends in `.json`, else
    /// rules. `rule` is the question, such as `data.overlay.allow`.
    ///
    /// # Errors
    /// The mistakes in each file.
    pub fn new(files: &[(String, String)], rule: &str) -> Result<Self, Vec<Wrong>> {
        // A reload sees changes to the time zones of this machine.
        zones::forget();
        let mut engine = Engine::new();
        engine.set_gather_prints(true);
        engine.set_policy_length_config(PolicyLengthConfig {
            max_col: budget::COLUMNS,
            ..PolicyLengthConfig::default()
        });
        budget::limit(&mut engine);
        builtins::add(&mut engine);

        let mut wrong = Vec::new();
        let mut is_brief = true;
        let mut read_rules = Vec::new();
        // Decided over all files before the first is read: a test in one replaces the time for rules in another.
        let has_clock_rule = files
            .iter()
            .any(|(_, text)| clock_rule::is_replaced_in(text));
        if has_clock_rule {
            let (name, text) = clock_rule::FILE;
            wrong.extend(rules(&mut engine, name, text).err());
        }

        for (name, text) in files {
            let is_data = Path::new(name)
                .extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
            let read = if is_data {
                is_brief &= brief::is_brief_data(text);
                data(&mut engine, name, text)
            } else {
                let read = match has_clock_rule {
                    true => rules(&mut engine, name, &clock_rule::with_rule(text)),
                    false => rules(&mut engine, name, text),
                };
                read.map(|is_old| {
                    is_brief &= brief::are_brief_rules(name, text, is_old);
                    read_rules.push(RulesFile { name, text, is_old });
                })
            };
            wrong.extend(read.err());
        }

        if wrong.is_empty() {
            Ok(Self {
                engine,
                rule: rule.to_owned(),
                is_brief,
                missing: calls::missing(&read_rules),
            })
        } else {
            Err(wrong)
        }
    }

    /// The rule that is asked for.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Calls of unknown builtins. A policy with such calls can still be asked if a test replaces them.
    pub fn missing(&self) -> &[Wrong] {
        &self.missing
    }

    /// Whether it may be asked on any thread.
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine.clone()
    }
}

fn data(engine: &mut Engine, name: &str, text: &str) -> Result<(), Wrong> {
    let failed = |place, reason| Wrong {
        file: name.to_owned(),
        place,
        reason,
    };
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let place = (number(error.line()), number(error.column()));
        failed(Some(place), error.to_string())
    })?;

    if !json.is_object() {
        return Err(failed(None, "data has to be an object".to_owned()));
    }
    engine
        .add_data(Value::from(json))
        .map_err(|error| failed(None, error.to_string()))
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Adds a file of rules, as Rego 1 or else as Rego 0, in which rules need no `if`; returns whether the file is of Rego 0.
fn rules(engine: &mut Engine, name: &str, text: &str) -> Result<bool, Wrong> {
    let mut add = |is_old| {
        engine.set_rego_v0(is_old);
        let added = engine.add_policy(name.to_owned(), text.to_owned());
        added.map_err(|error| wrong(name, &error.to_string()))
    };

    let Err(new) = add(false) else {
        return Ok(false);
    };
    match add(true) {
        Ok(_) => Ok(true),
        // Report the mistake of the version in which parsing got further, which is probably the one that the author meant.
        Err(old) if old.place >= new.place => Err(old),
        Err(_) => Err(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Policy, Vec<Wrong>> {
        Policy::new(&[("a.rego".to_owned(), text.to_owned())], "data.a.b")
    }

    #[test]
    fn both_ages_of_the_language_are_read() {
        assert!(read("package a\nb if input.x").is_ok());
        assert!(read("package a\nb { input.x }").is_ok());
    }

    #[test]
    fn a_mistake_has_a_place() {
        let wrong = read("package a\n\nb if == input.x\n").err().unwrap();
        assert_eq!(wrong.len(), 1);
        assert_eq!(
            wrong[0].place.map(|(line, _)| line),
            Some(3),
            "{}",
            wrong[0]
        );
        let old = read("package a\nb { input.x == }").err().unwrap();
        assert!(old[0].to_string().starts_with("a.rego:2:"), "{}", old[0]);
    }

    #[test]
    fn data_is_an_object() {
        let data = |text: &str| Policy::new(&[("d.json".to_owned(), text.to_owned())], "data.a");
        assert!(data("{\"a\": 1}").is_ok());
        assert!(data("[]").is_err());
        assert_eq!(data("{\n x").err().unwrap()[0].place, Some((2, 2)));
    }
}

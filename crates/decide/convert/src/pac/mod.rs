//! Proxy auto-configuration: `FindProxyForURL` becomes a listener on loopback and a list of routes.
//!
//! The statements are followed without a request. A condition on the host, the scheme or the port
//! becomes a `match`; one that is not understood is noted with its line, and taken for one that
//! never holds.

mod condition;
mod evaluator;
mod functions;
mod methods;
mod predicates;
mod proxies;
mod syntax;
mod token;
mod value;

use std::collections::{HashSet, VecDeque};

use serde_json::json;

use crate::draft::{Draft, Rank};
use crate::unreadable::Unreadable;
use condition::{Conjunction, HostPattern, Predicate};
use evaluator::Evaluator;
use proxies::Proxies;
use syntax::Statement;
use value::{Misunderstood, Value, Variables};

/// Conditions with a result in a file. Where each `if` sets a variable, branches double with each, and so few are too many.
#[doc(alias = "bound")]
const MOST: usize = 20_000;

/// Branches that are followed, results, and rules that are put under a condition: one of each for a condition with a result, and one
/// branch and result for all other requests.
const STEPS: usize = 3 * MOST + 2;

/// Values that are copied, and statements that are followed again: a text or condition that is added to itself doubles with each line.
#[doc(alias = "bound")]
const WORK: usize = 8 << 20;

/// Conditions that stand in one another, those after a branch that does not return included.
#[doc(alias = "bound")]
const DEEPEST: usize = 128;

/// Where the programs find the node that asks for them.
const LISTEN: &str = "127.0.0.1:8080";

pub(crate) fn convert(text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let program = syntax::parse(text)?;
    let main = program
        .main
        .ok_or_else(|| Unreadable::new("it has no function FindProxyForURL"))?;

    let mut variables = Variables::new();
    let mut parameters = main.parameters.iter();
    for value in [Value::Url, Value::Host] {
        if let Some(name) = parameters.next() {
            variables.insert(name.clone(), value);
        }
    }
    let mut reading = Reading {
        misunderstood: Vec::new(),
        too_much: Vec::new(),
        left: STEPS,
        work: WORK,
        depth: 0,
    };
    let outside: Vec<&Statement> = program.statements.iter().collect();
    reading.assign(&outside, &mut variables)?;
    let body: Vec<&Statement> = main.body.iter().collect();
    let rules = reading.follow(&body, variables)?;

    for Misunderstood { line, what } in &reading.misunderstood {
        let reason = "is not understood, and taken for something that is never so";
        draft.left_out(*line, what, reason);
    }
    for line in &reading.too_much {
        let reason = "two patterns of hosts at once cannot be said by one route; hosts that have both take a later one";
        draft.left_out(*line, "this condition", reason);
    }
    write(rules, draft);
    Ok(())
}

/// One entry of a list of which the first that fits decides.
#[derive(Debug, Clone)]
struct Rule {
    line: u32,
    condition: Conjunction,
    result: String,
}

/// A condition, and the statements if it holds.
struct Pending {
    line: u32,
    condition: Predicate,
    then: VecDeque<Rule>,
}

struct Reading {
    misunderstood: Vec<Misunderstood>,
    /// Lines of conditions that cannot be said.
    too_much: Vec<u32>,
    left: usize,
    /// Of [`WORK`].
    work: usize,
    depth: usize,
}

impl Reading {
    fn evaluator<'a>(&'a mut self, variables: &'a Variables) -> Evaluator<'a> {
        Evaluator {
            variables,
            misunderstood: &mut self.misunderstood,
            work: &mut self.work,
        }
    }

    /// Pays for copies, by their size.
    fn charge(&mut self, count: usize, line: u32) -> Result<(), Unreadable> {
        self.work = self.work.checked_sub(count).ok_or_else(|| {
            Unreadable::at(
                line,
                "its variables and branches become ever more by copies",
            )
        })?;
        Ok(())
    }

    fn spend(&mut self, count: usize, line: u32) -> Result<(), Unreadable> {
        self.left = self.left.checked_sub(count).ok_or_else(|| {
            let reason = format!(
                "its branches come to more than {MOST} routes, or are followed more often than that"
            );
            Unreadable::at(line, reason)
        })?;
        Ok(())
    }

    /// Variables that are set outside of the function.
    fn assign(
        &mut self,
        statements: &[&Statement],
        variables: &mut Variables,
    ) -> Result<(), Unreadable> {
        for statement in statements {
            if let Statement::Assign { name, value } = statement {
                let line = value.line;
                let value = self.evaluator(variables).value(value);
                self.charge(1, line)?;
                variables.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// The result of a branch, and the statements after it.
    fn branch(
        &mut self,
        line: u32,
        branch: &[Statement],
        rest: &[&Statement],
        variables: &Variables,
    ) -> Result<VecDeque<Rule>, Unreadable> {
        if self.depth >= DEEPEST {
            let reason = format!("more than {DEEPEST} conditions stand in one another");
            return Err(Unreadable::at(line, reason));
        }
        let statements = after(branch, rest);
        let copied: usize = variables.values().map(Value::size).sum();
        self.charge(copied + statements.len(), line)?;

        self.depth += 1;
        let rules = self.follow(&statements, variables.clone());
        self.depth -= 1;
        rules
    }

    /// The result of statements: a list with an unconditional last entry.
    fn follow(
        &mut self,
        statements: &[&Statement],
        mut variables: Variables,
    ) -> Result<VecDeque<Rule>, Unreadable> {
        self.spend(1, 1)?;
        let mut pending = Vec::new();
        for (index, statement) in statements.iter().enumerate() {
            let rest = &statements[index + 1..];
            match statement {
                Statement::Assign { name, value } => {
                    let line = value.line;
                    let value = self.evaluator(&variables).value(value);
                    self.charge(1, line)?;
                    variables.insert(name.clone(), value);
                }
                Statement::Other { what, .. } if what.is_empty() => {}
                Statement::Other { line, what } => self.misunderstood.push(Misunderstood {
                    line: *line,
                    what: what.clone(),
                }),
                Statement::Return { line, value } => {
                    let mut evaluator = self.evaluator(&variables);
                    let value = value.as_ref().map(|value| evaluator.value(value));
                    self.charge(1, *line)?;
                    let last = self.result(*line, value.as_ref())?;
                    return self.fold(pending, last);
                }
                Statement::If {
                    branches,
                    otherwise,
                } => {
                    for branch in branches {
                        let line = branch.condition.line;
                        let condition = self.evaluator(&variables).condition(&branch.condition);
                        let then = self.branch(line, &branch.then, rest, &variables)?;
                        pending.push(Pending {
                            line,
                            condition,
                            then,
                        });
                    }
                    if !otherwise.is_empty() {
                        let line = branches.last().map_or(1, |branch| branch.condition.line);
                        let last = self.branch(line, otherwise, rest, &variables)?;
                        return self.fold(pending, last);
                    }
                }
            }
        }
        // A function without a result means the same.
        let last = self.result(1, None)?;
        self.fold(pending, last)
    }

    fn result(&mut self, line: u32, value: Option<&Value>) -> Result<VecDeque<Rule>, Unreadable> {
        self.spend(1, line)?;
        let rule = |result: &str| {
            VecDeque::from([Rule {
                line,
                condition: Conjunction::default(),
                result: result.to_owned(),
            }])
        };
        match value {
            None => Ok(rule("DIRECT")),
            Some(Value::Text(text)) => Ok(rule(text)),
            Some(Value::Choice(choice)) => {
                let then = self.result(line, Some(&choice.then))?;
                let otherwise = self.result(line, Some(&choice.otherwise))?;
                self.choose(line, &choice.condition, then, otherwise)
            }
            Some(other) => {
                let what = match other {
                    Value::Unknown(what) => what.clone(),
                    _ => Misunderstood {
                        line,
                        what: "this result".to_owned(),
                    },
                };
                self.misunderstood.push(what);
                Ok(rule(""))
            }
        }
    }

    fn fold(
        &mut self,
        pending: Vec<Pending>,
        last: VecDeque<Rule>,
    ) -> Result<VecDeque<Rule>, Unreadable> {
        let mut rules = last;
        for one in pending.into_iter().rev() {
            rules = self.choose(one.line, &one.condition, one.then, rules)?;
        }
        Ok(rules)
    }

    /// The first list where a condition holds, else the second.
    fn choose(
        &mut self,
        line: u32,
        condition: &Predicate,
        then: VecDeque<Rule>,
        mut otherwise: VecDeque<Rule>,
    ) -> Result<VecDeque<Rule>, Unreadable> {
        match (condition, condition.ways()) {
            (Predicate::Not(inner), _) => self.choose(line, inner, otherwise, then),
            (_, Some(ways)) => {
                let ways = ways.unwrap_or_else(|_| {
                    self.too_much.push(line);
                    Vec::new()
                });
                let mut rules = VecDeque::new();
                for way in &ways {
                    self.within(line, way, &then, &mut rules)?;
                    if way.is_everything() {
                        return Ok(rules);
                    }
                }
                // Before a long list that stays where it is.
                rules
                    .into_iter()
                    .rev()
                    .for_each(|rule| otherwise.push_front(rule));
                Ok(otherwise)
            }
            // Something must not be: each part is asked for by itself.
            (Predicate::All(parts), None) => {
                let mut rules = then;
                for part in parts.iter().rev() {
                    rules = self.choose(line, part, rules, otherwise.clone())?;
                }
                Ok(rules)
            }
            (Predicate::Any(parts), None) => {
                let mut rules = otherwise;
                for part in parts.iter().rev() {
                    rules = self.choose(line, part, then.clone(), rules)?;
                }
                Ok(rules)
            }
            (_, None) => Ok(otherwise),
        }
    }

    /// Adds rules that fit only where a condition holds, too.
    fn within(
        &mut self,
        line: u32,
        condition: &Conjunction,
        rules: &VecDeque<Rule>,
        into: &mut VecDeque<Rule>,
    ) -> Result<(), Unreadable> {
        for rule in rules {
            self.spend(1, line)?;
            let both = condition.and(&rule.condition).unwrap_or_else(|_| {
                self.too_much.push(rule.line);
                None
            });
            into.extend(both.map(|condition| Rule {
                condition,
                ..rule.clone()
            }));
        }
        Ok(())
    }
}

/// The statements of a branch, and those that come after it unless it returns.
fn after<'a>(branch: &'a [Statement], rest: &[&'a Statement]) -> Vec<&'a Statement> {
    let returns = branch
        .iter()
        .any(|one| matches!(one, Statement::Return { .. }));
    let rest = if returns { &[][..] } else { rest };
    branch.iter().chain(rest.iter().copied()).collect()
}

/// Writes routes; neighbours that lead to the same place are one.
fn write(rules: VecDeque<Rule>, draft: &mut Draft) {
    draft
        .listeners
        .insert("web".to_owned(), json!({ "http": LISTEN }));
    let mut merged: Vec<Rule> = Vec::new();
    // Hosts of the last one.
    let mut known = HashSet::new();
    for rule in rules {
        let ends = rule.condition.is_everything();
        let last = merged.last_mut().filter(|last| last.result == rule.result);
        let is_merged = match last {
            Some(last) if ends => {
                last.condition = Conjunction::default();
                true
            }
            Some(last) => add_hosts(last, &rule, &mut known),
            None => false,
        };
        if !is_merged {
            known = rule.condition.hosts.iter().flatten().cloned().collect();
            merged.push(rule);
        }
        if ends {
            break;
        }
    }

    let mut proxies = Proxies::default();
    for rule in merged {
        let mut route = json!({});
        if !rule.condition.is_everything() {
            route["match"] = rule.condition.json();
        }
        proxies.lead(&rule.result, &rule.condition, rule.line, &mut route, draft);
        draft.route(Rank::Request, rule.line, route);
    }
}

/// Adds the hosts of a rule to those of another one that asks for nothing else; whether that can be done.
fn add_hosts(to: &mut Rule, rule: &Rule, known: &mut HashSet<HostPattern>) -> bool {
    let is_alike =
        to.condition.scheme == rule.condition.scheme && to.condition.port == rule.condition.port;
    let more = rule.condition.hosts.as_ref().filter(|_| is_alike);
    let hosts = to.condition.hosts.as_mut().zip(more);
    let Some((hosts, more)) = hosts else {
        return false;
    };
    let fresh = more.iter().filter(|host| known.insert((*host).clone()));
    hosts.extend(fresh.cloned());
    true
}

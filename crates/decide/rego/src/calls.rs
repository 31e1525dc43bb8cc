//! Calls of unknown builtins. OPA refuses such a policy at compile time; the interpreter would only fail when an exchange reaches the
//! call.

use std::collections::{HashMap, HashSet};

use regorus::Source;
use regorus::unstable::{
    BUILTINS, Expr, Literal, LiteralStmt, Module, Parser, Query, Rule, RuleBody, RuleHead,
};

use crate::builtins;
use crate::wrong::Wrong;

/// A file of rules: its name, its text, and whether it is in Rego 0.
pub(crate) struct RulesFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) is_old: bool,
}

/// The unknown builtins that these files call, each at the place of its first call.
pub(crate) fn missing(files: &[RulesFile<'_>]) -> Vec<Wrong> {
    // A file that cannot be read was reported before.
    let read = |file: &RulesFile<'_>| Some((file.name.to_owned(), parse(file)?));
    let modules: Vec<_> = files.iter().filter_map(read).collect();
    let functions: HashSet<String> = modules
        .iter()
        .flat_map(|(_, module)| functions_of(module))
        .collect();

    let mut told = HashSet::new();
    let mut wrong = Vec::new();
    for (name, module) in &modules {
        let names = ModuleNames::of(module);
        for call in Calls::of(module) {
            let called = call.text();
            let is_known = builtins::is_there(called)
                // The interpreter handles `print` itself, not as a builtin.
                || called == "print"
                || BUILTINS.contains_key(called)
                || functions.contains(&names.resolve(called));
            if !is_known && told.insert(called.to_owned()) {
                wrong.push(Wrong {
                    file: name.clone(),
                    place: Some((call.line, call.col)),
                    reason: format!("there is no builtin `{called}`: {}", instead_of(called)),
                });
            }
        }
    }
    wrong
}

/// The remedy for a missing builtin.
fn instead_of(name: &str) -> &'static str {
    match name {
        _ if name.starts_with("io.jwt.") => {
            "a policy signs nothing; it verifies by `io.jwt.decode_verify`, and reads the claims of the user's token in `input.claims`, or with \
             `input: envoy` in the `verified_jwt` of `envoy.filters.http.jwt_authn`"
        }
        "http.send" => {
            "ask a server by an entry of `authorize` with `url`, or give the policy a file of data"
        }
        _ if name.starts_with("time.") => {
            "times are nanoseconds, as `time.now_ns` and `time.parse_ns` say them; `time.clock`, `time.date` and `time.weekday` take them apart, and \
             `time.format` writes them, in any zone"
        }
        _ => {
            "docs/policy.md lists those that are missing; a server with OPA (`authorize` with `kind: opa`) has them"
        }
    }
}

fn parse(file: &RulesFile<'_>) -> Option<Module> {
    let source = Source::from_contents(file.name.to_owned(), file.text.to_owned()).ok()?;
    let mut parser = Parser::new(&source).ok()?;
    parser.set_max_col(crate::budget::COLUMNS);
    if !file.is_old {
        parser.enable_rego_v1().ok()?;
    }
    parser.parse().ok()
}

/// The package of a module, as `data.a.b`.
fn package_of(module: &Module) -> String {
    format!("data.{}", module.package.refr.span().text())
}

/// The functions that a module has, by their whole names.
fn functions_of(module: &Module) -> impl Iterator<Item = String> {
    let package = package_of(module);
    module.policy.iter().filter_map(move |rule| {
        let name = match &**rule {
            Rule::Default { refr, .. } => refr,
            Rule::Spec {
                head: RuleHead::Func { refr, .. },
                ..
            } => refr,
            Rule::Spec { .. } => return None,
        };
        Some(format!("{package}.{}", name.span().text()))
    })
}

/// The meaning of names in a module.
struct ModuleNames {
    package: String,
    imports: HashMap<String, String>,
}

impl ModuleNames {
    fn of(module: &Module) -> Self {
        let imports = module.imports.iter().map(|import| {
            let path = import.refr.span().text();
            let last = path.rsplit('.').next().unwrap_or_default();
            let alias = import.r#as.as_ref().map_or(last, |alias| alias.text());
            (alias.to_owned(), path.to_owned())
        });
        Self {
            package: package_of(module),
            imports: imports.collect(),
        }
    }

    /// The whole name of a function.
    fn resolve(&self, called: &str) -> String {
        let (first, rest) = called.split_once('.').unwrap_or((called, ""));
        match self.imports.get(first) {
            Some(path) if rest.is_empty() => path.clone(),
            Some(path) => format!("{path}.{rest}"),
            None if first == "data" => called.to_owned(),
            None => format!("{}.{called}", self.package),
        }
    }
}

/// The calls of a module. Lists take the place of recursion, as expressions may be nested deeper than the stack.
#[derive(Default)]
struct Calls<'a> {
    expressions: Vec<&'a Expr>,
    queries: Vec<&'a Query>,
    found: Vec<regorus::unstable::Span>,
}

impl<'a> Calls<'a> {
    fn of(module: &'a Module) -> Vec<regorus::unstable::Span> {
        let mut calls = Self::default();
        for rule in &module.policy {
            calls.rule(rule);
            calls.look();
        }
        calls.found
    }

    fn rule(&mut self, rule: &'a Rule) {
        let (head, bodies) = match rule {
            Rule::Default { value, .. } => return self.expressions.push(value),
            Rule::Spec { head, bodies, .. } => (head, bodies),
        };

        match head {
            RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                let values = assign.iter().map(|assign| &*assign.value);
                self.expressions.extend(values);
            }
            RuleHead::Set { key, .. } => self.expressions.extend(key.iter().map(|key| &**key)),
        }
        for RuleBody { assign, query, .. } in bodies {
            let values = assign.iter().map(|assign| &*assign.value);
            self.expressions.extend(values);
            self.queries.push(query);
        }
    }

    fn look(&mut self) {
        loop {
            if let Some(expression) = self.expressions.pop() {
                self.expression(expression);
            } else if let Some(query) = self.queries.pop() {
                query
                    .stmts
                    .iter()
                    .for_each(|statement| self.statement(statement));
            } else {
                return;
            }
        }
    }

    fn statement(&mut self, statement: &'a LiteralStmt) {
        let replaced = statement.with_mods.iter().map(|with| &*with.r#as);
        self.expressions.extend(replaced);
        match &statement.literal {
            Literal::SomeVars { .. } => {}
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => {
                self.expressions.push(expr);
            }
            Literal::SomeIn {
                key,
                value,
                collection,
                ..
            } => {
                self.expressions.extend(key.iter().map(|key| &**key));
                self.expressions.extend([&**value, &**collection]);
            }
            Literal::Every { domain, query, .. } => {
                self.expressions.push(domain);
                self.queries.push(query);
            }
        }
    }

    fn expression(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call { fcn, params, .. } => {
                self.found.push(fcn.span().clone());
                self.expressions.extend(params.iter().map(|one| &**one));
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                self.expressions.extend(items.iter().map(|one| &**one));
            }
            Expr::Object { fields, .. } => {
                let both = fields.iter().flat_map(|(_, key, value)| [&**key, &**value]);
                self.expressions.extend(both);
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.expressions.push(term);
                self.queries.push(query);
            }
            Expr::ObjectCompr {
                key, value, query, ..
            } => {
                self.expressions.extend([&**key, &**value]);
                self.queries.push(query);
            }
            Expr::UnaryExpr { expr, .. } => self.expressions.push(expr),
            Expr::RefDot { refr, .. } => self.expressions.push(refr),
            Expr::RefBrack { refr, index, .. } => self.expressions.extend([&**refr, &**index]),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.expressions.extend([&**lhs, &**rhs]),
            Expr::Membership {
                key,
                value,
                collection,
                ..
            } => {
                self.expressions.extend(key.iter().map(|key| &**key));
                self.expressions.extend([&**value, &**collection]);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(texts: &[&str]) -> Vec<String> {
        let files: Vec<_> = texts
            .iter()
            .map(|text| RulesFile {
                name: "a.rego",
                text,
                is_old: false,
            })
            .collect();
        missing(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_builtin_that_is_not_there_is_told_of_once_with_its_place() {
        let found = said(&[
            "package a\nallow if {\n  token := io.jwt.encode_sign({}, {}, {})\n  token\n}\n\
             deny if { some x in [y | y := http.send({})]; x }\nother if not http.send({})\n",
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        let verifies = found
            .iter()
            .find(|said| said.contains("io.jwt.encode_sign"));
        let verifies = verifies.unwrap();
        assert!(
            verifies.starts_with("a.rego:3:") && verifies.contains("input.claims"),
            "{verifies}"
        );
    }

    #[test]
    fn builtins_functions_and_imports_are_known() {
        let found = said(&[
            "package a.b\nimport data.lib\nimport data.lib.inner as other\nallow if { f(input.x); lib.g(1); other.h(2); data.lib.g(3) }\n\
             f(x) if { startswith(x, \"a\"); io.jwt.decode(x); time.now_ns() > 1; print(x); sprintf(\"%s\", [x]) == \"\" }\n\
             default d(_) := 1\nd(x) := 2 if x == 3\ne if d(3) == 2\nc if { y := 1 + 2; count({1} | {2}) > y }\n",
            "package lib\ng(x) := x\n",
            "package lib.inner\nh(x) := x\n",
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}

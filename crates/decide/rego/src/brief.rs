//! Whether a policy is so simple that no evaluation of it takes long.
//!
//! Such a policy may be asked on the thread that has the question. The steps of an evaluation are
//! counted, but not the time of each: so a brief policy has only parts in which a step takes a time
//! proportional to its operands, and gives no result that is much larger. Any other policy is asked
//! on a thread of its own, where it holds up no one.

use regorus::Source;
use regorus::unstable::{ArithOp, Expr, Literal, Parser, Query, Rule, RuleBody, RuleHead};

/// Bytes of a file of a brief policy: a comparison may look through its data in one step.
#[doc(alias = "bound")]
const FILE: usize = 64 * 1024;

/// Expressions in a file of a brief policy.
#[doc(alias = "bound")]
const EXPRESSIONS: u32 = 2000;

/// How many times larger than its input a value of a brief policy can become, if all that makes values larger were done one after the
/// other.
#[doc(alias = "bound")]
const GROWTH: usize = 64;

/// The functions that a brief policy may call: each takes a time in proportion to its operands, and
/// returns no more than they hold.
const CALLS: &[&str] = &[
    "abs",
    "array.slice",
    "ceil",
    "contains",
    "count",
    "endswith",
    "floor",
    "io.jwt.decode",
    "is_array",
    "is_boolean",
    "is_null",
    "is_number",
    "is_object",
    "is_set",
    "is_string",
    "lower",
    "max",
    "min",
    "net.cidr_contains",
    "net.cidr_intersects",
    "net.cidr_is_valid",
    "object.get",
    "object.keys",
    "round",
    "split",
    "startswith",
    "substring",
    "sum",
    "time.add_date",
    "time.clock",
    "time.date",
    "time.diff",
    "time.now_ns",
    "time.parse_duration_ns",
    "time.parse_rfc3339_ns",
    "time.weekday",
    "to_number",
    "trim_prefix",
    "trim_space",
    "trim_suffix",
    "type_name",
    "upper",
];

/// Whether a file of data is small enough.
pub(crate) fn is_brief_data(text: &str) -> bool {
    text.len() <= FILE
}

/// Whether a file of rules is brief. It has been read before; `is_old` says in which version of the language.
pub(crate) fn are_brief_rules(name: &str, text: &str, is_old: bool) -> bool {
    text.len() <= FILE && look(name, text, is_old).unwrap_or(false)
}

fn look(name: &str, text: &str, is_old: bool) -> Option<bool> {
    let source = Source::from_contents(name.to_owned(), text.to_owned()).ok()?;
    let mut parser = Parser::new(&source).ok()?;
    // As the engine reads it: otherwise a policy with long lines would count as one that cannot be parsed.
    parser.set_max_col(crate::budget::COLUMNS);
    if !is_old {
        parser.enable_rego_v1().ok()?;
    }
    let module = parser.parse().ok()?;

    let mut looking = Looking {
        pending: Vec::new(),
        growth: 1,
    };
    let mut rules = module.policy.iter();
    let are_brief = rules.all(|rule| looking.is_brief(rule));
    Some(are_brief && module.num_expressions <= EXPRESSIONS)
}

/// A walk through the expressions of a file, with a list in place of recursion: a file could nest them deeper than the stack.
struct Looking<'a> {
    pending: Vec<&'a Expr>,
    growth: usize,
}

impl<'a> Looking<'a> {
    fn is_brief(&mut self, rule: &'a Rule) -> bool {
        let known = match rule {
            Rule::Default { args, value, .. } => {
                self.pending.push(value);
                args.is_empty()
            }
            Rule::Spec { head, bodies, .. } => {
                self.is_brief_head(head) && bodies.iter().all(|body| self.is_brief_body(body))
            }
        };
        known && self.are_brief_expressions()
    }

    /// Whether a head is that of a rule with one value. Functions could call each other, and partial sets could stand in others.
    fn is_brief_head(&mut self, head: &'a RuleHead) -> bool {
        let RuleHead::Compr { refr, assign, .. } = head else {
            return false;
        };
        self.pending
            .extend(assign.iter().map(|assign| &*assign.value));
        matches!(**refr, Expr::Var { .. })
    }

    fn is_brief_body(&mut self, body: &'a RuleBody) -> bool {
        self.pending
            .extend(body.assign.iter().map(|assign| &*assign.value));
        self.is_brief_query(&body.query)
    }

    fn is_brief_query(&mut self, query: &'a Query) -> bool {
        query.stmts.iter().all(|statement| {
            // `with` evaluates other rules again, for every use.
            let is_plain = statement.with_mods.is_empty();
            is_plain && self.is_brief_literal(&statement.literal)
        })
    }

    fn is_brief_literal(&mut self, literal: &'a Literal) -> bool {
        match literal {
            Literal::SomeVars { .. } => true,
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => {
                self.pending.push(expr);
                true
            }
            Literal::SomeIn {
                key,
                value,
                collection,
                ..
            } => {
                self.pending.extend(key.iter().map(|key| &**key));
                self.pending.extend([&**value, &**collection]);
                true
            }
            Literal::Every { domain, query, .. } => {
                self.pending.push(domain);
                self.is_brief_query(query)
            }
        }
    }

    fn are_brief_expressions(&mut self) -> bool {
        while let Some(expression) = self.pending.pop() {
            if !self.is_brief_expression(expression) {
                return false;
            }
        }
        true
    }

    fn is_brief_expression(&mut self, expression: &'a Expr) -> bool {
        match expression {
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                let items: Vec<&Expr> = items.iter().map(|item| &**item).collect();
                return self.holds(&items);
            }
            Expr::Object { fields, .. } => {
                let both = fields.iter().flat_map(|(_, key, value)| [&**key, &**value]);
                let items: Vec<&Expr> = both.collect();
                return self.holds(&items);
            }
            Expr::Call { fcn, params, .. } if CALLS.contains(&fcn.span().text()) => {
                self.pending.extend(params.iter().map(|operand| &**operand));
            }
            // A product has as many digits as both factors: some in a row would fill the memory.
            Expr::ArithExpr {
                op: ArithOp::Add | ArithOp::Sub,
                lhs,
                rhs,
                ..
            } => self.pending.extend([&**lhs, &**rhs]),
            other => match parts(other) {
                Some(parts) => self.pending.extend(parts),
                None => return false,
            },
        }
        true
    }

    /// An expression that combines these into a value. Its size is at most that of the largest,
    /// times the number of non-constant ones.
    fn holds(&mut self, items: &[&'a Expr]) -> bool {
        // Literals add no more than the file has, which is bounded already.
        let open = items.iter().filter(|item| !is_constant(item)).count();
        self.growth = self.growth.saturating_mul(open.max(1));
        self.pending.extend(items);
        self.growth <= GROWTH
    }
}

/// The parts of an expression of a plain kind; `None` if it is of another.
fn parts(expression: &Expr) -> Option<Vec<&Expr>> {
    Some(match expression {
        Expr::String { .. }
        | Expr::RawString { .. }
        | Expr::Number { .. }
        | Expr::Bool { .. }
        | Expr::Null { .. }
        | Expr::Var { .. } => Vec::new(),
        Expr::UnaryExpr { expr, .. } => vec![expr],
        Expr::RefDot { refr, .. } => vec![refr],
        Expr::RefBrack { refr, index, .. } => vec![refr, index],
        Expr::BoolExpr { lhs, rhs, .. } | Expr::AssignExpr { lhs, rhs, .. } => vec![lhs, rhs],
        Expr::Membership {
            key,
            value,
            collection,
            ..
        } => {
            let mut parts: Vec<&Expr> = key.iter().map(|key| &**key).collect();
            parts.extend([&**value, &**collection]);
            parts
        }
        _ => return None,
    })
}

/// Whether an expression consists of literals alone.
fn is_constant(expression: &Expr) -> bool {
    let mut pending = vec![expression];
    while let Some(expression) = pending.pop() {
        match expression {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                pending.extend(items.iter().map(|item| &**item));
            }
            Expr::Object { fields, .. } => {
                pending.extend(fields.iter().flat_map(|(_, key, value)| [&**key, &**value]));
            }
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_brief(rules: &str) -> bool {
        let text = format!("package a\n\nimport rego.v1\n\n{rules}\n");
        assert!(
            look("a.rego", &text, false).is_some(),
            "cannot be read: {rules}"
        );
        are_brief_rules("a.rego", &text, false)
    }

    #[test]
    fn policies_that_compare_are_brief() {
        for rules in [
            "default allow := false",
            "allow if input.user == \"alice\"",
            "allow := {\"allowed\": true, \"headers\": {\"x-secure\": role}} if { some role in input.groups; role != \"\" }",
            "allow if { input.method in {\"GET\", \"HEAD\"}; startswith(input.path, \"/a/\") } else := false if input.x",
            "allow if { parts := split(input.path, \"/\"); parts[1] == \"a\"; count(parts) < 5 }",
            "allow if { every group in input.groups { group != \"guests\" } }",
            "allow if { not net.cidr_contains(\"10.0.0.0/8\", input.source); data.users[input.user].age + 1 > 3 }",
        ] {
            assert!(is_brief(rules), "{rules}");
        }
        let old = "package a\nallow = answer { input.x == 1; answer := {\"allowed\": true} }\n";
        assert!(are_brief_rules("a.rego", old, true));
    }

    #[test]
    fn what_may_take_long_in_one_step_is_not_brief() {
        let doubled: String = (0..7)
            .map(|turn| format!("v{} := [v{turn}, v{turn}]\n", turn + 1))
            .collect();
        for rules in [
            "allow if regex.match(input.a, input.b)",
            "allow if { x := concat(\"\", [input.a, input.a]); x == \"\" }",
            "allow if { x := sprintf(\"%s\", [input.a]); x == \"\" }",
            "allow if input.a * input.a > 1",
            "allow if { some i in numbers.range(1, 10000); i > input.a }",
            "f(x) := [x, x]",
            "allow contains x if some x in input.a",
            "allow[x] := y if some x, y in input.a",
            "allow := [x | some x in input.a]",
            "allow := {x | some x in input.a}",
            "allow := {x: 1 | some x in input.a}",
            "allow if input.a == 1 with input.a as 2",
            "allow if walk(input, [_, 1])",
            "allow := input.a | input.b",
            &format!("v0 := input.a\n{doubled}"),
        ] {
            assert!(!is_brief(rules), "{rules}");
        }
    }

    #[test]
    fn what_is_large_is_not_brief() {
        let long = format!("{}allow if input.a", "# a comment\n".repeat(FILE / 10));
        assert!(!is_brief(&long) && !is_brief_data(&long));
        let many = "allow if { input.a == 1; input.b == 2; input.c == 3 }\n".repeat(300);
        assert!(!is_brief(&many));
        let deep = format!("allow if input{}", ".a".repeat(1000));
        assert!(is_brief(&deep));
    }
}

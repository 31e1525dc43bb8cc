//! Evaluates expressions of a PAC file.

use super::condition::{HostPattern, PLAIN, Predicate};
use super::predicates::{host, matches, not, scheme, truth};
use super::syntax::{Expression, Form};
use super::value::{Choice, Misunderstood, Value, Variables};
use super::{functions, methods};

/// Levels of a value that is made of others.
#[doc(alias = "bound")]
const DEEPEST: usize = 512;

/// Characters of a pattern: names of hosts have 253 at most.
#[doc(alias = "bound")]
const PATTERN: usize = 1024;

/// Evaluates expressions, and remembers those that are not understood.
pub(super) struct Evaluator<'a> {
    pub(super) variables: &'a Variables,
    pub(super) misunderstood: &'a mut Vec<Misunderstood>,
    /// Bytes that may still be copied; at 0 nothing is understood any more.
    pub(super) work: &'a mut usize,
}

impl Evaluator<'_> {
    /// The condition that an expression is. One that is not understood never holds.
    pub(super) fn condition(&mut self, expression: &Expression) -> Predicate {
        match self.value(expression) {
            Value::Predicate(condition) => condition,
            Value::Text(text) => truth(!text.is_empty()),
            Value::Number(number) => truth(number != 0.0),
            Value::Unknown(what) => {
                self.misunderstood.push(what);
                Predicate::Never
            }
            _ => {
                self.misunderstood.push(Misunderstood {
                    line: expression.line,
                    what: "this condition".to_owned(),
                });
                Predicate::Never
            }
        }
    }

    pub(super) fn value(&mut self, expression: &Expression) -> Value {
        let line = expression.line;
        match &expression.form {
            Form::Text(text) => Value::Text(text.clone()),
            Form::Number(number) => Value::Number(*number),
            Form::Truth(is_true) => Value::Predicate(truth(*is_true)),
            Form::Regex {
                expression,
                folds_case,
            } => Value::Regex {
                expression: expression.clone(),
                folds_case: *folds_case,
            },
            Form::Name(name) => self.variable(line, name),
            Form::Negative(inner) => match self.value(inner) {
                Value::Number(number) => Value::Number(-number),
                _ => Value::unknown(line, "this number"),
            },
            Form::Not(inner) => Value::Predicate(Predicate::Not(Box::new(self.condition(inner)))),
            Form::Binary { sign, left, right } => self.binary(line, sign, left, right),
            Form::Choice {
                condition,
                then,
                otherwise,
            } => Value::Choice(Box::new(Choice {
                condition: self.condition(condition),
                then: self.value(then),
                otherwise: self.value(otherwise),
            })),
            Form::Call { function, operands } => self.call(line, function, operands),
            Form::Member { of, name } => match (self.value(of), name.as_str()) {
                (Value::Text(text), "length") => Value::Number(text.chars().count() as f64),
                _ => Value::unknown(line, format!("`.{name}`")),
            },
            Form::Other(what) => Value::unknown(line, what.clone()),
        }
    }

    /// A copy of a variable.
    fn variable(&mut self, line: u32, name: &str) -> Value {
        let Some(value) = self.variables.get(name) else {
            return Value::unknown(line, format!("`{name}`"));
        };
        let is_paid = self.pay(value.size());
        if !is_paid || value.depth() > DEEPEST {
            return Value::unknown(line, format!("`{name}`, which stands for very much,"));
        }
        value.clone()
    }

    /// Pays for a copy; whether there is enough left.
    fn pay(&mut self, count: usize) -> bool {
        let left = self.work.checked_sub(count);
        *self.work = left.unwrap_or(0);
        left.is_some()
    }

    fn binary(&mut self, line: u32, sign: &str, left: &Expression, right: &Expression) -> Value {
        match sign {
            "||" => {
                let parts = vec![self.condition(left), self.condition(right)];
                Value::Predicate(Predicate::Any(parts))
            }
            "&&" => {
                let parts = vec![self.condition(left), self.condition(right)];
                Value::Predicate(Predicate::All(parts))
            }
            _ => {
                let left = self.value(left);
                let right = self.value(right);
                let compared = match sign {
                    "+" if !self.pay(left.size() + right.size()) => None,
                    "+" => sum(&left, &right),
                    "==" | "===" => equality(&left, &right).map(Value::Predicate),
                    "!=" | "!==" => {
                        equality(&left, &right).map(|equal| Value::Predicate(not(equal)))
                    }
                    ">=" | ">" | "<" | "<=" => order(sign, &left, &right).map(Value::Predicate),
                    _ => None,
                };
                compared.unwrap_or_else(|| {
                    Value::first_unknown(&[left, right])
                        .unwrap_or_else(|| Value::unknown(line, format!("`{sign}`")))
                })
            }
        }
    }

    fn call(&mut self, line: u32, function: &Expression, operands: &[Expression]) -> Value {
        let values: Vec<Value> = operands.iter().map(|operand| self.value(operand)).collect();
        if let Some(what) = Value::first_unknown(&values) {
            return what;
        }
        if values.iter().any(|value| value.size() > PATTERN) {
            return Value::unknown(line, "this call with a long operand");
        }
        match &function.form {
            Form::Name(name) => functions::call(name, &values)
                .unwrap_or_else(|| Value::unknown(line, format!("{name}(..)"))),
            Form::Member { of, name } => {
                let of = self.value(of);
                if let Value::Unknown(_) = of {
                    return of;
                }
                methods::call(&of, name, &values)
                    .unwrap_or_else(|| Value::unknown(line, format!(".{name}(..)")))
            }
            _ => Value::unknown(line, "this call"),
        }
    }
}

fn sum(left: &Value, right: &Value) -> Option<Value> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(Value::Text(format!("{left}{right}"))),
        (Value::Text(left), Value::Number(right)) => Some(Value::Text(format!("{left}{right}"))),
        _ => None,
    }
}

fn equality(left: &Value, right: &Value) -> Option<Predicate> {
    Some(match (left, right) {
        (Value::Host, Value::Text(text)) | (Value::Text(text), Value::Host) => {
            host(HostPattern::Exact(text.to_ascii_lowercase()))
        }
        (Value::UrlStart, Value::Text(text)) | (Value::Text(text), Value::UrlStart) => {
            scheme(text)?
        }
        (Value::Text(left), Value::Text(right)) => truth(left == right),
        (Value::Number(left), Value::Number(right)) => truth(left == right),
        (Value::Dots, Value::Number(count)) | (Value::Number(count), Value::Dots)
            if *count == 0.0 =>
        {
            matches(PLAIN.to_owned())
        }
        (Value::PlaceInHost(text), Value::Number(place)) if *place == -1.0 => {
            not(matches(regex::escape(text)))
        }
        (Value::PlaceInHost(text), Value::Number(place)) if *place == 0.0 => {
            matches(format!("^{}", regex::escape(text)))
        }
        (Value::PlaceInUrl(text), Value::Number(place)) if *place == 0.0 => scheme(text)?,
        (Value::Predicate(condition), Value::Predicate(Predicate::Always)) => condition.clone(),
        (Value::Predicate(condition), Value::Predicate(Predicate::Never)) => not(condition.clone()),
        _ => return None,
    })
}

fn order(sign: &str, left: &Value, right: &Value) -> Option<Predicate> {
    let Value::Number(number) = right else {
        return None;
    };
    match (left, sign) {
        (Value::PlaceInHost(text), ">=") if *number == 0.0 => Some(matches(regex::escape(text))),
        (Value::PlaceInHost(text), ">") if *number == -1.0 => Some(matches(regex::escape(text))),
        (Value::PlaceInHost(text), "<") if *number == 0.0 => {
            Some(not(matches(regex::escape(text))))
        }
        (Value::Dots, "<") if *number == 1.0 => Some(matches(PLAIN.to_owned())),
        (Value::Dots, ">") if *number == 0.0 => Some(not(matches(PLAIN.to_owned()))),
        (Value::Dots, ">=") if *number == 1.0 => Some(not(matches(PLAIN.to_owned()))),
        _ => None,
    }
}

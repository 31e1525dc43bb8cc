//! Values of expressions in a PAC file, as far as they are known without a request.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::condition::{Conjunction, HostPattern, PLAIN, Predicate, Scheme};
use super::syntax::{Expression, Form};

/// Levels of a value that is made of others.
#[doc(alias = "bound")]
const DEEPEST: usize = 512;

/// Characters of a pattern: names of hosts have 253 at most.
#[doc(alias = "bound")]
const PATTERN: usize = 1024;

/// Characters that are said of something that is not understood.
#[doc(alias = "bound")]
const SAID: usize = 120;

/// Values of variables.
pub(super) type Variables = HashMap<String, Value>;

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Number(f64),
    Predicate(Predicate),
    /// The host of the request, or its address.
    Host,
    Url,
    /// The beginning of the URL.
    UrlStart,
    /// Where a text stands in the host.
    PlaceInHost(String),
    /// Where a text stands in the URL.
    PlaceInUrl(String),
    /// How many dots the host has.
    Dots,
    Regex {
        expression: String,
        folds_case: bool,
    },
    Choice(Box<Choice>),
    Unknown(Misunderstood),
}

#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) condition: Predicate,
    pub(super) then: Value,
    pub(super) otherwise: Value,
}

/// An expression that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misunderstood {
    pub(super) line: u32,
    pub(super) what: String,
}

fn unknown(line: u32, what: impl Into<String>) -> Value {
    let what = what.into().chars().take(SAID).collect();
    Value::Unknown(Misunderstood { line, what })
}

/// Evaluates expressions, and remembers those that are not understood.
pub(super) struct Evaluator<'a> {
    pub(super) variables: &'a Variables,
    pub(super) misunderstood: &'a mut Vec<Misunderstood>,
    /// Bytes that may still be copied; at 0 nothing is understood any more.
    pub(super) work: &'a mut usize,
}

impl Value {
    /// Its bytes and parts, about: the cost of a copy.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::PlaceInHost(text) | Self::PlaceInUrl(text) => 1 + text.len(),
            Self::Regex { expression, .. } => 1 + expression.len(),
            Self::Predicate(condition) => condition.size(),
            Self::Choice(choice) => {
                choice.condition.size() + choice.then.size() + choice.otherwise.size()
            }
            Self::Unknown(unknown) => 1 + unknown.what.len(),
            Self::Number(_) | Self::Host | Self::Url | Self::UrlStart | Self::Dots => 1,
        }
    }

    /// Levels of parts in one another.
    fn depth(&self) -> usize {
        match self {
            Self::Predicate(condition) => condition.depth(),
            Self::Choice(choice) => {
                let parts = choice.then.depth().max(choice.otherwise.depth());
                1 + parts.max(choice.condition.depth())
            }
            _ => 1,
        }
    }
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
                _ => unknown(line, "this number"),
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
                _ => unknown(line, format!("`.{name}`")),
            },
            Form::Other(what) => unknown(line, what.clone()),
        }
    }

    /// A copy of a variable.
    fn variable(&mut self, line: u32, name: &str) -> Value {
        let Some(value) = self.variables.get(name) else {
            return unknown(line, format!("`{name}`"));
        };
        let is_paid = self.pay(value.size());
        if !is_paid || value.depth() > DEEPEST {
            return unknown(line, format!("`{name}`, which stands for very much,"));
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
                    first_unknown(&[left, right])
                        .unwrap_or_else(|| unknown(line, format!("`{sign}`")))
                })
            }
        }
    }

    fn call(&mut self, line: u32, function: &Expression, operands: &[Expression]) -> Value {
        let values: Vec<Value> = operands.iter().map(|operand| self.value(operand)).collect();
        if let Some(what) = first_unknown(&values) {
            return what;
        }
        if values.iter().any(|value| value.size() > PATTERN) {
            return unknown(line, "this call with a long operand");
        }
        match &function.form {
            Form::Name(name) => {
                function_of(name, &values).unwrap_or_else(|| unknown(line, format!("{name}(..)")))
            }
            Form::Member { of, name } => {
                let of = self.value(of);
                if let Value::Unknown(_) = of {
                    return of;
                }
                method(&of, name, &values).unwrap_or_else(|| unknown(line, format!(".{name}(..)")))
            }
            _ => unknown(line, "this call"),
        }
    }
}

fn first_unknown(values: &[Value]) -> Option<Value> {
    let found = values
        .iter()
        .find(|value| matches!(value, Value::Unknown(_)));
    found.cloned()
}

fn truth(is_true: bool) -> Predicate {
    match is_true {
        true => Predicate::Always,
        false => Predicate::Never,
    }
}

fn not(condition: Predicate) -> Predicate {
    Predicate::Not(Box::new(condition))
}

fn host(pattern: HostPattern) -> Predicate {
    Predicate::hosts(vec![pattern])
}

fn matches(expression: String) -> Predicate {
    host(HostPattern::Matches(expression))
}

fn scheme(start: &str) -> Option<Predicate> {
    let scheme = match start.trim_end_matches(['/', ':']) {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        // Schemes that an HTTP proxy is never asked for.
        "ftp" | "file" | "ws" | "wss" => return Some(Predicate::Never),
        _ => return None,
    };
    Some(Predicate::Is(Conjunction {
        scheme: Some(scheme),
        ..Conjunction::default()
    }))
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

/// The functions that PAC files have.
fn function_of(name: &str, operands: &[Value]) -> Option<Value> {
    Some(match (name, operands) {
        ("isPlainHostName", [Value::Host]) => Value::Predicate(matches(PLAIN.to_owned())),
        ("dnsDomainIs", [Value::Host, Value::Text(domain)]) => Value::Predicate(domain_is(domain)),
        ("localHostOrDomainIs", [Value::Host, Value::Text(name)]) => {
            let name = name.to_ascii_lowercase();
            let short = name.split('.').next().unwrap_or_default().to_owned();
            let mut names = vec![HostPattern::Exact(name.clone())];
            if short != name {
                names.push(HostPattern::Exact(short));
            }
            Value::Predicate(Predicate::hosts(names))
        }
        ("isInNet", [Value::Host, Value::Text(net), Value::Text(mask)]) => {
            let net: Ipv4Addr = net.parse().ok()?;
            let mask: Ipv4Addr = mask.parse().ok()?;
            let net = Ipv4Net::with_netmask(net, mask).ok()?.trunc();
            Value::Predicate(host(HostPattern::Net(net.into())))
        }
        ("isInNetEx", [Value::Host, Value::Text(prefix)]) => {
            let prefix: IpNet = prefix.parse().ok()?;
            Value::Predicate(host(HostPattern::Net(prefix.trunc())))
        }
        ("shExpMatch", [Value::Host, Value::Text(glob)]) => {
            Value::Predicate(host(HostPattern::of_glob(glob)))
        }
        ("shExpMatch", [Value::Url, Value::Text(glob)]) => Value::Predicate(url_glob(glob)?),
        ("dnsResolve", [Value::Host]) => Value::Host,
        ("dnsDomainLevels", [Value::Host]) => Value::Dots,
        _ => return None,
    })
}

/// A name and all below it.
fn domain_is(domain: &str) -> Predicate {
    let domain = domain.to_ascii_lowercase();
    match domain.strip_prefix('.') {
        Some(name) if !name.is_empty() => host(HostPattern::Below(domain)),
        _ if domain.is_empty() => Predicate::Always,
        _ => Predicate::hosts(vec![
            HostPattern::Exact(domain.clone()),
            HostPattern::Below(format!(".{domain}")),
        ]),
    }
}

/// A glob of a URL that asks for scheme, host and port alone.
fn url_glob(glob: &str) -> Option<Predicate> {
    let (written, rest) = glob.split_once("://").unwrap_or(("*", glob));
    if rest == glob && !glob.starts_with('*') {
        return None;
    }
    let mut parts = Vec::new();
    if written != "*" && written != "http*" {
        parts.push(scheme(written)?);
    }
    // Behind a host without a path, a star stands for port and path.
    let (authority, path) = rest
        .split_once('/')
        .unwrap_or((rest.trim_end_matches('*'), ""));
    if !path.chars().all(|letter| letter == '*') {
        return None;
    }
    let (name, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    if !port.is_empty() {
        parts.push(Predicate::Is(Conjunction {
            port: Some(port.parse().ok()?),
            ..Conjunction::default()
        }));
    }
    if !name.is_empty() && name != "*" {
        parts.push(host(HostPattern::of_glob(name)));
    }
    Some(Predicate::All(parts))
}

/// Methods of the host, of the URL, and of texts.
fn method(of: &Value, name: &str, operands: &[Value]) -> Option<Value> {
    Some(match (of, name, operands) {
        (Value::Host, "toLowerCase" | "trim" | "toString", []) => Value::Host,
        (Value::Url, "toLowerCase" | "trim" | "toString", []) => Value::Url,
        (Value::Text(text), "toLowerCase", []) => Value::Text(text.to_lowercase()),
        (Value::Host, "indexOf" | "search", [Value::Text(part)]) => {
            Value::PlaceInHost(part.to_ascii_lowercase())
        }
        (Value::Url, "indexOf", [Value::Text(part)]) => Value::PlaceInUrl(part.clone()),
        (Value::Host, "includes", [Value::Text(part)]) => {
            Value::Predicate(matches(regex::escape(part)))
        }
        (Value::Host, "startsWith", [Value::Text(part)]) => {
            Value::Predicate(matches(format!("^{}", regex::escape(part))))
        }
        (Value::Host, "endsWith", [Value::Text(part)])
            if part.starts_with('.') && part.len() > 1 =>
        {
            Value::Predicate(host(HostPattern::Below(part.to_ascii_lowercase())))
        }
        (Value::Host, "endsWith", [Value::Text(part)]) => {
            Value::Predicate(matches(format!("{}$", regex::escape(part))))
        }
        (Value::Url, "startsWith", [Value::Text(part)]) => Value::Predicate(scheme(part)?),
        (Value::Url, "substring" | "slice" | "substr", [Value::Number(from), Value::Number(_)])
            if *from == 0.0 =>
        {
            Value::UrlStart
        }
        (
            Value::Regex {
                expression,
                folds_case,
            },
            "test",
            [Value::Host],
        )
        | (
            Value::Host,
            "match" | "search",
            [
                Value::Regex {
                    expression,
                    folds_case,
                },
            ],
        ) => {
            let expression = match folds_case {
                true => format!("(?i){expression}"),
                false => expression.clone(),
            };
            regex::Regex::new(&expression).ok()?;
            Value::Predicate(matches(expression))
        }
        _ => return None,
    })
}

/// Whether a text is an address, of which PAC files ask by name.
pub(super) fn is_private(net: &IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => (address.segments()[0] & 0xfe00) == 0xfc00,
    }
}

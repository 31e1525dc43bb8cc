//! From the text of a template to its parts.

use http::uri::{Authority, Scheme};

use super::{Origin, Part, TemplateMistake, UriTemplate, Variable};

/// Characters that stand for themselves: unreserved and reserved ones (RFC 3986, section 2) but `#`, and without the brackets, which a
/// path does not have.
fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=".contains(&byte)
}

pub(super) fn parse(text: &str) -> Result<UriTemplate, TemplateMistake> {
    let (origin, path) = split_origin(text)?;
    let mut builder = Builder {
        parts: Vec::new(),
        has_query: false,
    };

    let mut rest = path;
    while let Some((literal, after)) = rest.split_once('{') {
        builder.literal(literal)?;
        let (expression, after) = after.split_once('}').ok_or(TemplateMistake::Brace)?;
        builder.expression(expression)?;
        rest = after;
    }

    builder.literal(rest)?;
    if let Some(missing) = Variable::ALL
        .into_iter()
        .find(|variable| !builder.holds(*variable))
    {
        return Err(TemplateMistake::Missing(missing));
    }

    Ok(UriTemplate {
        text: text.to_owned(),
        origin,
        parts: builder.parts,
    })
}

/// Takes scheme and authority off, where there are any.
fn split_origin(text: &str) -> Result<(Option<Origin>, &str), TemplateMistake> {
    if text.starts_with('/') {
        return Ok((None, text));
    }
    let schemes = [("https://", Scheme::HTTPS), ("http://", Scheme::HTTP)];
    let found = schemes
        .into_iter()
        .find_map(|(prefix, scheme)| Some((scheme, text.strip_prefix(prefix)?)));
    let (scheme, rest) = found.ok_or_else(|| TemplateMistake::NoPath(text.to_owned()))?;
    let (authority, path) = rest.split_at(
        rest.find('/')
            .ok_or_else(|| TemplateMistake::NoPath(text.to_owned()))?,
    );
    let bad = || TemplateMistake::Authority(authority.to_owned());

    // No user information, and a host that is one.
    let port = if scheme == Scheme::HTTPS { 443 } else { 80 };
    crate::authority::HostPort::parse_with_default(authority, port).map_err(|_| bad())?;
    Ok((
        Some((scheme, Authority::try_from(authority).map_err(|_| bad())?)),
        path,
    ))
}

struct Builder {
    parts: Vec<Part>,
    has_query: bool,
}

impl Builder {
    fn holds(&self, variable: Variable) -> bool {
        self.parts.contains(&Part::Variable(variable))
    }

    /// Text as it is written.
    fn literal(&mut self, text: &str) -> Result<(), TemplateMistake> {
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            match letter {
                '#' => return Err(TemplateMistake::Fragment),
                '}' => return Err(TemplateMistake::Brace),
                '%' => {
                    let hex =
                        |digit: Option<char>| digit.is_some_and(|digit| digit.is_ascii_hexdigit());
                    if !(hex(rest.next()) && hex(rest.next())) {
                        return Err(TemplateMistake::Percent);
                    }
                }
                _ if letter.is_ascii() && is_literal(letter as u8) => {
                    self.has_query |= letter == '?'
                }
                _ => return Err(TemplateMistake::Character(letter)),
            }
        }

        self.push(text);
        Ok(())
    }

    fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// An expression: the text between two braces (RFC 6570, section 2.2).
    fn expression(&mut self, expression: &str) -> Result<(), TemplateMistake> {
        let (operator, names) = match expression.chars().next() {
            Some(operator) if "+#./;=,!@|".contains(operator) => {
                return Err(TemplateMistake::Operator(operator));
            }
            Some(operator @ ('?' | '&')) => (Some(operator), &expression[1..]),
            _ => (None, expression),
        };

        match operator {
            Some('?') if self.has_query => return Err(TemplateMistake::SecondQuery),
            Some('&') if !self.has_query => return Err(TemplateMistake::NoQuery),
            _ => self.has_query |= operator.is_some(),
        }

        for (index, name) in names.split(',').enumerate() {
            let variable = variable(name)?;
            if self.holds(variable) {
                return Err(TemplateMistake::Twice(variable));
            }

            match operator {
                None if index > 0 => self.push(","),
                None => {}
                Some('?') if index == 0 => self.push(&format!("?{name}=")),
                Some(_) => self.push(&format!("&{name}=")),
            }

            self.parts.push(Part::Variable(variable));
        }

        Ok(())
    }
}

fn variable(name: &str) -> Result<Variable, TemplateMistake> {
    if name.contains([':', '*']) {
        return Err(TemplateMistake::Modifier(name.to_owned()));
    }
    let found = Variable::ALL
        .into_iter()
        .find(|variable| variable.name() == name);
    found.ok_or_else(|| TemplateMistake::Unknown(name.to_owned()))
}

//! The tokens of JavaScript (ECMA-262, clause 12), as far as PAC files have them.

use crate::text::number;
use crate::unreadable::Unreadable;

/// Tokens of a file: 16 of each of 20,000 conditions with a result, and some more.
#[doc(alias = "bound")]
const MOST: usize = 400_000;

/// A token and its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) line: u32,
    pub(super) kind: TokenKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Word(String),
    Text(String),
    Number(f64),
    /// A regular expression, and whether it is without regard to case.
    Regex {
        expression: String,
        folds_case: bool,
    },
    /// One of `SIGNS`.
    Sign(&'static str),
    End,
}

/// Signs, the longer ones first.
const SIGNS: &[&str] = &[
    "===", "!==", "=>", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "(", ")", "{",
    "}", "[", "]", ";", ",", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "=", ".", "&", "|",
    "^", "~",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Unreadable> {
    let mut reader = TokenReader {
        rest: text,
        line: 1,
        tokens: Vec::new(),
    };
    loop {
        reader.space()?;
        let line = reader.line;
        let kind = reader.token()?;
        let is_end = kind == TokenKind::End;
        reader.tokens.push(Token { line, kind });
        if is_end {
            return Ok(reader.tokens);
        }
        if reader.tokens.len() > MOST {
            return Err(Unreadable::at(
                line,
                format!("it has more than {MOST} tokens"),
            ));
        }
    }
}

struct TokenReader<'a> {
    rest: &'a str,
    line: u32,
    tokens: Vec<Token>,
}

impl TokenReader<'_> {
    fn skip(&mut self, bytes: usize) {
        let lines = self.rest[..bytes].matches('\n').count();
        self.line = self.line.saturating_add(number(lines));
        self.rest = &self.rest[bytes..];
    }

    fn space(&mut self) -> Result<(), Unreadable> {
        loop {
            let spaces = self.rest.len() - self.rest.trim_start().len();
            self.skip(spaces);
            let comment = if self.rest.starts_with("//") {
                self.rest.find('\n').unwrap_or(self.rest.len())
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/");
                end.ok_or_else(|| Unreadable::at(self.line, "this comment has no end"))? + 2
            } else {
                return Ok(());
            };
            self.skip(comment);
        }
    }

    fn token(&mut self) -> Result<TokenKind, Unreadable> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(TokenKind::End);
        };
        if first.is_alphabetic() || first == '_' || first == '$' {
            let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
            let word = self.take_while(is_part);
            return Ok(TokenKind::Word(word));
        }
        if first.is_ascii_digit() {
            let written = self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '.');
            let number = written.parse().ok().or_else(|| {
                let digits = written.strip_prefix("0x")?;
                u32::from_str_radix(digits, 16).ok().map(f64::from)
            });
            return number
                .map(TokenKind::Number)
                .ok_or_else(|| Unreadable::at(self.line, format!("`{written}` is not a number")));
        }
        if first == '"' || first == '\'' {
            return self.text(first).map(TokenKind::Text);
        }
        if first == '/' && self.is_regex_next() {
            return self.regex();
        }

        let sign = SIGNS.iter().find(|sign| self.rest.starts_with(**sign));
        let sign =
            sign.ok_or_else(|| Unreadable::at(self.line, format!("`{first}` is not understood")))?;
        self.skip(sign.len());
        Ok(TokenKind::Sign(sign))
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let end = self
            .rest
            .find(|letter| !is_part(letter))
            .unwrap_or(self.rest.len());
        let taken = self.rest[..end].to_owned();
        self.skip(end);
        taken
    }

    /// Whether a slash begins a regular expression: it does not divide anything.
    fn is_regex_next(&self) -> bool {
        !matches!(
            self.tokens.last().map(|token| &token.kind),
            Some(
                TokenKind::Word(_)
                    | TokenKind::Number(_)
                    | TokenKind::Text(_)
                    | TokenKind::Sign(")" | "]")
            )
        ) || matches!(self.tokens.last().map(|token| &token.kind), Some(TokenKind::Word(word)) if word == "return")
    }

    fn regex(&mut self) -> Result<TokenKind, Unreadable> {
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        let mut in_class = false;
        loop {
            match bytes.get(end) {
                Some(b'/') if !in_class => break,
                Some(b'\\') => end += 1,
                Some(b'[') => in_class = true,
                Some(b']') => in_class = false,
                Some(b'\n') | None => {
                    return Err(Unreadable::at(
                        self.line,
                        "this regular expression has no end",
                    ));
                }
                Some(_) => {}
            }
            end += 1;
        }
        let expression = self.rest.get(1..end);
        let expression = expression
            .ok_or_else(|| Unreadable::at(self.line, "this regular expression is not understood"))?
            .to_owned();
        self.skip(end + 1);
        let flags = self.take_while(|letter| letter.is_ascii_alphabetic());
        Ok(TokenKind::Regex {
            expression,
            folds_case: flags.contains('i'),
        })
    }

    fn text(&mut self, quote: char) -> Result<String, Unreadable> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                letter if letter == quote => {
                    self.skip(at + 1);
                    return Ok(text);
                }
                '\n' => break,
                '\\' => match letters.next().map(|(_, letter)| letter) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    // A line that goes on.
                    Some('\n') => {}
                    Some(escaped @ ('u' | 'x')) => {
                        let reason = format!("`\\{escaped}` in a text is not understood");
                        return Err(Unreadable::at(self.line, reason));
                    }
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        Err(Unreadable::at(self.line, "this text has no end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_apart() {
        let all = tokens("if (/a\\/b[/]/i.test(host)) // x\n return 'it\\'s' + 4 / 2;").unwrap();
        let regex = TokenKind::Regex {
            expression: "a\\/b[/]".to_owned(),
            folds_case: true,
        };
        assert_eq!(all[2].kind, regex);
        let text = TokenKind::Text("it's".to_owned());
        let found = all.iter().find(|token| token.kind == text).unwrap();
        assert_eq!(found.line, 2);
        assert!(all.iter().any(|token| token.kind == TokenKind::Sign("/")));
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for text in [
            "'a",
            "\"a\nb\"",
            "/*",
            "(/a",
            "'\\u0041'",
            "0xzz",
            "`a`",
            "(/\\é",
        ] {
            assert!(tokens(text).is_err(), "{text}");
        }
        assert!(tokens(&"a ".repeat(MOST + 1)).is_err());
    }
}

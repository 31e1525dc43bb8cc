//! From the bytes of a JSON text, in pieces of any size, to its parts; what was read is not kept.

use std::fmt;

use memchr::memchr2;

use super::decode::{decode_string, is_number};

/// Characters of a number: more has no number that a program computes with.
#[doc(alias = "bound")]
const NUMBER: usize = 128;

/// Bytes of a name that a place shows.
const SHOWN: usize = 40;

/// How much a text may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanBounds {
    /// Arrays and objects within each other.
    pub(crate) depth: usize,
    /// Bytes of a string.
    pub(crate) string: usize,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// `{`.
    BeginMap,
    /// `}`.
    EndMap,
    /// `[`.
    BeginList,
    /// `]`.
    EndList,
    /// The name of a member, whose value follows.
    Name(String),
    /// A string.
    Text(String),
    /// A number.
    Number(Box<str>),
    /// A boolean.
    Bool(bool),
    /// `null`.
    Null,
}

/// A text that is not JSON, or not within its bounds: why, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    reason: String,
    line: u64,
    byte: u64,
    path: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reason,
            line,
            byte,
            path,
        } = self;
        write!(out, "{reason}, in line {line}, at byte {byte}")?;
        match path.is_empty() {
            true => Ok(()),
            false => write!(out, ", in {path}"),
        }
    }
}

/// The next part that may stand in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// A value, or the end of an empty array.
    FirstValue,
    /// A name, or the end of an empty object.
    FirstName,
    Name,
    Colon,
    /// A comma, or the end of what is open.
    Next,
    /// Nothing but space.
    Nothing,
}

/// A token that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    /// The last byte was a backslash, where `escaped`.
    String {
        escaped: bool,
    },
    /// A number or a word.
    Bare,
}

/// An array or object that is open, with the part of it that is being read.
#[derive(Debug)]
enum Open {
    List(u64),
    Map(String),
}

/// Takes each part of a text; it may refuse one.
pub(crate) type Take<'t> = &'t mut dyn FnMut(Event) -> Result<(), &'static str>;

/// Reads a text, piece by piece.
#[derive(Debug)]
pub(crate) struct Scanner {
    bounds: ScanBounds,
    open: Vec<Open>,
    expected: Expected,
    token: Token,
    kept: Vec<u8>,
    line: u64,
    byte: u64,
}

impl Scanner {
    /// Before the first byte.
    pub(crate) fn new(bounds: ScanBounds) -> Self {
        Self {
            bounds,
            open: Vec::new(),
            expected: Expected::Value,
            token: Token::None,
            kept: Vec::new(),
            line: 1,
            byte: 0,
        }
    }

    /// Bytes that it keeps.
    pub(crate) fn kept(&self) -> usize {
        self.kept.capacity()
    }

    /// Reads the next piece.
    ///
    /// # Errors
    /// The first mistake in it; the text is not to be read on then.
    pub(crate) fn push(&mut self, piece: &[u8], take: Take<'_>) -> Result<(), Malformed> {
        let mut rest = piece;
        while let [byte, after @ ..] = rest {
            // A long string is taken in one go.
            if self.token == (Token::String { escaped: false }) {
                let length = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                if length > 0 {
                    self.keep(&rest[..length])?;
                    rest = &rest[length..];
                    continue;
                }
            }
            let read = self.take_byte(*byte, take);
            read.map_err(|reason| self.malformed(reason))?;
            self.byte += 1;
            self.line += u64::from(*byte == b'\n');
            rest = after;
        }
        Ok(())
    }

    /// The text ends here.
    ///
    /// # Errors
    /// It is not whole.
    pub(crate) fn finish(&mut self, take: Take<'_>) -> Result<(), Malformed> {
        // Nothing but the end of the text ends a number that stands alone.
        if self.token == Token::Bare {
            let ended = self.end_bare(take);
            ended.map_err(|reason| self.malformed(reason))?;
        }
        match self.expected {
            Expected::Nothing => Ok(()),
            _ => Err(self.malformed("the text ends too early")),
        }
    }

    /// A mistake at the place that was read last.
    pub(crate) fn malformed(&self, reason: impl Into<String>) -> Malformed {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::List(index) => path.push_str(&format!("[{index}]")),
                Open::Map(name) if name.is_empty() => {}
                Open::Map(name) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(dot);
                    path.extend(name.chars().filter(|letter| !letter.is_control()));
                }
            }
        }
        Malformed {
            reason: reason.into(),
            line: self.line,
            byte: self.byte,
            path,
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let room = self.bounds.string.saturating_sub(self.kept.len());
        // RFC 8259, section 7: control characters are escaped.
        let plain = bytes.iter().position(|byte| *byte < 0x20);
        let plain = plain.unwrap_or(bytes.len());
        let kept = plain.min(room);
        self.kept.extend_from_slice(&bytes[..kept]);
        self.byte += kept as u64;
        if kept == bytes.len() {
            return Ok(());
        }
        match kept < plain {
            true => Err(self.malformed("a string is too long")),
            false => Err(self.malformed("a string has a control character")),
        }
    }

    fn take_byte(&mut self, byte: u8, take: Take<'_>) -> Result<(), &'static str> {
        match self.token {
            Token::String { .. } if self.kept.len() >= self.bounds.string && byte != b'"' => {
                Err("a string is too long")
            }
            Token::String { escaped: true } => {
                self.kept.push(byte);
                self.token = Token::String { escaped: false };
                Ok(())
            }
            Token::String { escaped: false } if byte == b'\\' => {
                self.kept.push(byte);
                self.token = Token::String { escaped: true };
                Ok(())
            }
            Token::String { .. } => self.end_string(take),
            Token::Bare if is_bare(byte) => {
                self.kept.push(byte);
                match self.kept.len() > NUMBER {
                    true => Err("a number is too long"),
                    false => Ok(()),
                }
            }
            Token::Bare => {
                self.end_bare(take)?;
                self.between(byte, take)
            }
            Token::None => self.between(byte, take),
        }
    }

    /// A byte between tokens.
    fn between(&mut self, byte: u8, take: Take<'_>) -> Result<(), &'static str> {
        use Expected::{Colon, FirstName, FirstValue, Name, Next, Nothing, Value};
        match (self.expected, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => Ok(()),
            (Nothing, _) => Err("there is more behind the value"),
            (Value | FirstValue, b'{') => self.begin(Open::Map(String::new()), take),
            (Value | FirstValue, b'[') => self.begin(Open::List(0), take),
            (FirstValue, b']') | (FirstName, b'}') => self.end(byte, take),
            (Value | FirstValue | FirstName | Name, b'"') => {
                self.token = Token::String { escaped: false };
                Ok(())
            }
            (Value | FirstValue, _) if is_bare(byte) => {
                self.token = Token::Bare;
                self.kept.push(byte);
                Ok(())
            }
            (Colon, b':') => {
                self.expected = Value;
                Ok(())
            }
            (Next, b',') => {
                self.expected = match self.open.last_mut() {
                    Some(Open::List(index)) => {
                        *index += 1;
                        Value
                    }
                    _ => Name,
                };
                Ok(())
            }
            (Next, b']' | b'}') => self.end(byte, take),
            (Value | FirstValue, _) => Err("a value is missing"),
            (FirstName | Name, _) => Err("the name of a member is missing"),
            (Colon, _) => Err("a colon is missing"),
            (Next, _) => Err("a comma or the end is missing"),
        }
    }

    fn begin(&mut self, open: Open, take: Take<'_>) -> Result<(), &'static str> {
        if self.open.len() >= self.bounds.depth {
            return Err("arrays and objects are nested too deeply");
        }
        let is_list = matches!(open, Open::List(_));
        self.open.push(open);
        self.expected = if is_list {
            Expected::FirstValue
        } else {
            Expected::FirstName
        };
        take(if is_list {
            Event::BeginList
        } else {
            Event::BeginMap
        })
    }

    fn end(&mut self, byte: u8, take: Take<'_>) -> Result<(), &'static str> {
        // The kind of bracket is compared with the one that is open: the grammar alone would let another pass.
        let event = match (self.open.last(), byte) {
            (Some(Open::List(_)), b']') => Event::EndList,
            (Some(Open::Map(_)), b'}') => Event::EndMap,
            _ => return Err("the wrong bracket"),
        };
        self.open.pop();
        self.ended();
        take(event)
    }

    /// A value has ended.
    fn ended(&mut self) {
        self.expected = match self.open.is_empty() {
            true => Expected::Nothing,
            false => Expected::Next,
        };
    }

    fn end_string(&mut self, take: Take<'_>) -> Result<(), &'static str> {
        self.token = Token::None;
        let text = decode_string(&self.kept)?;
        self.kept.clear();
        if !matches!(self.expected, Expected::FirstName | Expected::Name) {
            self.ended();
            return take(Event::Text(text));
        }
        self.expected = Expected::Colon;
        // Kept for places of mistakes only, so its beginning will do.
        if let Some(Open::Map(name)) = self.open.last_mut() {
            *name = text.chars().take(SHOWN).collect();
        }
        take(Event::Name(text))
    }

    fn end_bare(&mut self, take: Take<'_>) -> Result<(), &'static str> {
        self.token = Token::None;
        let event = match self.kept.as_slice() {
            b"true" => Event::Bool(true),
            b"false" => Event::Bool(false),
            b"null" => Event::Null,
            number if is_number(number) => {
                let number = String::from_utf8_lossy(number);
                Event::Number(number.into())
            }
            _ => return Err("neither a number nor a word of JSON"),
        };
        self.kept.clear();
        self.ended();
        take(event)
    }
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

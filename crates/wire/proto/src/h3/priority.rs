//! The priority of a response (RFC 9218): two members of a structured dictionary (RFC 8941, section 3.2).

use std::fmt;

/// How urgent a response is, and whether parts of it are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Priority {
    /// `u`: 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// `i`: the client can use parts of it.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Parses the field `priority` of a request, or a PRIORITY_UPDATE; absent parameters have their
    /// defaults.
    pub fn parse(value: &[u8]) -> Self {
        Signal::parse(value).over(Self::default())
    }
}

/// A priority as one side states it; the other side decides the absent parameters (RFC 9218,
/// section 8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signal {
    /// `u`.
    pub urgency: Option<u8>,
    /// `i`.
    pub incremental: Option<bool>,
}

impl Signal {
    /// Reads the value of the field `priority` or of a PRIORITY_UPDATE. A parameter that is absent,
    /// unknown, of another type or out of range is ignored (RFC 9218, section 4), and so is a value
    /// that is not a dictionary.
    pub fn parse(value: &[u8]) -> Self {
        let mut signal = Self::default();
        match Dictionary(value).members(&mut signal) {
            Some(()) => signal,
            None => Self::default(),
        }
    }

    /// The priority that comes of it where there is `other`.
    #[must_use]
    pub fn over(self, other: Priority) -> Priority {
        Priority {
            urgency: self.urgency.unwrap_or(other.urgency),
            incremental: self.incremental.unwrap_or(other.incremental),
        }
    }

    fn set(&mut self, key: &[u8], item: Item) {
        match (key, item) {
            (b"u", Item::Integer(urgency @ 0..=7)) => self.urgency = Some(urgency as u8),
            (b"i", Item::Boolean(incremental)) => self.incremental = Some(incremental),
            _ => {}
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "u={}{}",
            self.urgency,
            if self.incremental { ", i" } else { "" }
        )
    }
}

/// The value of a member; of most, only their presence matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// The rest of a dictionary that is read (RFC 8941, section 4.2.2).
struct Dictionary<'a>(&'a [u8]);

impl Dictionary<'_> {
    fn members(&mut self, signal: &mut Signal) -> Option<()> {
        self.skip(b" ");
        while !self.0.is_empty() {
            let key = self.key()?;
            let item = match self.takes(b'=') {
                true => self.member()?,
                false => Item::Boolean(true),
            };

            self.parameters()?;
            signal.set(key, item);
            self.skip(b" \t");

            if self.0.is_empty() {
                return Some(());
            }
            self.takes(b',').then_some(())?;
            self.skip(b" \t");

            // A comma has a member after it.
            (!self.0.is_empty()).then_some(())?;
        }

        Some(())
    }

    /// An item, or a list of items in parentheses (RFC 8941, section 4.2.1.2).
    fn member(&mut self) -> Option<Item> {
        if !self.takes(b'(') {
            return self.item();
        }
        loop {
            self.skip(b" ");
            if self.takes(b')') {
                return Some(Item::Other);
            }
            self.item()?;
            self.parameters()?;
            matches!(self.0.first(), Some(b' ' | b')')).then_some(())?;
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.takes(b';') {
            self.skip(b" ");
            self.key()?;
            if self.takes(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    /// RFC 8941, section 4.2.3.1.
    fn item(&mut self) -> Option<Item> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => {
                let value = match self.0.get(1)? {
                    b'0' => false,
                    b'1' => true,
                    _ => return None,
                };
                self.0 = &self.0[2..];
                Some(Item::Boolean(value))
            }
            b'"' => self.string(),
            b':' => {
                self.0 = &self.0[1..];
                self.while_true(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.takes(b':').then_some(Item::Other)
            }
            first if first.is_ascii_alphabetic() || first == b'*' => {
                self.while_true(|byte| crate::quoted::is_tchar(byte) || b":/".contains(&byte));
                Some(Item::Other)
            }
            _ => None,
        }
    }

    /// Up to 15 digits, or a decimal with up to 12 and 3 (RFC 8941, section 4.2.4).
    fn number(&mut self) -> Option<Item> {
        let sign = if self.takes(b'-') { -1 } else { 1 };
        let digits = self.while_true(|byte| byte.is_ascii_digit());
        if self.takes(b'.') {
            let fraction = self.while_true(|byte| byte.is_ascii_digit());
            return ((1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len()))
                .then_some(Item::Other);
        }

        (1..=15).contains(&digits.len()).then_some(())?;
        let value: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Item::Integer(sign * value))
    }

    /// RFC 8941, section 4.2.5.
    fn string(&mut self) -> Option<Item> {
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(Item::Other);
                }
                b'\\' => matches!(bytes.next()?.1, b'"' | b'\\').then_some(())?,
                b' '..=b'~' => {}
                _ => return None,
            }
        }

        None
    }

    fn takes(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((&first, rest)) if first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn skip(&mut self, of: &[u8]) {
        self.while_true(|byte| of.contains(&byte));
    }
}

impl<'a> Dictionary<'a> {
    /// RFC 8941, section 4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        let first = *self.0.first()?;
        (first.is_ascii_lowercase() || first == b'*').then_some(())?;
        Some(self.while_true(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    /// Takes bytes that `fit` off the front.
    fn while_true(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self
            .0
            .iter()
            .position(|&byte| !fits(byte))
            .unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;

        taken
    }
}

/// Parses arbitrary bytes: the result is always a priority that survives a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let priority = Priority::parse(data);
    assert!(priority.urgency <= 7);
    assert_eq!(Priority::parse(priority.to_string().as_bytes()), priority);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (u8, bool) {
        let priority = Priority::parse(text.as_bytes());
        (priority.urgency, priority.incremental)
    }

    #[test]
    fn reads_the_samples_of_rfc_9218() {
        assert_eq!(parse("u=0"), (0, false));
        assert_eq!(parse("u=5, i"), (5, true));
        assert_eq!(parse("i"), (3, true));
        assert_eq!(parse("u=3, i=?0"), (3, false));
        assert_eq!(parse(""), (3, false));
    }

    #[test]
    fn passes_over_what_it_does_not_know_and_what_is_out_of_range() {
        assert_eq!(parse("u=8"), (3, false));
        assert_eq!(parse("u=-1, i"), (3, true));
        assert_eq!(parse("u=1.5, i=1"), (3, false));
        assert_eq!(
            parse("a;b=2;c, x=(1 \"t\\\"(\";q tok), u=1;z, y=:YQ==:, i=?1;u=7"),
            (1, true)
        );
        assert_eq!(parse("u=6, u=2 ,\ti"), (2, true));
    }

    #[test]
    fn what_is_no_dictionary_says_nothing_at_all() {
        for text in [
            "u=1,",
            "u=1 i",
            "U=1",
            "u=",
            "u=1, =2",
            "u=1, x=(1",
            "u=1, x=\"a",
            "u=1, x=?2",
            "u=1, x=1.",
            "u=1, \u{e9}",
        ] {
            assert_eq!(parse(text), (3, false), "{text}");
        }
    }

    #[test]
    fn what_a_response_leaves_out_the_client_decides() {
        let client = Priority {
            urgency: 1,
            incremental: true,
        };
        assert_eq!(
            Signal::parse(b"u=5").over(client),
            Priority {
                urgency: 5,
                incremental: true
            }
        );
        assert_eq!(
            Signal::parse(b"i=?0").over(client),
            Priority {
                urgency: 1,
                incremental: false
            }
        );
        assert_eq!(Signal::parse(b"u=9, x").over(client), client);
        assert_eq!(Signal::parse(b"u=2, =").over(client), client);
    }

    #[test]
    fn is_written_as_it_is_read() {
        for urgency in 0..=7 {
            for incremental in [false, true] {
                let priority = Priority {
                    urgency,
                    incremental,
                };
                assert_eq!(Priority::parse(priority.to_string().as_bytes()), priority);
            }
        }
    }
}

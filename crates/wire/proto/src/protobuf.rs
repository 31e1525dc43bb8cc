//! The wire format of Protocol Buffers: as much of it as messages of numbers, texts and messages need.
//!
//! A message is a run of fields, each a number with a wire type, and a value. A reader skips
//! unknown fields; groups, which no current message has, are refused.
//!
//! Specification: the encoding of Protocol Buffers, as <https://protobuf.dev/programming-guides/encoding> has it.

/// Bytes of a number at most: ten times seven bits hold 64.
const NUMBER: usize = 10;

/// Wire types.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// A message that is written. Nothing is written of a value that is the default of its type.
#[derive(Debug, Clone, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A number.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.tag(field, VARINT);
            self.varint(value);
        }
        self
    }

    /// A text.
    #[must_use]
    pub fn text(self, field: u32, text: &str) -> Self {
        if text.is_empty() {
            return self;
        }
        self.bytes(field, text.as_bytes())
    }

    /// A message, also an empty one.
    #[must_use]
    pub fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.bytes)
    }

    /// An entry of a map of texts.
    #[must_use]
    pub fn entry(self, field: u32, key: &str, value: &str) -> Self {
        self.message(field, &Self::default().text(1, key).text(2, value))
    }

    /// The message.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    fn tag(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.bytes.push(0x80 | (value & 0x7f) as u8);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of any size, a truth value, or one of an enumeration.
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    /// A number of a fixed size, in four or eight bytes.
    Fixed(&'a [u8]),
}

impl<'a> Value<'a> {
    /// A number.
    ///
    /// # Errors
    /// The value is not a number.
    pub fn number(self) -> Result<u64, BadMessage> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed(_) => Err(BadMessage),
        }
    }

    /// The fields of a message.
    ///
    /// # Errors
    /// The value is not a message.
    pub fn message(self) -> Result<Reader<'a>, BadMessage> {
        match self {
            Self::Bytes(bytes) => Ok(Reader { rest: bytes }),
            Self::Number(_) | Self::Fixed(_) => Err(BadMessage),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// The value is not text.
    pub fn text(self) -> Result<&'a str, BadMessage> {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).map_err(|_| BadMessage),
            Self::Number(_) | Self::Fixed(_) => Err(BadMessage),
        }
    }
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a Protocol Buffers message")]
pub struct BadMessage;

/// Reads the fields of a message, in the order in which they stand there.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Of a whole message.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field: its number and its value; `None` at the end.
    ///
    /// # Errors
    /// The next bytes are not a field.
    pub fn next_field(&mut self) -> Result<Option<(u64, Value<'a>)>, BadMessage> {
        if self.rest.is_empty() {
            return Ok(None);
        }

        let tag = self.varint()?;
        let value = match tag & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED_64 => Value::Fixed(self.take(8)?),
            LENGTH => {
                let length = usize::try_from(self.varint()?).map_err(|_| BadMessage)?;
                Value::Bytes(self.take(length)?)
            }
            FIXED_32 => Value::Fixed(self.take(4)?),
            _ => return Err(BadMessage),
        };

        let field = tag >> 3;
        if field == 0 {
            return Err(BadMessage);
        }
        Ok(Some((field, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BadMessage> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(BadMessage)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, BadMessage> {
        let mut value = 0_u64;
        for (turn, byte) in self.rest.iter().take(NUMBER).enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * turn as u32;
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(BadMessage);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                self.rest = &self.rest[turn + 1..];
                return Ok(value);
            }
        }
        Err(BadMessage)
    }
}

/// Reads arbitrary bytes: every field takes some, and numbers and texts survive a round trip.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let mut reader = Reader::new(data);
    let mut before = data.len();
    while let Ok(Some((field, value))) = reader.next_field() {
        assert!(reader.rest.len() < before);
        before = reader.rest.len();

        let Ok(field) = u32::try_from(field) else {
            continue;
        };
        let written = match value {
            Value::Number(number) if number != 0 => Message::default().number(field, number),
            Value::Bytes(bytes) => Message::default().bytes(field, bytes),
            Value::Number(_) | Value::Fixed(_) => continue,
        };
        let bytes = written.into_bytes();
        let again = Reader::new(&bytes).next_field();
        assert_eq!(again, Ok(Some((u64::from(field), value))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_examples_of_the_specification() {
        assert_eq!(
            Message::default().number(1, 150).into_bytes(),
            b"\x08\x96\x01"
        );
        let testing = Message::default().text(2, "testing");
        assert_eq!(testing.into_bytes(), b"\x12\x07testing");
        let within = Message::default().number(1, 150);
        let around = Message::default().message(3, &within);
        assert_eq!(around.into_bytes(), b"\x1a\x03\x08\x96\x01");
        assert!(
            Message::default()
                .number(1, 0)
                .text(2, "")
                .into_bytes()
                .is_empty()
        );
    }

    #[test]
    fn reads_what_it_knows_and_passes_over_the_rest() {
        let bytes = b"\x08\x96\x01\x12\x01a\x1d\0\0\0\0\x21\0\0\0\0\0\0\0\0";
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.next_field(), Ok(Some((1, Value::Number(150)))));
        let (field, value) = reader.next_field().unwrap().unwrap();
        assert_eq!((field, value.text()), (2, Ok("a")));
        assert_eq!(reader.next_field(), Ok(Some((3, Value::Fixed(&[0; 4])))));
        assert_eq!(reader.next_field(), Ok(Some((4, Value::Fixed(&[0; 8])))));
        assert_eq!(reader.next_field(), Ok(None));
    }

    #[test]
    fn refuses_what_is_cut_off_too_long_or_a_group() {
        for bad in [
            &b"\x08"[..],
            b"\x08\x80",
            b"\x12\x05abc",
            b"\x0b",
            b"\x00\x01",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            assert_eq!(Reader::new(bad).next_field(), Err(BadMessage), "{bad:?}");
        }
    }
}

//! How a process is called among those that share a socket.

/// The part of a connection ID that names a process. It is random, and differs from those of the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessTag(pub [u8; 3]);

/// One process. The order is that of their age, and the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId {
    /// One more than the generation of the newest process that it found.
    pub(super) generation: u32,
    pub(super) tag: ProcessTag,
}

/// Bytes of the form in messages.
pub(super) const LENGTH: usize = 7;

impl ProcessTag {
    /// A random tag.
    pub(super) fn random() -> Self {
        let mut tag = [0; 3];
        // Where the system has no random numbers, no handshake succeeds either.
        let _ = aws_lc_rs::rand::fill(&mut tag);
        Self(tag)
    }
}

impl ProcessId {
    /// The form in names: `GENERATION.TAG`, in hexadecimal digits.
    pub(super) fn format(self) -> String {
        let [first, second, third] = self.tag.0;
        format!("{:08x}.{first:02x}{second:02x}{third:02x}", self.generation)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (generation, tag) = text.split_once('.')?;
        let generation = u32::from_str_radix(generation, 16).ok()?;
        let tag = u32::from_str_radix(tag, 16).ok()?;
        let [0, first, second, third] = tag.to_be_bytes() else {
            return None;
        };

        let id = Self {
            generation,
            tag: ProcessTag([first, second, third]),
        };
        // One name a process.
        (id.format() == text).then_some(id)
    }

    pub(super) fn encode(self) -> [u8; LENGTH] {
        let [a, b, c, d] = self.generation.to_be_bytes();
        let [e, f, g] = self.tag.0;
        [a, b, c, d, e, f, g]
    }

    pub(super) fn decode(bytes: [u8; LENGTH]) -> Self {
        let [a, b, c, d, e, f, g] = bytes;
        Self {
            generation: u32::from_be_bytes([a, b, c, d]),
            tag: ProcessTag([e, f, g]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_no_other_form_is() {
        let id = ProcessId {
            generation: 0x1f,
            tag: ProcessTag([0, 0xab, 1]),
        };
        assert_eq!(id.format(), "0000001f.00ab01");
        assert_eq!(ProcessId::parse(&id.format()), Some(id));
        assert_eq!(ProcessId::decode(id.encode()), id);

        let wrong = [
            "",
            "1f.00ab01",
            "0000001F.00ab01",
            "0000001f.ab01",
            "0000001f.1000ab01",
            "0000001f.00ab01 ",
            "+000001f.00ab01",
            "0000001f",
        ];
        for text in wrong {
            assert_eq!(ProcessId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_later_one_is_the_newer_whatever_its_tag() {
        let id = |generation, tag| ProcessId {
            generation,
            tag: ProcessTag([tag, 0, 0]),
        };
        assert!(id(2, 0) > id(1, 255));
        assert!(id(2, 1) > id(2, 0));
    }
}

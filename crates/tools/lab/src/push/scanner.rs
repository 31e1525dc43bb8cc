//! Messages in the bytes of a connection, counted without being copied.

use super::systems::PushSystem;

/// The type of a capsule that is a message, in its four bytes.
const ADU: [u8; 4] = [0xad, 0x7c, 0x51, 0xc0];

/// The type of a capsule that tells of lost messages.
const GAP: [u8; 4] = [0xad, 0x7c, 0x51, 0xc1];

/// The line with which NATS gives a message.
const MSG: &[u8] = b"MSG ";

/// Counts messages.
pub(super) enum Scanner {
    /// Capsules in chunks.
    Hermes(Chunks),
    /// Lines, some of which have a content.
    Nats(Lines),
    /// Events of EventSource (HTML, section 9.2), each with an empty line behind it.
    Events(Events),
}

/// The chunks of an answer, and the capsules in them.
#[derive(Default)]
pub(super) struct Chunks {
    state: ChunkState,
    /// Bytes of the chunk that are still to come.
    left: usize,
    capsules: Capsules,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In the line of its length.
    #[default]
    Length,
    /// In the rest of that line.
    Line,
    Data,
    /// Before the two bytes behind it.
    Behind(u8),
}

/// Capsules.
#[derive(Default)]
struct Capsules {
    /// The head of the next one, as far as it is there.
    head: Vec<u8>,
    /// Bytes of its value that are still to come.
    left: usize,
    is_message: bool,
    has_lost: bool,
}

/// Lines of NATS.
#[derive(Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    /// Bytes of a content, and of the line end behind it, that are still to come.
    left: usize,
}

impl Scanner {
    /// For connections to this broker, behind its greeting.
    pub(super) fn new(system: PushSystem) -> Self {
        match system {
            PushSystem::Hermes => Self::Hermes(Chunks::default()),
            PushSystem::Nats => Self::Nats(Lines::default()),
            PushSystem::Nchan | PushSystem::Centrifugo => Self::Events(Events::default()),
        }
    }

    /// Messages that are whole with these bytes.
    pub(super) fn count(&mut self, bytes: &[u8]) -> u64 {
        match self {
            Self::Hermes(chunks) => chunks.count(bytes),
            Self::Nats(lines) => lines.count(bytes),
            Self::Events(events) => events.count(bytes),
        }
    }
}

impl Scanner {
    /// Whether the broker has said that messages are lost.
    pub(super) fn has_lost(&self) -> bool {
        match self {
            Self::Hermes(chunks) => chunks.capsules.has_lost,
            // They say nothing.
            Self::Nats(_) | Self::Events(_) => false,
        }
    }
}

/// The ends of events, whatever else is between them.
#[derive(Default)]
pub(super) struct Events {
    /// Whether the last byte has ended a line that was not the end of an event.
    is_behind_line: bool,
}

impl Events {
    fn count(&mut self, bytes: &[u8]) -> u64 {
        let mut count = 0;
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.is_behind_line {
                self.is_behind_line = false;
                if first == b'\n' {
                    count += 1;
                    rest = &rest[1..];
                    continue;
                }
            }
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            self.is_behind_line = true;
            rest = &rest[end + 1..];
        }
        count
    }
}

impl Chunks {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut count = 0;
        while let Some(&first) = bytes.first() {
            match self.state {
                ChunkState::Length | ChunkState::Line => {
                    bytes = &bytes[1..];
                    match (first as char).to_digit(16) {
                        _ if first == b'\n' => self.state = ChunkState::Data,
                        Some(digit) if self.state == ChunkState::Length => {
                            self.left = self.left * 16 + digit as usize;
                        }
                        _ => self.state = ChunkState::Line,
                    }
                }
                ChunkState::Data => {
                    let take = self.left.min(bytes.len());
                    count += self.capsules.count(&bytes[..take]);
                    bytes = &bytes[take..];
                    self.left -= take;
                    if self.left == 0 {
                        self.state = ChunkState::Behind(2);
                    }
                }
                ChunkState::Behind(left) => {
                    bytes = &bytes[1..];
                    self.state = match left {
                        1 => ChunkState::Length,
                        _ => ChunkState::Behind(left - 1),
                    };
                }
            }
        }
        count
    }
}

impl Capsules {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut count = 0;
        loop {
            let take = self.left.min(bytes.len());
            bytes = &bytes[take..];
            self.left -= take;
            if self.left > 0 {
                return count;
            }
            count += u64::from(std::mem::take(&mut self.is_message));
            if !self.head(&mut bytes) {
                return count;
            }
        }
    }

    /// Takes the head of a capsule: four bytes of type, and a length. False if it is not all there yet.
    fn head(&mut self, bytes: &mut &[u8]) -> bool {
        // All but a few heads stand in one piece.
        if self.head.is_empty()
            && let Some(size) = bytes.get(4).map(|first| 4 + (1 << (first >> 6)))
            && bytes.len() >= size
        {
            self.begin(&bytes[..size]);
            *bytes = &bytes[size..];
            return true;
        }
        while let Some(&next) = bytes.first() {
            self.head.push(next);
            *bytes = &bytes[1..];
            let size = self.head.get(4).map(|first| 4 + (1 << (first >> 6)));
            if size == Some(self.head.len()) {
                let head = std::mem::take(&mut self.head);
                self.begin(&head);
                return true;
            }
        }
        false
    }

    fn begin(&mut self, head: &[u8]) {
        self.is_message = head[..4] == ADU;
        self.has_lost |= head[..4] == GAP;
        let first = usize::from(head[4] & 0x3f);
        let rest = head[5..].iter();
        self.left = rest.fold(first, |length, byte| length << 8 | usize::from(*byte));
    }
}

impl Lines {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut count = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let take = self.left.min(bytes.len());
                bytes = &bytes[take..];
                self.left -= take;
                count += u64::from(self.left == 0);
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                return count;
            };
            if self.line.is_empty() {
                self.left = content(&bytes[..end]);
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                self.left = content(&self.line);
                self.line.clear();
            }
            bytes = &bytes[end + 1..];
        }
        count
    }
}

/// Bytes behind a line: those of a message, and of the line end behind it.
fn content(line: &[u8]) -> usize {
    if !line.starts_with(MSG) {
        return 0;
    }
    let digits = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next();
    let digits = digits.unwrap_or_default().iter();
    let length = digits.fold(0, |length, digit| {
        length * 10 + usize::from(digit.wrapping_sub(b'0'))
    });
    length + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts them whole, and cut at each byte.
    fn counted(system: PushSystem, bytes: &[u8]) -> u64 {
        let mut scanner = Scanner::new(system);
        let whole = scanner.count(bytes);
        for cut in 0..bytes.len() {
            let mut scanner = Scanner::new(system);
            let both = scanner.count(&bytes[..cut]) + scanner.count(&bytes[cut..]);
            assert_eq!(both, whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn messages_are_counted_wherever_their_bytes_are_cut() {
        let mut capsules = Vec::new();
        for length in [3_u8, 9] {
            capsules.extend(ADU);
            capsules.push(length);
            capsules.extend(vec![b'\n'; usize::from(length)]);
        }
        // A sign of life, and a message whose length has two bytes.
        capsules.extend([0xad, 0x7c, 0x51, 0xc2, 1, 7]);
        capsules.extend(ADU);
        capsules.extend([0x41, 0x00]);
        capsules.extend([0; 256]);
        let mut chunked = Vec::new();
        for part in capsules.chunks(20) {
            chunked.extend(format!("{:x}\r\n", part.len()).bytes());
            chunked.extend(part);
            chunked.extend(b"\r\n");
        }
        assert_eq!(counted(PushSystem::Hermes, &chunked), 3);

        let lines = b"MSG t 1 5\r\nMSG \n\r\nPING\r\nMSG t 1 0\r\n\r\n";
        assert_eq!(counted(PushSystem::Nats, lines), 2);

        let events = b"id: 1\ndata: x\n\n15\r\nid: 2\ndata: xx\r\n2\r\n\n\n\r\n";
        assert_eq!(counted(PushSystem::Nchan, events), 2);
    }
}

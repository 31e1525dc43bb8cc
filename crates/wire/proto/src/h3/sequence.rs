//! The order of frames on a request stream, and the length of its content (RFC 9114, sections 4.1, 4.1.2 and 4.4).

use super::code::{Code, Fault};
use super::control::Role;

/// The content of a HEADERS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The head of a request or of a response, which may be an interim one.
    Head,
    /// Trailers.
    Trailers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A head is to come; interim responses do not change that.
    Head,
    /// Content, then perhaps trailers.
    Content,
    /// The end and nothing else.
    Trailers,
    /// Bytes of a tunnel to the end.
    Tunnel,
}

/// The machine: checks the order of frames.
#[derive(Debug)]
pub struct Sequence {
    /// Our role.
    role: Role,
    phase: Phase,
    expected: Option<u64>,
    seen: u64,
}

impl Sequence {
    /// Before the first frame; `role` is ours.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            phase: Phase::Head,
            expected: None,
            seen: 0,
        }
    }

    /// A HEADERS frame.
    ///
    /// # Errors
    /// HEADERS may not come here.
    pub fn handle_headers(&mut self) -> Result<Section, Fault> {
        match self.phase {
            Phase::Head => Ok(Section::Head),
            Phase::Content => {
                self.phase = Phase::Trailers;
                Ok(Section::Trailers)
            }
            Phase::Trailers => Err(unexpected("HEADERS after trailers")),
            // RFC 9114, section 4.4: a tunnel has nothing but DATA.
            Phase::Tunnel => Err(unexpected("HEADERS within a tunnel")),
        }
    }

    /// The head that came was that of a message. `expected` is the length of the content if it is
    /// known: the announced length, or 0 for a message without content.
    pub fn begin_content(&mut self, expected: Option<u64>) {
        (self.phase, self.expected) = (Phase::Content, expected);
    }

    /// The head that came opened a tunnel.
    pub fn begin_tunnel(&mut self) {
        (self.phase, self.expected) = (Phase::Tunnel, None);
    }

    /// Accounts for bytes of DATA.
    ///
    /// # Errors
    /// DATA may not come here, or not this much.
    pub fn handle_data(&mut self, length: usize) -> Result<(), Fault> {
        match self.phase {
            Phase::Head => Err(unexpected("DATA before HEADERS")),
            Phase::Trailers => Err(unexpected("DATA after trailers")),
            Phase::Tunnel => Ok(()),
            Phase::Content => {
                self.seen = self.seen.saturating_add(length as u64);
                match self.expected {
                    // RFC 9114, section 4.1.2.
                    Some(expected) if self.seen > expected => {
                        Err(Fault::message("more content than announced"))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// A PUSH_PROMISE, which no one may send us (RFC 9114, section 7.2.5).
    pub fn handle_push(&self) -> Fault {
        match self.role {
            Role::Server => unexpected("a client promises a push"),
            Role::Client => Fault::connection(Code::IdError, "a push that was not allowed"),
        }
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// Something is missing.
    pub fn handle_end(&self) -> Result<(), Fault> {
        match (self.phase, self.expected) {
            (Phase::Head, _) => Err(Fault::stream(
                Code::RequestIncomplete,
                "the stream ended before a head",
            )),
            (Phase::Content | Phase::Trailers, Some(expected)) if self.seen != expected => {
                Err(Fault::message("less content than announced"))
            }
            _ => Ok(()),
        }
    }
}

fn unexpected(reason: &'static str) -> Fault {
    Fault::connection(Code::FrameUnexpected, reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(expected: Option<u64>) -> Sequence {
        let mut sequence = Sequence::new(Role::Server);
        assert_eq!(sequence.handle_headers(), Ok(Section::Head));
        sequence.begin_content(expected);
        sequence
    }

    fn code<T>(result: Result<T, Fault>) -> Option<Code> {
        result.err().map(|fault| fault.code)
    }

    #[test]
    fn head_content_trailers_end() {
        let mut sequence = content(Some(3));
        assert_eq!(sequence.handle_data(1), Ok(()));
        assert_eq!(sequence.handle_data(2), Ok(()));
        assert_eq!(sequence.handle_headers(), Ok(Section::Trailers));
        assert_eq!(sequence.handle_end(), Ok(()));
    }

    #[test]
    fn interim_heads_come_before_the_final_one() {
        let mut sequence = Sequence::new(Role::Client);
        assert_eq!(sequence.handle_headers(), Ok(Section::Head));
        assert_eq!(sequence.handle_headers(), Ok(Section::Head));
        assert_eq!(code(sequence.handle_end()), Some(Code::RequestIncomplete));
        sequence.begin_content(None);
        assert_eq!(sequence.handle_end(), Ok(()));
    }

    #[test]
    fn content_comes_neither_before_the_head_nor_after_trailers() {
        let mut sequence = Sequence::new(Role::Server);
        assert_eq!(code(sequence.handle_data(0)), Some(Code::FrameUnexpected));
        let mut sequence = content(None);
        assert_eq!(sequence.handle_headers(), Ok(Section::Trailers));
        assert_eq!(code(sequence.handle_data(1)), Some(Code::FrameUnexpected));
        assert_eq!(code(sequence.handle_headers()), Some(Code::FrameUnexpected));
    }

    #[test]
    fn content_is_as_long_as_announced() {
        let mut sequence = content(Some(3));
        assert_eq!(code(sequence.handle_end()), Some(Code::MessageError));
        assert_eq!(sequence.handle_data(2), Ok(()));
        assert_eq!(code(sequence.handle_end()), Some(Code::MessageError));
        assert_eq!(
            sequence.handle_data(2).unwrap_err(),
            Fault::message("more content than announced")
        );
    }

    #[test]
    fn a_tunnel_has_bytes_and_nothing_else() {
        let mut sequence = Sequence::new(Role::Server);
        sequence.begin_tunnel();
        assert_eq!(sequence.handle_data(1 << 40), Ok(()));
        assert_eq!(code(sequence.handle_headers()), Some(Code::FrameUnexpected));
        assert_eq!(sequence.handle_end(), Ok(()));
    }

    #[test]
    fn a_push_is_always_an_error() {
        assert_eq!(
            Sequence::new(Role::Server).handle_push().code,
            Code::FrameUnexpected
        );
        assert_eq!(
            Sequence::new(Role::Client).handle_push().code,
            Code::IdError
        );
    }

    proptest! {
        #[test]
        fn an_end_is_taken_only_of_what_was_announced(
            expected in 0_u64..20,
            pieces in proptest::collection::vec(0_usize..8, 0..8),
        ) {
            let mut sequence = content(Some(expected));
            let taken = pieces.iter().try_for_each(|length| sequence.handle_data(*length));
            let total = pieces.iter().sum::<usize>() as u64;
            prop_assert_eq!(taken.is_ok(), total <= expected);
            prop_assert_eq!(taken.is_ok() && sequence.handle_end().is_ok(), total == expected);
        }
    }
}

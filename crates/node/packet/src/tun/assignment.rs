//! One assignment of addresses to a tunnel (RFC 9484, 4.7.1).

use hermes_proto::ip::IpPrefix;

/// The addresses that a tunnel was assigned at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assignment<'a> {
    /// Those that may be used.
    pub(super) usable: &'a [IpPrefix],
    /// All of them.
    pub(super) all: &'a [IpPrefix],
    /// Whether they answer a request; a proxy may assign unasked.
    pub(super) is_answer: bool,
    /// Whether an address that was asked for was refused.
    pub(super) has_refused: bool,
}

#[cfg(test)]
impl<'a> Assignment<'a> {
    /// Of addresses that may all be used, unasked.
    pub(super) fn unasked(all: &'a [IpPrefix]) -> Self {
        Self {
            usable: all,
            all,
            is_answer: false,
            has_refused: false,
        }
    }

    /// Of the same addresses, as an answer.
    pub(super) fn answer(self) -> Self {
        Self {
            is_answer: true,
            ..self
        }
    }
}

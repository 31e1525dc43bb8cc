//! Whether a link's window is used up by streams that no one reads, so that its other streams wait.
//!
//! quinn does not say how much of a window is used up. The peer does: it sends DATA_BLOCKED when it
//! has something to send and no room for it (RFC 9000 section 4.1). The frame may have been sent
//! just before there was room again, so the peer is given a few bytes more, and counts as blocked
//! only if it sends another one.

/// Streams that are ended at first on a full link; [`FASTER`] times as many each time that it was
/// not enough.
#[doc(alias = "bound")]
const FEW: usize = 4;

/// Growth of that number from look to look.
#[doc(alias = "bound")]
const FASTER: usize = 4;

/// Streams that are left at first, however many stand still: so many have room beside each other.
#[doc(alias = "bound")]
const LEFT: usize = 32;

/// Looks, one a second, that the peer has to use up the few bytes that it was given.
#[doc(alias = "bound")]
const PATIENCE: u32 = 5;

/// The state of a link's room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    #[default]
    Enough,
    /// The peer reported last that it is blocked.
    Blocked,
    /// The peer was given a few bytes more, this many looks ago. If it has used them up, as many of the next ones are ended.
    Asked { looks: u32, next: usize },
}

/// Observations since the last look.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RoomObservations {
    /// The peer said that it has no room.
    pub(super) blocked: bool,
    /// The peer was given more room: bytes were read, or the window grew.
    pub(super) given: bool,
    /// Streams that stand still.
    pub(super) still: usize,
}

/// The measures to take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relief {
    /// End this many of the streams that stand still.
    pub(super) end: usize,
    /// Give the peer a few bytes more.
    pub(super) ask: bool,
}

impl Room {
    pub(super) fn handle_look(&mut self, seen: RoomObservations) -> Relief {
        let (next, relief) = self.after(seen);
        *self = next;
        relief
    }

    fn after(
        self,
        RoomObservations {
            blocked,
            given,
            still,
        }: RoomObservations,
    ) -> (Self, Relief) {
        let nothing = Relief::default();
        if given {
            return (if blocked { Self::Blocked } else { Self::Enough }, nothing);
        }

        let ask = Relief {
            ask: true,
            ..nothing
        };

        match self {
            Self::Enough if !blocked => (Self::Enough, nothing),
            Self::Enough | Self::Blocked => (
                Self::Asked {
                    looks: 0,
                    next: FEW,
                },
                ask,
            ),
            Self::Asked { next, .. } if blocked && still > 0 => (
                Self::Asked {
                    looks: 0,
                    next: next.saturating_mul(FASTER),
                },
                Relief {
                    end: next.min(spare(still)),
                    ask: true,
                },
            ),
            Self::Asked { next, .. } if blocked => (Self::Asked { looks: 0, next }, ask),
            Self::Asked { looks, .. } if looks >= PATIENCE => (Self::Enough, nothing),
            Self::Asked { looks, next } => (
                Self::Asked {
                    looks: looks + 1,
                    next,
                },
                nothing,
            ),
        }
    }
}

/// How many of those that stand still may be ended at once: those that are left may have room enough, and be read again.
fn spare(still: usize) -> usize {
    still.saturating_sub(LEFT).max(still.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKED: RoomObservations = RoomObservations {
        blocked: true,
        given: false,
        still: 400,
    };
    const QUIET: RoomObservations = RoomObservations {
        blocked: false,
        ..BLOCKED
    };

    fn ended(looks: &[RoomObservations]) -> Vec<usize> {
        let mut room = Room::default();
        looks
            .iter()
            .map(|seen| room.handle_look(*seen).end)
            .collect()
    }

    #[test]
    fn streams_are_ended_only_while_the_peer_says_again_that_it_has_no_room() {
        assert_eq!(
            ended(&[BLOCKED, BLOCKED, BLOCKED, BLOCKED]),
            [0, FEW, FEW * FASTER, FEW * FASTER * FASTER]
        );
        assert_eq!(ended(&[BLOCKED, QUIET, BLOCKED, QUIET]), [0, 0, FEW, 0]);
        assert_eq!(ended(&[QUIET; 9]), [0; 9]);
    }

    #[test]
    fn some_of_those_that_stand_still_are_left_each_time() {
        let mut room = Room::default();
        let mut still = 200;
        let mut ended = Vec::new();
        for _ in 0..8 {
            let relief = room.handle_look(RoomObservations { still, ..BLOCKED });
            still -= relief.end;
            ended.push(relief.end);
        }
        assert_eq!(ended, [0, 4, 16, 64, 84, 16, 8, 4]);
    }

    #[test]
    fn what_a_busy_peer_says_ends_nothing() {
        let busy = RoomObservations {
            given: true,
            ..BLOCKED
        };
        assert_eq!(ended(&[busy; 9]), [0; 9]);
        assert_eq!(
            ended(&[busy, QUIET, QUIET, QUIET]),
            [0; 4],
            "it was told before there was room"
        );
        assert_eq!(ended(&[BLOCKED, busy, BLOCKED, busy]), [0; 4]);
    }

    #[test]
    fn a_peer_that_has_room_is_not_asked_for_ever() {
        let mut room = Room::default();
        let mut asked = 0;
        room.handle_look(BLOCKED);
        for _ in 0..100 {
            asked += usize::from(room.handle_look(QUIET).ask);
        }
        assert_eq!((asked, room), (0, Room::Enough));
    }

    #[test]
    fn streams_that_have_not_stood_still_for_long_are_left_alone() {
        let early = RoomObservations {
            still: 0,
            ..BLOCKED
        };
        assert_eq!(
            ended(&[early, early, BLOCKED, BLOCKED]),
            [0, 0, FEW, FEW * FASTER]
        );
    }
}

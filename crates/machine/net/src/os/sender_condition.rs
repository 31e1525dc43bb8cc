//! Which packets are led to a device, by the sockets that send them, and the marks that tell these sockets apart (`SO_MARK`).

/// The mark of what this process opens itself, and the bits of marks that it has: others are left to whom they belong.
pub(crate) const OWN_MARK: (u32, u32) = (0x4800_0000, 0xff00_0000);

/// What the marks of the members of control groups have in common, and the bits of marks that such a mark has. The rest is that of a
/// device; our [own mark](OWN_MARK) has the same bits but for one.
pub(crate) const CGROUP_MARK: (u32, u32) = (0x4900_0000, 0xff00_ffff);

/// A condition under which a packet is led to a device, by its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderCondition {
    /// It has not the mark of this process.
    NotOwn,
    /// Its user is one of these, from one number to another, and it has neither our mark nor that of a control group.
    OfUsers(u32, u32),
    /// It has the mark of a control group, and the user is one of these.
    OfCgroup(u32, (u32, u32)),
}

impl SenderCondition {
    /// The mark that it asks for, and the bits of marks that it looks at.
    pub(crate) const fn mark(self) -> (u32, u32) {
        match self {
            Self::NotOwn => OWN_MARK,
            Self::OfUsers(..) => (0, OWN_MARK.1),
            Self::OfCgroup(mark, _) => (mark, CGROUP_MARK.1),
        }
    }

    /// The users that it asks for, from one number to another; none: it is content with all.
    pub(crate) const fn users(self) -> Option<(u32, u32)> {
        match self {
            Self::NotOwn => None,
            Self::OfUsers(first, last) | Self::OfCgroup(_, (first, last)) => Some((first, last)),
        }
    }
}

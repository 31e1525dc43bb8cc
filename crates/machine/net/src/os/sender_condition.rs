//! Which packets are led to a device, by the sockets that send them, and the marks that tell these sockets apart (`SO_MARK`).

/// The mark of this process's own sockets, and its mask: other bits of marks belong to others.
pub(crate) const OWN_MARK: (u32, u32) = (0x4800_0000, 0xff00_0000);

/// The mark of this process's sockets that have foreign addresses: its own, and a bit by which connections are not tracked.
pub(crate) const FOREIGN_SOCKET_MARK: u32 = OWN_MARK.0 | 0x0001_0000;

/// The common part of the marks of control groups, and the mask of such a mark. The rest is that of
/// a device; our [own mark](OWN_MARK) has the same bits but for one.
pub(crate) const CGROUP_MARK: (u32, u32) = (0x4900_0000, 0xff00_ffff);

/// A condition under which a packet is led to a device, by its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderCondition {
    /// The packet has not the mark of this process.
    NotOwn,
    /// Its user is one of these, from one number to another, and it has neither our mark nor that of a control group.
    OfUsers(u32, u32),
    /// The packet has the mark of a control group, and its user is one of these.
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

    /// The range of users in the condition; `None` for all users.
    pub(crate) const fn users(self) -> Option<(u32, u32)> {
        match self {
            Self::NotOwn => None,
            Self::OfUsers(first, last) | Self::OfCgroup(_, (first, last)) => Some((first, last)),
        }
    }
}

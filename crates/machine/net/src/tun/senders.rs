//! The senders that a device takes packets of: some users and control groups of this machine, or
//! all but some.
//!
//! Routing rules know the user of a socket. They do not know its control group, so a program in the
//! kernel marks its sockets when they are opened: at connect, the route and so the source address
//! are chosen. Sockets that are open already when the device is made keep their route.

use std::io;
use std::path::PathBuf;

use nix::unistd::User;

use crate::os::{CGROUP_MARK, CgroupMark, OWN_MARK, SenderCondition};

/// Users and control groups of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Senders {
    /// Users.
    pub users: Vec<SystemUsers>,
    /// Folders of control groups (cgroup v2); those within them belong to them.
    pub cgroups: Vec<PathBuf>,
}

/// Users of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemUsers {
    /// The one of this name.
    Name(String),
    /// From one number to another.
    Numbers(u32, u32),
}

/// The last number of a user: the next one means "no user".
const LAST_USER: u32 = u32::MAX - 1;

/// The name of the account with this number, as this machine knows it. May ask a directory on another machine, and wait for it.
#[must_use]
pub fn account_name(uid: u32) -> Option<String> {
    let found = User::from_uid(nix::unistd::Uid::from_raw(uid));
    Some(found.ok()??.name)
}

/// The number of the user of this process.
#[must_use]
pub fn own_uid() -> u32 {
    nix::unistd::Uid::effective().as_raw()
}

/// The senders that a device takes packets of, in the kernel's form.
#[derive(Debug)]
pub(super) struct Selection {
    conditions: Vec<SenderCondition>,
    /// Sockets are marked for as long as these are.
    _marks: Vec<CgroupMark>,
}

impl Senders {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.cgroups.is_empty()
    }

    /// Their users, from one number to another.
    ///
    /// # Errors
    /// There is no such user.
    pub(crate) fn ranges(&self) -> io::Result<Vec<(u32, u32)>> {
        self.users.iter().map(SystemUsers::range).collect()
    }

    /// Marks the sockets that their control groups open.
    ///
    /// # Errors
    /// There is no such group, or marking is not allowed.
    pub(crate) fn mark(&self, mark: u32) -> io::Result<Vec<CgroupMark>> {
        let named = |group: &PathBuf, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", group.display()))
        };
        let marks = self.cgroups.iter();
        marks
            .map(|group| CgroupMark::new(group, mark).map_err(|error| named(group, error)))
            .collect()
    }
}

impl SystemUsers {
    /// The user of this name: the number that it has now, so that another number is another
    /// setting. If there is no such user, its name, which is an error when it is used.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match User::from_name(name) {
            Ok(Some(user)) => Self::Numbers(user.uid.as_raw(), user.uid.as_raw()),
            Ok(None) | Err(_) => Self::Name(name.to_owned()),
        }
    }

    fn range(&self) -> io::Result<(u32, u32)> {
        match self {
            Self::Numbers(first, last) => Ok((*first, (*last).min(LAST_USER))),
            Self::Name(name) => {
                let unknown = || {
                    let reason = format!("this machine has no user `{name}`");
                    io::Error::new(io::ErrorKind::NotFound, reason)
                };
                let number = User::from_name(name)?.ok_or_else(unknown)?.uid.as_raw();
                Ok((number, number))
            }
        }
    }
}

impl Selection {
    /// The senders in `only`, or all if that is empty, without those in `except`. `device` is a
    /// number that tells devices apart.
    ///
    /// # Errors
    /// There is no such user or control group, or marking the sockets of one is not allowed.
    pub(super) fn new(only: &Senders, except: &Senders, device: u16) -> io::Result<Self> {
        let of_device = CGROUP_MARK.0 | u32::from(device);
        let mut marks = only.mark(of_device)?;
        marks.extend(except.mark(OWN_MARK.0)?);

        Ok(Self {
            conditions: conditions(only, &except.ranges()?, of_device)?,
            _marks: marks,
        })
    }

    /// Any of them leads a packet to the device.
    pub(super) fn conditions(&self) -> &[SenderCondition] {
        &self.conditions
    }
}

fn conditions(
    only: &Senders,
    except: &[(u32, u32)],
    mark: u32,
) -> io::Result<Vec<SenderCondition>> {
    if only.is_empty() && except.is_empty() {
        return Ok(vec![SenderCondition::NotOwn]);
    }

    let everyone = [(0, LAST_USER)];
    let only_users = only.ranges()?;
    let users = match only.is_empty() {
        true => without(&everyone, except),
        false => without(&only_users, except),
    };
    let mut conditions: Vec<_> = users
        .into_iter()
        .map(|(first, last)| SenderCondition::OfUsers(first, last))
        .collect();
    if !only.cgroups.is_empty() {
        let others = without(&everyone, except);
        let of_groups = others.into_iter();
        conditions.extend(of_groups.map(|users| SenderCondition::OfCgroup(mark, users)));
    }
    Ok(conditions)
}

/// The difference between two sets of ranges.
fn without(ranges: &[(u32, u32)], others: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut left = ranges.to_vec();
    for (first, last) in others {
        let cut = |(low, high): (u32, u32)| {
            let below = (low < *first).then(|| (low, high.min(first.saturating_sub(1))));
            let above = (high > *last).then(|| (low.max(last.saturating_add(1)), high));
            [below, above].into_iter().flatten()
        };
        left = left.into_iter().flat_map(cut).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(ranges: &[(u32, u32)]) -> Senders {
        let range = |(first, last): &(u32, u32)| SystemUsers::Numbers(*first, *last);
        Senders {
            users: ranges.iter().map(range).collect(),
            cgroups: Vec::new(),
        }
    }

    #[test]
    fn what_is_left_of_a_range_lies_beside_what_was_taken() {
        assert_eq!(without(&[(0, 9)], &[(3, 5)]), [(0, 2), (6, 9)]);
        assert_eq!(without(&[(0, 9)], &[(0, 0), (9, 9)]), [(1, 8)]);
        assert_eq!(without(&[(0, 9)], &[(10, 20)]), [(0, 9)]);
        assert_eq!(without(&[(3, 4), (8, 8)], &[(4, 8)]), [(3, 3)]);
        assert_eq!(without(&[(5, 5)], &[(0, LAST_USER)]), []);
    }

    #[test]
    fn a_device_without_senders_takes_what_has_not_our_mark() {
        let all = conditions(&Senders::default(), &[], 0).unwrap();
        assert_eq!(all, [SenderCondition::NotOwn]);
    }

    #[test]
    fn users_that_are_excepted_are_none_of_those_that_are_taken() {
        let some = conditions(&numbers(&[(1000, 1999)]), &[(1500, 1500)], 0).unwrap();
        let expected = [(1000, 1499), (1501, 1999)];
        assert_eq!(
            some,
            expected.map(|(first, last)| SenderCondition::OfUsers(first, last))
        );
    }

    #[test]
    fn a_control_group_is_taken_without_users_beside_it() {
        let only = Senders {
            users: Vec::new(),
            cgroups: vec![PathBuf::from("/sys/fs/cgroup/vpn")],
        };
        let taken = conditions(&only, &[(0, 0)], 0x4900_0001).unwrap();
        assert_eq!(
            taken,
            [SenderCondition::OfCgroup(0x4900_0001, (1, LAST_USER))]
        );
    }

    #[test]
    fn no_mark_of_a_control_group_is_taken_for_ours() {
        let (own, bits) = OWN_MARK;
        let theirs = CGROUP_MARK.0 | u32::from(u16::MAX);
        assert_ne!(theirs & bits, own);
    }

    #[test]
    fn a_user_whom_the_machine_does_not_know_is_named() {
        assert_eq!(SystemUsers::named("root"), SystemUsers::Numbers(0, 0));
        let unknown = SystemUsers::named("no-such-user-here");
        assert!(unknown.range().is_err());
        let unknown = SystemUsers::Name("no-such-user-here".to_owned());
        let error = unknown.range().unwrap_err();
        assert!(error.to_string().contains("no-such-user-here"), "{error}");
        assert_eq!(
            SystemUsers::Name("root".to_owned()).range().unwrap(),
            (0, 0)
        );
    }
}

//! The leases of a pool as text, so that they survive a restart: a line each, with the identity at its end.
//!
//! ```text
//! hermes leases 1
//! 10.9.0.17/32 2001:db8:9::11/128 1700000000 0 alice
//! 10.9.0.4/32 - 1690000000 1 alice
//! ```

use hermes_proto::ip::IpPrefix;

use super::{AddressPool, Held, LeaseKey, MAX_LEASES};

/// The first line.
const HEAD: &str = "hermes leases 1";

/// Stands for "no address".
const NONE: &str = "-";

/// Why a text holds no leases. The pool is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseTextError {
    /// The text does not begin as one of leases, or is of another version.
    #[error("the first line is not `hermes leases 1`")]
    Head,
    /// A malformed line.
    #[error("line {0} is not a lease")]
    Line(usize),
    /// There are more than a pool may have.
    #[error("there are more than {MAX_LEASES} leases")]
    TooMany,
}

impl AddressPool {
    /// All leases as text; those in use as of `now`, in seconds since 1970.
    pub fn to_text(&self, now: u64) -> String {
        let mut text = format!("{HEAD}\n");
        for (key, held) in &self.leases {
            let [v4, v6] = [held.v4, held.v6]
                .map(|prefix| prefix.map_or(NONE.to_owned(), |prefix| prefix.to_string()));
            let since = held.since.unwrap_or(now);
            let identity = escaped(&key.identity);
            text += &format!("{v4} {v6} {since} {} {identity}\n", key.number);
        }
        text
    }

    /// Adds leases from text, as unused ones. Leases that the pool cannot give out, because its
    /// ranges have changed or the address is taken, are left out. Returns their number.
    ///
    /// # Errors
    /// [`LeaseTextError`], with the pool unchanged.
    pub fn restore(&mut self, text: &str) -> Result<usize, LeaseTextError> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(LeaseTextError::Head);
        }

        let mut leases = Vec::new();
        for (index, line) in lines.enumerate() {
            if leases.len() == MAX_LEASES {
                return Err(LeaseTextError::TooMany);
            }
            leases.push(parse(line).ok_or(LeaseTextError::Line(index + 2))?);
        }

        let mut left_out = 0;
        for (key, held) in leases {
            let prefixes = [held.v4, held.v6];
            let are_free = prefixes.into_iter().flatten().all(|one| self.is_free(one));
            let has_room = self.leases.len() < MAX_LEASES && !self.leases.contains_key(&key);
            match are_free && has_room {
                true => self.hold(key, held),
                false => left_out += 1,
            }
        }
        Ok(left_out)
    }
}

fn parse(line: &str) -> Option<(LeaseKey, Held)> {
    let mut words = line.splitn(5, ' ');
    let v4 = parse_prefix(words.next()?)?.filter_family(true)?;
    let v6 = parse_prefix(words.next()?)?.filter_family(false)?;
    let since = words.next()?.parse().ok()?;
    let number = words.next()?.parse().ok()?;
    let identity = unescaped(words.next()?)?.into();

    let key = LeaseKey { identity, number };
    let since = Some(since);
    Some((key, Held { v4, v6, since }))
}

/// A prefix or no address.
struct Written(Option<IpPrefix>);

impl Written {
    /// The written prefix, unless it is of the other family.
    fn filter_family(self, is_ipv4: bool) -> Option<Option<IpPrefix>> {
        match self.0 {
            Some(prefix) if prefix.is_ipv4() != is_ipv4 => None,
            written => Some(written),
        }
    }
}

fn parse_prefix(word: &str) -> Option<Written> {
    match word {
        NONE => Some(Written(None)),
        prefix => prefix.parse().ok().map(|prefix| Written(Some(prefix))),
    }
}

/// An identity on one line.
fn escaped(identity: &str) -> String {
    identity
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(plain)
}

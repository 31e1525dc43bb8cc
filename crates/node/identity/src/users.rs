//! The file of users and bcrypt hashes.

use std::collections::HashMap;
use std::str::FromStr;

use bcrypt::HashParts;
use hermes_config::Problem;
use hermes_config::model::DataSource;

use crate::user_name::is_user;

/// Bytes of a user file: some ten thousand users.
#[doc(alias = "bound")]
const FILE_LIMIT: u64 = 1 << 20;

/// Largest cost: 16 takes some seconds, and each step doubles that.
#[doc(alias = "bound")]
const COST_LIMIT: u32 = 16;

/// Bad lines of one file that are reported.
#[doc(alias = "bound")]
const REPORT_LIMIT: usize = 20;

/// Users and their hashes. Never empty.
#[derive(Clone)]
pub(crate) struct Users {
    hashes: HashMap<String, String>,
    /// A hash that unknown users' passwords are checked against, so that they take as long as known ones.
    decoy: String,
}

impl Users {
    /// Reads `file`; `path` is its path in the configuration.
    ///
    /// # Errors
    /// A user who stands there twice, for it is not known which password counts, and where no line is sound, each bad line, as
    /// `FILE:LINE: what is wrong with it`. A bad line beside sound ones locks out its user only: it is passed over with a warning, so
    /// that it does not keep the others' changes, such as a user who is gone, from being heeded.
    pub fn read(file: &DataSource, path: &str) -> Result<Self, Vec<Problem>> {
        let text = read_bounded(file, FILE_LIMIT, path).map_err(|error| vec![error])?;
        let mut hashes = HashMap::new();
        let mut twice = Vec::new();
        let mut bad = Vec::new();

        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }

            match parse_line(line) {
                Ok((user, hash)) => {
                    if hashes.insert(user.to_owned(), hash).is_some() {
                        let reason = format!("user {user} stands there twice");
                        twice.push(bad_line(file, index + 1, &reason, path));
                    }
                }
                Err(reason) => bad.push(bad_line(file, index + 1, &reason, path)),
            }
        }

        let errors = match (twice.is_empty(), hashes.is_empty()) {
            (true, false) => {
                warn(&bad);
                Vec::new()
            }
            _ => [twice, bad].concat(),
        };

        // Unknown users cost as much as the slowest known one, so that time does not tell them
        // apart.
        let decoy = hashes.values().max_by_key(|hash| cost(hash)).cloned();
        match decoy {
            Some(decoy) if errors.is_empty() => Ok(Self { hashes, decoy }),
            None if errors.is_empty() => Err(vec![empty(file, path)]),
            _ => Err(shortened(errors, file, path)),
        }
    }

    /// The hash to check `user`'s password against, and whether the user is known.
    pub fn hash_of(&self, user: &str) -> (&str, bool) {
        match self.hashes.get(user) {
            Some(hash) => (hash, true),
            None => (&self.decoy, false),
        }
    }
}

/// `user:$2b$10$...`; text behind a further colon is ignored, as in other password files.
fn parse_line(line: &str) -> Result<(&str, String), String> {
    let (user, rest) = line
        .split_once(':')
        .ok_or("there is no colon between user and hash")?;
    let hash = rest.split(':').next().unwrap_or_default().trim();
    if !is_user(user) {
        return Err("the user is not 1 to 256 visible ASCII characters".to_owned());
    }

    if !["$2a$", "$2b$", "$2y$"]
        .iter()
        .any(|prefix| hash.starts_with(prefix))
    {
        return Err(format!(
            "the hash of {user} is not bcrypt ($2a$, $2b$ or $2y$)"
        ));
    }

    let cost = cost(hash).ok_or_else(|| format!("the hash of {user} is not whole"))?;
    if !(4..=COST_LIMIT).contains(&cost) {
        return Err(format!(
            "the cost {cost} of {user}'s hash is not between 4 and {COST_LIMIT}"
        ));
    }

    Ok((user, hash.to_owned()))
}

/// The cost of a hash; `None` when it is not a hash.
fn cost(hash: &str) -> Option<u32> {
    HashParts::from_str(hash).ok().map(|parts| parts.get_cost())
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_bounded(file: &DataSource, limit: u64, path: &str) -> Result<String, Problem> {
    use std::io::Read;
    let failed = |reason: String| Problem::new(path, format!("{file}: {reason}"));

    let mut text = String::new();
    match file {
        DataSource::Inline(inline) => text.clone_from(inline),
        DataSource::File(file) => {
            let opened = std::fs::File::open(&file.0).map_err(|error| failed(error.to_string()))?;
            opened
                .take(limit + 1)
                .read_to_string(&mut text)
                .map_err(|error| failed(error.to_string()))?;
        }
    }

    if text.len() as u64 > limit {
        return Err(failed(format!("larger than {limit} bytes")));
    }
    // A byte order mark, with which editors of Windows begin a file, would belong to the first name.
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

fn bad_line(file: &DataSource, line: usize, reason: &str, path: &str) -> Problem {
    Problem::new(path, format!("{file}:{line}: {reason}"))
        .remedy("write lines with `htpasswd -B FILE USER`")
}

fn empty(file: &DataSource, path: &str) -> Problem {
    Problem::new(path, format!("{file} names no user"))
        .remedy("add one with `htpasswd -B FILE USER`")
}

/// Says which lines are passed over.
fn warn(bad: &[Problem]) {
    for line in bad.iter().take(REPORT_LIMIT) {
        tracing::warn!("{}: {}; the line is passed over", line.path, line.reason);
    }
    if bad.len() > REPORT_LIMIT {
        tracing::warn!(
            "{} more bad lines are passed over",
            bad.len() - REPORT_LIMIT
        );
    }
}

/// The first errors, and how many more there are.
fn shortened(mut errors: Vec<Problem>, file: &DataSource, path: &str) -> Vec<Problem> {
    let more = errors.len().saturating_sub(REPORT_LIMIT);
    errors.truncate(REPORT_LIMIT);
    if more > 0 {
        errors.push(Problem::new(path, format!("{file}: {more} more bad lines")));
    }

    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_costs_as_much_as_the_dearest_known_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        let (cheap, dear) = (bcrypt::hash("a", 4).unwrap(), bcrypt::hash("b", 5).unwrap());
        std::fs::write(&file, format!("alice:{cheap}\nbob:{dear}:a comment\n")).unwrap();
        let users = Users::read(&file.into(), "file").ok().unwrap();
        assert_eq!(users.hash_of("alice"), (cheap.as_str(), true));
        assert_eq!(users.hash_of("bob"), (dear.as_str(), true));
        assert_eq!(users.hash_of("carol"), (dear.as_str(), false));
    }
}

//! "Did you mean": the known name that is nearest to a mistyped one.

/// The known name that is nearest to `name`, if one is near enough to be meant.
///
/// Case and the kind of hyphen do not count. Of equally near names the first is taken.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let distance = strsim::damerau_levenshtein(&wanted, &folded(candidate));
        let bound = (wanted.chars().count().max(candidate.chars().count()) / 3).clamp(1, 4);
        if distance <= bound
            && wanted.len() > distance
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, candidate));
        }
    }

    best.map(|(_, candidate)| candidate)
}

fn folded(name: &str) -> String {
    // A name longer than this is no mistyped key, and the comparison costs its square.
    const LONGEST: usize = 64;
    name.chars()
        .take(LONGEST)
        .map(|letter| {
            if letter == '-' {
                '_'
            } else {
                letter.to_ascii_lowercase()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KEYS: [&str; 5] = ["listeners", "routes", "upstreams", "egress", "token_file"];

    #[test]
    fn finds_a_mistyped_name() {
        for (typed, meant) in [
            ("listner", "listeners"),
            ("Routes", "routes"),
            ("upstream", "upstreams"),
            ("token-file", "token_file"),
        ] {
            assert_eq!(nearest(typed, KEYS.into_iter()), Some(meant), "{typed}");
        }
    }

    #[test]
    fn finds_nothing_for_a_name_that_resembles_none() {
        for typed in ["", "x", "clusters", "zzzzzz"] {
            assert_eq!(nearest(typed, KEYS.into_iter()), None, "{typed}");
        }
    }
}

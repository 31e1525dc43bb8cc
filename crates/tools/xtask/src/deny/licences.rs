//! SPDX licence expressions: may we take a crate under one of its licences?

/// Permissive ones, and MPL-2.0, whose duties end at its own files.
const TAKEN: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "OpenSSL",
    "Unicode-3.0",
    "Zlib",
];

/// Does the expression leave a choice in which every licence is taken?
///
/// The grammar is that of SPDX 2.3, annex D: `AND` binds more tightly than `OR`, `WITH` more tightly than both. `/` is
/// the former form of `OR` in cargo.
///
/// # Errors
/// When the text is not an SPDX expression.
pub fn accepted(expression: &str) -> Result<bool, String> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = Words {
        words: spaced.split_whitespace().collect(),
        at: 0,
    };

    let accepted = words.any()?;
    match words.peek() {
        None => Ok(accepted),
        Some(word) => Err(format!("`{word}` is not expected")),
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Result<&'a str, String> {
        let word = self.peek().ok_or("it ends too early")?;
        self.at += 1;
        Ok(word)
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut accepted = self.all()?;
        while self.take("OR") {
            accepted |= self.all()?;
        }
        Ok(accepted)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut accepted = self.one()?;
        while self.take("AND") {
            accepted &= self.one()?;
        }
        Ok(accepted)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let accepted = self.any()?;
            return if self.take(")") {
                Ok(accepted)
            } else {
                Err("a parenthesis is not closed".to_owned())
            };
        }

        let licence = self.next()?;
        if matches!(licence, "OR" | "AND" | "WITH" | ")") {
            return Err(format!("`{licence}` is not expected"));
        }

        if !self.take("WITH") {
            return Ok(TAKEN.contains(&licence));
        }
        let exception = self.next()?;
        Ok(TAKEN.contains(&format!("{licence} WITH {exception}").as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn one_of_several_is_enough_and_all_that_are_joined_are_needed() {
        for (expression, taken) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("MIT/GPL-3.0-only", true),
            ("GPL-3.0-only AND MIT", false),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", true),
            ("(MIT OR GPL-3.0-only) AND GPL-2.0-only", false),
            ("ISC AND (Apache-2.0 OR LGPL-3.0)", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0 WITH Other-exception", false),
        ] {
            assert_eq!(accepted(expression), Ok(taken), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for expression in [
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT GPL-3.0-only",
            "AND MIT",
            "Apache-2.0 WITH",
        ] {
            assert!(accepted(expression).is_err(), "{expression}");
        }
    }
}

//! Text that someone else chose, where it meets a terminal.
//!
//! A terminal obeys control characters, those of ISO 6429 beyond ASCII too (U+0080 to U+009F:
//! U+009B alone begins a sequence), and characters that turn the direction of writing show a text
//! as another one. Texts of clients, origins and peers that Hermes prints go through here: tables,
//! log lines and records.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Whether a terminal would obey a character instead of showing it, or show the text behind it
/// elsewhere.
pub fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Marks, embeddings, overrides and isolates of direction (UAX #9).
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line separators for some programs.
            | '\u{2028}' | '\u{2029}')
}

/// Text with characters that a terminal would obey written as `\u{9b}`, but for those that `kept`
/// accepts.
pub fn for_terminal(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let escaped = |letter: char| is_obeyed(letter) && !kept(letter);
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }

    let mut safe = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if escaped(letter) {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }

    Cow::Owned(safe)
}

/// JSON with the same strings, in which characters that a terminal would obey are written as
/// `\u009b`.
pub fn json_for_terminal(json: &str) -> Cow<'_, str> {
    // Outside of strings there is no control character but the end of a line.
    let escaped = |letter: char| is_obeyed(letter) && letter != '\n';
    if !json.contains(escaped) {
        return Cow::Borrowed(json);
    }

    let mut safe = String::with_capacity(json.len() + 8);
    for letter in json.chars() {
        if escaped(letter) {
            // All of them are in the basic plane, and writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(letter));
        } else {
            safe.push(letter);
        }
    }

    Cow::Owned(safe)
}

/// Writes a value as one line of JSON that a terminal shows and does not obey.
///
/// # Errors
/// As the writer.
pub fn write_json(output: &mut impl io::Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        output,
        ForTerminal(CompactFormatter),
    ))?;
    Ok(())
}

/// JSON as [`json_for_terminal`] has it.
struct ForTerminal(CompactFormatter);

impl Formatter for ForTerminal {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Nearly all are ASCII, of which the serializer has escaped all but DEL.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return self.0.write_string_fragment(writer, fragment);
        }
        self.0
            .write_string_fragment(writer, &json_for_terminal(fragment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let text = "a\u{1b}[31m\u{9b}2J\u{85}\u{7f}\t\u{202e}b\u{2066}\u{61c}\u{fc}";
        let shown =
            r"a\u{1b}[31m\u{9b}2J\u{85}\u{7f}\u{9}\u{202e}b\u{2066}\u{61c}".to_owned() + "\u{fc}";
        assert_eq!(for_terminal(text, |_| false), shown);
        assert_eq!(
            for_terminal("a\tb\u{9b}", |letter| letter == '\t'),
            "a\tb\\u{9b}"
        );
        assert!(matches!(
            for_terminal("plain \u{fc}", |_| false),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn json_means_the_same_and_holds_nothing_to_obey() {
        let value =
            serde_json::json!({ "user": "a\u{9b}2J\u{7f}\u{202e}\"\n", "\u{85}": ["\u{fc}"] });
        let mut compact = Vec::new();
        write_json(&mut compact, &value).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        for text in [
            std::str::from_utf8(&compact).unwrap(),
            &json_for_terminal(&pretty),
        ] {
            assert!(
                !text.contains(|letter| is_obeyed(letter) && letter != '\n'),
                "{text:?}"
            );
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(text).unwrap(),
                value
            );
        }
    }
}

//! Files of `wg-quick`: sections of `Key = value` lines.

use crate::text::number;
use crate::unreadable::Unreadable;

/// Lines of a file: a peer has a handful.
#[doc(alias = "bound")]
const LINES: usize = 100_000;

/// A section, such as `[Peer]`.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) line: u32,
    /// In lower case.
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
}

/// `Key = value`.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) line: u32,
    /// In lower case.
    pub(super) key: String,
    /// As it is written.
    pub(super) written: String,
    pub(super) value: String,
}

impl Section {
    /// The value of a key; the last, if there are several.
    pub(super) fn value(&self, key: &str) -> Option<&Setting> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.key == key)
    }

    /// The parts of all values of a key, which commas separate, each with its line.
    pub(super) fn parts(&self, key: &str) -> impl Iterator<Item = (u32, &str)> {
        let settings = self
            .settings
            .iter()
            .filter(move |setting| setting.key == key);
        settings.flat_map(|setting| {
            let parts = setting.value.split(',').map(str::trim);
            let parts = parts.filter(|part| !part.is_empty());
            parts.map(|part| (setting.line, part))
        })
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Section>, Unreadable> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = number(index + 1);
        if index >= LINES {
            return Err(Unreadable::at(
                line,
                format!("it has more than {LINES} lines"),
            ));
        }
        let said = raw.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        if let Some(name) = said
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            sections.push(Section {
                line,
                name: name.trim().to_ascii_lowercase(),
                settings: Vec::new(),
            });
            continue;
        }

        let setting = said.split_once('=').map(|(key, value)| Setting {
            line,
            key: key.trim().to_ascii_lowercase(),
            written: key.trim().to_owned(),
            value: value.trim().to_owned(),
        });
        match (sections.last_mut(), setting) {
            (Some(section), Some(setting)) => section.settings.push(setting),
            (None, Some(_)) => return Err(Unreadable::at(line, "this stands in no section")),
            (_, None) => {
                let reason = "this is neither a section nor `Key = value`";
                return Err(Unreadable::at(line, reason));
            }
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_their_settings_are_read_without_regard_to_case() {
        let text = "# mine\n[Interface]\nprivatekey = a= # key\n\n[PEER]\nAllowedIPs = 10.0.0.1/32, ::1/128\nAllowedIPs=10.0.0.2/32\n";
        let sections = parse(text).unwrap();
        assert_eq!(sections[0].value("privatekey").unwrap().value, "a=");
        assert_eq!(sections[1].line, 5);
        let parts: Vec<_> = sections[1].parts("allowedips").collect();
        assert_eq!(
            parts,
            [(6, "10.0.0.1/32"), (6, "::1/128"), (7, "10.0.0.2/32")]
        );
    }

    #[test]
    fn other_lines_are_refused_with_their_number() {
        assert_eq!(parse("a = b").unwrap_err().line, Some(1));
        assert_eq!(parse("[Peer]\nhello").unwrap_err().line, Some(2));
    }
}

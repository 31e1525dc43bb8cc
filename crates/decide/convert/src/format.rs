//! The formats that are converted, and how a file shows which one it is.

use std::fmt;
use std::str::FromStr;

use crate::source::{self, Node};
use crate::text::text;

/// The program that a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A bootstrap of Envoy, in YAML or JSON.
    Envoy,
    /// sing-box, in JSON.
    SingBox,
    /// WireGuard, as `wg-quick` reads it.
    Wireguard,
    /// A proxy auto-configuration file, in JavaScript.
    Pac,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Envoy, Self::SingBox, Self::Wireguard, Self::Pac];

    /// As it is written on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::SingBox => "sing-box",
            Self::Wireguard => "wireguard",
            Self::Pac => "pac",
        }
    }

    /// As people call its configurations.
    pub fn title(self) -> &'static str {
        match self {
            Self::Envoy => "a configuration of Envoy",
            Self::SingBox => "a configuration of sing-box",
            Self::Wireguard => "a configuration of WireGuard",
            Self::Pac => "a proxy auto-configuration (PAC) file",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|format| format.word() == text);
        known.ok_or_else(|| format!("`{text}` is not one of envoy, sing-box, wireguard, pac"))
    }
}

/// The format that a file is of, if it is one of these for sure.
pub fn recognize(bytes: &[u8]) -> Option<Format> {
    let text = text(bytes).ok()?;
    if text.contains("FindProxyForURL") {
        return Some(Format::Pac);
    }
    let mut lines = text.lines().map(str::trim);
    if lines.any(|line| line.eq_ignore_ascii_case("[interface]")) {
        return Some(Format::Wireguard);
    }

    let root = source::read(text).ok()?;
    let has = |keys: &[&str]| keys.iter().any(|key| root.has(key));
    // A document of Hermes says its version, and has listeners in a map.
    if has(&["version"]) {
        None
    } else if has(&["static_resources", "staticResources", "dynamic_resources"]) {
        Some(Format::Envoy)
    } else if has(&["inbounds", "outbounds"]) && is_typed(&root) {
        Some(Format::SingBox)
    } else {
        None
    }
}

/// Whether the entries of `inbounds` or `outbounds` have a type, as those of sing-box do.
fn is_typed(root: &Node) -> bool {
    let entries = root.list("inbounds").iter().chain(root.list("outbounds"));
    entries.into_iter().any(|entry| entry.has("type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_show_whose_they_are() {
        let of = |text: &str| recognize(text.as_bytes());
        assert_eq!(
            of("static_resources: { listeners: [] }"),
            Some(Format::Envoy)
        );
        assert_eq!(of("{\"staticResources\": {}}"), Some(Format::Envoy));
        assert_eq!(
            of("{ // mine\n \"inbounds\": [{\"type\": \"http\"}] }"),
            Some(Format::SingBox)
        );
        assert_eq!(of("[Interface]\nPrivateKey = x\n"), Some(Format::Wireguard));
        assert_eq!(
            of("function FindProxyForURL(url, host) { return 'DIRECT'; }"),
            Some(Format::Pac)
        );
        assert_eq!(of("version: 1\nlisteners: {}"), None);
        assert_eq!(of("a: ["), None);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("nginx".parse::<Format>().is_err());
    }
}

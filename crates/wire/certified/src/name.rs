//! Names of keys in paths: `ni:sha-256;HASH` (RFC 6920), without authority.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The form of a name up to its hash.
const PREFIX: &str = "ni:sha-256;";

/// The segment of a path behind which the key of the receiver is named.
const TO: &str = "to";

/// The name of a key: the SHA-256 of its `SubjectPublicKeyInfo`, in DER.
///
/// # Examples
/// ```
/// use hermes_certified::KeyName;
///
/// let text = "ni:sha-256;f4OxZX_x_FO5LcGBSKHWXfwtSx-j1ncoSt3SABJtkGk";
/// let name: KeyName = text.parse()?;
/// assert_eq!(name.to_string(), text);
/// # Ok::<(), hermes_certified::NameError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyName(pub [u8; 32]);

/// A text is no name of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has another form.
    #[error("a key is named ni:sha-256;HASH, the hash in base64url, 43 characters")]
    Form,
    /// A path names two keys of senders, or two of receivers.
    #[error("a channel has at most one key of its sender, and one of its receiver behind /to/")]
    Twice,
}

/// The keys in the path of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelKeys {
    /// The key of its sender: no one else publishes, unless the sender approves.
    pub sender: Option<KeyName>,
    /// The key of its receiver, behind a segment `to`: no one else subscribes.
    pub receiver: Option<KeyName>,
}

impl ChannelKeys {
    /// The keys in a path, which may have a query: both are absent in that of an ordinary channel.
    ///
    /// # Errors
    /// A segment looks like the name of a key, and is none. No channel is there: someone would take it for a protected one.
    pub fn of(path_and_query: &str) -> Result<Self, NameError> {
        let path = path_and_query
            .split_once('?')
            .map_or(path_and_query, |(path, _)| path);
        let mut keys = Self::default();
        let mut before = "";
        for segment in path.split('/') {
            if looks_like_name(segment) {
                // A mistake in a name must not make an open channel of a protected one.
                let name = segment.parse()?;
                let place = match before {
                    TO => &mut keys.receiver,
                    _ => &mut keys.sender,
                };
                if place.replace(name).is_some() {
                    return Err(NameError::Twice);
                }
            }
            before = segment;
        }
        Ok(keys)
    }

    /// The key of the one who says who else may publish: the sender where there is one.
    #[must_use]
    pub fn owner(&self) -> Option<KeyName> {
        self.sender.or(self.receiver)
    }
}

/// Whether a reader, or a proxy that decodes percent signs, may take a segment for the name of a key.
fn looks_like_name(segment: &str) -> bool {
    let Some(start) = segment.get(..2) else {
        return false;
    };
    let rest = &segment[2..];
    let has_colon = rest.starts_with(':') || rest.to_ascii_lowercase().starts_with("%3a");
    // A proxy on the way may decode a letter, and the relay behind it would see a name where this one saw none.
    let is_encoded =
        segment.starts_with("%6") || segment.starts_with("%4") || start == "n%" || start == "N%";
    (start.eq_ignore_ascii_case("ni") && has_colon) || is_encoded
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl FromStr for KeyName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let hash = text.strip_prefix(PREFIX).ok_or(NameError::Form)?;
        let bytes = URL_SAFE_NO_PAD.decode(hash).map_err(|_| NameError::Form)?;
        let bytes = bytes.try_into().map_err(|_| NameError::Form)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6920, section 8.2.
    const NAME: &str = "ni:sha-256;f4OxZX_x_FO5LcGBSKHWXfwtSx-j1ncoSt3SABJtkGk";

    #[test]
    fn a_path_names_its_sender_and_behind_to_its_receiver() {
        let name: KeyName = NAME.parse().unwrap();
        let keys = |path: &str| ChannelKeys::of(path).unwrap();
        assert_eq!(keys("/c/chat"), ChannelKeys::default());
        assert_eq!(keys("/c/nice"), ChannelKeys::default());
        let sender = keys(&format!("/c/{NAME}/news?a=1"));
        assert_eq!((sender.sender, sender.receiver), (Some(name), None));
        let receiver = keys(&format!("/c/to/{NAME}"));
        assert_eq!((receiver.sender, receiver.receiver), (None, Some(name)));
        let both = keys(&format!("/c/from/{NAME}/to/{NAME}"));
        assert_eq!((both.sender, both.receiver), (Some(name), Some(name)));
        assert_eq!(both.owner(), Some(name));
    }

    #[test]
    fn a_channel_that_looks_protected_and_is_not_is_no_channel() {
        let short = &NAME[..NAME.len() - 1];
        for path in [
            format!("/c/{short}"),
            format!("/c/{NAME}A"),
            format!("/c/{NAME}="),
            format!("/c/{NAME};x"),
            format!("/c/{}", NAME.replace(':', "%3A")),
            format!("/c/{}", NAME.replace("ni", "NI")),
            format!("/c/{}", NAME.replace("ni", "%6ei")),
            format!("/c/{}", NAME.replace("ni", "n%69")),
            format!("/c/{NAME}/{NAME}"),
            "/c/ni:sha-512;x".to_owned(),
        ] {
            assert!(ChannelKeys::of(&path).is_err(), "{path}");
        }
    }
}

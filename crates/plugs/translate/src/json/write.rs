//! From values to text.

use super::Json;

impl Json {
    /// Its text, without spaces.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_string(text, out),
            Self::List(list) => {
                out.push(b'[');
                for (index, value) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    value.write(out);
                }
                out.push(b']');
            }
            Self::Map(members) => {
                out.push(b'{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(_) | Self::Number(_) => {
                out.extend_from_slice(self.plain().unwrap_or_default().as_bytes());
            }
        }
    }

    /// Its text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// A string with its quotes (RFC 8259, section 7).
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    // Bytes of longer characters are above these, so that a text may be read byte by byte.
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

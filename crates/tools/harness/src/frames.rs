//! HTTP/2 frames as bytes, to send frames that no HTTP library sends (RFC 9113, 4.1 and 6).

/// Frame types.
pub const DATA: u8 = 0x0;
/// See [`DATA`].
pub const HEADERS: u8 = 0x1;
/// See [`DATA`].
pub const RST_STREAM: u8 = 0x3;
/// See [`DATA`].
pub const SETTINGS: u8 = 0x4;
/// See [`DATA`].
pub const PING: u8 = 0x6;
/// See [`DATA`].
pub const GOAWAY: u8 = 0x7;
/// See [`DATA`].
pub const WINDOW_UPDATE: u8 = 0x8;
/// See [`DATA`].
pub const CONTINUATION: u8 = 0x9;

/// Flag of DATA and HEADERS.
pub const END_STREAM: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 0x4;

/// The error that a flood is answered with (RFC 9113, 7).
pub const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The first bytes of a client: the preface and empty SETTINGS.
pub const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// One frame.
///
/// # Panics
/// When the payload is longer than a frame can be.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A field line as HPACK writes it without its tables (RFC 7541, 6.2.2), whatever is in it.
///
/// # Panics
/// When the name or the value has more than 126 bytes.
pub fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127, "a longer string has a longer length");
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend(text);
    }
    bytes
}

/// The fields of a request for `http://AUTHORITY/PATH`.
pub fn request(method: &str, authority: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "http"),
        (":authority", authority),
        (":path", path),
    ];
    fields
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect()
}

/// The frames in `bytes`: type, flags, stream and payload; a part of one at the end is left out.
pub fn parse(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [l0, l1, l2, kind, flags, s0, s1, s2, s3, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
        if rest.len() < length {
            break;
        }
        let stream = u32::from_be_bytes([s0 & 0x7f, *s1, *s2, *s3]);
        frames.push((*kind, *flags, stream, rest[..length].to_vec()));
        bytes = &rest[length..];
    }

    frames
}

/// The error of the last GOAWAY in `bytes`.
pub fn farewell(bytes: &[u8]) -> Option<u32> {
    let frames = parse(bytes);
    let last = frames.iter().rfind(|(kind, ..)| *kind == GOAWAY)?;
    last.3.get(4..8)?.try_into().ok().map(u32::from_be_bytes)
}

//! Public keys of WireGuard.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// The length of 32 bytes in Base64.
const LENGTH: usize = 44;

/// Valid last characters before the padding: two of their bits are not part of the key.
const LAST: &[u8] = b"AEIMQUYcgkosw048";

/// A public key of WireGuard, in Base64.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WireguardKey(String);

scalar!(
    WireguardKey,
    "hermes-wireguard-key",
    "A public key of WireGuard: 32 bytes in Base64, as `wg pubkey` writes them."
);

impl FromStr for WireguardKey {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let is_key = match text.as_bytes() {
            [letters @ .., last, b'='] if text.len() == LENGTH => {
                letters.iter().all(is_letter) && LAST.contains(last)
            }
            _ => false,
        };
        match is_key {
            true => Ok(Self(text.to_owned())),
            // The value is not quoted: it may be a private key that was pasted here.
            false => Err(ScalarError::new("this is not a WireGuard key")
                .remedy("write 32 bytes in Base64, as `wg pubkey` and `hermes wireguard-key` do")),
        }
    }
}

impl fmt::Display for WireguardKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::WireguardKey;

    #[test]
    fn a_key_is_32_bytes_in_base64() {
        let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        assert_eq!(key.parse::<WireguardKey>().unwrap().to_string(), key);
        for wrong in [
            "",
            "key",
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo",
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmp=",
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbT!o=",
        ] {
            assert!(wrong.parse::<WireguardKey>().is_err(), "{wrong:?}");
        }
    }
}

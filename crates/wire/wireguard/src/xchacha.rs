//! ChaCha20-Poly1305 with a nonce of 24 bytes (draft-irtf-cfrg-xchacha-03), which aws-lc-rs has not: a key is made of the longer part of the
//! nonce, and the rest is ChaCha20-Poly1305 as elsewhere.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// The length of the nonce, in bytes.
pub(crate) const NONCE: usize = 24;

/// The part of it that goes into the key.
const KEYED: usize = 16;

/// "expand 32-byte k", in words.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Twenty rounds are ten of columns and diagonals.
const DOUBLE_ROUNDS: usize = 10;

/// Seals `text` in place; returns its tag. `None`: the primitives refuse, and nothing may be sent.
pub(crate) fn seal(
    key: &[u8; 32],
    nonce: &[u8; NONCE],
    aad: &[u8],
    text: &mut [u8],
) -> Option<[u8; 16]> {
    let (key, nonce) = derived(key, nonce)?;
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::from(aad), text)
        .ok()?;
    tag.as_ref().try_into().ok()
}

/// Opens a sealed text, with its tag behind it, in place.
pub(crate) fn open<'a>(
    key: &[u8; 32],
    nonce: &[u8; NONCE],
    aad: &[u8],
    sealed: &'a mut [u8],
) -> Option<&'a [u8]> {
    let (key, nonce) = derived(key, nonce)?;
    let opened = key.open_in_place(nonce, Aad::from(aad), sealed).ok()?;
    Some(opened)
}

fn derived(key: &[u8; 32], nonce: &[u8; NONCE]) -> Option<(LessSafeKey, Nonce)> {
    let (keyed, rest) = nonce.split_first_chunk::<KEYED>()?;
    // 16 bytes of the nonce make a key of their own, so that random nonces never meet (section 2).
    let subkey = hchacha20(key, keyed);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &subkey).ok()?;
    let mut short = [0; 12];
    // Section 2.3: four zero bytes before the last eight of the nonce.
    short[4..].copy_from_slice(rest);
    let nonce = Nonce::assume_unique_for_key(short);
    Some((LessSafeKey::new(key), nonce))
}

/// Section 2.2.
fn hchacha20(key: &[u8; 32], nonce: &[u8; KEYED]) -> [u8; 32] {
    let mut state = [0; 16];
    state[..4].copy_from_slice(&CONSTANTS);
    let input = key.iter().chain(nonce).copied().collect::<Vec<u8>>();
    for (word, bytes) in state[4..].iter_mut().zip(input.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }

    for _ in 0..DOUBLE_ROUNDS {
        for column in 0..4 {
            quarter(&mut state, [column, 4 + column, 8 + column, 12 + column]);
        }
        for diagonal in 0..4 {
            let at = |row: usize| row * 4 + (diagonal + row) % 4;
            quarter(&mut state, [at(0), at(1), at(2), at(3)]);
        }
    }

    let mut subkey = [0; 32];
    // Unlike a ChaCha20 block, the input is not added: the first and the last row are the key.
    let kept = state[..4].iter().chain(&state[12..]);
    for (bytes, word) in subkey.as_chunks_mut::<4>().0.iter_mut().zip(kept) {
        *bytes = word.to_le_bytes();
    }
    subkey
}

fn quarter(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (left, right) in [(16, 12), (8, 7)] {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(left);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_the_key_of_section_2_2_1() {
        let key: [u8; 32] = std::array::from_fn(|index| index as u8);
        let nonce = [
            0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0, 0x31, 0x41, 0x59, 0x27,
        ];
        let expected = [
            0x82, 0x41, 0x3b, 0x42, 0x27, 0xb2, 0x7b, 0xfe, 0xd3, 0x0e, 0x42, 0x50, 0x8a, 0x87,
            0x7d, 0x73, 0xa0, 0xf9, 0xe4, 0xd5, 0x8a, 0x74, 0xa8, 0x53, 0xc1, 0x2e, 0xc4, 0x13,
            0x26, 0xd3, 0xec, 0xdc,
        ];
        assert_eq!(hchacha20(&key, &nonce), expected);
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let key = [7; 32];
        let nonce = [3; NONCE];
        let mut text = *b"a cookie of 16 b";
        let tag = seal(&key, &nonce, b"mac", &mut text).unwrap();
        let mut sealed = [&text[..], &tag[..]].concat();
        assert!(open(&key, &nonce, b"other", &mut sealed.clone()).is_none());
        assert_eq!(
            open(&key, &nonce, b"mac", &mut sealed).unwrap(),
            b"a cookie of 16 b"
        );
    }
}

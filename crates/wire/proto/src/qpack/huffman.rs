//! The Huffman code of field strings (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: among codes of one length, and from shorter to longer ones, numbers go up with the symbols. So the
//! lengths alone say everything, and all tables are computed from them.

use bytes::BytesMut;

use super::QpackError;

/// Symbols: 256 bytes, and the end of the string, which is never sent.
const SYMBOLS: usize = 257;

/// Bits of the longest code.
const LONGEST: usize = 30;

/// Bits of the shortest code.
const SHORTEST: usize = 5;

/// Bits that one look into [`FAST`] resolves.
const FAST_BITS: u32 = 9;

/// Bits that one look into [`PAIRS`] resolves: two of most letters.
const PAIR_BITS: u32 = 12;

/// Bits of each symbol's code.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Tables that follow from the lengths.
struct Tables {
    /// The code of each symbol.
    codes: [u32; SYMBOLS],
    /// Symbols in the order of their codes.
    ordered: [u16; SYMBOLS],
    /// For each length, its first code, how many it has, and where they begin in `ordered`.
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    offset: [u32; LONGEST + 1],
    /// For the next [`FAST_BITS`] bits, symbol and length of the code that they begin with; length 0 for a longer one.
    fast: [(u8, u8); 1 << FAST_BITS],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [0; SYMBOLS],
        ordered: [0; SYMBOLS],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        offset: [0; LONGEST + 1],
        fast: [(0, 0); 1 << FAST_BITS],
    };

    let mut code = 0_u32;
    let mut place = 0_u32;
    let mut length = 1_usize;

    while length <= LONGEST {
        code <<= 1;
        tables.first[length] = code;
        tables.offset[length] = place;
        let mut symbol = 0;

        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                tables.ordered[place as usize] = symbol as u16;
                fill(&mut tables.fast, symbol, code, length as u32);
                code += 1;
                place += 1;
            }
            symbol += 1;
        }

        tables.count[length] = place - tables.offset[length];
        length += 1;
    }

    tables
}

/// Enters a short code wherever its bits come first.
const fn fill(fast: &mut [(u8, u8); 1 << FAST_BITS], symbol: usize, code: u32, length: u32) {
    if length > FAST_BITS {
        return;
    }
    let free = FAST_BITS - length;
    let mut rest = 0;

    while rest < 1 << free {
        fast[((code << free) | rest) as usize] = (symbol as u8, length as u8);
        rest += 1;
    }
}

/// The bytes that `text` takes as a Huffman code.
pub(crate) fn size(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&byte| usize::from(LENGTHS[usize::from(byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`, padded with ones; `size` is the result of [`size`].
pub(crate) fn encode(text: &[u8], size: usize, output: &mut BytesMut) {
    let start = output.len();
    output.resize(start + size, 0);
    let coded = &mut output[start..];
    let mut at = 0;
    let mut held = 0_u64;
    let mut bits = 0_u32;

    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        held = (held << length) | u64::from(TABLES.codes[usize::from(byte)]);
        bits += length;

        // Less than 32 bits stay, and no code is longer than 30.
        if bits >= 32
            && let Some(four) = coded[at..].first_chunk_mut()
        {
            bits -= 32;
            *four = ((held >> bits) as u32).to_be_bytes();
            at += 4;
        }
    }

    // Ones fill the last byte.
    let bytes = bits.div_ceil(8);
    let free = bits.next_multiple_of(8) - bits;
    let last = ((held << free) as u32) | ((1 << free) - 1);
    coded[at..].copy_from_slice(&last.to_be_bytes()[4 - bytes as usize..]);
}

/// Appends the text of a code, up to `limit` bytes of it.
///
/// # Errors
/// [`QpackError::Huffman`] for an invalid code, or [`QpackError::TooLarge`].
pub(crate) fn decode(code: &[u8], limit: usize, output: &mut Vec<u8>) -> Result<(), QpackError> {
    let start = output.len();
    // A pair is always written whole.
    let most = code.len() * 8 / SHORTEST + 2;
    output.resize(start + most, 0);
    let mut text = TextBuffer {
        bytes: &mut output[start..],
        length: 0,
    };

    let decoded = text.decode(code);
    let length = text.length;
    output.truncate(start + length.min(limit));
    if length > limit {
        return Err(QpackError::TooLarge);
    }
    decoded
}

/// Where a text is written.
struct TextBuffer<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl TextBuffer<'_> {
    fn decode(&mut self, mut code: &[u8]) -> Result<(), QpackError> {
        // The next bits stand at the top of `held`.
        let mut held = 0_u64;
        let mut bits = 0_u32;
        loop {
            if bits <= 32 {
                if let Some((bytes, rest)) = code.split_first_chunk() {
                    held |= u64::from(u32::from_be_bytes(*bytes)) << (32 - bits);
                    bits += 32;
                    code = rest;
                } else {
                    for &byte in std::mem::take(&mut code) {
                        held |= u64::from(byte) << (56 - bits);
                        bits += 8;
                    }
                }
            }

            let pair = PAIRS[(held >> (64 - PAIR_BITS)) as usize];
            let taken = u32::from(pair.bits);
            if taken > 0
                && taken <= bits
                && let Some(place) = self.bytes[self.length..].first_chunk_mut()
            {
                *place = pair.symbols;
                self.length += 2;
                held <<= taken;
                bits -= taken;
                continue;
            }

            let Some((symbol, taken)) = symbol(held, bits)? else {
                return padding(held, bits);
            };
            self.bytes[self.length] = symbol;
            self.length += 1;
            held <<= taken;
            bits -= taken;
        }
    }
}

/// Two consecutive symbols, and the bits of both; 0 where the next bits are not two short codes.
#[derive(Clone, Copy)]
struct Pair {
    symbols: [u8; 2],
    bits: u8,
}

static PAIRS: [Pair; 1 << PAIR_BITS] = {
    let fast = tables().fast;
    let mut pairs = [Pair {
        symbols: [0; 2],
        bits: 0,
    }; 1 << PAIR_BITS];

    let mut bits = 0;
    while bits < pairs.len() {
        let (first, length) = fast[bits >> (PAIR_BITS - FAST_BITS)];
        let behind = (bits << length) & (pairs.len() - 1);
        let (second, more) = fast[behind >> (PAIR_BITS - FAST_BITS)];
        if length > 0 && more > 0 && (length + more) as u32 <= PAIR_BITS {
            pairs[bits] = Pair {
                symbols: [first, second],
                bits: length + more,
            };
        }
        bits += 1;
    }
    pairs
};

/// The symbol that the top of `held` begins with, and its length; `None` when its `bits` end before the code does.
fn symbol(held: u64, bits: u32) -> Result<Option<(u8, u32)>, QpackError> {
    let (symbol, length) = TABLES.fast[(held >> (64 - FAST_BITS)) as usize];
    if length > 0 {
        let length = u32::from(length);
        return Ok((length <= bits).then_some((symbol, length)));
    }

    for length in FAST_BITS as usize + 1..=LONGEST.min(bits as usize) {
        let place = ((held >> (64 - length)) as u32).wrapping_sub(TABLES.first[length]);
        if place < TABLES.count[length] {
            let symbol = TABLES.ordered[(TABLES.offset[length] + place) as usize];
            // RFC 7541, section 5.2: the symbol of the end must not be sent.
            let symbol = u8::try_from(symbol).map_err(|_| QpackError::Huffman)?;
            return Ok(Some((symbol, length as u32)));
        }
    }

    Ok(None)
}

/// RFC 7541, section 5.2: less than a byte of ones ends a string.
fn padding(held: u64, bits: u32) -> Result<(), QpackError> {
    let ones = bits == 0 || held >> (64 - bits) == (1 << bits) - 1;
    if bits < 8 && ones {
        Ok(())
    } else {
        Err(QpackError::Huffman)
    }
}

/// Decodes arbitrary bytes: a code that holds is the only code of its text, and any text survives a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let mut text = Vec::new();
    if decode(data, usize::MAX, &mut text).is_ok() {
        let mut again = BytesMut::new();
        encode(&text, size(&text), &mut again);
        assert_eq!(again, data);
    }

    let mut code = BytesMut::new();
    let mut again = Vec::new();
    encode(data, size(data), &mut code);
    assert_eq!(decode(&code, data.len(), &mut again), Ok(()));
    assert_eq!(again, data);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(code: &[u8]) -> Result<Vec<u8>, QpackError> {
        let mut output = Vec::new();
        decode(code, 1000, &mut output)?;
        Ok(output)
    }

    #[test]
    fn writes_and_reads_the_samples_of_rfc_7541_appendix_c_4_and_c_6() {
        let samples: [(&str, &[u8]); 5] = [
            (
                "www.example.com",
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ],
            ),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (
                "custom-key",
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
            ),
            ("302", &[0x64, 0x02]),
            ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ];
        for (plain, code) in samples {
            let mut output = BytesMut::new();
            encode(plain.as_bytes(), code.len(), &mut output);
            assert_eq!(output, code);
            assert_eq!(text(code), Ok(plain.as_bytes().to_vec()));
        }
    }

    #[test]
    fn the_longest_codes_are_those_of_appendix_b() {
        let codes = [
            (b'\0', 0x1ff8),
            (b'\n', 0x3fff_fffc),
            (b'\r', 0x3fff_fffd),
            (b'~', 0x1ffd),
            (0xff, 0x3ff_ffee),
        ];
        for (symbol, code) in codes {
            assert_eq!(TABLES.codes[usize::from(symbol)], code);
        }
        assert_eq!(TABLES.codes[256], 0x3fff_ffff);
    }

    #[test]
    fn refuses_the_end_symbol_wrong_padding_and_too_much_of_it() {
        assert_eq!(text(&[0xff; 4]), Err(QpackError::Huffman));
        // "0" is 00000; the three bits after it must be ones.
        assert_eq!(text(&[0b0000_0111]), Ok(b"0".to_vec()));
        assert_eq!(text(&[0b0000_0011]), Err(QpackError::Huffman));
        assert_eq!(text(&[0b0000_0111, 0xff]), Err(QpackError::Huffman));
        assert_eq!(text(&[]), Ok(Vec::new()));
    }

    #[test]
    fn stops_at_the_limit() {
        let mut output = Vec::new();
        assert_eq!(
            decode(&[0, 0, 0, 0, 0], 7, &mut output),
            Err(QpackError::TooLarge)
        );
        assert_eq!(output.len(), 7);
        output.clear();
        assert_eq!(decode(&[0, 0, 0, 0, 0], 8, &mut output), Ok(()));
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_one(&data);
        }
    }
}

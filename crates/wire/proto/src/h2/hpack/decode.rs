//! Reading field sections (RFC 7541, sections 3 and 6).

use super::table::HpackTable;
use crate::fields::LineName;
use crate::qpack::{QpackError, integer, string};
use crate::repeats::TableEntry;

/// Bytes of the dynamic table: the default that every peer may assume (RFC 9113, section 6.5.2),
/// and the most that we allow.
#[doc(alias = "bound")]
pub(in crate::h2) const TABLE_SIZE: usize = 4096;

/// Bytes for texts of Huffman codes that are kept from one section to the next.
#[doc(alias = "bound")]
const TEXTS_KEPT: usize = 4096;

/// Why a section cannot be read. The table is not the peer's any more then, so the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// The section ends within a line.
    #[error("a field section ends within a line")]
    Truncated,
    /// An index that is in neither table.
    #[error("a field section names an entry that no table has")]
    NoEntry,
    /// An integer that is too large.
    #[error("an integer of a field section is too large")]
    Overflow,
    /// An invalid Huffman code, or wrong padding.
    #[error("a string of a field section is not Huffman code")]
    Huffman,
    /// A change of the table's size behind a line, or to a size above our limit.
    #[error("the size of the dynamic table changes when or as it must not")]
    TableSize,
}

impl From<QpackError> for HpackError {
    fn from(error: QpackError) -> Self {
        match error {
            QpackError::Overflow => Self::Overflow,
            QpackError::Huffman => Self::Huffman,
            _ => Self::Truncated,
        }
    }
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct HpackDecoder {
    table: HpackTable,
    /// Bytes that the table may have.
    allowed: usize,
    /// The texts of the Huffman codes of a line.
    texts: Vec<u8>,
}

impl Default for HpackDecoder {
    fn default() -> Self {
        Self {
            table: HpackTable::new(TABLE_SIZE),
            allowed: TABLE_SIZE,
            texts: Vec::new(),
        }
    }
}

impl HpackDecoder {
    /// The peer knows that its table may have this many bytes: at most 4096. Entries beyond that
    /// are evicted.
    pub fn allow(&mut self, size: usize) {
        self.allowed = size.min(TABLE_SIZE);
        self.table.shrink(self.allowed);
    }

    /// Reads a whole section and hands over its lines.
    ///
    /// # Errors
    /// The section is broken; this decoder is of no use then.
    pub fn decode(
        &mut self,
        section: &[u8],
        mut each: impl FnMut(LineName<'_>, &[u8]),
    ) -> Result<(), HpackError> {
        let mut rest = section;
        let mut begun = false;
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => {
                    let index = take_integer(7, &mut rest)?;
                    let (name, value) = self.table.entry(index).ok_or(HpackError::NoEntry)?;
                    each(name, value);
                }
                0x40..=0x7f => {
                    let (name, value) = self.literal(6, &mut rest)?;
                    each(name, value);
                    // RFC 7541, section 4.4: the name may come from an entry that this one evicts, so it is copied first.
                    let entry = TableEntry::new(name, value);
                    self.table.insert(entry);
                }
                0x20..=0x3f => {
                    let size = take_integer(5, &mut rest)?;
                    // RFC 7541, sections 4.2 and 6.3: at the beginning only, and no more than we allow.
                    let size = usize::try_from(size).map_err(|_| HpackError::TableSize)?;
                    if begun || size > self.allowed {
                        return Err(HpackError::TableSize);
                    }

                    self.table.resize(size);
                    continue;
                }
                _ => {
                    let (name, value) = self.literal(4, &mut rest)?;
                    each(name, value);
                }
            }
            begun = true;
        }

        // One large section must not keep its memory as long as the connection lasts.
        self.texts.clear();
        self.texts.shrink_to(TEXTS_KEPT);
        Ok(())
    }

    /// The table, newest first.
    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        self.table.lines()
    }

    /// A literal line: its name is that of an entry, or one of its own.
    fn literal<'l, 's: 'l>(
        &'l mut self,
        prefix: u8,
        rest: &mut &'s [u8],
    ) -> Result<(LineName<'l>, &'l [u8]), HpackError> {
        let Self { table, texts, .. } = self;
        texts.clear();
        let index = take_integer(prefix, rest)?;
        if index == 0 {
            // No limit here: frames bound the section, and its Huffman code expands by 8/5 at most.
            let name = string::decode(7, rest, usize::MAX, texts)?;
            let value = string::decode(7, rest, usize::MAX, texts)?;
            let name = LineName::parse(name.bytes(texts));
            return Ok((name, value.bytes(texts)));
        }

        let (name, _) = table.entry(index).ok_or(HpackError::NoEntry)?;
        let value = string::decode(7, rest, usize::MAX, texts)?;
        Ok((name, value.bytes(texts)))
    }
}

fn take_integer(prefix: u8, rest: &mut &[u8]) -> Result<u64, HpackError> {
    integer::decode(prefix, rest)?.ok_or(HpackError::Truncated)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn hex(text: &str) -> Bytes {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let bytes = digits.chunks(2);
        bytes
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn lines(
        decoder: &mut HpackDecoder,
        section: Bytes,
    ) -> Result<Vec<(String, String)>, HpackError> {
        let mut lines = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(&section, |name, value| {
            lines.push((text(name.as_bytes()), text(value)));
        })?;
        Ok(lines)
    }

    /// Sections of one connection, with their lines, the table after each, newest first, and its size.
    type Sample<'a> = (
        &'a str,
        &'a [(&'a str, &'a str)],
        &'a [(&'a str, &'a str)],
        usize,
    );

    fn check(decoder: &mut HpackDecoder, samples: &[Sample<'_>]) {
        let owned = |lines: &[(&str, &str)]| -> Vec<(String, String)> {
            let lines = lines.iter();
            lines
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        for (section, expected, table, size) in samples {
            assert_eq!(
                lines(decoder, hex(section)),
                Ok(owned(expected)),
                "{section}"
            );
            assert_eq!(decoder.table.lines(), owned(table), "{section}");
            assert_eq!(decoder.table.size(), *size, "{section}");
        }
    }

    const GET: (&str, &str) = (":method", "GET");
    const HTTP: (&str, &str) = (":scheme", "http");
    const ROOT: (&str, &str) = (":path", "/");
    const EXAMPLE: (&str, &str) = (":authority", "www.example.com");
    const NO_CACHE: (&str, &str) = ("cache-control", "no-cache");
    const CUSTOM: (&str, &str) = ("custom-key", "custom-value");

    #[test]
    fn reads_the_samples_of_rfc_7541_appendix_c_2() {
        let samples: [Sample<'_>; 4] = [
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                &[("custom-key", "custom-header")],
                &[("custom-key", "custom-header")],
                55,
            ),
            (
                "040c 2f73 616d 706c 652f 7061 7468",
                &[(":path", "/sample/path")],
                &[],
                0,
            ),
            (
                "1008 7061 7373 776f 7264 0673 6563 7265 74",
                &[("password", "secret")],
                &[],
                0,
            ),
            ("82", &[GET], &[], 0),
        ];
        for sample in samples {
            check(&mut HpackDecoder::default(), &[sample]);
        }
    }

    /// Appendices C.3 and C.4: the same three requests, the second time as Huffman codes.
    #[test]
    fn reads_the_requests_of_rfc_7541_appendix_c_3_and_c_4() {
        let sections = [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ];
        for [first, second, third] in sections {
            check(
                &mut HpackDecoder::default(),
                &[
                    (first, &[GET, HTTP, ROOT, EXAMPLE], &[EXAMPLE], 57),
                    (
                        second,
                        &[GET, HTTP, ROOT, EXAMPLE, NO_CACHE],
                        &[NO_CACHE, EXAMPLE],
                        110,
                    ),
                    (
                        third,
                        &[
                            GET,
                            (":scheme", "https"),
                            (":path", "/index.html"),
                            EXAMPLE,
                            CUSTOM,
                        ],
                        &[CUSTOM, NO_CACHE, EXAMPLE],
                        164,
                    ),
                ],
            );
        }
    }

    /// Appendices C.5 and C.6: responses that push each other out of a table of 256 bytes.
    #[test]
    fn reads_the_responses_of_rfc_7541_appendix_c_5_and_c_6() {
        let sections = [
            [
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "4803 3330 37c1 c0bf",
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
            ],
            [
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                "4883 640e ffc1 c0bf",
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            ],
        ];
        let private = ("cache-control", "private");
        let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
        let later = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
        let location = ("location", "https://www.example.com");
        let gzip = ("content-encoding", "gzip");
        let cookie = (
            "set-cookie",
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        );
        let found = (":status", "302");
        let moved = (":status", "307");
        let fine = (":status", "200");
        for [first, second, third] in sections {
            let mut decoder = HpackDecoder::default();
            decoder.table.resize(256);
            check(
                &mut decoder,
                &[
                    (
                        first,
                        &[found, private, date, location],
                        &[location, date, private, found],
                        222,
                    ),
                    (
                        second,
                        &[moved, private, date, location],
                        &[moved, location, date, private],
                        222,
                    ),
                    (
                        third,
                        &[fine, private, later, location, gzip, cookie],
                        &[cookie, gzip, later],
                        215,
                    ),
                ],
            );
        }
    }

    #[test]
    fn a_new_size_stands_first_and_is_no_more_than_we_allow() {
        let mut decoder = HpackDecoder::default();
        let insert = hex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
        lines(&mut decoder, insert).unwrap();
        assert_eq!(lines(&mut decoder, hex("20 3f e1 1f 82")).unwrap().len(), 1);
        assert_eq!(decoder.table.size(), 0, "the size was 0 for a moment");
        for section in ["82 20", "3f e2 1f"] {
            assert_eq!(
                lines(&mut HpackDecoder::default(), hex(section)),
                Err(HpackError::TableSize),
                "{section}"
            );
        }
    }

    #[test]
    fn what_is_in_no_table_and_what_is_cut_off_is_refused() {
        for section in ["80", "be", "7f 00", "ff ff 7f"] {
            assert_eq!(
                lines(&mut HpackDecoder::default(), hex(section)),
                Err(HpackError::NoEntry),
                "{section}"
            );
        }
        for section in ["40", "40 0a 63", "ff", "44 05 2f", "3f"] {
            assert_eq!(
                lines(&mut HpackDecoder::default(), hex(section)),
                Err(HpackError::Truncated),
                "{section}"
            );
        }
        let endless = hex("ff ff ff ff ff ff ff ff ff ff ff ff");
        assert_eq!(
            lines(&mut HpackDecoder::default(), endless),
            Err(HpackError::Overflow)
        );
    }

    #[test]
    fn an_entry_above_the_size_of_the_table_empties_it() {
        let mut decoder = HpackDecoder::default();
        let long = [&b"\x40\x01a\x7f\x81\x1f"[..], &[b'x'; 4096]].concat();
        lines(&mut decoder, hex("41 01 61")).unwrap();
        lines(&mut decoder, long.into()).unwrap();
        assert_eq!(decoder.table.size(), 0);
    }

    #[test]
    fn a_name_that_is_none_has_its_entry_as_any_other() {
        let mut decoder = HpackDecoder::default();
        let mut names = Vec::new();
        decoder
            .decode(&hex("40 01 41 01 62 be"), |name, _| {
                assert!(!name.is_field());
                names.push(name.as_bytes().to_vec());
            })
            .unwrap();
        assert_eq!(names, [b"A", b"A"]);
    }
}

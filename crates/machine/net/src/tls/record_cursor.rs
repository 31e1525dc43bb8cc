//! Where TLS records begin and end.

/// Bytes before a record: type, version, length (RFC 8446, 5.1).
const HEADER: usize = 5;

/// The boundaries of TLS records in the bytes that were read of a connection.
#[derive(Debug, Default)]
pub(crate) struct RecordCursor {
    header: [u8; HEADER],
    /// Bytes of it that have come.
    has: usize,
    /// Bytes of the record that are still to come.
    left: usize,
    /// Its length.
    length: usize,
}

impl RecordCursor {
    /// These come next.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];

            let taken = (HEADER - self.has).min(bytes.len());
            self.header[self.has..self.has + taken].copy_from_slice(&bytes[..taken]);
            self.has += taken;
            bytes = &bytes[taken..];
            if self.has == HEADER {
                let [.., high, low] = self.header;
                self.length = u16::from_be_bytes([high, low]).into();
                self.left = self.length;
                self.has = 0;
            }
        }
    }

    /// Bytes that have come of a record that is not whole.
    pub(crate) fn partial(&self) -> usize {
        match self.left {
            0 => self.has,
            left => HEADER + self.length - left,
        }
    }

    /// Whether it stands between two records.
    pub(crate) fn is_between(&self) -> bool {
        self.has == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_where_their_headers_say() {
        let records = [
            &[23, 3, 3, 0, 2, 7, 7][..],
            &[22, 3, 3, 0, 0],
            &[23, 3, 3, 1, 0],
        ]
        .concat();
        let mut whole = RecordCursor::default();
        whole.pass(&records[..12]);
        assert!(whole.is_between());
        whole.pass(&records[12..]);
        assert!(!whole.is_between());
        assert_eq!(whole.partial(), HEADER);
        whole.pass(&[0; 255]);
        assert_eq!(whole.partial(), HEADER + 255);
        whole.pass(&[0]);
        assert!(whole.is_between());
        assert_eq!(whole.partial(), 0);

        let mut bytes = RecordCursor::default();
        let mut between = Vec::new();
        for (index, byte) in records.iter().enumerate() {
            bytes.pass(&[*byte]);
            between.extend(bytes.is_between().then_some(index + 1));
        }
        assert_eq!(between, [7, 12]);
    }
}

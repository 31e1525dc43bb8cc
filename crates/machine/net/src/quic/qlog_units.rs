//! qlog in the units of its schema: quinn writes round trips in seconds, and the schema has them in milliseconds
//! (draft-ietf-quic-qlog-quic-events, `recovery:metrics_updated`).

/// The fields that are times of round trips.
const ROUND_TRIPS: [&[u8]; 4] = [
    br#""min_rtt":"#,
    br#""smoothed_rtt":"#,
    br#""latest_rtt":"#,
    br#""rtt_variance":"#,
];

/// Longest record that is waited for; a longer one goes on as it is.
#[doc(alias = "bound")]
const LONGEST_RECORD: usize = 64 * 1024;

/// The records of one file, of which the last may not have come as a whole.
#[derive(Debug, Default)]
pub(super) struct QlogRecords {
    rest: Vec<u8>,
}

impl QlogRecords {
    /// Takes bytes as quinn writes them, and returns the whole records.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let whole = match end {
            Some(end) => end + 1,
            None if self.rest.len() > LONGEST_RECORD => self.rest.len(),
            None => return Vec::new(),
        };
        let mut written = Vec::with_capacity(whole);
        for record in self.rest[..whole].split_inclusive(|byte| *byte == b'\n') {
            match is_of_path(record) {
                true => convert(record, &mut written),
                false => written.extend_from_slice(record),
            }
        }
        self.rest.drain(..whole);
        written
    }
}

/// Whether a record may have times of round trips: few have.
fn is_of_path(record: &[u8]) -> bool {
    record
        .windows(4)
        .any(|part| part == b"rtt\"" || part == b"rtt_")
}

fn convert(record: &[u8], converted: &mut Vec<u8>) {
    let mut left = record;
    while let Some((before, value)) = next_round_trip(left) {
        let digits = value.iter().take_while(|byte| is_of_number(**byte)).count();
        let (number, rest) = value.split_at(digits);
        converted.extend_from_slice(before);
        converted.extend_from_slice(&milliseconds(number));
        left = rest;
    }
    converted.extend_from_slice(left);
}

/// Up to the value of the next round trip, and from there.
fn next_round_trip(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = ROUND_TRIPS.iter().filter_map(|name| {
        let found = record.windows(name.len()).position(|part| part == *name);
        found.map(|at| at + name.len())
    });
    ends.min().map(|end| record.split_at(end))
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E')
}

/// A number of seconds in milliseconds; unchanged if it is not a number.
fn milliseconds(number: &[u8]) -> Vec<u8> {
    let seconds = std::str::from_utf8(number).ok();
    let seconds = seconds.and_then(|text| text.parse::<f64>().ok());
    match seconds {
        // The clock counts nanoseconds.
        Some(seconds) => format!("{}", (seconds * 1e9).round() / 1e6).into_bytes(),
        None => number.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_milliseconds_wherever_the_bytes_are_cut() {
        let record = b"\x1e{\"time\":1.5,\"name\":\"recovery:metrics_updated\",\"data\":{\"min_rtt\":0.0004,\"latest_rtt\":1.2e-3,\"congestion_window\":9000}}\n";
        let expected = b"\x1e{\"time\":1.5,\"name\":\"recovery:metrics_updated\",\"data\":{\"min_rtt\":0.4,\"latest_rtt\":1.2,\"congestion_window\":9000}}\n";
        for cut in 0..record.len() {
            let mut records = QlogRecords::default();
            let mut written = records.take(&record[..cut]);
            written.extend(records.take(&record[cut..]));
            assert_eq!(written, expected, "{cut}");
        }
    }

    #[test]
    fn what_is_no_number_goes_on_as_it_is() {
        let mut records = QlogRecords::default();
        let odd = b"{\"latest_rtt\":null,\"rtt_variance\":}\n";
        assert_eq!(records.take(odd), odd);
        let endless = vec![b'x'; LONGEST_RECORD + 1];
        assert_eq!(records.take(&endless), endless);
    }
}

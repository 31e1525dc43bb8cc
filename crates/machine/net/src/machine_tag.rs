//! Tells this machine from others, and reveals nothing else.

use std::fmt::Write;
use std::fs;
use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};

/// Where systems keep a number of the machine that stays (machine-id(5)), and one that is new with each start.
const NUMBERS: [&str; 3] = [
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/proc/sys/kernel/random/boot_id",
];

/// Mixed into the digest: the number is a secret, and other programs with a digest of it have
/// another one.
const PURPOSE: &[u8] = b"hermes: the devices of a machine";

/// Bytes of the digest that are told: enough for the machines of one user.
const BYTES: usize = 8;

/// A tag of this machine, of hexadecimal digits. It is stable if the system has a stable number;
/// empty without one.
pub fn machine_tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let mut numbers = NUMBERS
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        let number = numbers.find(|number| !number.trim().is_empty());
        number.map_or_else(String::new, |number| tag(number.trim()))
    })
}

fn tag(number: &str) -> String {
    let told = digest(&SHA256, &[PURPOSE, number.as_bytes()].concat());
    told.as_ref()[..BYTES]
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_tags_that_do_not_tell_their_numbers() {
        let number = "b08dfa6083e7567a1921a715000001fb";
        assert_eq!(tag(number).len(), 2 * BYTES);
        assert_eq!(tag(number), tag(number));
        assert_ne!(tag(number), tag("b08dfa6083e7567a1921a715000001fc"));
        assert!(!number.contains(&tag(number)));
    }
}

//! A certificate as it is asked for on the command line.

use std::net::IpAddr;
use std::str::FromStr;

use rcgen::SanType;

/// The names of a certificate, and the file that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The file's name without its ending.
    pub(super) file: String,
    /// DNS names, IP addresses and URIs.
    pub(super) names: Vec<String>,
}

impl Request {
    /// The names as X.509 has them (RFC 5280, 4.2.1.6).
    ///
    /// # Errors
    /// A name is not ASCII.
    pub(super) fn alternative_names(&self) -> Result<Vec<SanType>, String> {
        self.names
            .iter()
            .map(|name| alternative_name(name))
            .collect()
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (file, names) = match text.split_once('=') {
            Some((file, names)) => (Some(file), names),
            None => (None, text),
        };

        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        if names
            .iter()
            .any(|name| name.trim() != name || name.is_empty())
        {
            return Err("write NAME[,NAME..] or FILE=NAME[,NAME..]".to_owned());
        }
        for name in &names {
            alternative_name(name)?;
        }

        let file = file.unwrap_or(&names[0]).to_owned();
        let is_plain = !file.is_empty() && !file.contains('/') && !file.starts_with('.');
        if !is_plain {
            return Err(format!(
                "`{file}` is not the name of a file; write FILE={text}"
            ));
        }
        if file == "ca" {
            return Err("`ca` is the authority; choose another FILE=".to_owned());
        }

        Ok(Self { file, names })
    }
}

fn alternative_name(name: &str) -> Result<SanType, String> {
    let not_ascii = |_| format!("`{name}` is not ASCII");
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    if name.contains("://") {
        return name.try_into().map(SanType::URI).map_err(not_ascii);
    }

    let is_dns = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte));
    if !is_dns {
        return Err(format!("`{name}` is not a DNS name, IP address or URI"));
    }
    name.try_into().map(SanType::DnsName).map_err(not_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_file_of_their_own_or_the_first_one_s() {
        let request: Request = "alice=alice.overlay,spiffe://t/alice,::1".parse().unwrap();
        assert_eq!((request.file.as_str(), request.names.len()), ("alice", 3));
        let request: Request = "edge.overlay".parse().unwrap();
        assert_eq!(
            (request.file.as_str(), request.names.len()),
            ("edge.overlay", 1)
        );
        for bad in ["", "a,", "../x=a", "spiffe://t/a", "ca=a", "a b", "=a"] {
            assert!(bad.parse::<Request>().is_err(), "{bad}");
        }
    }
}

//! The owner of a tunnel, and its number among several of one device.

use std::fmt;

/// The field in which the tunnels of one device say that they are: `Hermes-Device: TUNNEL DEVICE`. Tunnels of one user and one device that
/// end at the same place have one address there.
pub const DEVICE_FIELD: &str = "hermes-device";

/// The longest value of that field, in bytes.
#[doc(alias = "bound")]
const LONGEST_VALUE: usize = 512;

/// Which of several tunnels of a device it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DevicePart {
    /// The name of the tunnel, without spaces.
    pub tunnel: String,
    /// The device, unique among those of its user.
    pub device: String,
}

/// The owner of a tunnel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TunnelOwner {
    /// The user, or where it comes from.
    pub identity: String,
    /// Which of several it is; `None`: the device has no other.
    pub part: Option<DevicePart>,
}

impl DevicePart {
    /// Reads a value of [`DEVICE_FIELD`]; `None`: it is too long, or has not both parts.
    pub fn parse(value: &str) -> Option<Self> {
        let (tunnel, device) = value
            .split_once(' ')
            .filter(|_| value.len() <= LONGEST_VALUE)?;
        let is_sound = !tunnel.is_empty() && !device.is_empty();
        is_sound.then(|| Self {
            tunnel: tunnel.to_owned(),
            device: device.to_owned(),
        })
    }
}

impl fmt::Display for DevicePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tunnel, self.device)
    }
}

impl TunnelOwner {
    /// The name of the tunnel, where its device has several.
    pub(super) fn tunnel(&self) -> Option<&str> {
        self.part.as_ref().map(|part| part.tunnel.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_too_long_is_not() {
        let part = DevicePart {
            tunnel: "lab".to_owned(),
            device: "laptop/hermes0".to_owned(),
        };
        assert_eq!(DevicePart::parse(&part.to_string()), Some(part));
        for value in ["", "lab", "lab ", " laptop", &format!("lab {:600}", "x")] {
            assert_eq!(DevicePart::parse(value), None, "{value}");
        }
    }
}

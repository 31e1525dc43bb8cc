//! The colour of each system.

use crate::peers::Name;

/// Colours that also differ in brightness.
pub(super) fn colour(system: Name) -> &'static str {
    match system {
        Name::Direct => "#bbbbbb",
        Name::Null => "#777777",
        Name::Hermes => "#d1495b",
        Name::Envoy => "#00798c",
        Name::Nginx => "#66a182",
        Name::Haproxy => "#edae49",
        Name::H2o => "#8f6bb3",
        Name::Caddy => "#3b3b98",
    }
}

//! Banned crates, each with its reason; duplicate crates, each with the crate that needs it.

/// The systems that Hermes is for. On WebAssembly quinn-proto would bring in ring.
pub const TARGETS: [&str; 5] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-unknown-freebsd",
];

/// The default registry: no git dependency, no other registry.
pub const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that are not to come in, and why.
pub const BANNED: &[(&str, &str)] = &[
    ("ring", "one crypto provider everywhere: aws-lc-rs"),
    ("openssl", "one TLS stack everywhere: rustls"),
    ("openssl-sys", "one TLS stack everywhere: rustls"),
    ("native-tls", "one TLS stack everywhere: rustls"),
];

/// Of a crate that comes in two versions, the one that is to go.
pub struct Twice {
    /// The crate.
    pub name: &'static str,
    /// How its version begins: `0.22`, `2`.
    pub version: &'static str,
}

impl Twice {
    /// Is it this one?
    pub fn is(&self, name: &str, version: &str) -> bool {
        let rest = version.strip_prefix(self.version);
        self.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

const fn twice(name: &'static str, version: &'static str) -> Twice {
    Twice { name, version }
}

/// Two versions of one crate, while those who need them disagree.
pub const TWICE: &[Twice] = &[
    // jsonwebtoken still takes 0.22; bcrypt and pem take 0.23.
    twice("base64", "0.22"),
    // smoltcp still takes 1.
    twice("bitflags", "1"),
    // hickory-resolver's system-configuration, on macOS only.
    twice("core-foundation", "0.9"),
    // reed-solomon-simd still takes 0.2; chacha20 and others take 0.3.
    twice("cpufeatures", "0.2"),
    // ahash under tun-rs.
    twice("getrandom", "0.3"),
    // x509-parser still takes 0.4; regorus takes 0.5.
    twice("num-bigint", "0.4"),
    // Derive macros are moving to syn 3.
    twice("syn", "2"),
    // aws-lc-rs; rustls-webpki takes 0.9.
    twice("untrusted", "0.7"),
];

//! Pebble, the ACME authority that Let's Encrypt makes for tests, and its server of DNS, for which every name is this machine.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};
use crate::pki::Issued;
use crate::{Pki, curl, free};

/// A running Pebble with its server of DNS. Dropping it ends both; if the test has failed, its log is shown.
#[derive(Debug)]
pub struct Pebble {
    folder: TempDir,
    pki: Pki,
    own: Issued,
    addresses: Addresses,
    dns: Child,
    authority: Option<Child>,
}

/// Where both are, and where challenges are looked for.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    directory: SocketAddr,
    management: SocketAddr,
    dns: SocketAddr,
    http: SocketAddr,
    tls: SocketAddr,
}

impl Pebble {
    /// Starts it; certificates are valid for so many seconds. Challenges are looked for at two free ports: [`Self::http`] and
    /// [`Self::tls`].
    ///
    /// # Panics
    /// When `HERMES_PEBBLE` names no program, or with its log when it does not start.
    pub fn start(validity: u64) -> Self {
        Self::start_for(validity, None)
    }

    /// As [`Self::start`], for those alone who have an account there already: its name, and its key in base64url.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_for(validity: u64, account: Option<(&str, &str)>) -> Self {
        let pki = Pki::new();
        let addresses = Addresses {
            directory: free::tcp(),
            management: free::tcp(),
            dns: free::udp(),
            http: free::tcp(),
            tls: free::tcp(),
        };
        let here = addresses.directory.ip().to_string();
        let own = pki.issue(&[&here]);
        let folder = tempfile::tempdir().unwrap();
        write_config(folder.path(), &own, &addresses, validity, account);

        let dns = Command::new(program("HERMES_PEBBLE_CHALLTESTSRV"))
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .args(["-defaultIPv4", &here, "-defaultIPv6", ""])
            .arg("-dnsserver")
            .arg(addresses.dns.to_string())
            .arg("-management")
            .arg(free::tcp().to_string())
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("dns")).unwrap())
            .stderr(File::create(folder.path().join("dns.errors")).unwrap())
            .spawn()
            .unwrap();

        let mut pebble = Self {
            folder,
            pki,
            own,
            addresses,
            dns,
            authority: None,
        };
        pebble.resume();
        pebble
    }

    /// Starts the authority again, which has forgotten accounts and orders.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn resume(&mut self) {
        self.stop();
        let log = |name| File::create(self.folder.path().join(name)).unwrap();
        let process = Command::new(program("HERMES_PEBBLE"))
            .arg("-config")
            .arg(self.folder.path().join("pebble.json"))
            .arg("-dnsserver")
            .arg(self.addresses.dns.to_string())
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdin(Stdio::null())
            .stdout(log("stdout"))
            .stderr(log("stderr"))
            .spawn()
            .unwrap();
        self.authority = Some(process);
        eventually("Pebble answers", || self.answers().then_some(()));
    }

    /// Ends the authority.
    pub fn stop(&mut self) {
        if let Some(mut authority) = self.authority.take() {
            // It may have ended already.
            drop(authority.kill());
            drop(authority.wait());
        }
    }

    /// URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.addresses.directory)
    }

    /// The authority of its directory's own certificate.
    pub fn ca(&self) -> PathBuf {
        self.pki.ca()
    }

    /// Where it looks for tokens.
    pub fn http(&self) -> SocketAddr {
        self.addresses.http
    }

    /// Where it shakes hands.
    pub fn tls(&self) -> SocketAddr {
        self.addresses.tls
    }

    /// A file with the root of the certificates that it issues: another one whenever it is started.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn issuer(&self) -> PathBuf {
        let file = self.folder.path().join("issuer.pem");
        fs::write(&file, self.management("/roots/0")).unwrap();
        file
    }

    fn answers(&self) -> bool {
        std::net::TcpStream::connect_timeout(&self.addresses.directory, PATIENCE).is_ok()
            && std::net::TcpStream::connect_timeout(&self.addresses.management, PATIENCE).is_ok()
    }

    fn management(&self, path: &str) -> String {
        let url = format!("https://{}{path}", self.addresses.management);
        curl(&["--cacert", &self.ca().display().to_string(), &url]).text()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        // It may have ended already.
        drop(self.dns.kill());
        drop(self.dns.wait());
        if std::thread::panicking() {
            let said = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            eprintln!(
                "--- Pebble: its log\n{}{}---",
                said("stdout"),
                said("stderr")
            );
            eprintln!("its own certificate: {}", self.own.cert.display());
        }
    }
}

fn write_config(
    folder: &Path,
    own: &Issued,
    addresses: &Addresses,
    validity: u64,
    account: Option<(&str, &str)>,
) {
    let mut config = json!({ "pebble": {
        "listenAddress": addresses.directory,
        "managementListenAddress": addresses.management,
        "certificate": own.cert,
        "privateKey": own.key,
        "httpPort": addresses.http.port(),
        "tlsPort": addresses.tls.port(),
        "retryAfter": { "authz": 1, "order": 1 },
        "profiles": { "default": { "description": "the only one", "validityPeriod": validity } },
    } });
    if let Some((id, key)) = account {
        config["pebble"]["externalAccountBindingRequired"] = json!(true);
        config["pebble"]["externalAccountMACKeys"] = json!({ id: key });
    }
    fs::write(folder.join("pebble.json"), config.to_string()).unwrap();
}

/// The program that a variable names.
fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.unwrap_or_else(|| {
        panic!("{variable} names no program; run `./test install` once, then `./test interop`")
    })
}

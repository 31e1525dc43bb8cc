//! `hermes cert`: an authority of the operator's own, and the certificates that it issues to nodes.

mod authority;
mod issued;
mod request;

use std::path::{Path, PathBuf};

use clap::Args;
use hermes_net::clock::unix_seconds;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

use authority::CertAuthority;
use issued::Issued;
use request::Request;

/// How long certificates count, in days, unless it is said otherwise.
const DAYS: u32 = 365;

/// Arguments of `hermes cert`.
#[derive(Debug, Args)]
pub struct Cert {
    /// Certificates to make: `NAME[,NAME..]`, or `FILE=NAME[,NAME..]`. A name is a DNS name, an IP address or a URI.
    #[arg(value_name = "CERTIFICATE", required_unless_present = "renew")]
    certificates: Vec<Request>,
    /// Where the authority's files and the certificates are; it is made if need be.
    #[arg(long, value_name = "FOLDER", default_value = "certs")]
    folder: PathBuf,
    /// How long new certificates count, in days.
    #[arg(long, default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Renew all certificates in the folder whose last third has begun. Keys and names stay.
    #[arg(long)]
    renew: bool,
}

/// The result for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Made,
    Renewed,
    Kept,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Renewed => "renewed",
            Self::Kept => "kept",
        }
    }
}

/// A certificate as the command leaves it.
#[derive(Debug, Serialize)]
struct CertOutcome {
    action: Action,
    cert_file: PathBuf,
    key_file: PathBuf,
    names: Vec<String>,
    until: String,
}

/// Makes and renews certificates.
///
/// # Errors
/// A file cannot be read or written, or a certificate in the folder is of another authority or has other names.
pub fn run(command: &Cert, output: Output) -> Result<(), Failure> {
    let outcomes = all(command, unix_seconds()).map_err(Failure::failed)?;
    if output.json {
        output.value(&outcomes);
        return Ok(());
    }

    for outcome in &outcomes {
        output.line(format_args!(
            "{:8} {:24} {}, until {}",
            outcome.action.text(),
            outcome.cert_file.display(),
            outcome.names.join(", "),
            outcome.until
        ));
    }
    if outcomes
        .first()
        .is_some_and(|first| first.action == Action::Made)
    {
        output.line(format_args!(
            "The key {} can issue certificates: keep it off the nodes.",
            command.folder.join("ca.key").display()
        ));
    }

    Ok(())
}

/// Makes an authority and these certificates in a folder, for as long as the command does unless it is told otherwise.
///
/// # Errors
/// As [`run`], or when a name is not valid.
pub fn make(folder: &Path, certificates: &[String]) -> Result<(), String> {
    let certificates = certificates.iter().map(|text| text.parse());
    let command = Cert {
        certificates: certificates.collect::<Result<_, _>>()?,
        folder: folder.to_owned(),
        days: DAYS,
        renew: false,
    };
    all(&command, unix_seconds()).map(drop)
}

fn all(command: &Cert, now: u64) -> Result<Vec<CertOutcome>, String> {
    std::fs::create_dir_all(&command.folder)
        .map_err(|error| format!("{}: {error}", command.folder.display()))?;
    let authority = CertAuthority::open_or_make(&command.folder, now)?;
    let mut outcomes = vec![authority.outcome()];
    for request in &command.certificates {
        outcomes.push(one(request, command, &authority, now)?);
    }

    if command.renew {
        for request in issued::requests(&command.folder)? {
            let is_done = command
                .certificates
                .iter()
                .any(|done| done.file == request.file);
            if !is_done {
                outcomes.push(one(&request, command, &authority, now)?);
            }
        }
    }

    Ok(outcomes)
}

/// Makes a certificate, renews the one that is there, or keeps it while it has time.
fn one(
    request: &Request,
    command: &Cert,
    authority: &CertAuthority,
    now: u64,
) -> Result<CertOutcome, String> {
    let cert_file = command.folder.join(format!("{}.pem", request.file));
    let key_file = command.folder.join(format!("{}.key", request.file));
    let known = Issued::read(&cert_file)?;
    if let Some(known) = &known {
        known.check(request, &cert_file)?;
    }

    let (action, until) = match known {
        Some(known) if !known.is_due(now) => (Action::Kept, known.until),
        Some(_) => (
            Action::Renewed,
            authority.issue(request, &cert_file, &key_file, command.days, now)?,
        ),
        None => (
            Action::Made,
            authority.issue(request, &cert_file, &key_file, command.days, now)?,
        ),
    };

    Ok(CertOutcome {
        action,
        cert_file,
        key_file,
        names: request.names.clone(),
        until: day(until),
    })
}

/// The day of a Unix time, as `2027-11-27`.
fn day(seconds: u64) -> String {
    let date = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds);
    date.date().to_string()
}

/// Writes a file as a whole: a reader sees the old content or the new one.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), String> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    new.write_all(text.as_bytes()).map_err(failed)?;
    let permissions = std::fs::Permissions::from_mode(mode);
    new.as_file().set_permissions(permissions).map_err(failed)?;
    new.as_file().sync_all().map_err(failed)?;
    new.persist(file).map_err(|error| failed(error.error))?;

    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const DAY: u64 = 24 * 60 * 60;
    const NOW: u64 = 20_000 * DAY;

    fn command(folder: &Path, certificates: &[&str]) -> Cert {
        Cert {
            certificates: certificates
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
            folder: folder.to_owned(),
            days: 90,
            renew: certificates.is_empty(),
        }
    }

    fn actions(outcomes: &[CertOutcome]) -> Vec<Action> {
        outcomes.iter().map(|outcome| outcome.action).collect()
    }

    #[test]
    fn an_authority_is_made_once_and_its_certificates_are_renewed_in_their_last_third() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = command(
            folder.path(),
            &["alice=alice.overlay,192.0.2.1", "edge.overlay"],
        );
        let first = all(&wanted, NOW).unwrap();
        assert_eq!(actions(&first), [Action::Made; 3]);
        assert_eq!(actions(&all(&wanted, NOW).unwrap()), [Action::Kept; 3]);

        let key = std::fs::read(folder.path().join("alice.key")).unwrap();
        let renewal = command(folder.path(), &[]);
        assert_eq!(
            actions(&all(&renewal, NOW + 59 * DAY).unwrap()),
            [Action::Kept; 3]
        );
        let renewed = all(&renewal, NOW + 61 * DAY).unwrap();
        assert_eq!(
            actions(&renewed),
            [Action::Kept, Action::Renewed, Action::Renewed]
        );
        assert_eq!(renewed[1].names, ["alice.overlay", "192.0.2.1"]);
        assert_eq!(std::fs::read(folder.path().join("alice.key")).unwrap(), key);
    }

    #[test]
    fn keys_are_their_owners_and_certificates_say_how_long_they_count() {
        let folder = tempfile::tempdir().unwrap();
        all(&command(folder.path(), &["a.example"]), NOW).unwrap();
        for key in ["ca.key", "a.example.key"] {
            let mode = std::fs::metadata(folder.path().join(key))
                .unwrap()
                .permissions();
            assert_eq!(mode.mode() & 0o777, 0o600, "{key}");
        }

        let spans = hermes_net::tls::of_certificates((&folder.path().join("a.example.pem")).into())
            .unwrap();
        assert_eq!(spans[0].until, Some(NOW + 90 * DAY));
    }

    #[test]
    fn a_certificate_of_another_name_or_authority_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        all(&command(folder.path(), &["alice=alice.overlay"]), NOW).unwrap();
        let other = all(&command(folder.path(), &["alice=bob.overlay"]), NOW).unwrap_err();
        assert!(other.contains("alice.pem is for alice.overlay"), "{other}");

        std::fs::remove_file(folder.path().join("ca.key")).unwrap();
        let lost = all(&command(folder.path(), &["edge.overlay"]), NOW).unwrap_err();
        assert!(lost.contains("ca.key"), "{lost}");
    }
}

//! Which build of Hermes was measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// A folder that Cargo creates within the folder of each profile.
const OF_CARGO: &str = ".cargo-lock";

/// The build that was measured, for later readers of the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredBuild {
    /// Its version line: `hermes 0.1.0`.
    version: String,
    /// The profile of Cargo's build; `None` for a program outside Cargo's folders.
    profile: Option<String>,
    /// Its size.
    bytes: u64,
}

impl MeasuredBuild {
    /// Of this program.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn of(program: &Path) -> Result<Self> {
        let shown = program.display().to_string();
        let output = Command::new(program)
            .arg("--version")
            .output()
            .with_context(|| shown.clone())?;
        ensure!(output.status.success(), "{shown} does not say its version");

        let bytes = fs::metadata(program).with_context(|| shown)?.len();
        Ok(Self {
            version: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            profile: profile(program),
            bytes,
        })
    }

    /// In words.
    pub fn describe(&self) -> String {
        let Self {
            version,
            profile,
            bytes,
        } = self;
        let profile = match profile {
            Some(profile) => format!("profile `{profile}`"),
            None => "a profile that is not known".to_owned(),
        };
        format!("{version}, {profile}, {bytes} bytes")
    }
}

/// Cargo names folders after profiles, but for one.
fn profile(program: &Path) -> Option<String> {
    let folder = program.parent()?;
    if !folder.join(OF_CARGO).exists() {
        return None;
    }

    let name = folder.canonicalize().ok()?;
    let name = name.file_name()?.to_str()?;
    Some(if name == "debug" { "dev" } else { name }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_told_by_the_folder_that_cargo_made() {
        let target = tempfile::tempdir().unwrap();
        for (folder, is_cargos, expected) in [
            ("dist", true, Some("dist")),
            ("debug", true, Some("dev")),
            ("bin", false, None),
        ] {
            let folder = target.path().join(folder);
            fs::create_dir(&folder).unwrap();
            if is_cargos {
                fs::write(folder.join(OF_CARGO), "").unwrap();
            }
            assert_eq!(profile(&folder.join("hermes")).as_deref(), expected);
        }
    }

    #[test]
    fn the_build_is_described_with_what_it_says_of_itself() {
        let echo = MeasuredBuild::of(Path::new("/bin/echo")).unwrap();
        assert!(echo.bytes > 0 && echo.profile.is_none(), "{echo:?}");
        assert!(MeasuredBuild::of(Path::new("/bin/false")).is_err());

        let built = MeasuredBuild {
            version: "hermes 0.1.0".to_owned(),
            profile: Some("dist".to_owned()),
            bytes: 7,
        };
        assert_eq!(built.describe(), "hermes 0.1.0, profile `dist`, 7 bytes");
    }
}

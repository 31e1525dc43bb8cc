//! The programs that are compared: Hermes is built, the others are installed by package name.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::name::Name;

/// Where the programs are.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Hermes, a release build.
    pub hermes: PathBuf,
    /// Envoy.
    pub envoy: PathBuf,
    /// nginx.
    pub nginx: PathBuf,
    /// HAProxy.
    pub haproxy: PathBuf,
    /// h2o.
    pub h2o: PathBuf,
    /// Caddy.
    pub caddy: PathBuf,
    /// The CONNECT-UDP client and proxy over masque-go.
    pub masque_go: PathBuf,
    /// The CONNECT-IP client and proxy over connect-ip-go.
    pub connect_ip_go: PathBuf,
    /// WireGuard in user space, in Go.
    pub wireguard_go: PathBuf,
    /// WireGuard in user space, in Rust.
    pub boringtun: PathBuf,
    /// Open Policy Agent.
    pub opa: PathBuf,
    /// The same with its plugin for Envoy.
    pub opa_envoy: PathBuf,
}

impl Programs {
    /// Builds Hermes unless a build is `given`, and installs the others, as far as `systems` need them.
    ///
    /// # Errors
    /// When one cannot be built or installed.
    pub fn provide(systems: &[Name], given: Option<&Path>) -> Result<Self> {
        let mut programs = Self::default();
        if systems.contains(&Name::Hermes) {
            programs.hermes = given.map_or_else(build_hermes, |path| Ok(path.to_owned()))?;
            ensure!(
                programs.hermes.is_file(),
                "there is no {}",
                programs.hermes.display()
            );
        }

        if systems
            .iter()
            .any(|name| !matches!(name, Name::Direct | Name::Null | Name::Hermes))
        {
            programs.install()?;
        }

        Ok(programs)
    }

    /// The same for [`crate::policy`]. Where the tests have installed Envoy and OPA already, it is these: `HERMES_ENVOY` and
    /// `HERMES_PEERS` name them.
    ///
    /// # Errors
    /// When one cannot be built or installed.
    pub fn provide_for_policy(given: Option<&Path>) -> Result<Self> {
        let installed = |name| std::env::var_os(name).map(PathBuf::from);
        let Some((envoy, peers)) = installed("HERMES_ENVOY").zip(installed("HERMES_PEERS")) else {
            return Self::provide(&[Name::Hermes, Name::Envoy], given);
        };

        let mut programs = Self::provide(&[Name::Hermes], given)?;
        programs.envoy = envoy;
        programs.opa = peers.join("opa");
        programs.opa_envoy = peers.join("opa-envoy");
        Ok(programs)
    }

    /// `./test peers` installs them as it does for the tests, and says where they are.
    fn install(&mut self) -> Result<()> {
        let script = workspace().join("test");
        let output = Command::new(&script)
            .arg("peers")
            .stderr(Stdio::inherit())
            .output();
        let output = output.with_context(|| script.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "./test peers failed:\n{text}");

        let path = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(PathBuf::from)
                .with_context(|| format!("./test peers names no {name}:\n{text}"))
        };

        self.envoy = path("HERMES_ENVOY")?;
        self.nginx = path("HERMES_NGINX")?;
        self.haproxy = path("HERMES_HAPROXY")?;
        self.h2o = path("HERMES_H2O")?;
        self.caddy = path("HERMES_CADDY")?;
        self.built(&path("HERMES_PEERS")?);

        Ok(())
    }

    /// The same, each started by a script in `folder` that has valgrind count its instructions; valgrind says them in its log.
    ///
    /// # Errors
    /// When a script cannot be written.
    pub fn counted(&self, folder: &Path) -> Result<Self> {
        let mut counted = self.clone();
        for program in [
            &mut counted.hermes,
            &mut counted.envoy,
            &mut counted.nginx,
            &mut counted.haproxy,
        ] {
            *program = counting_script(folder, program)?;
        }
        Ok(counted)
    }

    /// The build that `./test install` left in this folder.
    pub fn built(&mut self, peers: &Path) {
        self.masque_go = peers.join("masque-go");
        self.connect_ip_go = peers.join("connect-ip-go");
        self.wireguard_go = peers.join("wireguard-go");
        self.boringtun = peers.join("boringtun-cli");
        self.opa = peers.join("opa");
        self.opa_envoy = peers.join("opa-envoy");
    }
}

/// Writes the script of [`Programs::counted`] for a program, and names it.
fn counting_script(folder: &Path, program: &Path) -> Result<PathBuf> {
    // One that is not among the systems.
    let Some(name) = program.file_name() else {
        return Ok(PathBuf::new());
    };

    let script = folder.join(name).with_extension("counted");
    let text = format!(
        "#!/bin/sh\nexec valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null '{}' \"$@\"\n",
        program.display()
    );
    fs::write(&script, text).with_context(|| script.display().to_string())?;
    fs::set_permissions(&script, Permissions::from_mode(0o700))?;
    Ok(script)
}

/// Builds the binary and finds out from cargo where it is.
fn build_hermes() -> Result<PathBuf> {
    let arguments = [
        "build",
        "--profile",
        "dist",
        "--package",
        "hermes",
        "--message-format",
        "json-render-diagnostics",
    ];

    let mut cargo = Command::new("cargo")
        .args(arguments)
        .current_dir(workspace())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo")?;

    let output = cargo.stdout.take().context("cargo has no output")?;
    let mut binary = None;
    for line in BufReader::new(output).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        if let Some(path) = message["executable"].as_str() {
            binary = Some(PathBuf::from(path));
        }
    }

    if !cargo.wait()?.success() {
        bail!("hermes cannot be built");
    }
    binary.context("cargo built no binary")
}

/// The folder of the checkout that the lab was built from.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

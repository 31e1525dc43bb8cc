//! `hermes demo --overlay`: a controller and its nodes, changes of all kinds, and their failures, under traffic.
//!
//! The controller and the nodes are processes of their own, joined by tokens as an operator and users would.

mod acts;
mod members;
mod operator;
mod resources;
mod thief;
mod traffic;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::certificates::Certificates;
use super::origins::Origins;
use super::place::free_addresses;
use super::says::Says;
use crate::failure::Failure;
use crate::output::{Colour, Output, note};
use crate::stop::told_to_stop;

use members::Members;

/// Addresses of the demo's processes.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    controller: SocketAddr,
    hub: SocketAddr,
    edge: SocketAddr,
    laptop: SocketAddr,
    phone: SocketAddr,
}

/// The surroundings of the processes.
struct OverlayScene {
    folder: TempDir,
    addresses: Addresses,
    origins: Origins,
}

/// Something that was shown, and the time from the beginning to its end.
struct Act {
    title: &'static str,
    outcome: Result<String, String>,
    at: Duration,
}

/// Plays all acts, and tells each with its time as soon as it has ended.
///
/// # Errors
/// An act failed, or the processes do not start.
pub async fn run(keep: bool, output: Output) -> Result<(), Failure> {
    let scene = OverlayScene::set().await.map_err(Failure::failed)?;
    let mut members = Members::in_folder(scene.folder.path());
    let ended = tokio::select! {
        ended = play(&scene, &mut members, output) => ended,
        () = told_to_stop() => Err(Failure::failed("stopped before it was done")),
    };
    if keep && ended.is_ok() {
        invite(&scene, output);
        told_to_stop().await;
        note("stopping");
    }
    if ended.is_err() {
        members.last_words();
    }
    members.stop().await;
    ended
}

impl OverlayScene {
    async fn set() -> Result<Self, String> {
        let origins = Origins::start(&Certificates::issue()?).await?;
        let folder = tempfile::Builder::new()
            .prefix("hermes-demo-")
            .tempdir()
            .says("a folder for the demo")?;
        let mut free = free_addresses();
        let mut next = || free.next().ok_or("no free port on loopback");
        let addresses = Addresses {
            controller: next()?,
            hub: next()?,
            edge: next()?,
            laptop: next()?,
            phone: next()?,
        };
        Ok(Self {
            folder,
            addresses,
            origins,
        })
    }

    /// The address of one of the demo's servers.
    fn server(&self, name: &str) -> Result<SocketAddr, String> {
        let mut servers = self.origins.addresses().iter();
        let found = servers.find(|(known, _)| *known == name);
        found
            .map(|(_, address)| *address)
            .ok_or_else(|| format!("there is no server {name}"))
    }

    /// The controller's socket for operators.
    fn socket(&self) -> PathBuf {
        self.folder
            .path()
            .join("controller")
            .join("controller.sock")
    }
}

async fn play(scene: &OverlayScene, members: &mut Members, output: Output) -> Result<(), Failure> {
    if !output.json {
        note(
            "A controller and three nodes on loopback: laptop -> hub -> edge -> VIDEO. Requests go through them all the time.",
        );
    }
    let mut program = Program {
        began: Instant::now(),
        acts: Vec::new(),
        output,
    };
    let played = acts::all(scene, members, &mut program).await;
    if output.json {
        output.value(&program.object());
    }
    match (played, output.json) {
        (Ok(()), true) => Ok(()),
        (Ok(()), false) => {
            let line = format!("all {} acts passed", program.acts.len());
            output.line(output.paint(Colour::Good, &line));
            Ok(())
        }
        (Err(_), true) => Err(Failure::told(1)),
        (Err(title), false) => Err(Failure::failed(format!("failed: {title}"))),
    }
}

/// The acts that were played.
struct Program {
    began: Instant,
    acts: Vec<Act>,
    output: Output,
}

impl Program {
    /// Tells how an act ended.
    ///
    /// # Errors
    /// Its title, if it failed: those after it would say nothing.
    fn tell(
        &mut self,
        title: &'static str,
        outcome: Result<String, String>,
    ) -> Result<(), &'static str> {
        let act = Act {
            title,
            outcome,
            at: self.began.elapsed(),
        };
        if !self.output.json {
            self.output.line(act.line(self.output));
        }
        let passed = act.outcome.is_ok();
        self.acts.push(act);
        if passed { Ok(()) } else { Err(title) }
    }

    fn object(&self) -> Value {
        let failed = self.acts.iter().filter(|act| act.outcome.is_err()).count();
        json!({
            "passed": self.acts.len() - failed,
            "failed": failed,
            "acts": self.acts.iter().map(Act::object).collect::<Vec<_>>(),
        })
    }
}

impl Act {
    fn line(&self, output: Output) -> String {
        let (colour, verdict, proof) = match &self.outcome {
            Ok(proof) => (Colour::Good, "ok", proof),
            Err(reason) => (Colour::Bad, "FAILED", reason),
        };
        let verdict = output.paint(colour, verdict);
        let seconds = self.at.as_secs_f64();
        format!(
            "{seconds:6.2} s  {verdict}  {}\n              {proof}",
            self.title
        )
    }

    fn object(&self) -> Value {
        let (ok, told) = match &self.outcome {
            Ok(proof) => (true, proof),
            Err(reason) => (false, reason),
        };
        json!({ "what": self.title, "ok": ok, "told": told, "at_ms": self.at.as_millis() })
    }
}

/// Prints commands to try while it stays up.
fn invite(scene: &OverlayScene, output: Output) {
    let text = format!(
        "\nThe overlay stays up until Ctrl-C. To try, in another terminal:\n\n  export HERMES_CONTROLLER_SOCKET={}\n  hermes nodes\n  hermes get\n  \
         hermes history\n  curl -x http://{} http://VIDEO/",
        scene.socket().display(),
        scene.addresses.laptop
    );
    match output.json {
        true => note(text),
        false => output.line(text),
    }
}

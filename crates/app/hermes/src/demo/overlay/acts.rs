//! The acts, in their order.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::members::Members;
use super::operator::{Answered, command, done, in_step, until};
use super::thief::StolenTunnel;
use super::traffic::{Traffic, ask};
use super::{OverlayScene, Program, resources};
use crate::demo::says::{Says, expect};
use crate::table::short_time;

/// Time for an open tunnel to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Traffic while the controller is away.
const AWAY: Duration = Duration::from_secs(1);

/// The stage of the acts.
struct Stage<'a> {
    scene: &'a OverlayScene,
    members: &'a mut Members,
    socket: PathBuf,
    /// The token that the laptop has redeemed.
    redeemed: String,
}

/// Plays them, one after the other.
///
/// # Errors
/// The title of the first that failed.
pub async fn all(
    scene: &OverlayScene,
    members: &mut Members,
    program: &mut Program,
) -> Result<(), &'static str> {
    let mut stage = Stage {
        socket: scene.socket(),
        scene,
        members,
        redeemed: String::new(),
    };
    program.tell("three nodes join", stage.nodes_join().await)?;

    let traffic = Traffic::begin(scene.addresses.laptop);
    program.tell("a change is in force everywhere", stage.change().await)?;
    program.tell(
        "a bad revision is stopped where it was tried first",
        stage.bad_revision().await,
    )?;
    program.tell(
        "a change that no one confirms returns by itself",
        stage.unconfirmed().await,
    )?;
    program.tell("a stolen token is refused", stage.stolen_token().await)?;
    program.tell(
        "revoking a device ends its open tunnel",
        stage.revoked().await,
    )?;
    program.tell(
        "the controller is killed under traffic",
        stage.controller_killed(&traffic).await,
    )?;
    let lost = traffic.end();
    program.tell(
        "no request of all that time failed",
        lost.map(|answered| format!("{answered} of {answered} answered")),
    )?;
    program.tell(
        "nodes start from their disks",
        stage.start_from_disk().await,
    )?;
    program.tell("the controller returns", stage.controller_returns().await)
}

impl Stage<'_> {
    async fn nodes_join(&mut self) -> Result<String, String> {
        self.start_controller()?;
        until(async || Ok(self.operator(&["nodes"]).await?.code == 0)).await?;
        self.apply(&self.overlay()?, &[]).await?;

        let mut told = Vec::new();
        for name in ["edge", "hub"] {
            let token = self.token(&["--name", name]).await?;
            self.join(name, &token, &[])?;
            told.push(self.joined(name).await?);
        }
        let token = self.token(&["--user", "alice"]).await?;
        let web = self.scene.addresses.laptop.to_string();
        self.join("laptop", &token, &["--web", &web])?;
        told.push(self.joined("laptop").await?);
        self.reaches("VIDEO", 200).await?;
        self.redeemed = token;
        Ok(format!("{}; and a request passes", told.join(", ")))
    }

    async fn change(&mut self) -> Result<String, String> {
        let began = Instant::now();
        let server = self.scene.server("VIDEO")?.to_string();
        let arguments = ["expose", "NEWS", &server, "--to", "alice", "--node", "edge"];
        let exposed = self.done(&arguments).await?;
        let spread = began.elapsed();
        self.reaches("NEWS", 200).await?;
        Ok(format!(
            "hermes expose NEWS: revision {} at {} nodes after {}",
            text(&exposed["changed"]["revision"]),
            exposed["changed"]["nodes"],
            short_time(spread)
        ))
    }

    async fn bad_revision(&mut self) -> Result<String, String> {
        // Only the node itself finds out that the address is taken.
        let listener = TcpListener::bind("127.0.0.1:0").await.says("a busy port")?;
        let busy = listener.local_addr().says("a busy port")?;
        let bad = resources::with_busy_listener(&self.overlay()?, self.scene.addresses.edge, busy);
        let answered = self.try_apply(&bad, &[]).await?;
        expect(answered.code == 1, || {
            format!("it was not stopped: {}", answered.value)
        })?;
        let stopped = &answered.value["outcome"]["stopped"];
        in_step(self.members, &self.socket, "edge").await?;
        Ok(format!(
            "{} refused it: {}",
            text(&stopped["node"]),
            text(&stopped["reason"])
        ))
    }

    async fn unconfirmed(&mut self) -> Result<String, String> {
        let yaml = text(&self.done(&["get", "Policy"]).await?["yaml"]).to_owned();
        let closed = yaml.replace("NEWS", "OLDS");
        // It takes NEWS from everyone, which would else be a slip.
        let arguments = ["--confirm", "2s", "--force", "--now"];
        self.apply(&closed, &arguments).await?;
        let began = Instant::now();
        self.reaches("NEWS", 403).await?;
        self.reaches("NEWS", 200).await?;
        Ok(format!(
            "hermes apply --confirm 2s: NEWS was refused, and is reached again after {}",
            short_time(began.elapsed())
        ))
    }

    async fn stolen_token(&mut self) -> Result<String, String> {
        let token = self.redeemed.clone();
        self.join("thief", &token, &[])?;
        let code = self.members.ended("thief").await?;
        expect(code == 1, || format!("the thief ended with {code}"))?;
        let log = self.members.state("thief.log");
        let log = std::fs::read_to_string(log).says("the thief's log")?;
        let reason = log.lines().find(|line| line.contains("another key"));
        let reason = reason.ok_or_else(|| format!("it was not told: {log}"))?;
        Ok(reason.trim_start_matches("hermes: ").to_owned())
    }

    async fn revoked(&mut self) -> Result<String, String> {
        let token = self.token(&["--user", "alice"]).await?;
        let web = self.scene.addresses.phone.to_string();
        self.join("phone", &token, &["--web", &web])?;
        in_step(self.members, &self.socket, "phone").await?;
        let keys = self.members.state("phone");
        let tunnel = StolenTunnel::open(self.scene.addresses.hub, &keys).await?;
        let began = Instant::now();
        self.done(&["revoke", "phone"]).await?;
        timeout(PATIENCE, tunnel.ended())
            .await
            .map_err(|_| "the tunnel is still open")?;
        let took = began.elapsed();
        let code = self.members.ended("phone").await?;
        Ok(format!(
            "a copy of its key had one at the hub, which ended after {}; the device itself ended with exit code {code}",
            short_time(took)
        ))
    }

    async fn controller_killed(&mut self, traffic: &Traffic) -> Result<String, String> {
        let before = traffic.counts();
        self.members.kill("controller").await?;
        sleep(AWAY).await;
        let after = traffic.counts();
        let failed = after.failed - before.failed;
        expect(failed == 0 && after.answered > before.answered, || {
            format!("{failed} requests failed: {:?}", after.reason)
        })?;
        Ok(format!(
            "kill -9; {} requests answered meanwhile, 0 failed",
            after.answered - before.answered
        ))
    }

    async fn start_from_disk(&mut self) -> Result<String, String> {
        for name in ["edge", "hub", "laptop"] {
            self.members.kill(name).await?;
        }
        let began = Instant::now();
        for name in ["edge", "hub", "laptop"] {
            self.members.start(name, &["join"])?;
        }
        self.reaches("VIDEO", 200).await?;
        Ok(format!(
            "all three killed and started without a controller: a request passes after {}",
            short_time(began.elapsed())
        ))
    }

    async fn controller_returns(&mut self) -> Result<String, String> {
        self.start_controller()?;
        let began = Instant::now();
        until(async || Ok(self.operator(&["nodes"]).await?.code == 0)).await?;
        for name in ["edge", "hub", "laptop"] {
            in_step(self.members, &self.socket, name).await?;
        }
        Ok(format!(
            "all nodes are in step after {}",
            short_time(began.elapsed())
        ))
    }

    fn start_controller(&mut self) -> Result<(), String> {
        let listen = self.scene.addresses.controller.to_string();
        let url = self.url();
        let arguments = ["controller", "--listen", &listen, "--url", &url];
        self.members.start("controller", &arguments)
    }

    fn url(&self) -> String {
        format!("https://{}", self.scene.addresses.controller)
    }

    /// The overlay as its operator has described it.
    fn overlay(&self) -> Result<String, String> {
        let video = self.scene.server("VIDEO")?;
        let database = self.scene.server("DB")?;
        Ok(resources::overlay(self.scene.addresses, video, database))
    }

    async fn operator(&self, arguments: &[&str]) -> Result<Answered, String> {
        command(self.members, &self.socket, arguments).await
    }

    async fn done(&self, arguments: &[&str]) -> Result<serde_json::Value, String> {
        done(self.members, &self.socket, arguments).await
    }

    async fn try_apply(&self, text: &str, rest: &[&str]) -> Result<Answered, String> {
        let file = self.members.state("overlay.yaml");
        std::fs::write(&file, text).says("the file of resources")?;
        let file = file.display().to_string();
        self.operator(&[&["apply", &file], rest].concat()).await
    }

    async fn apply(&self, text: &str, rest: &[&str]) -> Result<(), String> {
        let answered = self.try_apply(text, rest).await?;
        expect(answered.code == 0, || {
            format!("hermes apply: {} {}", answered.words, answered.value)
        })
    }

    async fn token(&self, whose: &[&str]) -> Result<String, String> {
        let made = self.done(&[&["token", "create"], whose].concat()).await?;
        Ok(text(&made["token"]).to_owned())
    }

    fn join(&mut self, name: &'static str, token: &str, rest: &[&str]) -> Result<(), String> {
        let url = self.url();
        let arguments = ["join", &url, "--token", token, "--name", name];
        self.members.start(name, &[&arguments, rest].concat())
    }

    async fn joined(&self, name: &str) -> Result<String, String> {
        let took = in_step(self.members, &self.socket, name).await?;
        Ok(format!("{name} {}", short_time(took)))
    }

    /// Waits until a name is answered with this status.
    async fn reaches(&self, name: &str, status: u16) -> Result<Duration, String> {
        let device = self.scene.addresses.laptop;
        until(async || Ok(ask(device, name).await == Ok(status)))
            .await
            .map_err(|reason| format!("{name} is not answered with {status}: {reason}"))
    }
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

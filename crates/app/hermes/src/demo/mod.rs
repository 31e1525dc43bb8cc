//! `hermes demo`: a small overlay on this machine, with real traffic through it.
//!
//! Four nodes are processes of their own, exactly as in real life; the origins live in this process.

mod certificates;
mod checks;
mod children;
mod evidence;
mod files;
mod http_client;
mod ip;
mod journey;
mod keep;
mod measure;
mod origins;
mod overlay;
mod place;
mod report;
mod says;

use clap::Args;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::stop::told_to_stop;

use certificates::Certificates;
use children::Children;
use evidence::Checked;
use origins::Origins;
use place::Place;

/// Arguments of `hermes demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Stay up afterwards, and print what can be tried.
    #[arg(long)]
    keep: bool,
    /// Show the overlay for IP packets instead, in networks that it makes for that: as root.
    #[arg(long)]
    ip: bool,
    /// Show an overlay with a controller instead: nodes that join, changes, and their failures.
    #[arg(long, conflicts_with = "ip")]
    overlay: bool,
}

/// Builds the overlay, sends traffic through it, and tells what happened.
///
/// # Errors
/// When a check fails, or the overlay does not start.
pub async fn run(demo: &Demo, output: Output) -> Result<(), Failure> {
    if demo.ip {
        return ip::run(demo.keep, output).await;
    }
    if demo.overlay {
        return overlay::run(demo.keep, output).await;
    }

    let scene = Scene::set().await.map_err(Failure::failed)?;
    let mut children = Children::start(&scene.place).map_err(Failure::failed)?;
    let ended = tokio::select! {
        ended = shown(demo, &scene, &mut children, output) => ended,
        () = told_to_stop() => Err(Failure::failed("stopped before it was done")),
    };

    if demo.keep && ended.is_ok() {
        told_to_stop().await;
        note("stopping");
    }

    children.stop().await;
    ended
}

/// The demo itself: when it fails, the nodes' last words follow.
async fn shown(
    demo: &Demo,
    scene: &Scene,
    children: &mut Children,
    output: Output,
) -> Result<(), Failure> {
    let played = play(scene, children, output)
        .await
        .and_then(|results| report::show(&results, output));
    match &played {
        Ok(()) if demo.keep => keep::invite(scene, output),
        Ok(()) => {}
        Err(_) => children.last_words(),
    }

    played
}

/// The surroundings of the nodes: addresses, certificates, files, origins.
struct Scene {
    place: Place,
    certificates: Certificates,
    _origins: Origins,
}

impl Scene {
    async fn set() -> Result<Self, String> {
        let certificates = Certificates::issue()?;
        let origins = Origins::start(&certificates).await?;
        let place = Place::choose(origins.addresses())?;
        files::write(&place, &certificates)?;

        Ok(Self {
            place,
            certificates,
            _origins: origins,
        })
    }
}

async fn play(
    scene: &Scene,
    children: &mut Children,
    output: Output,
) -> Result<Vec<Checked>, Failure> {
    children.ready().await.map_err(Failure::failed)?;
    if !output.json {
        note(
            "Four proxies are up on loopback: alice -> ingress -> core -> edge. Sending traffic through them.",
        );
    }

    Ok(checks::all(scene).await)
}

//! `hermes demo --ip`: packets of two users to three prefixes cross an overlay in which everything moves.
//!
//! Seven nodes are processes of their own, each in a network of its own, which end with the demo. Servers of both users have the same
//! address.

mod moves;
mod networks;
mod nodes;
mod traffic;

use std::io;

use hermes_net::machine::Feature;

use super::children::Children;
use super::report;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::stop::told_to_stop;

use networks::{LAB, Networks, VIDEO, WEB, to_ingress, to_server};
use nodes::IpNodes;
use traffic::Answering;

/// The surroundings of the nodes.
pub struct IpScene {
    networks: Networks,
    nodes: IpNodes,
    _servers: Answering,
}

/// Builds the networks and the overlay, moves it under traffic, and tells what happened.
///
/// # Errors
/// When networks or devices are not allowed, a check fails, or the overlay does not start.
pub async fn run(keep: bool, output: Output) -> Result<(), Failure> {
    let scene = IpScene::set()?;
    let mut children = scene
        .nodes
        .start(&scene.networks)
        .map_err(Failure::failed)?;
    let ended = tokio::select! {
        ended = shown(&scene, &mut children, output) => ended,
        () = told_to_stop() => Err(Failure::failed("stopped before it was done")),
    };

    if keep && ended.is_ok() {
        invite(&scene, output)?;
        told_to_stop().await;
        note("stopping");
    }
    children.stop().await;
    ended
}

impl IpScene {
    fn set() -> Result<Self, Failure> {
        let networks = Networks::lay().map_err(|error| not_allowed(&error))?;
        let device = |error: hermes_net::machine::Missing| {
            Failure::failed(format!("no TUN device can be made: {error}"))
                .remedy("hermes netcheck says more, and names the remedy")
        };
        Feature::Tun.try_out().map_err(device)?;

        let nodes = IpNodes::write().map_err(Failure::failed)?;
        let servers = serve(&networks).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Self {
            networks,
            nodes,
            _servers: servers,
        })
    }
}

/// Starts the servers, and those that answer on the networks below the overlay.
fn serve(networks: &Networks) -> io::Result<Answering> {
    let mut servers = Answering::new();
    let below = to_server("north", "one");
    servers.add(networks.of("one")?, "one", &[VIDEO, WEB, below])?;
    servers.add(networks.of("two")?, "two", &[VIDEO])?;
    servers.add(networks.of("three")?, "three", &[VIDEO, LAB])?;
    let at_north = to_ingress("alice", "north");
    servers.add(networks.of("north")?, "north", &[at_north])?;
    Ok(servers)
}

fn not_allowed(error: &io::Error) -> Failure {
    let reason =
        format!("the demo of IP packets makes networks of its own, which takes root: {error}");
    let failure = Failure::failed(reason);
    match error.kind() {
        io::ErrorKind::PermissionDenied => failure.remedy("sudo hermes demo --ip"),
        io::ErrorKind::Unsupported => failure.remedy("it runs on Linux only"),
        _ => failure,
    }
}

async fn shown(scene: &IpScene, children: &mut Children, output: Output) -> Result<(), Failure> {
    let played = play(scene, children, output).await;
    if played.is_err() {
        children.last_words();
    }
    played
}

async fn play(scene: &IpScene, children: &mut Children, output: Output) -> Result<(), Failure> {
    children.ready().await.map_err(Failure::failed)?;
    if !output.json {
        note(
            "Seven nodes are up, each in a network of its own: alice and bob, the ingresses north and south, the servers one, two and three.",
        );
    }

    let results = moves::all(scene).await;
    report::show(&results, output)
}

/// Prints commands to try while it stays up.
fn invite(scene: &IpScene, output: Output) -> Result<(), Failure> {
    let network = |node| scene.networks.of(node).map(|network| network.path());
    let network = |node| network(node).map_err(|error| Failure::failed(error.to_string()));
    let file = scene.nodes.file("north");
    let socket = |node| scene.nodes.socket(node);
    let text = format!(
        "\nThe overlay stays up until Ctrl-C. To try, in another terminal, as root:\n\n  # Bob's echoes\n  nsenter --net={} ping {VIDEO}\n\
         \n  # who answers Alice\n  nsenter --net={} nc {VIDEO} {}\n\n  # Alice's device and its tunnels\n  hermes status --admin {}\n\
         \n  # another server for Bob: change the route, and apply it\n  vi {}; hermes reload --admin {}",
        network("bob")?,
        network("alice")?,
        traffic::PORT,
        socket("alice").display(),
        file.display(),
        socket("north").display(),
    );
    match output.json {
        true => note(text),
        false => output.line(text),
    }
    Ok(())
}

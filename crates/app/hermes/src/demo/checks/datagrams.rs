//! A program that knows no proxy sends datagrams to a UDP port.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::demo::Scene;
use crate::demo::evidence::{Evidence, Latency};
use crate::demo::journey;
use crate::demo::measure::median_of;
use crate::demo::says::{Says, expect};

/// Larger than any packet of an Ethernet, jumbo frames included.
const LARGE: usize = 9000;

/// Longest wait for one datagram; on loopback none is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has a small datagram and a large one echoed.
pub async fn check(scene: &Scene) -> Result<Evidence, String> {
    let overlay = open(scene.place.address("ALICE_ECHO")).await?;
    echo(&overlay, b"hello").await?;
    let journey = journey::follow(&scene.place, "ECHO:7000").await?;
    journey::expect_all_nodes(&journey.hops)?;

    // Not all bytes alike, so that a part in the wrong place shows.
    let large: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    echo(&overlay, &large).await?;
    let direct = open(scene.place.address("ECHO")).await?;
    let latency = Latency {
        overlay: median_of(async || echo(&overlay, b"ping").await).await?,
        direct: median_of(async || echo(&direct, b"ping").await).await?,
    };

    let proof = format!("one of {LARGE} bytes came back whole");
    Ok(Evidence {
        journey,
        proof,
        latency: Some(latency),
    })
}

async fn open(address: SocketAddr) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .says("a UDP socket")?;
    socket.connect(address).await.says(address)?;
    Ok(socket)
}

async fn echo(socket: &UdpSocket, datagram: &[u8]) -> Result<(), String> {
    socket.send(datagram).await.says("sending a datagram")?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let received = timeout(PATIENCE, socket.recv(&mut buffer)).await;
    let length = received
        .says(format_args!("a datagram of {} bytes", datagram.len()))?
        .says("receiving a datagram")?;

    expect(&buffer[..length] == datagram, || {
        format!(
            "{} bytes were sent, {length} others came back",
            datagram.len()
        )
    })
}

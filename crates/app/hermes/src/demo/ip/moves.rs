//! The demo of IP packets: slices, and moves under traffic.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::IpScene;
use super::networks::{INGRESSES, LAB, USERS, VIDEO, WEB, to_ingress, to_server};
use super::traffic::{Answers, NumberFlow, Questions};
use crate::demo::evidence::{Checked, Evidence, Journey, Latency};
use crate::demo::says::{Says, expect};
use crate::table;

/// Time for one of them.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often something that is to come is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Traffic before and after a move.
const AROUND: Duration = Duration::from_millis(500);

/// Every check, one after the other.
pub async fn all(scene: &IpScene) -> Vec<Checked> {
    vec![
        check("two users, one address, two servers", slices(scene)).await,
        check("the ingress of both users changes", other_ingress(scene)).await,
        check("Bob's server changes: one route", other_server(scene)).await,
        check("why, and when", told(scene)).await,
    ]
}

async fn check(what: &'static str, run: impl Future<Output = Result<Evidence, String>>) -> Checked {
    let late = || Err(format!("not done after {} s", PATIENCE.as_secs()));
    let outcome = timeout(PATIENCE, run).await.unwrap_or_else(|_| late());
    Checked { what, outcome }
}

fn evidence(hops: &[&str], proof: String, latency: Option<Latency>) -> Evidence {
    let journey = Journey {
        hops: hops.iter().map(|hop| (*hop).to_owned()).collect(),
        fields: Vec::new(),
    };
    Evidence {
        journey,
        proof,
        latency,
    }
}

/// Waits until this is so; how long that took.
async fn until(mut holds: impl AsyncFnMut() -> Result<bool, String>) -> Result<Duration, String> {
    let began = Instant::now();
    while !holds().await? {
        sleep(LOOK).await;
    }
    Ok(began.elapsed())
}

/// Who answers a user at the address that both have.
async fn who(scene: &IpScene, user: &str) -> Result<String, String> {
    let flow = NumberFlow::begin(scene.networks.of(user).says(user)?, VIDEO).await?;
    let server = flow.server.clone();
    flow.end().await?;
    Ok(server)
}

async fn slices(scene: &IpScene) -> Result<Evidence, String> {
    // Their tunnels are opened meanwhile.
    for user in USERS {
        until(async || Ok(who(scene, user).await.is_ok())).await?;
    }
    let of_alice = who(scene, "alice").await?;
    let of_bob = who(scene, "bob").await?;
    expect(of_alice == "one" && of_bob == "two", || {
        format!("{of_alice} answers alice, and {of_bob} answers bob")
    })?;

    let alice = scene.networks.of("alice").says("alice")?;
    let north = scene.networks.of("north").says("north")?;
    let overlay = Questions::few(alice, VIDEO).await?;
    let first = Questions::few(alice, to_ingress("alice", "north")).await?;
    let second = Questions::few(north, to_server("north", "one")).await?;
    let latency = Latency {
        overlay: overlay.median,
        direct: first.median + second.median,
    };
    let proof = format!("{VIDEO} is {of_alice} for alice, and {of_bob} for bob");
    Ok(evidence(&["alice", "north", "one"], proof, Some(latency)))
}

/// The traffic during a move.
struct UserTraffic {
    questions: [Questions; 2],
    flows: [NumberFlow; 3],
}

/// Its result.
struct Outcome {
    of_alice: Answers,
    of_bob: Answers,
    numbers: u32,
}

impl UserTraffic {
    async fn begin(scene: &IpScene) -> Result<Self, String> {
        let alice = scene.networks.of("alice").says("alice")?;
        let bob = scene.networks.of("bob").says("bob")?;
        let flows = [
            NumberFlow::begin(alice, VIDEO).await?,
            NumberFlow::begin(bob, WEB).await?,
            NumberFlow::begin(bob, LAB).await?,
        ];
        let questions = [
            Questions::begin(alice, VIDEO)?,
            Questions::begin(bob, VIDEO)?,
        ];
        sleep(AROUND).await;
        Ok(Self { questions, flows })
    }

    async fn end(self) -> Result<Outcome, String> {
        sleep(AROUND).await;
        let [of_alice, of_bob] = self.questions;
        let of_alice = of_alice.end().await?;
        let of_bob = of_bob.end().await?;
        let mut numbers = 0;
        for flow in self.flows {
            numbers += flow.end().await?;
        }
        Ok(Outcome {
            of_alice,
            of_bob,
            numbers,
        })
    }
}

impl Outcome {
    fn lost(&self) -> usize {
        self.of_alice.lost + self.of_bob.lost
    }

    fn says(&self) -> String {
        let asked = self.of_alice.asked + self.of_bob.asked;
        format!(
            "of {asked} questions, one every 10 ms for each user, {} were lost; 3 connections went on, with {} numbers in order",
            self.lost(),
            self.numbers
        )
    }
}

async fn other_ingress(scene: &IpScene) -> Result<Evidence, String> {
    let traffic = UserTraffic::begin(scene).await?;
    let [_, to] = INGRESSES;
    let began = Instant::now();
    for user in USERS {
        scene.nodes.enter_at(user, to).await?;
    }
    // Three tunnels of each.
    until(async || Ok(scene.nodes.tunnels(to).await? == 6)).await?;
    let took = table::short_time(began.elapsed());

    let outcome = traffic.end().await?;
    expect(outcome.lost() == 0, || outcome.says())?;
    let proof = format!("6 tunnels moved in {took}; {}", outcome.says());
    Ok(evidence(
        &["alice, bob", to, "one, two, three"],
        proof,
        None,
    ))
}

async fn other_server(scene: &IpScene) -> Result<Evidence, String> {
    let bob = scene.networks.of("bob").says("bob")?;
    let open = NumberFlow::begin(bob, VIDEO).await?;
    let traffic = UserTraffic::begin(scene).await?;
    let began = Instant::now();
    scene.nodes.send_bob_to("south", "three").await?;
    until(async || Ok(who(scene, "bob").await? == "three")).await?;
    let took = table::short_time(began.elapsed());

    let outcome = traffic.end().await?;
    let stayed = open.server.clone();
    let numbers = open.end().await?;
    let by = outcome.of_bob.by.join(", then ");
    expect(
        outcome.of_alice.by == ["one"] && by == "two, then three",
        || {
            format!(
                "alice is answered by {:?}, and bob by {by}",
                outcome.of_alice.by
            )
        },
    )?;
    // Packets on their way to the old one.
    expect(outcome.lost() <= 1, || outcome.says())?;
    let proof = format!(
        "bob is answered by {by}, after {took}; {}; a connection of before stays with {stayed}, {numbers} more numbers",
        outcome.says()
    );
    Ok(evidence(&["bob", "south", "three"], proof, None))
}

/// The nodes' own account of it.
async fn told(scene: &IpScene) -> Result<Evidence, String> {
    let status = scene.nodes.ask("alice", "/status").await?;
    let tunnel = &status["devices"][0]["split"][0];
    let text = |name: &str| tunnel["moved"][name].as_str();
    let (time, why) = text("time")
        .zip(text("why"))
        .ok_or_else(|| format!("alice does not say that a tunnel moved: {tunnel}"))?;
    let name = tunnel["tunnel"].as_str().unwrap_or_default();
    let proof = format!("hermes status of alice: the tunnel {name} moved at {time}: {why}");
    Ok(evidence(&["alice"], proof, None))
}

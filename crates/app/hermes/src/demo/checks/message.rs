//! A request for a name that no DNS knows.

use serde_json::Value;

use crate::demo::Scene;
use crate::demo::evidence::{Evidence, Journey, Latency};
use crate::demo::http_client::Client;
use crate::demo::journey;
use crate::demo::measure::median_of;
use crate::demo::says::expect;

/// Fields that the overlay may add; the client sends none of them.
const OVERLAY: [&str; 4] = ["user", "service", "namespace", "ipaddress"];

/// Asks VIDEO through Alice's proxy; VIDEO tells what it saw.
pub async fn check(scene: &Scene) -> Result<Evidence, String> {
    let mut client = Client::dial(scene.place.address("ALICE_WEB")).await?;
    let answer = client
        .get("VIDEO", "http://VIDEO/hello?from=alice", &[])
        .await?;
    let seen = answer.seen()?;
    expect(seen["uri"] == "/hello?from=alice", || {
        format!("VIDEO was asked for {}", seen["uri"])
    })?;
    let journey = journey_of(&seen);
    journey::expect_all_nodes(&journey.hops)?;
    expect(seen["fields"]["user"] == "alice", || {
        format!("VIDEO saw the user {}", seen["fields"]["user"])
    })?;
    let proof = format!("{}, {} bytes", answer.status, answer.content.len());

    Ok(Evidence {
        journey,
        proof,
        latency: Some(latency(scene, client).await?),
    })
}

/// The way of a request, as its origin saw it.
pub fn journey_of(seen: &Value) -> Journey {
    let field = |name: &str| seen["fields"][name].as_str();
    let mut hops = journey::via(field("via").unwrap_or_default());
    hops.extend(seen["origin"].as_str().map(str::to_owned));
    let fields = OVERLAY
        .iter()
        .filter_map(|name| Some(format!("{name}: {}", field(name)?)))
        .collect();

    Journey { hops, fields }
}

async fn latency(scene: &Scene, mut client: Client) -> Result<Latency, String> {
    let overlay = median_of(async || {
        client
            .get("VIDEO", "http://VIDEO/hello", &[])
            .await?
            .seen()
            .map(drop)
    })
    .await?;

    let mut client = Client::dial(scene.place.address("VIDEO")).await?;
    let direct =
        median_of(async || client.get("VIDEO", "/hello", &[]).await?.seen().map(drop)).await?;
    Ok(Latency { overlay, direct })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_origins_answer_tells_the_way() {
        let fields = json!({"via": "1.1 alice, 2 edge", "user": "alice", "accept": "*/*"});
        let journey = journey_of(&json!({"origin": "VIDEO", "fields": fields}));
        assert_eq!(journey.hops, ["alice", "edge", "VIDEO"]);
        assert_eq!(journey.fields, ["user: alice"]);
    }
}

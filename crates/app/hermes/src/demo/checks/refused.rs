//! Requests that the overlay refuses.

use crate::demo::Scene;
use crate::demo::evidence::{Evidence, Journey};
use crate::demo::http_client::Client;
use crate::demo::journey;
use crate::demo::says::expect;

use super::message::journey_of;

/// A client says that it is someone else; the origin sees who it is.
pub async fn forged_user(scene: &Scene) -> Result<Evidence, String> {
    let mut client = Client::dial(scene.place.address("ALICE_WEB")).await?;
    let forged = [("user", "mallory"), ("service", "gold")];
    let seen = client
        .get("VIDEO", "http://VIDEO/forged", &forged)
        .await?
        .seen()?;
    let field = |name: &str| seen["fields"][name].as_str().unwrap_or_default().to_owned();
    let user = field("user");
    let service = field("service");
    expect(user == "alice", || format!("VIDEO saw the user {user:?}"))?;
    expect(service == "video", || {
        format!("VIDEO saw the service {service:?}")
    })?;
    let proof = format!("sent as mallory, arrived as {user}");

    Ok(Evidence {
        journey: journey_of(&seen),
        proof,
        latency: None,
    })
}

/// A name that no route knows is refused, and the answer says where and why.
pub async fn unknown_name(scene: &Scene) -> Result<Evidence, String> {
    let mut client = Client::dial(scene.place.address("ALICE_WEB")).await?;
    let answer = client.get("NOWHERE", "http://NOWHERE/", &[]).await?;
    let refused = answer.status.is_client_error() || answer.status.is_server_error();
    expect(refused, || {
        format!("it was answered with {}", answer.status)
    })?;
    let status = answer.field("proxy-status");
    let by = refuser(&status);
    expect(by == "core", || {
        format!("Proxy-Status is {status:?}, and not from core")
    })?;
    let mut hops = journey::via(&answer.field("via"));
    hops.reverse();
    hops.retain(|hop| hop != by);
    hops.push(format!("{by} (refused)"));
    let proof = format!("{}; {}", answer.status, first_member(&status));

    Ok(Evidence {
        journey: Journey {
            hops,
            fields: Vec::new(),
        },
        proof,
        latency: None,
    })
}

/// The proxy that made the response: the first of the list is the nearest to the origin (RFC 9209, 2).
fn refuser(status: &str) -> &str {
    first_member(status)
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .trim_matches('"')
}

/// The first member of a list whose strings may contain commas (RFC 9651, 3.1).
fn first_member(list: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    let end = list.find(|letter| {
        let ends = letter == ',' && !quoted;
        quoted ^= letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });

    list[..end.unwrap_or(list.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_member_of_proxy_status_made_the_response() {
        let status = r#"core; error=destination_not_found; details="no, \"none\", at all", ingress; received-status=502"#;
        assert_eq!(refuser(status), "core");
        assert_eq!(
            first_member(status),
            r#"core; error=destination_not_found; details="no, \"none\", at all""#
        );
        assert_eq!(refuser(r#""edge one";error=x"#), "edge one");
        assert_eq!(refuser(""), "");
    }
}

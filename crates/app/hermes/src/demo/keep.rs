//! Commands to try while the demo stays up.

use std::fmt::Write;
use std::path::Path;

use crate::output::{Output, note};

use super::Scene;
use super::place::Place;

/// Prints it; beside the report where a script reads that.
pub fn invite(scene: &Scene, output: Output) {
    let program = std::env::current_exe().unwrap_or_else(|_| "hermes".into());
    let text = text(&scene.place, &program);
    if output.json {
        note(text)
    } else {
        output.line(text)
    }
}

fn text(place: &Place, program: &Path) -> String {
    let address = |name: &str| place.address(name).to_string();
    let port = |name: &str| place.address(name).port();
    let web = address("ALICE_WEB");
    let hermes = program.display();
    let file = |name: &str| place.file(name).display().to_string();

    let lines = [
        (
            "a name that no DNS knows",
            format!("curl -x http://{web} http://VIDEO/hello"),
        ),
        (
            "TLS that no proxy opens",
            format!(
                "curl -x http://{web} --cacert {} https://SECURE/hello",
                file("ca.pem")
            ),
        ),
        (
            "a forged user is not believed",
            format!("curl -x http://{web} -H 'user: mallory' http://VIDEO/hello"),
        ),
        (
            "a name that no route knows",
            format!("curl -x http://{web} -i http://NOWHERE/"),
        ),
        (
            "TCP, the server speaks first",
            format!("nc 127.0.0.1 {}", port("ALICE_DB")),
        ),
        ("UDP", format!("nc -u 127.0.0.1 {}", port("ALICE_ECHO"))),
        ("the ingress turns strangers away", stranger(place)),
        (
            "a shell that uses Alice's proxy",
            format!("eval \"$({hermes} env --admin {})\"", file("alice.sock")),
        ),
        (
            "what a node is",
            format!("{hermes} status --admin {}", file("core.sock")),
        ),
        (
            "what it carries, live",
            format!("{hermes} exchanges --admin {}", file("edge.sock")),
        ),
        (
            "what all four are busy with",
            tops(place, &hermes.to_string()),
        ),
        (
            "what it has carried",
            format!("tail -f {}", file("edge.access.json")),
        ),
        (
            "how it is configured",
            format!("less {}", file("core.yaml")),
        ),
    ];

    let mut text = "\nThe overlay stays up until Ctrl-C. To try, in another terminal:\n".to_owned();
    for (what, line) in lines {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  # {what}\n  {line}\n");
    }

    text
}

/// One view of all nodes.
fn tops(place: &Place, hermes: &str) -> String {
    let sockets =
        ["alice", "ingress", "core", "edge"].map(|name| place.admin(name).display().to_string());
    format!("{hermes} top {}", sockets.join(" "))
}

/// A client of the ingress that has no certificate to show.
fn stranger(place: &Place) -> String {
    let ingress = place.address("INGRESS");
    let authority = place.file("ca.pem");
    let authority = authority.display();
    let name = "ingress.overlay";
    let address = ingress.ip();
    let port = ingress.port();

    format!(
        "curl --resolve {name}:{port}:{address} --proxy-cacert {authority} -x https://{name}:{port} http://VIDEO/hello"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn lines_to_try_have_real_addresses_and_files() {
        let place = Place::choose(&[("VIDEO", SocketAddr::from(([127, 0, 0, 1], 7)))]).unwrap();
        let text = text(&place, Path::new("/bin/hermes"));
        assert!(
            text.contains(&format!(
                "curl -x http://{} http://VIDEO/hello",
                place.address("ALICE_WEB")
            )),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "/bin/hermes status --admin {}",
                place.admin("core").display()
            )),
            "{text}"
        );
    }
}

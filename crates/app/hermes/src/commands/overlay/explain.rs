//! `hermes why --overlay NAME --user USER`: the way of an exchange through the overlay, and the resources that decide about it.

use clap::Args;
use hermes_api::Name;
use hermes_control::service::{HopTaken, Inquiry, WayTaken};
use http::Uri;

use super::ask::ControllerSocket;
use crate::admin;
use crate::failure::Failure;
use crate::output::{Colour, Output};

/// A question about an overlay, and not about one node.
#[derive(Debug, Args)]
pub struct OfOverlay {
    /// Follow an exchange of --user through the overlay: NAME, NAME:PORT, a URL, or a method and a URL.
    #[arg(long, requires = "user", conflicts_with_all = ["admin", "node", "all", "ask", "peer", "listener", "fields"])]
    pub overlay: bool,
    /// The node where it enters. Default: each where devices enter.
    #[arg(long, value_name = "NODE", requires = "overlay")]
    from: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Prints the way of an exchange, node by node, with resource, field, file and line of each decision.
///
/// # Errors
/// With exit code 2 if the question is none, with 3 if the controller cannot be reached, with 1 if the exchange is refused.
pub async fn run(
    asked: &OfOverlay,
    words: &[String],
    user: &str,
    output: Output,
) -> Result<(), Failure> {
    let inquiry = Inquiry {
        user: user.to_owned(),
        from: asked.from.clone(),
        ..inquiry(words)?
    };
    let answer = asked.controller.post("/why", &inquiry).await?;
    let ways: Vec<WayTaken> = admin::typed(answer)?;
    if output.json {
        output.value(&ways);
    } else {
        show(&ways, &inquiry, output);
    }
    match ways.iter().any(|way| !way.reaches.is_empty()) {
        true => Ok(()),
        false => Err(Failure::told(1)),
    }
}

/// The exchange that these words ask for, of no user yet.
///
/// # Errors
/// They name none.
pub(super) fn inquiry(words: &[String]) -> Result<Inquiry, Failure> {
    let (method, target) = match words {
        [target] => (None, target),
        [method, target] => (Some(method.to_ascii_uppercase()), target),
        _ => {
            return Err(Failure::invalid("name what the user asks for")
                .remedy("hermes why --overlay VIDEO --user alice"));
        }
    };
    let uri: Uri = target
        .parse()
        .map_err(|error| Failure::invalid(format!("{target}: {error}")))?;
    let host = uri.host().unwrap_or(target).to_owned();
    // A URL with another scheme, and a port alone, are asked for by CONNECT.
    let (default, port) = match (uri.scheme_str(), uri.port_u16()) {
        (Some("http"), port) => ("GET", port.unwrap_or(80)),
        (Some(_), port) => ("CONNECT", port.unwrap_or(443)),
        (None, Some(port)) => ("CONNECT", port),
        (None, None) => ("GET", 80),
    };
    Ok(Inquiry {
        user: String::new(),
        host,
        port,
        method: method.unwrap_or_else(|| default.to_owned()),
        path: match uri.path() {
            "" => "/".to_owned(),
            path if uri.scheme().is_some() => path.to_owned(),
            _ => "/".to_owned(),
        },
        from: None,
    })
}

fn show(ways: &[WayTaken], inquiry: &Inquiry, output: Output) {
    if ways.is_empty() {
        output.line("devices enter the overlay nowhere: no node has `ingress: true`");
    }
    for way in ways {
        let user = &inquiry.user;
        let target = format!("{}:{}", inquiry.host, inquiry.port);
        let method = &inquiry.method;
        let line = match way.reaches.as_slice() {
            [] => output.paint(
                Colour::Bad,
                &format!("{user} is refused: {method} {target} from {}", way.from),
            ),
            services => output.paint(
                Colour::Good,
                &format!(
                    "{user} reaches {}: {method} {target} from {}",
                    services.join(", "),
                    way.from
                ),
            ),
        };
        output.line(line);
        for hop in &way.hops {
            show_hop(hop, output);
        }
    }
}

fn show_hop(hop: &HopTaken, output: Output) {
    let indent = "  ".repeat(hop.depth + 1);
    output.line(format_args!("{indent}{}: {}", hop.node, hop.said));
    for step in &hop.steps {
        let mut line = format!("{indent}  {}", step.said);
        if let Some(resource) = &step.resource {
            line += &format!("  <- {resource}");
            if let Some(field) = step.field.as_ref().filter(|field| !field.is_empty()) {
                line += &format!(" {field}");
            }
        }
        if let Some(place) = &step.place {
            line += &format!(" ({place})");
        }
        output.line(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_names_names_with_ports_and_urls() {
        let asked = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let asked = inquiry(&words).unwrap();
            format!(
                "{} {} {} {}",
                asked.method, asked.host, asked.port, asked.path
            )
        };
        assert_eq!(asked(&["VIDEO"]), "GET VIDEO 80 /");
        assert_eq!(asked(&["DB:5432"]), "CONNECT DB 5432 /");
        assert_eq!(asked(&["http://VIDEO:81/a?b"]), "GET VIDEO 81 /a");
        assert_eq!(asked(&["https://VIDEO/a"]), "CONNECT VIDEO 443 /a");
        assert_eq!(asked(&["put", "http://VIDEO/a"]), "PUT VIDEO 80 /a");
        assert!(inquiry(&[]).is_err());
    }
}

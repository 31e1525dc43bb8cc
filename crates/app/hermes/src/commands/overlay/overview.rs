//! The overlay at a glance, and the certificates of its members.

use clap::Args;
use hermes_control::authority::CertificateView;
use hermes_control::service::{Overview, Spreading};

use super::ask::ControllerSocket;
use super::look::time;
use crate::admin;
use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table::{NOTHING, plain};

/// Shows the state of the overlay once.
///
/// # Errors
/// The controller cannot be reached.
pub async fn status(controller: &ControllerSocket, output: Output) -> Result<(), Failure> {
    let answer = controller.get("/status").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let overview: Overview = admin::typed(answer)?;
    output.line(format_args!(
        "overlay {}, revision {}: {}",
        overview.overlay,
        overview.revision,
        condition(&overview)
    ));
    output.line(format_args!("{} in step", overview.in_step));
    if overview.agreed > 0 {
        output.line(format_args!(
            "{} channels have a relay by a rendezvous",
            overview.agreed
        ));
    }
    for node in &overview.others {
        let state = match (node.attends, node.reason.as_str()) {
            (false, _) if node.since == 0 => "away".to_owned(),
            (false, _) => format!("away since {}", time(node.since)),
            (true, "") => node.state.clone(),
            (true, reason) => format!("{}: {reason}", node.state),
        };
        output.line(output.paint(Colour::Bad, &format!("{}: {state}", node.node)));
    }
    for ending in &overview.ending {
        output.line(output.paint(
            Colour::Bad,
            &format!(
                "{}: its certificate ends at {}",
                ending.node,
                time(ending.expires)
            ),
        ));
    }
    for peering in &overview.due {
        let told = format!(
            "peering {}: its authorities are to be taken anew: ask its operator for `hermes peering export`",
            peering.name
        );
        output.line(output.paint(Colour::Bad, &told));
    }
    Ok(())
}

fn condition(overview: &Overview) -> String {
    match (&overview.spreading, overview.unconfirmed) {
        (Some(spreading), _) => words(spreading),
        (None, true) => "it returns unless you say: hermes confirm --overlay".to_owned(),
        (None, false) => "in force".to_owned(),
    }
}

/// How far a change has spread, in one line.
pub(super) fn words(spreading: &Spreading) -> String {
    let Spreading {
        stage,
        stages,
        wave,
        waves,
        ..
    } = spreading;
    let has = spreading
        .nodes
        .len()
        .saturating_sub(spreading.waiting.len());
    let of = spreading.nodes.len();
    let canary = if *wave == 1 { " (canary)" } else { "" };
    let waiting = match spreading.waiting.as_slice() {
        [] => String::new(),
        [first] => format!(", waits for {first}"),
        [first, rest @ ..] => format!(", waits for {first} and {} more", rest.len()),
    };
    format!("stage {stage} of {stages}, wave {wave} of {waves}{canary}: {has} of {of}{waiting}")
}

/// Arguments of `hermes certs`.
#[derive(Debug, Args)]
pub struct Certs {
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Lists the newest certificate of each member.
///
/// # Errors
/// The controller cannot be reached.
pub async fn certs(certs: &Certs, output: Output) -> Result<(), Failure> {
    let answer = certs.controller.get("/certs").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let views: Vec<CertificateView> = admin::typed(answer)?;
    let mut table = plain(&[
        "NODE", "USER", "SERIAL", "JOINED", "ISSUED", "EXPIRES", "RENEWED", "REVOKED",
    ]);
    for view in views {
        table.add_row([
            view.node.to_string(),
            view.user
                .map_or_else(|| NOTHING.to_owned(), |user| user.to_string()),
            view.serial,
            time(view.joined),
            time(view.issued),
            time(view.expires),
            if view.renewed { "yes" } else { "no" }.to_owned(),
            view.revoked.map_or_else(|| NOTHING.to_owned(), time),
        ]);
    }
    output.line(table.trim_fmt());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_spreads_is_one_line() {
        let name = |name: &str| name.parse().unwrap();
        let spreading = Spreading {
            stage: 1,
            stages: 2,
            wave: 1,
            waves: 3,
            nodes: vec![name("hub"), name("edge")],
            waiting: vec![name("edge")],
        };
        assert_eq!(
            words(&spreading),
            "stage 1 of 2, wave 1 of 3 (canary): 1 of 2, waits for edge"
        );
    }
}

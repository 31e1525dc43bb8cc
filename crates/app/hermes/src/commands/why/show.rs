//! An account for people.

use hermes_admit::refusals::account::{Account, Happened};

use crate::output::{Colour, Output};
use crate::table::wrapped;

/// Columns before the text of a step.
const INDENT: usize = 12;

/// Prints an account: each step, and its result.
pub fn show(account: &Account, output: Output) {
    let Account {
        question,
        node,
        listener,
        ..
    } = account;
    let at = node
        .as_ref()
        .map_or_else(String::new, |node| format!(" of {node}"));
    match listener.as_str() {
        "" => output.line(format_args!("{question}{at}")),
        listener => output.line(format_args!("{question} at listener {listener}{at}")),
    }

    if let Some(happened) = &account.happened {
        circumstances(happened, output);
    }
    for step in &account.steps {
        let place = step.place.as_deref();
        let place = place.map_or_else(String::new, |place| format!(", {place}"));
        let text = format!("{} ({}{place})", step.said, step.path);
        paragraph(&step.phase, &text, output);
    }

    if let Some(why) = &account.without_lines {
        paragraph("no lines", why, output);
    }
    outcome(account, output);
}

/// When it was, from where, and how the rules have changed since.
fn circumstances(happened: &Happened, output: Output) {
    let Happened {
        refusal,
        time,
        source,
        revision,
        revision_now,
        ..
    } = happened;
    paragraph("refused", &format!("as {refusal} at {time}"), output);
    paragraph("from", source, output);

    if revision != revision_now {
        let text = format!(
            "by revision {revision}; explained by revision {revision_now}, which is in force now"
        );
        paragraph("decided", &text, output);
    }
    if let Some(later) = &happened.refused_by {
        let name = later.refusal.as_deref();
        let name = name.map_or_else(String::new, |name| format!(", as {name}"));
        paragraph(
            "by",
            &format!("the later node {}{name}", later.node),
            output,
        );
    }
}

fn outcome(account: &Account, output: Output) {
    if let Some(egress) = &account.egress {
        if account.allowed {
            paragraph("egress", egress, output);
        } else {
            let denied = output.paint(Colour::Bad, "denied:");
            paragraph("egress", &format!("{denied} {egress}"), output);
            return;
        }
    }

    let status = account.status;
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    match (&account.refused, &account.route) {
        (Some(reason), _) => {
            let text = format!("{reason}{status}");
            paragraph("so", &output.paint(Colour::Bad, &text), output);
        }
        (None, None) => paragraph("so", &output.paint(Colour::Good, "allowed"), output),
        (None, Some(route)) => {
            let user = account.user.as_deref().unwrap_or("no user");
            let text = format!("route {route}, as {user}{status}");
            paragraph("so", &output.paint(Colour::Good, &text), output);
        }
    }
}

/// A word and its text, in the width of the terminal.
fn paragraph(word: &str, text: &str, output: Output) {
    let lines = wrapped(text, INDENT, output.width().unwrap_or(usize::MAX));
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        let word = if number == 0 { word } else { "" };
        output.line(format_args!("  {word:<10}{line}"));
    }
}

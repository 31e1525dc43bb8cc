//! Checks of the URI templates of listeners and upstreams.

use hermes_config::model::{Document, OneOrMany};
use hermes_proto::uri_template::{TemplateMistake, UriTemplate};

use super::report::{Check, Report, each_listener, each_upstream};

pub(super) const CHECKS: &[Check] = &[listeners, upstreams];

fn listeners(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(templates) = listener.http().and_then(|http| http.templates.as_ref()) else {
            return;
        };
        served(
            &format!("{path}.templates.udp"),
            templates.udp.as_ref(),
            report,
        );
        served(
            &format!("{path}.templates.tcp"),
            templates.tcp.as_ref(),
            report,
        );
    });
}

/// The templates of a listener: the target of a tunnel must be unambiguous.
fn served(path: &str, templates: Option<&OneOrMany<String>>, report: &mut Report) {
    let mut known: Vec<UriTemplate> = Vec::new();
    for (index, text) in templates.into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(template) = parse(&path, text, report) else {
            continue;
        };

        if template.origin().is_some() {
            let reason = "the template of a listener is a path: its host is whatever leads here";
            report.add(path, reason, format!("write `{}`", template.path()));
        } else if template.is_ambiguous() {
            let reason = format!("in `{text}` it is not certain where a value ends");
            report.add(
                path,
                reason,
                "put a character such as `/` after each variable that something follows",
            );
        } else if let Some(first) = known.iter().position(|known| *known == template) {
            report.add(
                path,
                format!("it is the same as the one at [{first}]"),
                "remove one",
            );
        } else {
            known.push(template);
        }
    }
}

fn upstreams(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(templates) = &upstream.templates else {
            return;
        };
        for (key, text) in [("udp", &templates.udp), ("tcp", &templates.tcp)] {
            text.iter()
                .for_each(|text| drop(parse(&format!("{path}.templates.{key}"), text, report)));
        }
    });
}

fn parse(path: &str, text: &str, report: &mut Report) -> Option<UriTemplate> {
    let refuse = |mistake: TemplateMistake| report.add(path, mistake.to_string(), mistake.remedy());
    UriTemplate::parse(text).map_err(refuse).ok()
}

//! TLS contexts of both sides.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::extension::{DataSource, data_source};
use crate::discovered::Discovered;
use crate::draft::Draft;
use crate::new_file::{NewFile, NewFileContent};
use crate::source::Node;

/// Keys that say nothing that needs to be told here.
const SILENT: &[&str] = &["@type", "alpn_protocols"];

/// TLS of a listener.
pub(super) struct Downstream {
    pub(super) tls: Json,
    /// Clients have to show a certificate.
    pub(super) is_mutual: bool,
    /// Envoy would refuse some clients that this listener takes; the line where it says so.
    pub(super) refuses_more: Option<u32>,
}

/// The context of a listener; `None` where it has no certificate, which is told of.
pub(super) fn downstream(context: &Node, subject: &str, draft: &mut Draft) -> Option<Downstream> {
    context.skip(&["@type", "session_ticket_keys", "ocsp_staple_policy"]);
    let is_mutual = context.flag("require_client_certificate");
    let shared = context.field("common_tls_context")?;
    shared.skip(SILENT);
    let Some(mut tls) = certificate(shared, subject, draft) else {
        let reason = "it has no certificate in a file or in the bootstrap; the listener would not be the same without TLS";
        draft.left_out(context.line, subject.to_owned(), reason);
        return None;
    };

    let found = Rc::clone(&draft.discovered);
    let mut refuses_more = None;
    for validation in validations(shared, &found, subject, draft) {
        if let Some(ca) = file_of(
            validation,
            "trusted_ca",
            &format!("{subject} ca.pem"),
            draft,
        ) {
            tls["client_ca_file"] = json!(ca);
        }
        if let Some(crl) = file_of(validation, "crl", &format!("{subject} crl.pem"), draft) {
            tls["crl_file"] = json!(crl);
        }
        refuses_more = refuses_more.or(narrower(validation));
    }
    if let Some(line) = refuses_more {
        let reason = "clients are not chosen by the names in their certificates; `match: { user: .. }` of routes or of the policy can";
        draft.left_out(line, subject.to_owned(), reason);
    }
    Some(Downstream {
        tls,
        is_mutual,
        refuses_more,
    })
}

/// The context of a cluster.
pub(super) fn upstream(context: &Node, subject: &str, draft: &mut Draft) -> Json {
    context.skip(&["@type", "max_session_keys", "allow_renegotiation"]);
    let mut tls = json!({});
    if let Some(sni) = context.text("sni") {
        tls["server_name"] = json!(sni);
    }
    let Some(shared) = context.field("common_tls_context") else {
        return verified(tls, context.line, subject, draft);
    };
    shared.skip(SILENT);
    if let Some(Json::Object(own)) = certificate(shared, subject, draft) {
        for (key, value) in own {
            tls[key] = value;
        }
    }

    let found = Rc::clone(&draft.discovered);
    let validations = validations(shared, &found, subject, draft);
    if validations.is_empty() {
        return verified(tls, context.line, subject, draft);
    }
    for validation in validations {
        validate(validation, &mut tls, subject, draft);
    }
    whole(tls)
}

/// Which certificates of servers are believed.
fn validate(validation: &Node, tls: &mut Json, subject: &str, draft: &mut Draft) {
    let ca = format!("{subject} ca.pem");
    if let Some(ca) = file_of(validation, "trusted_ca", &ca, draft) {
        tls["ca_file"] = json!(ca);
    }
    if let Some(name) = exact_name(validation) {
        // The certificate has to have this name, whichever was sent.
        if tls.get("server_name").is_none() {
            tls["server_name"] = json!(name);
        }
    } else if let Some(line) = narrower(validation) {
        let reason = "the server's certificate has to have the name that is sent, and no other";
        draft.differs(line, subject.to_owned(), reason);
    }
}

/// The settings for the other side's certificates: in the context itself, in a secret that it names, or in both.
fn validations<'a>(
    shared: &'a Node,
    found: &'a Discovered,
    subject: &str,
    draft: &mut Draft,
) -> Vec<&'a Node> {
    const SECRET: &str = "validation_context_sds_secret_config";
    let combined = shared.field("combined_validation_context");
    let own = shared.field("validation_context");
    let default = combined.and_then(|both| both.field("default_validation_context"));
    let mut all: Vec<&Node> = own.into_iter().chain(default).collect();

    let named = combined.and_then(|both| both.field(SECRET));
    for config in shared.field(SECRET).into_iter().chain(named) {
        let secret = found.secret(config);
        match secret.and_then(|secret| secret.field("validation_context")) {
            Some(validation) => all.push(validation),
            None => tell_secret(config, subject, draft),
        }
    }
    all
}

/// A secret that is neither in the file nor in one that it names.
fn tell_secret(config: &Node, subject: &str, draft: &mut Draft) {
    config.skip_all();
    let name = config.text("name").unwrap_or_default();
    let reason = format!("the secret {name} is not in the file, nor in one that it names");
    draft.left_out(config.line, subject.to_owned(), reason);
}

/// Where Envoy believes any certificate.
fn verified(tls: Json, line: u32, subject: &str, draft: &mut Draft) -> Json {
    let reason = "Envoy believes any certificate here, as it has no `trusted_ca`; this node asks for one of the system's authorities: name another in `ca_file`";
    draft.differs(line, subject.to_owned(), reason);
    whole(tls)
}

fn whole(tls: Json) -> Json {
    match tls.as_object().is_some_and(serde_json::Map::is_empty) {
        true => json!(true),
        false => tls,
    }
}

/// The first certificate, with its key.
fn certificate(shared: &Node, subject: &str, draft: &mut Draft) -> Option<Json> {
    let found = Rc::clone(&draft.discovered);
    let mut certificates: Vec<&Node> = shared.list("tls_certificates").iter().collect();
    for config in shared.list("tls_certificate_sds_secret_configs") {
        let secret = found.secret(config);
        match secret.and_then(|secret| secret.field("tls_certificate")) {
            Some(certificate) => certificates.push(certificate),
            None => tell_secret(config, subject, draft),
        }
    }
    for further in certificates.iter().skip(1) {
        further.skip_all();
        draft.left_out(further.line, subject.to_owned(), "there is one certificate");
    }
    let first = certificates.first()?;
    let chain = file_of(first, "certificate_chain", &format!("{subject}.pem"), draft)?;
    let key = file_of(first, "private_key", &format!("{subject}.key"), draft)?;
    Some(json!({ "cert_file": chain, "key_file": key }))
}

/// The file under a key. An inline text becomes a file.
fn file_of(node: &Node, key: &str, name: &str, draft: &mut Draft) -> Option<String> {
    match data_source(node.field(key)?) {
        DataSource::File(file) => Some(file.to_owned()),
        DataSource::Inline(text) => {
            let letter = |letter: char| match letter {
                letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
                _ => '-',
            };
            let name: String = name.chars().map(letter).collect();
            draft.files.push(NewFile {
                name: name.clone(),
                content: NewFileContent::Secret(text.to_owned()),
            });
            Some(name)
        }
        DataSource::Other => None,
    }
}

/// The one name that a certificate has to have.
fn exact_name(validation: &Node) -> Option<String> {
    let names = validation.list("match_typed_subject_alt_names");
    let [name] = names else { return None };
    let exact = name.field("matcher")?.text("exact")?;
    name.skip(&["san_type"]);
    Some(exact.to_owned())
}

/// Where the trust is narrower than the certificates of an authority.
fn narrower(validation: &Node) -> Option<u32> {
    const KEYS: [&str; 4] = [
        "match_typed_subject_alt_names",
        "match_subject_alt_names",
        "verify_certificate_hash",
        "verify_certificate_spki",
    ];
    validation.skip(&KEYS);
    let found = KEYS.iter().find_map(|key| validation.field(key));
    found.map(|node| node.line)
}

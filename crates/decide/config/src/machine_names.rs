//! Names of files and Unix sockets in a document: they belong to the machine, so that who hands in a document from elsewhere can be
//! held to some of them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use crate::model::Document;
use crate::model::scalar::{END, PATH, UNIX};
use crate::path::{Step, child, element, steps};

/// A name of a file or socket in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineName {
    /// The key, such as `upstreams.web.tls.ca_file`.
    pub key: String,
    /// The file, folder or socket.
    pub path: PathBuf,
    /// The use that a node makes of it.
    pub usage: MachineUsage,
}

/// The use that a node makes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineUsage {
    /// Its content is read, and may be sent to others.
    Read,
    /// It is the private key of a TLS connection, which signs and is sent to no one.
    TlsKey,
    /// It is written to, or files are made in it.
    Write,
    /// It is a Unix socket that the node connects to or listens on.
    Socket,
    /// It is a control group, whose programs are told from others.
    ControlGroup,
}

/// Keys of files and folders that a node writes to.
const WRITTEN: [&str; 5] = ["folder", "leases_file", "qlog", "socket", "tls_secrets"];

/// Keys of files that a node writes to under `log`; elsewhere it reads files of such a key.
const LOGGED: &str = "file";

/// Names of the machine in a document, found by the schema that the document fulfils.
pub(crate) fn machine_names(schema: &Json, document: &Document) -> Vec<MachineName> {
    let mut search = Search {
        root: schema,
        found: Vec::new(),
    };
    // Documents are made of JSON types only.
    if let Ok(json) = serde_json::to_value(document) {
        search.value(&[schema], &json, "");
    }
    search.found
}

struct Search<'s> {
    root: &'s Json,
    found: Vec<MachineName>,
}

impl<'s> Search<'s> {
    /// Looks at a value as each of its alternatives: a name that is one in any of them counts.
    fn value(&mut self, schemas: &[&'s Json], value: &Json, key: &str) {
        let mut branches = Vec::new();
        for schema in schemas {
            self.branches(schema, &mut branches);
        }
        match value {
            Json::String(text) => self.text(&branches, text, key),
            Json::Array(values) => {
                let items = branches.iter().filter_map(|branch| branch.get("items"));
                let items: Vec<_> = items.collect();
                for (index, value) in values.iter().enumerate() {
                    self.value(&items, value, &element(key, index));
                }
            }
            Json::Object(entries) => self.map(&branches, entries, key),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn map(&mut self, branches: &[&'s Json], entries: &Map<String, Json>, key: &str) {
        for (name, value) in entries {
            let of_name = |branch: &&'s Json| {
                let own = branch.get("properties").and_then(|all| all.get(name));
                own.or_else(|| branch.get("additionalProperties"))
            };
            let schemas: Vec<_> = branches.iter().filter_map(of_name).collect();
            self.value(&schemas, value, &child(key, name));
        }
    }

    fn text(&mut self, branches: &[&Json], text: &str, key: &str) {
        let is_word = branches.iter().any(|branch| {
            let words = branch.get("enum").and_then(Json::as_array);
            branch.get("const").is_some_and(|word| word == text)
                || words.is_some_and(|words| words.iter().any(|word| word == text))
        });
        if is_word {
            return;
        }

        let formats = branches
            .iter()
            .filter_map(|branch| branch.get("format")?.as_str());
        let formats: Vec<_> = formats.collect();
        let is_address = |format: &&str| {
            [END, "hermes-listen-address", "hermes-endpoint-address"].contains(format)
        };
        if formats.contains(&PATH) {
            self.found.push(MachineName {
                key: key.to_owned(),
                path: PathBuf::from(text),
                usage: usage(key),
            });
        } else if let Some(path) = text.strip_prefix(UNIX)
            && formats.iter().any(is_address)
        {
            self.found.push(MachineName {
                key: key.to_owned(),
                path: Path::new(path).to_owned(),
                usage: MachineUsage::Socket,
            });
        }
    }

    /// The alternatives of a schema, references followed.
    fn branches(&self, schema: &'s Json, out: &mut Vec<&'s Json>) {
        let reference = schema.get("$ref").and_then(Json::as_str);
        let target = reference.and_then(|name| self.root.pointer(name.strip_prefix('#')?));
        let schema = target.unwrap_or(schema);
        out.push(schema);
        for word in ["anyOf", "oneOf", "allOf"] {
            let alternatives = schema.get(word).and_then(Json::as_array);
            for alternative in alternatives.into_iter().flatten() {
                self.branches(alternative, out);
            }
        }
    }
}

/// The use of the file that stands at a key.
fn usage(key: &str) -> MachineUsage {
    let steps = steps(key);
    let named: Vec<&str> = steps
        .iter()
        .map(Step::key)
        .filter(|key| !key.is_empty())
        .collect();
    let (last, before) = named
        .split_last()
        .map_or(("", &[][..]), |(last, before)| (*last, before));
    let is_of_tls = before.last() == Some(&"tls");
    match last {
        "cgroups" => MachineUsage::ControlGroup,
        "key_file" if is_of_tls => MachineUsage::TlsKey,
        LOGGED if before.first() == Some(&"log") => MachineUsage::Write,
        "exec" if before.last() == Some(&"capture") => MachineUsage::Socket,
        last if WRITTEN.contains(&last) => MachineUsage::Write,
        _ => MachineUsage::Read,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{DocumentForm, schema};

    fn names(text: &str) -> Vec<(String, String, MachineUsage)> {
        let form = DocumentForm::default();
        let loaded = form.parse(Path::new("/x/a.yaml"), text, &|_| None).unwrap();
        let names = form.machine_names(&loaded.document);
        let names = names.into_iter();
        names
            .map(|name| (name.key, name.path.display().to_string(), name.usage))
            .collect()
    }

    #[test]
    fn each_name_is_found_with_its_use() {
        use MachineUsage::{Read, Socket, TlsKey, Write};
        let found = names(
            "version: 1\n\
             log: { file: l.log, access: { file: a.log } }\n\
             debug: { tls_secrets: /s }\n\
             admin: { socket: admin.sock }\n\
             listeners:\n\
             \x20 web: { http: 'unix:w.sock', tls: { cert_file: c.pem, key_file: { file: k.pem } } }\n\
             \x20 in: { http: '127.0.0.1:1', auth: { basic: { file: users } } }\n\
             upstreams:\n\
             \x20 a: { endpoints: ['unix:/run/d.sock', 'b:1'], tls: { ca_file: { inline: x }, crl_file: [r.pem] } }\n\
             routes:\n\
             \x20 - { match: { target: x }, terminate: 'unix:/run/e.sock' }\n\
             \x20 - { to: a }\n",
        );
        let has = |key: &str, path: &str, usage| {
            let wanted = (key.to_owned(), path.to_owned(), usage);
            assert!(found.contains(&wanted), "{key}: {found:?}");
        };
        has("log.file", "/x/l.log", Write);
        has("log.access.file", "/x/a.log", Write);
        has("debug.tls_secrets", "/s", Write);
        has("admin.socket", "/x/admin.sock", Write);
        has("listeners.web.http", "/x/w.sock", Socket);
        has("listeners.web.tls.cert_file", "/x/c.pem", Read);
        has("listeners.web.tls.key_file", "/x/k.pem", TlsKey);
        has("listeners.in.auth.basic.file", "/x/users", Read);
        has("upstreams.a.endpoints[0]", "/run/d.sock", Socket);
        has("upstreams.a.tls.crl_file", "/x/r.pem", Read);
        has("routes[0].terminate", "/run/e.sock", Socket);
        assert_eq!(found.len(), 11, "{found:?}");
    }

    /// A new key of a file has to be told whether it is read or written.
    #[test]
    fn the_use_of_every_key_of_the_schema_was_considered() {
        let schema = schema();
        let mut keys = BTreeSet::new();
        collect(&schema, &schema, &mut keys);
        let considered = [
            "ca_file",
            "cert_file",
            "cgroups",
            "client_ca_file",
            "crl_file",
            "exec",
            "file",
            "files",
            "folder",
            "include",
            "jwks_file",
            "key_file",
            "leases_file",
            "network",
            "password_file",
            "preshared_key_file",
            "private_key_file",
            "qlog",
            "socket",
            "tls_secrets",
            "token_file",
        ];
        let considered: BTreeSet<String> = considered.map(str::to_owned).into();
        assert_eq!(keys, considered);
    }

    fn collect(root: &Json, schema: &Json, keys: &mut BTreeSet<String>) {
        match schema {
            Json::Object(entries) => {
                for (name, inner) in entries {
                    if name == "properties"
                        && let Json::Object(properties) = inner
                    {
                        let of_path = properties
                            .iter()
                            .filter(|(_, inner)| holds_path(root, inner));
                        keys.extend(of_path.map(|(key, _)| key.clone()));
                    }
                    collect(root, inner, keys);
                }
            }
            Json::Array(values) => values.iter().for_each(|inner| collect(root, inner, keys)),
            _ => {}
        }
    }

    /// Whether a value of this schema can be a path, or a list of paths.
    fn holds_path(root: &Json, schema: &Json) -> bool {
        let search = Search {
            root,
            found: Vec::new(),
        };
        let mut branches = Vec::new();
        search.branches(schema, &mut branches);
        branches.iter().any(|branch| {
            branch.get("format").is_some_and(|format| format == PATH)
                || branch
                    .get("items")
                    .is_some_and(|items| holds_path(root, items))
        })
    }
}

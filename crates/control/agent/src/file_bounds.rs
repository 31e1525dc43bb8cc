//! The files of this machine that documents of a controller may name: a controller that was taken over reads and writes no others.

use std::path::{Component, Path, PathBuf};

use hermes_config::model::Document;
use hermes_config::{DocumentForm, MachineName, MachineUsage, Problem, Problems};

/// Where the groups of programs are that a device of a node tells from others.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The bounds of one document.
#[derive(Debug)]
pub(crate) struct FileBounds<'a> {
    /// Files that anyone may know: the node's certificates, and the parts of the statement.
    pub(crate) public: Vec<PathBuf>,
    /// The private key of the node's certificate, for TLS alone.
    pub(crate) key: PathBuf,
    /// The opened secrets of the statement.
    pub(crate) secrets: Option<PathBuf>,
    /// The folder that documents may use as they like.
    pub(crate) data: &'a Path,
    /// Folders and files that the user of this machine allows.
    pub(crate) allowed: &'a [PathBuf],
}

impl FileBounds<'_> {
    /// Whether a document names no other files, sockets and powers; returns whether it uses the folder of data.
    ///
    /// # Errors
    /// Each key that names another one.
    pub(crate) fn check(&self, document: &Document, form: &DocumentForm) -> Result<bool, Problems> {
        let names = form.machine_names(document);
        let outside = names.iter().filter(|name| !self.holds(name));
        let mut problems: Vec<_> = outside.map(refusal).collect();
        if document.debug.core_dumps {
            let reason = "a controller may not have this machine write down the node's memory";
            problems.push(Problem::new("debug.core_dumps", reason));
        }
        match problems.is_empty() {
            true => Ok(names.iter().any(|name| name.path.starts_with(self.data))),
            false => Err(Problems(problems)),
        }
    }

    fn holds(&self, name: &MachineName) -> bool {
        let path = name.path.as_path();
        // The name alone would not tell where it leads.
        if path.components().any(|part| part == Component::ParentDir) {
            return false;
        }
        let mut free = self.allowed.iter().map(PathBuf::as_path).chain([self.data]);
        if free.any(|free| path.starts_with(free)) {
            return true;
        }
        let is_read = self.public.iter().any(|public| public == path)
            || self
                .secrets
                .as_ref()
                .is_some_and(|folder| path.starts_with(folder));
        match name.usage {
            MachineUsage::Read => is_read,
            MachineUsage::TlsKey => is_read || path == self.key,
            MachineUsage::ControlGroup => path.starts_with(CONTROL_GROUPS),
            MachineUsage::Write | MachineUsage::Socket => false,
        }
    }
}

fn refusal(name: &MachineName) -> Problem {
    let path = name.path.display();
    let (verb, instead) = match name.usage {
        MachineUsage::Read | MachineUsage::TlsKey => ("read", "name a Secret"),
        MachineUsage::Write => ("write to", "name a place in `${HERMES_DATA}`"),
        MachineUsage::Socket => ("use the socket", "name a port"),
        MachineUsage::ControlGroup => ("look at", "name a group of /sys/fs/cgroup"),
    };
    let folder = name.path.parent().unwrap_or(Path::new("/")).display();
    let reason = format!("a controller may not have this machine {verb} {path}");
    let remedy = format!("{instead}, or run this node with `--allow-files {folder}`");
    Problem::new(name.key.clone(), reason).remedy(remedy)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]
mod tests {
    use super::*;

    /// The keys that are refused.
    fn refused(text: &str, allowed: &[PathBuf]) -> Vec<String> {
        let form = DocumentForm::default();
        let loaded = form.parse(Path::new("/node/parts/x"), text, &|_| None);
        let bounds = FileBounds {
            public: vec!["/node/node.pem".into(), "/node/parts/authorities".into()],
            key: "/node/node.key".into(),
            secrets: Some("/node/secrets/x".into()),
            data: Path::new("/node/data"),
            allowed,
        };
        match bounds.check(&loaded.unwrap().document, &form) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.0.into_iter().map(|problem| problem.path).collect(),
        }
    }

    #[test]
    fn files_of_the_machine_are_neither_read_nor_written() {
        for (text, key) in [
            ("log: { file: /home/alice/.bashrc }", "log.file"),
            (
                "log: { access: { file: /home/alice/.ssh/authorized_keys } }",
                "log.access.file",
            ),
            ("debug: { qlog: /tmp }", "debug.qlog"),
            ("debug: { core_dumps: true }", "debug.core_dumps"),
            ("admin: { socket: /run/other.sock }", "admin.socket"),
            (
                "identity: { user: x, token_file: /home/alice/.token }",
                "identity.token_file",
            ),
            (
                "identity: { user: x, token_file: /node/node.key }",
                "identity.token_file",
            ),
            (
                "identity: { user: x, token_file: /node/sealing.key }",
                "identity.token_file",
            ),
            ("log: { file: /node/membership.json }", "log.file"),
            ("log: { file: /node/node.pem }", "log.file"),
            ("log: { file: /node/data/../membership.json }", "log.file"),
            ("log: { file: /node/data2/log }", "log.file"),
            (
                "upstreams: { a: { endpoints: ['unix:/run/docker.sock'] } }",
                "upstreams.a.endpoints[0]",
            ),
            (
                "listeners: { a: { http: 'unix:/run/other.sock' } }",
                "listeners.a.http",
            ),
            (
                "routes: [{ terminate: 'unix:/run/docker.sock' }]",
                "routes[0].terminate",
            ),
        ] {
            let text = format!("version: 1\n{text}\n");
            assert_eq!(refused(&text, &[]), [key], "{text}");
        }
    }

    #[test]
    fn the_nodes_own_files_and_those_that_its_user_allows_are_used() {
        let text = "version: 1\n\
            log: { file: /node/data/log }\n\
            identity: { user: x, token_file: /node/secrets/x/token }\n\
            listeners: { a: { http: '127.0.0.1:1', tls: { cert_file: /node/node.pem, key_file: /node/node.key, client_ca_file: /node/parts/authorities } } }\n";
        assert_eq!(refused(text, &[]), [] as [String; 0]);

        let text = "version: 1\nupstreams: { a: { endpoints: ['unix:/run/app/x.sock'] } }\n";
        assert_eq!(refused(text, &[]).len(), 1);
        assert_eq!(refused(text, &["/run/app".into()]).len(), 0);
        assert_eq!(refused(text, &["/run/ap".into()]).len(), 1);
    }
}

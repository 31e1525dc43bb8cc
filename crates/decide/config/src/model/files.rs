//! The files that a document names and that are read with it.

use std::path::Path;

use super::scalar::FilePath;
use super::{
    Auth, ClientTls, DataSource, Document, Listener, OneOrMany, ServerTls, TlsChoice, Upstream,
};

impl Document {
    /// Files that are read when the document is put in force: certificates, keys, authorities, revocation lists, tokens, users, key
    /// sets and policies.
    pub fn files(&self) -> Vec<&Path> {
        let token = self
            .identity
            .as_ref()
            .and_then(|identity| identity.token_file.as_ref()?.file());
        let listeners = self.listeners.values().flat_map(of_listener);
        let upstreams = self.upstreams.values().flat_map(of_upstream);
        let servers = self
            .authorize
            .iter()
            .filter_map(|authorize| authorize.tls.as_ref());
        let log = self.log.decisions.iter().flat_map(|log| &log.tls);
        let servers = servers
            .chain(&self.trace.tls)
            .chain(log)
            .flat_map(of_client);
        let wireguard = self.wireguard().into_iter().flat_map(|(_, one)| {
            let secrets = one.secrets();
            let files: Vec<&FilePath> = secrets.filter_map(|(_, one)| one.file()).collect();
            files
        });
        let policies = self
            .authorize
            .iter()
            .filter_map(|authorize| authorize.rego.as_ref())
            .flat_map(|rego| &rego.files)
            .filter_map(DataSource::file);
        let signed = self.routes.iter().filter_map(|route| route.signed.as_ref());
        let signed = signed.flat_map(|signed| &signed.key_file);
        let all = token
            .into_iter()
            .chain(signed.filter_map(DataSource::file))
            .chain(listeners)
            .chain(upstreams)
            .chain(servers)
            .chain(policies)
            .chain(wireguard);

        all.map(|file| file.0.as_path()).collect()
    }
}

fn of_listener(listener: &Listener) -> Vec<&FilePath> {
    let tls = listener.tls().into_iter().flat_map(|tls| {
        // The files that the node writes itself it follows by itself.
        let authority = tls.acme.as_deref().and_then(|acme| acme.ca_file.as_ref());
        let sources = tls.sources().map(|(_, source)| source).chain(authority);
        sources.filter_map(DataSource::file)
    });

    let methods = match listener.auth() {
        Some(Auth::Methods(methods)) => Some(methods),
        Some(Auth::Word(_)) | None => None,
    };

    let basic = methods
        .and_then(|methods| methods.basic.as_ref())
        .and_then(|basic| basic.file.file());
    let bearer = methods
        .and_then(|methods| methods.bearer.as_ref())
        .and_then(|bearer| bearer.jwks_file.file());
    tls.chain(basic).chain(bearer).collect()
}

fn of_upstream(upstream: &Upstream) -> Vec<&FilePath> {
    let tls = match &upstream.tls {
        Some(TlsChoice::Details(tls)) => of_client(tls),
        Some(TlsChoice::Switch(_)) | None => Vec::new(),
    };
    tls.into_iter().chain(upstream.secrets()).collect()
}

fn of_client(tls: &ClientTls) -> Vec<&FilePath> {
    let sources = tls.sources().map(|(_, source)| source);
    sources.filter_map(DataSource::file).collect()
}

impl ClientTls {
    /// Its authorities, certificate, key and lists, each at its key.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &DataSource)> {
        let files = [
            ("ca_file", self.ca_file.as_ref()),
            ("cert_file", self.cert_file.as_ref()),
            ("key_file", self.key_file.as_ref()),
        ];
        named(files, self.crl_file.as_ref())
    }
}

impl ServerTls {
    /// Its certificate, key, authorities and lists, each at its key; without those that the node obtains.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &DataSource)> {
        let files = [
            ("cert_file", self.cert_file.as_ref()),
            ("key_file", self.key_file.as_ref()),
            ("client_ca_file", self.client_ca_file.as_ref()),
        ];
        let domains = self.client_domains.values();
        let domains = domains.map(|authorities| ("client_domains", authorities));
        named(files, self.crl_file.as_ref()).chain(domains)
    }
}

fn named<'a>(
    files: [(&'static str, Option<&'a DataSource>); 3],
    lists: Option<&'a OneOrMany<DataSource>>,
) -> impl Iterator<Item = (&'static str, &'a DataSource)> {
    let files = files.into_iter();
    let files = files.filter_map(|(key, file)| Some((key, file?)));
    let lists = lists.into_iter().flatten();
    files.chain(lists.map(|file| ("crl_file", file)))
}

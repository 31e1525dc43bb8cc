//! How long the certificates and revocation lists of a configuration are valid, and warnings before
//! they expire.
//!
//! None of these warnings makes a configuration invalid: an expired certificate must not keep a
//! node from starting, nor a change from being put in force.

use std::time::{Duration, UNIX_EPOCH};

use hermes_config::model::{ClientTls, DataSource, Document, OneOrMany, ServerTls, TlsChoice};
use hermes_config::{Loaded, Problem, child, element};
use hermes_net::tls::{Span, of_certificates, of_revocations, unlisted};
use hermes_upstream::tls_source;
use serde::Serialize;

use hermes_net::clock::unix_seconds;

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Seconds before the end of a certificate from which on it is warned of: authorities issue for 90 days and renew after 60. Of one that
/// is issued for less, the last third.
const SOON: u64 = 30 * DAY;

/// The role of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A certificate that this node shows, with those that issued it: the first to end counts.
    Own,
    /// Authorities that are believed: the last to end counts. Bundles hold some that ended long ago.
    Authority,
    /// Lists of revoked certificates: the first that was not renewed counts.
    List,
}

/// A file with a content of limited validity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The key that names it, such as `listeners.web.tls.cert_file`.
    pub path: String,
    /// Where they stand.
    pub source: DataSource,
    role: Role,
    span: Span,
    /// For lists of other authorities: an authority without a list.
    unlisted: Option<String>,
}

/// How a file is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// There is time.
    Valid,
    /// Ends within this many days.
    EndsSoon(u64),
    /// Has ended.
    Ended,
    /// Its time has not come.
    NotYet,
}

impl Held {
    fn new(path: String, source: &DataSource, role: Role) -> Option<Self> {
        let spans = match role {
            Role::List => of_revocations(tls_source(source)),
            Role::Own | Role::Authority => of_certificates(tls_source(source)),
        };

        let spans = spans.ok()?;
        let first_of = |span: &&Span| span.until.unwrap_or(u64::MAX);
        let span = match role {
            Role::Own | Role::List => spans.iter().min_by_key(first_of)?.clone(),
            Role::Authority => spans.iter().max_by_key(first_of)?.clone(),
        };

        let latest = spans
            .iter()
            .map(|span| span.from)
            .max()
            .filter(|_| role == Role::Own);
        let span = Span {
            from: latest.unwrap_or(span.from),
            ..span
        };

        Some(Self {
            path,
            source: source.clone(),
            role,
            span,
            unlisted: None,
        })
    }

    /// Seconds until it ends at `now`, below 0 afterwards; `None` if it does not say.
    pub fn left(&self, now: u64) -> Option<i64> {
        let until = i64::try_from(self.span.until?).unwrap_or(i64::MAX);
        Some(until.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX)))
    }

    /// Seconds before its end from which on it is warned of.
    fn soon(&self) -> u64 {
        let life = self
            .span
            .until
            .unwrap_or(u64::MAX)
            .saturating_sub(self.span.from);
        SOON.min(life / 3)
    }

    /// Whether it is the same as `other`, read for the same purpose: one warning is enough for both.
    fn is_same(&self, other: &Self) -> bool {
        self.source == other.source && self.role == other.role && self.unlisted == other.unlisted
    }

    /// How it is at `now`, Unix time in seconds.
    pub fn state(&self, now: u64) -> Validity {
        if now < self.span.from {
            return Validity::NotYet;
        }
        match self.left(now).map(u64::try_from) {
            Some(Err(_)) => Validity::Ended,
            // Lists last for days: only one that is late is worth a word.
            Some(Ok(left)) if left < self.soon() && self.role != Role::List => {
                Validity::EndsSoon(left / DAY)
            }
            Some(Ok(_)) | None => Validity::Valid,
        }
    }

    /// The warning about it at `now`: the problem, and the remedy.
    pub fn warning(&self, now: u64) -> Option<(String, &'static str)> {
        if let Some(authority) = &self.unlisted {
            return Some((self.foreign(authority), "name the list of each authority"));
        }

        let of = &self.span.of;
        let what = match self.role {
            Role::Own => format!("the certificate of {of}"),
            Role::Authority => format!("the authority {of}"),
            Role::List => format!("the revocation list of {of}"),
        };

        let until = date(self.span.until.unwrap_or_default());
        let told = match (self.state(now), self.role) {
            (Validity::Valid, _) => return None,
            (Validity::EndsSoon(days), _) => (
                format!("{what} ends on {until}, in {days} days"),
                "renew it",
            ),
            (Validity::Ended, Role::List) => (
                format!("{what} was to be renewed by {until}, and is used all the same"),
                "fetch a new one",
            ),
            (Validity::Ended, _) => (
                format!("{what} has expired on {until}"),
                "renew it: peers refuse it",
            ),
            (Validity::NotYet, _) => (
                format!("{what} is not valid before {}", date(self.span.from)),
                "check the clock of this machine",
            ),
        };

        Some(told)
    }

    fn foreign(&self, authority: &str) -> String {
        let of = &self.span.of;
        format!(
            "the revocation list of {of} is of no authority that stands beside it, and certificates of {authority}, \
             which has no list, are refused"
        )
    }

    /// As `status` shows it.
    pub fn view(&self, now: u64) -> CertificateView {
        let left = self.left(now);
        let state = match self.state(now) {
            _ if self.unlisted.is_some() => "of no authority here".to_owned(),
            Validity::Valid => "valid".to_owned(),
            Validity::EndsSoon(days) => format!("ends in {days} days"),
            Validity::Ended if self.role == Role::List => "late".to_owned(),
            Validity::Ended => "expired".to_owned(),
            Validity::NotYet => "not yet valid".to_owned(),
        };

        CertificateView {
            key: self.path.clone(),
            of: self.span.of.clone(),
            state,
            left_seconds: left.map(|left| left.max(0)),
        }
    }
}

/// How long a certificate or a list of revoked ones is good.
#[derive(Debug, Serialize)]
pub struct CertificateView {
    /// The key that names its file, such as `listeners.web.tls.cert_file`.
    pub key: String,
    /// The certificate's subject, or the list's issuer.
    pub of: String,
    /// In words.
    pub state: String,
    /// Seconds until it ends; `None` if it does not.
    pub left_seconds: Option<i64>,
}

fn date(seconds: u64) -> String {
    let time =
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

/// A document's files with contents of limited validity. Unreadable ones are reported elsewhere.
pub fn all(document: &Document) -> Vec<Held> {
    let mut held = Vec::new();
    for (name, listener) in &document.listeners {
        let Some(tls) = listener.tls() else { continue };
        let path = child(&child("listeners", name), "tls");
        held.extend(of_server(&path, tls));
    }

    for (name, upstream) in &document.upstreams {
        let Some(TlsChoice::Details(tls)) = &upstream.tls else {
            continue;
        };
        let path = child(&child("upstreams", name), "tls");
        held.extend(of_client_tls(&path, tls));
    }

    for (index, server) in document.authorize.iter().enumerate() {
        let path = child(&element("authorize", index), "tls");
        held.extend(server.tls.iter().flat_map(|tls| of_client_tls(&path, tls)));
    }

    let decisions = document.log.decisions.as_ref();
    let decisions = decisions.and_then(|log| log.tls.as_ref());
    for (path, tls) in [
        ("trace.tls", document.trace.tls.as_ref()),
        ("log.decisions.tls", decisions),
    ] {
        held.extend(tls.into_iter().flat_map(|tls| of_client_tls(path, tls)));
    }

    held
}

fn of_server(path: &str, tls: &ServerTls) -> Vec<Held> {
    let own = tls.certificate();
    let mut held = of_client(path, [&None, &None], tls.crl_file.as_ref());
    let key = tls.acme.as_deref().map_or("cert_file", |_| "acme");
    held.extend(own.and_then(|file| Held::new(child(path, key), &file, Role::Own)));
    let authority = tls.client_ca_file.as_ref();
    mark_foreign(&mut held, authority);
    held.extend(
        authority.and_then(|file| Held::new(child(path, "client_ca_file"), file, Role::Authority)),
    );
    let domains = child(path, "client_domains");
    let others = tls
        .client_domains
        .iter()
        .filter_map(|(domain, authorities)| {
            Held::new(child(&domains, domain), authorities, Role::Authority)
        });
    held.extend(others);

    held
}

/// Marks lists that belong to no authority in this file, if one of these has no list.
fn mark_foreign(held: &mut [Held], authority: Option<&DataSource>) {
    let Some(authority) = authority else { return };
    let mut lists: Vec<&mut Held> = held
        .iter_mut()
        .filter(|one| one.role == Role::List)
        .collect();
    let sources: Vec<DataSource> = lists.iter().map(|list| list.source.clone()).collect();
    let sources: Vec<_> = sources.iter().map(tls_source).collect();
    let Some(found) = unlisted(tls_source(authority), &sources) else {
        return;
    };

    for (list, is_foreign) in lists.iter_mut().zip(found.foreign) {
        if is_foreign {
            list.unlisted = Some(found.authority.clone());
        }
    }
}

fn of_client_tls(path: &str, tls: &ClientTls) -> Vec<Held> {
    let files = [&tls.cert_file, &tls.ca_file];
    of_client(path, files, tls.crl_file.as_ref())
}

fn of_client(
    path: &str,
    [own, authority]: [&Option<DataSource>; 2],
    lists: Option<&OneOrMany<DataSource>>,
) -> Vec<Held> {
    let of_authority = authority;
    let own = own.iter().map(|file| ("cert_file", file, Role::Own));
    let authority = authority
        .iter()
        .map(|file| ("ca_file", file, Role::Authority));
    let lists = lists
        .into_iter()
        .flatten()
        .map(|file| ("crl_file", file, Role::List));
    let named = own.chain(authority).chain(lists);

    let mut held: Vec<Held> = named
        .filter_map(|(key, file, role)| Held::new(child(path, key), file, role))
        .collect();
    mark_foreign(&mut held, of_authority.as_ref());
    held
}

/// Of `held`, the first of each file.
pub fn once(held: Vec<Held>) -> Vec<Held> {
    let mut first: Vec<Held> = Vec::new();
    for one in held {
        if !first.iter().any(|known| known.is_same(&one)) {
            first.push(one);
        }
    }

    first
}

/// Warnings about a valid document: certificates that have expired, will soon, or are not valid
/// yet.
pub fn warnings(loaded: &Loaded) -> Vec<Problem> {
    let now = unix_seconds();
    let warning = |held: Held| {
        let (reason, remedy) = held.warning(now)?;
        let reason = format!("{}: {reason}", held.source);
        let problem = Problem::new(held.path, reason).remedy(remedy);
        Some(loaded.places.placed(problem))
    };

    once(all(&loaded.document))
        .into_iter()
        .filter_map(warning)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(role: Role, from: u64, until: Option<u64>) -> Held {
        let span = Span {
            of: "CN=a".to_owned(),
            from,
            until,
        };
        Held {
            path: "p".to_owned(),
            source: std::path::PathBuf::from("f").into(),
            role,
            span,
            unlisted: None,
        }
    }

    #[test]
    fn a_certificate_is_spoken_of_before_during_and_after() {
        let own = held(Role::Own, 100 * DAY, Some(200 * DAY));
        let states = [99, 100, 169, 170, 171, 199, 200, 201].map(|day| own.state(day * DAY));
        use Validity::{Ended, EndsSoon, NotYet, Valid};
        assert_eq!(
            states,
            [
                NotYet,
                Valid,
                Valid,
                Valid,
                EndsSoon(29),
                EndsSoon(1),
                EndsSoon(0),
                Ended
            ]
        );
        assert_eq!(own.warning(150 * DAY), None);
        assert_eq!(
            own.warning(190 * DAY).unwrap().0,
            "the certificate of CN=a ends on 1970-07-20, in 10 days"
        );
        assert_eq!(
            own.warning(300 * DAY).unwrap().0,
            "the certificate of CN=a has expired on 1970-07-20"
        );
        assert_eq!(
            own.warning(0).unwrap().0,
            "the certificate of CN=a is not valid before 1970-04-11"
        );
    }

    #[test]
    fn a_short_certificate_is_warned_of_in_its_last_third() {
        let short = held(Role::Own, 0, Some(30 * DAY));
        assert_eq!(short.state(0), Validity::Valid);
        assert_eq!(short.state(19 * DAY), Validity::Valid);
        assert_eq!(short.state(21 * DAY), Validity::EndsSoon(9));
    }

    #[test]
    fn a_file_that_two_keys_name_is_warned_of_once() {
        let one = held(Role::Own, 0, Some(5));
        let other = Held {
            path: "q".to_owned(),
            ..one.clone()
        };
        let authority = Held {
            role: Role::Authority,
            ..one.clone()
        };
        assert_eq!(
            once(vec![one.clone(), other, authority.clone()]),
            [one, authority]
        );
    }

    #[test]
    fn a_list_is_late_and_counts_on_and_need_not_say_when() {
        assert_eq!(held(Role::List, 0, Some(5)).state(4), Validity::Valid);
        let late = held(Role::List, 0, Some(5)).warning(6).unwrap().0;
        assert!(
            late.ends_with("was to be renewed by 1970-01-01, and is used all the same"),
            "{late}"
        );
        assert_eq!(held(Role::List, 0, None).state(u64::MAX), Validity::Valid);
    }
}

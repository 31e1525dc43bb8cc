//! Names to addresses.
//!
//! A name is always looked up as it is written: search domains are never tried, so that a name
//! cannot come to mean something else on another machine. `localhost` is the loopback (RFC 6761
//! section 6.3) and IP literals are themselves; neither needs a lookup. `/etc/hosts` comes before
//! DNS; it and `/etc/resolv.conf` are followed as they change. Concurrent requests for the same name share one lookup; lookups take
//! turns ([`Asker`]).

mod answer;
mod foreign_answer;
mod name_servers;
mod question;
mod single_flight;
mod sockets;
mod system;
mod zones;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::NameServerConfig;
use hickory_resolver::net::{DnsError as Semantic, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, lookup};
use tokio::time::{sleep, timeout};

pub use answer::{DnsError, DnsErrorKind, Lookup};
pub use foreign_answer::ForeignAnswer;
pub use name_servers::NameServers;
pub use question::{NoQuestion, Question, QuestionRefusal, fuzz_question};
use single_flight::SingleFlights;
pub use system::SystemFiles;
use system::{NameSources, Source};
use zones::{Zone, lookups};

use crate::turns::{Asker, NoTurn, Turns};

/// The port of name servers (RFC 1035, section 4.2).
const PORT: u16 = 53;

/// Longest time of one lookup, waiting for its turn included.
#[doc(alias = "bound")]
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

/// How long the slower family is waited for once the other has answered: as long as its first connection
/// attempt would have to wait anyway (RFC 8305 sections 3 and 8).
const OTHER_FAMILY_DELAY: Duration = Duration::from_millis(250);
/// Lifetime of an answer that needs no DNS.
const STATIC_TTL: Duration = Duration::from_secs(3600);
/// Lifetime of an answer of the hosts file, which may change: to look again costs nothing.
const HOSTS_TTL: Duration = Duration::from_secs(5);

/// Resolves names. Cheap to clone; clones share cache, connections and bounds. Make one for each worker: its
/// connections live on the runtime that first used them.
#[derive(Clone)]
pub struct Resolver {
    source: Arc<Source>,
    turns: Turns<Zone>,
    single_flights: SingleFlights,
}

impl Resolver {
    /// A resolver with the name servers of `/etc/resolv.conf` and the names of `/etc/hosts`, as
    /// they are at each time. Without name servers, every lookup that needs one fails.
    #[must_use]
    pub fn system() -> Self {
        Self::system_but_for(&[])
    }

    /// As [`Self::system`], without the name servers at these addresses: this process would ask itself.
    #[must_use]
    pub fn system_but_for(own: &[IpAddr]) -> Self {
        Self::follow(SystemFiles::new(own))
    }

    /// A resolver with the name servers and names of these files, as they are at each time.
    #[must_use]
    pub fn follow(files: SystemFiles) -> Self {
        Self::of(Source::follow(files))
    }

    /// A resolver that asks one server and knows no hosts file.
    ///
    /// # Errors
    /// When the resolver cannot be made.
    pub fn with_server(server: SocketAddr) -> Result<Self, DnsError> {
        let mut name_server = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut name_server.connections {
            connection.port = server.port();
        }

        let source = Source::fixed(name_server);
        let source = source.map_err(|error| classify(&server.to_string(), &error))?;
        Ok(Self::of(source))
    }

    fn of(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            turns: lookups(),
            single_flights: SingleFlights::default(),
        }
    }

    /// The name servers that are asked now.
    #[must_use]
    pub fn servers(&self) -> Vec<IpAddr> {
        system::addresses(&self.source.known().servers)
    }

    /// Forgets DNS answers, and reads the files of the machine at once. It may block.
    pub fn forget(&self) {
        self.source.forget();
    }

    /// The addresses of a host that a *request* of `asker` asked for. A name without a dot is refused.
    ///
    /// # Errors
    /// See [`DnsErrorKind`].
    pub async fn lookup_target(&self, name: &str, asker: Asker) -> Result<Lookup, DnsError> {
        if let Some(known) = without_dns(name) {
            return Ok(known);
        }
        // A search domain, or a name of the machine's own network, must not be within reach of requests.
        if !name.trim_end_matches('.').contains('.') {
            return Err(DnsError::new(DnsErrorKind::Dotless, name));
        }
        self.resolve(name, Some(asker)).await
    }

    /// The addresses of a host that the *operator* wrote. A name without a dot is allowed.
    ///
    /// # Errors
    /// See [`DnsErrorKind`].
    pub async fn lookup_endpoint(&self, name: &str) -> Result<Lookup, DnsError> {
        match without_dns(name) {
            Some(known) => Ok(known),
            // Few, and each is asked for once at a time: they wait for no one.
            None => self.resolve(name, None).await,
        }
    }

    /// Boxed as `dyn`, so that it is compiled once: the resolver is a large part of whatever awaits it.
    #[inline(never)]
    fn resolve<'a>(&'a self, name: &'a str, asker: Option<Asker>) -> Resolving<'a> {
        Box::pin(self.resolve_within_limit(name, asker))
    }

    async fn resolve_within_limit(
        &self,
        name: &str,
        asker: Option<Asker>,
    ) -> Result<Lookup, DnsError> {
        let fqdn = fully_qualified(name)?;
        let current = self.source.current().await;
        // Before any turn: the hosts file costs no question.
        if let Some(lookup) = in_hosts(&current.hosts, &fqdn) {
            return Ok(lookup);
        }

        match timeout(LOOKUP_LIMIT, self.in_turn(&current, name, fqdn, asker)).await {
            Ok(done) => done,
            Err(_) => Err(DnsError::new(DnsErrorKind::Timeout, name)),
        }
    }

    /// Joins a lookup of the name that is under way, or makes one when it is its asker's turn.
    async fn in_turn(
        &self,
        current: &NameSources,
        name: &str,
        fqdn: Name,
        asker: Option<Asker>,
    ) -> Result<Lookup, DnsError> {
        let Some(asker) = asker else {
            return both_families(current, name, fqdn).await;
        };
        loop {
            // Joined without a turn: who shares a lookup adds no load.
            if let Some(answer) = self.single_flights.join(&fqdn).await {
                return answer;
            }
            let turn = self
                .turns
                .take(asker, Some(Zone::of(name)))
                .await
                .map_err(|NoTurn| DnsError {
                    detail: Some("too many lookups wait for their turn".to_owned()),
                    ..DnsError::new(DnsErrorKind::Failed, name)
                })?;

            // Someone else may have begun while this one waited.
            let Some(single_flight) = self.single_flights.begin(&fqdn) else {
                continue;
            };
            let answer = both_families(current, name, fqdn.clone()).await;
            single_flight.answer(&answer);
            drop(turn);
            return answer;
        }
    }
}

fn in_hosts(hosts: &Hosts, fqdn: &Name) -> Option<Lookup> {
    let find = |kind| hosts.lookup_static_host(&Query::query(fqdn.clone(), kind));
    let found = [find(RecordType::AAAA), find(RecordType::A)];
    let addresses: Vec<IpAddr> = found.iter().flatten().flat_map(addresses_in).collect();
    (!addresses.is_empty()).then_some(Lookup {
        addresses,
        ttl: HOSTS_TTL,
    })
}

async fn both_families(current: &NameSources, name: &str, fqdn: Name) -> Result<Lookup, DnsError> {
    let dns = current.dns.as_ref().map_err(|error| DnsError {
        kind: DnsErrorKind::Failed,
        name: name.to_owned(),
        rcode: None,
        detail: Some(error.to_string()),
    })?;
    let v6 = dns.lookup(fqdn.clone(), RecordType::AAAA);
    let v4 = dns.lookup(fqdn, RecordType::A);
    tokio::pin!(v6, v4);

    // Each family's answer, and the other's if it came in time.
    let (v6, v4) = tokio::select! {
        first = &mut v6 => {
            let other = wait_for_other(&first, v4).await;
            (Some(first), other)
        }
        first = &mut v4 => {
            let other = wait_for_other(&first, v6).await;
            (other, Some(first))
        }
    };

    merge(name, [v6, v4])
}

/// A lookup that is under way.
type Resolving<'a> = Pin<Box<dyn Future<Output = Result<Lookup, DnsError>> + Send + 'a>>;

type LookupResult = Result<lookup::Lookup, NetError>;

/// The second answer. It is waited for briefly when the first gave addresses, and to its end otherwise.
async fn wait_for_other(
    first: &LookupResult,
    second: impl Future<Output = LookupResult>,
) -> Option<LookupResult> {
    let usable = first
        .as_ref()
        .is_ok_and(|lookup| addresses_in(lookup).next().is_some());
    tokio::select! {
        answer = second => Some(answer),
        () = sleep(OTHER_FAMILY_DELAY), if usable => None,
    }
}

/// The addresses of both answers and the shorter of their lifetimes; the worse error when there is no address.
fn merge(name: &str, answers: [Option<LookupResult>; 2]) -> Result<Lookup, DnsError> {
    let now = Instant::now();
    let mut addresses = Vec::new();
    let mut ttl = Duration::MAX;
    let mut failure: Option<DnsError> = None;

    for answer in answers.into_iter().flatten() {
        match answer {
            Ok(lookup) => {
                addresses.extend(addresses_in(&lookup));
                ttl = ttl.min(lookup.valid_until().saturating_duration_since(now));
            }
            Err(error) => {
                let error = classify(name, &error);
                let missing = |error: &DnsError| error.kind == DnsErrorKind::NotFound;
                if failure.as_ref().is_none_or(missing) {
                    failure = Some(error);
                }
            }
        }
    }

    if addresses.is_empty() {
        return Err(failure.unwrap_or_else(|| DnsError::new(DnsErrorKind::NotFound, name)));
    }
    Ok(Lookup { addresses, ttl })
}

fn addresses_in(lookup: &lookup::Lookup) -> impl Iterator<Item = IpAddr> {
    lookup
        .answers()
        .iter()
        .filter_map(|record| record.data.ip_addr())
}

/// Answers that need no DNS: IP literals (IPv6 also in brackets) and `localhost`.
fn without_dns(name: &str) -> Option<Lookup> {
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(Lookup {
            addresses: vec![address],
            ttl: Duration::MAX,
        });
    }

    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    if lower != "localhost" && !lower.ends_with(".localhost") {
        return None;
    }

    let addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    Some(Lookup {
        addresses,
        ttl: STATIC_TTL,
    })
}

/// The name with its final dot, so that search domains are not tried.
fn fully_qualified(name: &str) -> Result<Name, DnsError> {
    // The ASCII parser allows characters that host names may not hold but DNS does, such as an
    // underscore.
    let parsed = if name.is_ascii() {
        Name::from_ascii(name)
    } else {
        Name::from_utf8(name)
    };

    let parsed = parsed.map(|mut parsed| {
        parsed.set_fqdn(true);
        parsed
    });

    match parsed {
        Ok(parsed) if !parsed.is_root() => Ok(parsed),
        Ok(_) => Err(DnsError::new(DnsErrorKind::Invalid, name)),
        Err(error) => {
            let detail = Some(error.to_string());
            Err(DnsError {
                detail,
                ..DnsError::new(DnsErrorKind::Invalid, name)
            })
        }
    }
}

fn classify(name: &str, error: &NetError) -> DnsError {
    let (kind, rcode) = match error {
        NetError::Dns(Semantic::NoRecordsFound(none)) => match none.response_code {
            code @ (ResponseCode::NXDomain | ResponseCode::NoError) => {
                (DnsErrorKind::NotFound, Some(code))
            }
            code => (DnsErrorKind::Failed, Some(code)),
        },
        NetError::Dns(Semantic::ResponseCode(code)) => (DnsErrorKind::Failed, Some(*code)),
        NetError::Timeout => (DnsErrorKind::Timeout, None),
        _ => (DnsErrorKind::Failed, None),
    };
    DnsError {
        kind,
        name: name.to_owned(),
        rcode: rcode.map(mnemonic),
        detail: (kind == DnsErrorKind::Failed).then(|| error.to_string()),
    }
}

/// The code's name in the IANA registry "DNS RCODEs", or its number.
fn mnemonic(code: ResponseCode) -> String {
    match code {
        ResponseCode::NoError => "NOERROR".to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        other => u16::from(other).to_string(),
    }
}

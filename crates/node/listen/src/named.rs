//! Names of the overlay for programs of this machine that know addresses only: questions by DNS are answered with addresses that lead to a
//! listener's device, and packets to it become exchanges for the name, as if a client had named it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_admit::entrance::Entrance;
use hermes_config::model::{HostPort, OtherNames, SplitDns};
use hermes_exchange::{BegunFlow, Flows};
use hermes_http::{Frame, Incoming, Outgoing, pipe};
use hermes_net::dns::{ForeignAnswer, NameServers, NoQuestion, Question, QuestionRefusal};
use hermes_net::{PeerAddress, StreamInfo, Watch};
use hermes_observe::Periodic;
use hermes_packet::tun::{
    AskedFlow, CapturedNetwork, DNS_PORT, FlowCarrier, NameQuestion, NamedHosts, TcpFlow, TunHub,
};
use hermes_proto::fields::Fields;
use hermes_rules::{OverlayNames, held_addresses};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long programs may keep an answer, in seconds: much less than a name keeps its addresses.
const TTL: u32 = 60;

/// Questions at once that others are asked.
#[doc(alias = "bound")]
const MAX_FORWARDED: usize = 256;

/// Connections at once on which questions come.
#[doc(alias = "bound")]
const MAX_ASKING: usize = 16;

/// How long such a connection may be silent (RFC 7766, section 6.2.3).
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(10);

/// Bytes of the length before each message (RFC 1035, section 4.2.2).
const LENGTH: usize = 2;

/// The device of a listener whose packets go to names.
pub(super) enum NameDevice {
    /// One of this machine, or of another one.
    Hub(Arc<TunHub>),
    /// That of a captured network.
    Captured(Arc<CapturedNetwork>),
}

/// The description of the sender of a flow.
pub(super) enum FlowSource {
    /// The address from which it sends.
    Itself,
    /// This one, whatever address it has in its own network.
    Of(Arc<StreamInfo>),
}

/// The name server at the device of a listener.
pub(super) struct NameServer {
    entrance: Entrance,
    device: NameDevice,
    source: FlowSource,
    names: Arc<NamedHosts>,
    flows: Arc<Flows>,
    answers: Mutex<Arc<Answers>>,
    forwarded: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    /// Questions for names that got no address.
    full: Periodic,
}

/// The names that one configuration knows.
struct Answers {
    revision: u64,
    names: OverlayNames,
    /// Who knows other names; none: no one is asked.
    others: Option<NameServers>,
}

/// The reply to a message.
enum NameReply {
    /// It is answered so.
    Now(Vec<u8>),
    /// Others are asked.
    Forward(Question),
    /// It is not answered.
    Nothing,
}

/// Answers about the names of a device, and begins the flows to them, until it is closed.
pub(super) async fn serve(entrance: Entrance, hub: Arc<TunHub>, watch: Watch) {
    let Some(names) = hub.names().cloned() else {
        return;
    };
    let device = NameDevice::Hub(hub.clone());
    let server = NameServer::new(entrance, device, names.clone(), FlowSource::Itself);
    tokio::select! {
        () = server.serve(&watch) => {}
        never = hub.carry_names() => match never {},
    }
    names.stack().close();
}

impl NameDevice {
    fn name(&self) -> &str {
        match self {
            Self::Hub(hub) => hub.name(),
            Self::Captured(_) => "captured network",
        }
    }

    fn answer_name(&self, question: &NameQuestion, message: &[u8]) {
        match self {
            Self::Hub(hub) => hub.answer_name(question, message),
            Self::Captured(network) => network.answer_name(question, message),
        }
    }

    async fn closed(&self) {
        match self {
            Self::Hub(hub) => hub.closed().await,
            Self::Captured(network) => network.closed().await,
        }
    }
}

impl NameServer {
    /// The name server of these hosts.
    pub(super) fn new(
        entrance: Entrance,
        device: NameDevice,
        names: Arc<NamedHosts>,
        source: FlowSource,
    ) -> Arc<Self> {
        let flows = hermes_exchange::flows(entrance.clone(), Fields::new());
        let answers = Answers::of(&entrance, &names);
        Arc::new(Self {
            entrance,
            device,
            source,
            names,
            flows: Arc::new(flows),
            answers: Mutex::new(Arc::new(answers)),
            forwarded: Arc::new(Semaphore::new(MAX_FORWARDED)),
            asking: Arc::new(Semaphore::new(MAX_ASKING)),
            full: Periodic::default(),
        })
    }

    /// Answers questions and begins flows until the device is closed, or the node is told to end at once.
    pub(super) async fn serve(self: &Arc<Self>, watch: &Watch) {
        let names = &self.names;
        let answer = async {
            loop {
                let question = names.next_question().await;
                self.answer(question, watch);
            }
        };
        let begin = async {
            loop {
                let asked = names.stack().next_flow().await;
                self.begin(asked, watch);
                // Others have their turn, however many flows a program asks for at once.
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = answer => {}
            () = begin => {}
            never = names.stack().keep_time() => match never {},
            () = self.device.closed() => {}
            () = watch.forced() => {}
        }
    }

    /// The names that are known now.
    fn answers(&self) -> Arc<Answers> {
        let mut answers = self.answers.lock();
        let revision = self.entrance.worker.snapshot().revision;
        if answers.revision != revision {
            *answers = Arc::new(Answers::of(&self.entrance, &self.names));
        }
        answers.clone()
    }

    fn count(&self, answer: &'static str) {
        self.entrance.rules.telemetry.name_asked(answer);
    }

    /// Answers a question that came by UDP.
    fn answer(self: &Arc<Self>, question: NameQuestion, watch: &Watch) {
        match self.reply(&question.message) {
            NameReply::Nothing => {}
            NameReply::Now(answer) => self.device.answer_name(&question, &answer),
            NameReply::Forward(asked) => {
                // Refused rather than queued: a resolver asks again by itself, and a queue would answer questions that no one waits for.
                let Ok(permit) = self.forwarded.clone().try_acquire_owned() else {
                    self.count("crowded");
                    let answer = asked.refuse(QuestionRefusal::Failed);
                    return self.device.answer_name(&question, &answer);
                };
                let own = self.clone();
                let forced = watch.clone();
                watch.spawn(async move {
                    tokio::select! {
                        () = own.forward(question, asked) => drop(permit),
                        () = forced.forced() => {}
                    }
                });
            }
        }
    }

    async fn forward(&self, question: NameQuestion, asked: Question) {
        let answers = self.answers();
        let answer = match &answers.others {
            Some(others) => others.ask(&question.message).await,
            None => None,
        };
        let answer = self.forwarded_answer(&answers, answer, asked);
        self.device.answer_name(&question, &answer);
    }

    /// The answer to a question that was forwarded.
    fn forwarded_answer(
        &self,
        answers: &Answers,
        said: Option<Vec<u8>>,
        asked: Question,
    ) -> Vec<u8> {
        let Some(said) = said else {
            return asked.refuse(QuestionRefusal::Failed);
        };
        let Some(led) = ForeignAnswer::decode(&said) else {
            self.count("malformed");
            return asked.refuse(QuestionRefusal::Failed);
        };
        if !self.rebinds(answers, &led) {
            return said;
        }

        // Anyone who has a name server could lead a browser from its pages to names of the overlay.
        self.count("rebound");
        let name = asked.name().unwrap_or_default();
        tracing::debug!(
            device = self.device.name(),
            name,
            "an answer of others leads to names of the overlay"
        );
        asked.refuse(QuestionRefusal::NoName)
    }

    /// Whether an answer of others leads to names of the overlay, of this listener or of another one.
    fn rebinds(&self, answers: &Answers, said: &ForeignAnswer) -> bool {
        let hubs = self.entrance.worker.shared.devices.hubs();
        let is_ours = |address: IpAddr| {
            let mut pools = hubs.iter().filter_map(|hub| hub.names());
            self.names.covers(address) || pools.any(|names| names.covers(address))
        };
        let mut aliases = said.aliases.iter();
        let mut addresses = said.addresses.iter();
        aliases.any(|name| answers.names.contains(name))
            || addresses.any(|one| is_ours(*one) || held_addresses(*one).any(is_ours))
    }

    /// Decides about a message.
    fn reply(&self, message: &[u8]) -> NameReply {
        let question = match Question::decode(message) {
            Ok(question) => question,
            Err(refused) => {
                self.count("malformed");
                return match refused {
                    NoQuestion::Nothing => NameReply::Nothing,
                    NoQuestion::Answer(answer) => NameReply::Now(answer),
                };
            }
        };

        let answers = self.answers();
        let name = question.name().filter(|name| answers.names.contains(name));
        if let Some(name) = name.map(str::to_owned) {
            return NameReply::Now(self.answer_own(question, message, &name));
        }
        if let Some(address) = question.reverse().filter(|one| self.names.covers(*one)) {
            self.count("answered");
            return NameReply::Now(match self.names.name(address) {
                Some(name) => question.answer_name(message, &name, TTL),
                None => question.refuse(QuestionRefusal::NoName),
            });
        }

        let asks_others = answers.others.as_ref().is_some_and(|one| !one.is_empty());
        if asks_others {
            self.count("forwarded");
            return NameReply::Forward(question);
        }
        self.count("refused");
        NameReply::Now(question.refuse(QuestionRefusal::Refused))
    }

    /// Answers about a name of the overlay.
    fn answer_own(&self, question: Question, message: &[u8], name: &str) -> Vec<u8> {
        match self.names.lease(name) {
            Ok(addresses) => {
                self.count("answered");
                question.answer(message, &addresses, TTL)
            }
            Err(full) => {
                self.count("full");
                // Programs repeat questions that get no answer.
                if let Some(questions) = self.full.count(1, Instant::now()) {
                    tracing::warn!(
                        device = self.device.name(),
                        name,
                        questions,
                        "a name gets no address: {full}; a larger `pool` has room for more names"
                    );
                }
                question.refuse(QuestionRefusal::Failed)
            }
        }
    }

    /// Begins a flow to a name, or to the name server.
    fn begin(self: &Arc<Self>, asked: AskedFlow, watch: &Watch) {
        let AskedFlow {
            client,
            target,
            carrier,
        } = asked;
        // A flow that is dropped here is refused.
        if watch.is_draining() {
            return;
        }
        if self.names.servers().contains(&target.ip()) {
            if let FlowCarrier::Tcp(flow) = carrier {
                self.begin_asking(target, flow, watch);
            }
            return;
        }
        let host = match self.names.name(target.ip()) {
            Some(name) => name.to_string(),
            None if self.names.reaches(target.ip()) => target.ip().to_string(),
            None => return,
        };
        let target = HostPort {
            host,
            port: target.port(),
        };
        self.flows.clone().begin(
            &self.entrance.worker.shared.drain,
            BegunFlow {
                target,
                source: match &self.source {
                    FlowSource::Itself => Arc::new(source(client)),
                    FlowSource::Of(source) => source.clone(),
                },
                carrier,
            },
        );
    }

    /// Takes a connection on which questions come.
    fn begin_asking(self: &Arc<Self>, target: SocketAddr, flow: TcpFlow, watch: &Watch) {
        if target.port() != DNS_PORT {
            return;
        }
        let Ok(permit) = self.asking.clone().try_acquire_owned() else {
            return self.count("crowded");
        };
        let own = self.clone();
        let forced = watch.clone();
        watch.spawn(async move {
            let (outgoing, far_incoming) = pipe(None);
            let (far_outgoing, incoming) = pipe(None);
            // At once: the far end of this connection is this process, and always there.
            flow.accept();
            let both = async {
                tokio::join!(
                    flow.carry(incoming, outgoing),
                    own.answer_all(far_incoming, far_outgoing)
                )
            };
            tokio::select! {
                _ = both => drop(permit),
                () = own.device.closed() => {}
                () = forced.forced() => {}
            }
        });
    }

    /// Answers the questions of one connection, one after the other, until it ends or says nothing for long enough.
    async fn answer_all(&self, mut incoming: Incoming, mut outgoing: Outgoing) {
        let mut waiting = BytesMut::new();
        while let Some(message) = next_message(&mut incoming, &mut waiting).await {
            let Some(answer) = self.answer_by_tcp(&message).await else {
                break;
            };
            // An answer has at most as many bytes as its length can say.
            let length = u16::try_from(answer.len()).unwrap_or_default();
            let written = [&length.to_be_bytes()[..], &answer].concat();
            let sent = timeout(SILENCE, outgoing.data(Bytes::from(written), false)).await;
            if !matches!(sent, Ok(Ok(()))) {
                break;
            }
        }
        // The client may be gone, and has heard all there was.
        let _ = outgoing.finish(None).await;
    }

    async fn answer_by_tcp(&self, message: &[u8]) -> Option<Vec<u8>> {
        match self.reply(message) {
            NameReply::Nothing => None,
            NameReply::Now(answer) => Some(answer),
            NameReply::Forward(asked) => {
                let answers = self.answers();
                let others = answers.others.as_ref()?;
                let answer = others.ask_by_tcp(message).await;
                Some(self.forwarded_answer(&answers, answer, asked))
            }
        }
    }
}

impl Answers {
    fn of(entrance: &Entrance, names: &NamedHosts) -> Self {
        let snapshot = entrance.worker.snapshot();
        let mut entrance = entrance.clone();
        let rules = entrance.renew();
        // A listener that is gone is about to be closed.
        let Some(dns) = rules.config.dns() else {
            return Self {
                revision: snapshot.revision,
                names: OverlayNames::default(),
                others: None,
            };
        };
        Self {
            revision: snapshot.revision,
            names: OverlayNames::of(&snapshot.document, &rules.name, dns),
            others: others(dns, names),
        }
    }
}

/// Who is asked about other names.
fn others(dns: &SplitDns, names: &NamedHosts) -> Option<NameServers> {
    if dns.others == Some(OtherNames::Refuse) {
        return None;
    }
    if !dns.resolvers.is_empty() {
        let servers = dns.resolvers.iter().map(|one| one.0).collect();
        return Some(NameServers::new(servers));
    }

    Some(NameServers::system(names.servers()))
}

/// The next message of a connection; none at its end, where it breaks off or is silent for too long.
async fn next_message(incoming: &mut Incoming, waiting: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(length) = waiting.first_chunk::<LENGTH>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if waiting.len() >= LENGTH + length {
                let mut message = waiting.split_to(LENGTH + length);
                return Some(message.split_off(LENGTH).freeze());
            }
        }
        match timeout(SILENCE, incoming.frame()).await {
            Ok(Some(Ok(Frame::Data(data)))) => waiting.extend_from_slice(&data),
            _ => return None,
        }
    }
}

/// A program of this machine, by the address from which it sends.
fn source(client: SocketAddr) -> StreamInfo {
    StreamInfo {
        peer: PeerAddress::Ip(client),
        local: None,
        tls: None,
        origin: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_of_a_connection_are_told_apart_however_they_come() {
        let (mut sender, mut incoming) = pipe(None);
        let mut waiting = BytesMut::new();
        for part in [&b"\0"[..], b"\x03a", b"bc\0\0\0\x02d", b"e\0\x09cut off"] {
            sender
                .data(Bytes::copy_from_slice(part), false)
                .await
                .unwrap();
        }
        sender.finish(None).await.unwrap();
        let mut messages = Vec::new();
        while let Some(message) = next_message(&mut incoming, &mut waiting).await {
            messages.push(message);
        }
        assert_eq!(messages, [&b"abc"[..], b"", b"de"]);
    }
}

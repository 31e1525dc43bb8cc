//! The typed document: the keys of one node's file.
//!
//! Plain data. Every type derives its JSON Schema, which is the single source of truth for the keys
//! that exist; scalar types with a syntax of their own ([`scalar`]) name it in the schema's
//! `format`.

mod acme;
mod answer;
mod attach;
mod authorize;
mod bind;
mod broadcast;
mod capture;
mod chain;
mod client_address;
mod credentials;
mod data_source;
mod decision_log;
mod defaults;
mod direct;
mod egress;
mod files;
mod flow_log;
mod health;
mod host_capture;
mod keeping;
mod listener;
mod listener_kind;
mod loss;
mod memory;
mod node;
mod pac;
mod packet_policy;
mod plugs;
mod policy;
mod proxy_protocol;
mod rego;
mod resume;
mod retry;
mod route;
pub mod scalar;
mod signed;
mod split_dns;
mod sticky;
mod templates;
mod terminate_by;
mod trace;
mod tun;
mod tunnel;
mod upstream;
mod wireguard;

pub use acme::{Acme, AcmeChallenge, AcmeExternalAccount};
pub use answer::{AltSvc, AnswerChanges};
pub use attach::{Attach, AttachAs, AttachDetails};
pub use authorize::{Authorize, AuthorizeBody, AuthorizeCache, AuthorizeKind, Fail};
pub use bind::{Bind, BindTcp};
pub use broadcast::{Broadcast, Otherwise, Reply};
pub use capture::Capture;
pub use chain::Chain;
pub use client_address::ClientAddress;
pub use credentials::{Credentials, RequestField};
pub use data_source::DataSource;
pub use decision_log::DecisionLog;
pub use defaults::{CustodyNeighbour, CustodySpool, DefaultLimits, Defaults, NodeCustody, NodeTls};
pub use direct::{DirectPath, DirectRace, DirectWord};
pub use egress::Egress;
pub use flow_log::FlowLog;
pub use health::{CheckKind, Eject, Health};
pub use host_capture::{CaptureCongestion, CaptureFailure, CaptureMode, HostCapture};
pub use keeping::{Keepalive, UpstreamLimits};
pub use listener::{
    Auth, AuthMethods, AuthMode, Basic, Bearer, Forged, Limits, Listener, ListenerCongestion,
    ServerTls, UserLimits,
};
pub use listener_kind::{
    AttachListener, CaptureListener, HttpListener, ListenerKind, ProxyHeaders, Purpose, Requests,
    SOCKS, SOCKS_EXPERIMENTAL, SocksListener, TcpListener, TunListener, UdpListener,
};
pub(crate) use listener_kind::{KindKeys, kinds_in};
pub use loss::{LossDetails, LossRecovery, LossWord};
pub use memory::Memory;
pub use node::{Access, Admin, Debug, Document, Log, NodeIdentity, Peer, default_provenance};
pub use pac::{Pac, PacWord};
pub use packet_policy::{FlowOpener, PacketPolicy, PacketRego, PacketRule};
pub use plugs::{PlugSettings, PlugUse};
pub use policy::{Policy, PolicyAnswer, PolicyDefault, PolicyDeny, PolicyRule};
pub use proxy_protocol::{ProxyProtocol, ProxyProtocolVersion};
pub use rego::{Rego, RegoInput};
pub use resume::{Resume, ResumeDetails};
pub use retry::{Backoff, CARRIER, Hedge, Retry, RetryBudget, RetryOn};
pub use route::{
    Action, Datagrams, ExchangeKind, FieldMatch, Hops, Match, Oversize, PathRewrite, Redirect,
    Respond, Rewrite, Route, Terminate, Timeouts,
};
pub use scalar::{
    ByteSize, CertificateName, DecisionPointer, Duration, EndpointAddress, FamilyMember,
    FieldPattern, FilePath, FlowProtocol, HostMatch, HostPort, Hours, HttpUrl, IpProtocol,
    ListenAddress, NameServerAddress, OneOrMany, PathMatch, Percent, PortMatch, ProtocolPort, Rate,
    SpiffeFamily, StatusMatch, SystemUsers, TargetMatch, Template, TemplatePart, TextMatch,
    UpgradeName, UserMatch, UserPattern, Variable, WireguardKey, zone_index,
};
pub use signed::SignedUrls;
pub use split_dns::{NamedEcho, OtherNames, SplitDns};
pub use sticky::Hash;
pub use templates::{Templates, UpstreamTemplates};
pub use terminate_by::TerminateBy;
pub use trace::{Continue, Metrics, Trace, TraceUser};
pub use tun::{
    InterceptedEcho, OtherTunAddress, PacketTermination, SplitTunnel, TerminateIntercept,
    TerminateIp, TerminateTun, Tun, TunDetails, TunSenders,
};
pub use tunnel::{Tunnel, TunnelAnswer, TunnelDetails, TunnelWord};
pub use upstream::{
    Balance, ClientTls, CongestionControl, Endpoint, FieldCase, HttpVersion, SocksChoice,
    SocksVersion, TlsChoice, Upstream,
};
pub use wireguard::{Wireguard, WireguardPeer};

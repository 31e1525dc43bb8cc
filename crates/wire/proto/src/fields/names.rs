//! Names that this program asks for. Each has its number when the program is built, so that no message is searched by text.

use http::HeaderName;

use super::known::NameId;
use super::value::{AsFieldName, FieldName};

/// A known name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownName {
    text: &'static str,
    id: NameId,
}

impl KnownName {
    const fn new(text: &'static str) -> Self {
        Self {
            text,
            id: NameId::known(text),
        }
    }

    /// Its text, in lower case.
    pub const fn as_str(self) -> &'static str {
        self.text
    }
}

impl AsFieldName for KnownName {
    fn field_name(&self) -> FieldName<'_> {
        FieldName(self.text)
    }

    fn id(&self) -> NameId {
        self.id
    }
}

impl PartialEq<KnownName> for FieldName<'_> {
    fn eq(&self, other: &KnownName) -> bool {
        self.0 == other.text
    }
}

impl From<KnownName> for HeaderName {
    fn from(name: KnownName) -> Self {
        Self::from_static(name.text)
    }
}

/// `accept`
pub const ACCEPT: KnownName = KnownName::new("accept");
/// `authorization`
pub const AUTHORIZATION: KnownName = KnownName::new("authorization");
/// `cache-control`
pub const CACHE_CONTROL: KnownName = KnownName::new("cache-control");
/// `connection`
pub const CONNECTION: KnownName = KnownName::new("connection");
/// `keep-alive`
pub const KEEP_ALIVE: KnownName = KnownName::new("keep-alive");
/// `content-encoding`
pub const CONTENT_ENCODING: KnownName = KnownName::new("content-encoding");
/// `content-length`
pub const CONTENT_LENGTH: KnownName = KnownName::new("content-length");
/// `content-type`
pub const CONTENT_TYPE: KnownName = KnownName::new("content-type");
/// `cookie`
pub const COOKIE: KnownName = KnownName::new("cookie");
/// `expect`
pub const EXPECT: KnownName = KnownName::new("expect");
/// `forwarded`
pub const FORWARDED: KnownName = KnownName::new("forwarded");
/// `host`
pub const HOST: KnownName = KnownName::new("host");
/// `location`
pub const LOCATION: KnownName = KnownName::new("location");
/// `max-forwards`
pub const MAX_FORWARDS: KnownName = KnownName::new("max-forwards");
/// `proxy-authenticate`
pub const PROXY_AUTHENTICATE: KnownName = KnownName::new("proxy-authenticate");
/// `proxy-authorization`
pub const PROXY_AUTHORIZATION: KnownName = KnownName::new("proxy-authorization");
/// `proxy-status`
pub const PROXY_STATUS: KnownName = KnownName::new("proxy-status");
/// `retry-after`
pub const RETRY_AFTER: KnownName = KnownName::new("retry-after");
/// `sec-websocket-accept`
pub const SEC_WEBSOCKET_ACCEPT: KnownName = KnownName::new("sec-websocket-accept");
/// `sec-websocket-key`
pub const SEC_WEBSOCKET_KEY: KnownName = KnownName::new("sec-websocket-key");
/// `te`
pub const TE: KnownName = KnownName::new("te");
/// `traceparent`
pub const TRACEPARENT: KnownName = KnownName::new("traceparent");
/// `tracestate`
pub const TRACESTATE: KnownName = KnownName::new("tracestate");
/// `transfer-encoding`
pub const TRANSFER_ENCODING: KnownName = KnownName::new("transfer-encoding");
/// `upgrade`
pub const UPGRADE: KnownName = KnownName::new("upgrade");
/// `user`
pub const USER: KnownName = KnownName::new("user");
/// `user-agent`
pub const USER_AGENT: KnownName = KnownName::new("user-agent");
/// `via`
pub const VIA: KnownName = KnownName::new("via");
/// `www-authenticate`
pub const WWW_AUTHENTICATE: KnownName = KnownName::new("www-authenticate");

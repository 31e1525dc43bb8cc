//! Protocol code without input or output: bytes and text go in, values and bytes come out.
//!
//! It holds the grammars that Hermes speaks. The HTTP/1.1 codec, HTTP/2 with HPACK, HTTP/3 with
//! QPACK, the Capsule Protocol, HTTP datagrams, the templates of proxies, and the fields that a
//! proxy reads and writes on every hop.
//!
//! It opens no socket, reads no clock, draws no random number and knows no async runtime. It takes
//! no decision: whether a target is allowed or a credential is good is decided in crates above.
//!
//! | module | specification |
//! |---|---|
//! | [`h1`] | RFC 9112, with the security rules of RFC 9931 |
//! | [`h2`] | RFC 9113, RFC 7541, RFC 8441 and RFC 9218 |
//! | [`h3`] | RFC 9114, RFC 9218, RFC 9220 and RFC 9297, section 2.1 |
//! | [`qpack`] | RFC 9204, RFC 7541, section 5 and appendix B |
//! | [`quic_version`] | RFC 8999 and RFC 9000, section 6 |
//! | [`varint`] | RFC 9000, section 16 |
//! | [`capsule`] | RFC 9297, section 3 |
//! | [`connect_ip`] | RFC 9484, section 4.7 |
//! | [`connect_tcp`] | draft-ietf-httpbis-connect-tcp |
//! | [`binary_http`] | RFC 9292, of unknown length |
//! | [`custody`] | ours: messages pulled from hop to hop over UDP, where the network comes and goes |
//! | [`datagram`] | RFC 9297, section 2 and RFC 9298, section 5 |
//! | [`datagram_floor`] | ours: which datagrams shall arrive although QUIC datagrams are too small for them |
//! | [`datagram_limit`] | ours: which UDP payloads do not go on, told to the side they come from |
//! | [`batch`] | ours: runs of datagrams, shaped for UDP segmentation offload |
//! | [`udp_bind`] | draft-ietf-masque-connect-udp-listen |
//! | [`ip`] | RFC 791, RFC 8200, and what routers do by RFC 1812 and RFC 4443 |
//! | [`ip_template`] | RFC 9484, sections 3 and 4.6 |
//! | [`udp_template`] | RFC 9298, sections 2 and 3 |
//! | [`uri_template`] | RFC 6570 within RFC 9298, section 2 |
//! | [`resumable`] | ours: tunnels of bytes that outlive their path, with RFC 9297, section 3.2 and draft-ietf-httpbis-connect-tcp |
//! | [`ptth`] | draft-kazuho-ptth-ptth, RFC 7639 |
//! | [`upgrade`] | RFC 9110, section 7.8, RFC 8441, RFC 9220 |
//! | [`path`] | RFC 3986, sections 3.3 and 6.2.2 |
//! | [`host`], [`authority`] | RFC 3986, section 3.2 and RFC 9110, section 4.2 |
//! | [`fields`] | RFC 9110, section 5 |
//! | [`hop`] | RFC 9110, section 7.6.1 |
//! | [`via`] | RFC 9110, section 7.6.3 |
//! | [`forwarded`], [`client_address`] | RFC 7239 |
//! | [`proxy_status`] | RFC 9209, RFC 8941 |
//! | [`refusal_id`] | ours: the name of a refusal, a parameter of `Proxy-Status` |
//! | [`websocket`] | RFC 6455, section 4, with RFC 8441, section 5 |
//! | [`proxy_protocol`] | the PROXY protocol of HAProxy, versions 1 and 2 |
//! | [`protobuf`] | the encoding of Protocol Buffers |
//! | [`credentials`] | RFC 9110, section 11.7, RFC 7617, RFC 6750 |
//! | [`relay`] | ours: publish and subscribe, with RFC 9297, section 3 and RFC 9651 |
//! | [`socks`] | RFC 1928 and RFC 1929, and the memos of SOCKS4 and SOCKS4a |
//! | [`socks6`] | draft-olteanu-intarea-socks-6-11 |
//! | [`trace_context`] | W3C Trace Context, Level 1 and Level 2 |
//!
//! Every decoder has a `fuzz_one` that states its invariants; `fuzz.rs` runs all of them over a committed corpus.
//!
//! Begin reading in [`capsule`]: a decoder as all are, with its limits, its errors and its tests.

pub mod authority;
pub mod batch;
pub mod binary_http;
pub mod capsule;
pub mod client_address;
pub mod connect_ip;
pub mod connect_tcp;
pub mod credentials;
pub mod custody;
pub mod datagram;
pub mod datagram_floor;
pub mod datagram_limit;
pub mod fields;
pub mod forwarded;
pub mod functions_field;
#[cfg(test)]
mod fuzz;
pub mod greeting;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod head;
pub mod hop;
pub mod hop_report;
pub mod host;
pub mod ip;
pub mod ip_template;
pub mod multipath;
pub mod path;
pub mod protobuf;
pub mod proxy_protocol;
pub mod proxy_status;
pub mod ptth;
pub mod qpack;
pub mod quic_version;
pub mod refusal_id;
pub mod relay;
pub mod resumable;
pub mod session_field;
pub mod socks;
pub mod socks6;
pub mod tcp_bind;
pub mod trace_context;
pub mod transform;
pub mod udp_bind;
pub mod udp_template;
pub mod upgrade;
pub mod uri_template;
pub mod varint;
pub mod via;
pub mod websocket;

mod field_rules;
mod gathered;
mod pseudo_fields;
mod quoted;
mod repeats;

//! Sniffing: a flow whose first bytes are not what it claims to be goes no further.
//!
//! The first bytes of a direction are held until they are known to be of one of the protocols; no protocol has its sender wait in the
//! midst of them. They are at most [`LOOKED_AT`].

mod protocol;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_config::Problem;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Admitting, Alter, AlterDatagram, Altering, AlteringDatagrams, Beginning, BeginningDatagrams,
    DatagramFate, Malformed, Payload, Settings, Transform, TunnelSubject,
};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::passing::pass;
use protocol::{LOOKED_AT, Likeness, Protocol, SpeaksFirst};

/// The settings of `sniff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SniffSettings {
    /// The protocols that pass.
    is: Vec<Protocol>,
}

/// Refuses flows that are of none of its protocols. Named alone it knows none, and lets no tunnel begin.
#[derive(Default)]
pub struct Sniff(Arc<[Protocol]>);

impl Sniff {
    fn make(settings: SniffSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        if settings.is.is_empty() {
            let problem = Problem::new("is", "it lets nothing through");
            return Err(vec![problem.remedy("name protocols, such as `tls`")]);
        }
        Ok(Arc::new(Self(settings.is.into())))
    }

    fn of(&self, side: SpeaksFirst) -> Vec<Protocol> {
        let protocols = self.0.iter().copied();
        protocols.filter(|one| one.first() == side).collect()
    }

    /// Refuses what no setting could let through.
    fn judge(&self, fits: bool, subject: &str) -> Result<(), Refusal> {
        if fits {
            return Ok(());
        }
        let details = format!("`sniff` lets no {subject} through here");
        Err(Refusal::new(ProxyError::HttpRequestDenied, details))
    }

    fn altering(&self) -> Altering {
        let of_client = self.of(SpeaksFirst::Client);
        let of_target = self.of(SpeaksFirst::Target);
        // One side proves the protocol: a client that has to speak first where only protocols of servers pass is free to say anything then.
        let direction = |protocols: Vec<Protocol>, other_may_prove: bool| -> Box<dyn Alter> {
            match protocols.is_empty() {
                true => Box::new(Unlooked),
                false => Box::new(SniffedBytes::new(protocols, other_may_prove)),
            }
        };
        Altering {
            to_target: direction(of_client, false),
            to_client: direction(of_target, !self.of(SpeaksFirst::Client).is_empty()),
        }
    }
}

impl Transform for Sniff {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let fits = self.0.iter().any(|protocol| !protocol.is_datagrams());
        let begun = match tunnel.payload {
            Payload::Bytes => self
                .judge(fits, "tunnel of bytes")
                .map(|()| Some(self.altering())),
            Payload::Packets => self.judge(false, "tunnel of IP packets").map(|()| None),
            Payload::Datagrams | Payload::Message => Ok(None),
        };
        Box::pin(std::future::ready(begun))
    }

    fn begin_datagrams<'a>(&'a self, _: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let protocols: Vec<_> = self.of(SpeaksFirst::Datagrams);
        let begun = self.judge(!protocols.is_empty(), "datagrams").map(|()| {
            Some(AlteringDatagrams {
                to_target: Box::new(SniffedDatagrams {
                    protocols,
                    is_known: false,
                }),
                to_client: Box::new(UnlookedDatagrams),
            })
        });
        Box::pin(std::future::ready(begun))
    }

    fn admit<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Admitting<'a> {
        let is_http = self.0.contains(&Protocol::Http);
        Box::pin(std::future::ready(self.judge(is_http, "requests of HTTP")))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }
}

/// A direction that no protocol is known by.
struct Unlooked;

impl Alter for Unlooked {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        pass(input, output);
        Ok(())
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        Ok(true)
    }
}

/// The same for datagrams.
struct UnlookedDatagrams;

impl AlterDatagram for UnlookedDatagrams {
    fn alter(&mut self, _: &[u8], _: &mut BytesMut) -> Result<DatagramFate, String> {
        Ok(DatagramFate::Unchanged)
    }
}

/// A direction by whose first bytes protocols are known.
struct SniffedBytes {
    protocols: Vec<Protocol>,
    /// The first bytes, until they are known.
    held: BytesMut,
    /// Whether it is known to be one of the protocols, or need not be.
    is_known: bool,
    /// Whether bytes of another protocol pass, as the other direction has proved one.
    is_lenient: bool,
}

impl SniffedBytes {
    fn new(protocols: Vec<Protocol>, is_lenient: bool) -> Self {
        Self {
            protocols,
            held: BytesMut::new(),
            is_known: false,
            is_lenient,
        }
    }

    fn look(&mut self) -> Result<(), Malformed> {
        match protocol::likeness(&self.protocols, &self.held) {
            Likeness::Yes => self.is_known = true,
            Likeness::Unsure => {}
            Likeness::No if self.is_lenient => self.is_known = true,
            Likeness::No => return Err(Malformed(unlike(&self.protocols))),
        }
        Ok(())
    }
}

impl Alter for SniffedBytes {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if self.is_known {
            pass(input, output);
            return Ok(());
        }
        let wanted = LOOKED_AT - self.held.len();
        self.held
            .extend_from_slice(&input.split_to(input.len().min(wanted)));
        if self.held.is_empty() {
            return Ok(());
        }
        self.look()?;
        if self.is_known {
            output.extend_from_slice(&std::mem::take(&mut self.held));
        }
        Ok(())
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        if !self.is_known && !self.held.is_empty() && !self.is_lenient {
            return Err(Malformed(unlike(&self.protocols)));
        }
        output.extend_from_slice(&std::mem::take(&mut self.held));
        Ok(true)
    }
}

/// The first datagrams of a client.
struct SniffedDatagrams {
    protocols: Vec<Protocol>,
    is_known: bool,
}

impl AlterDatagram for SniffedDatagrams {
    fn alter(&mut self, datagram: &[u8], _: &mut BytesMut) -> Result<DatagramFate, String> {
        if !self.is_known {
            if protocol::likeness(&self.protocols, datagram) != Likeness::Yes {
                return Err(unlike(&self.protocols));
            }
            self.is_known = true;
        }
        Ok(DatagramFate::Unchanged)
    }
}

fn unlike(protocols: &[Protocol]) -> String {
    let names: Vec<_> = protocols.iter().map(|protocol| protocol.name()).collect();
    format!("the first bytes are not of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(protocols: &[Protocol]) -> Box<dyn Alter> {
        Sniff(protocols.into()).altering().to_target
    }

    fn give(alter: &mut dyn Alter, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut input = Bytes::copy_from_slice(bytes);
        let mut all = Vec::new();
        loop {
            let mut output = BytesMut::new();
            alter.alter(&mut input, &mut output)?;
            if output.is_empty() && input.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&output);
        }
    }

    #[test]
    fn one_byte_at_a_time_is_known_as_the_whole_is_and_nothing_is_lost() {
        let said = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut alter = client(&[Protocol::Tls, Protocol::Http]);
        let mut passed = Vec::new();
        for byte in said {
            passed.extend(give(&mut *alter, &[*byte]).unwrap());
        }
        assert_eq!(passed, said);
    }

    #[test]
    fn nothing_passes_before_a_protocol_is_known() {
        let mut alter = client(&[Protocol::Ssh]);
        assert_eq!(give(&mut *alter, b"SSH").unwrap(), b"");
        assert!(give(&mut *alter, b"?").is_err());
    }

    #[test]
    fn an_end_in_the_midst_of_the_first_bytes_is_refused() {
        let mut alter = client(&[Protocol::Tls]);
        give(&mut *alter, &[0x16, 3]).unwrap();
        assert!(alter.end(&mut BytesMut::new()).is_err());
        let mut silent = client(&[Protocol::Tls]);
        assert!(silent.end(&mut BytesMut::new()).unwrap());
    }

    #[test]
    fn the_held_bytes_are_bounded() {
        let mut alter = client(&[Protocol::Http]);
        let long = [b'A'; 4 * LOOKED_AT];
        assert!(give(&mut *alter, &long).is_err());
    }
}

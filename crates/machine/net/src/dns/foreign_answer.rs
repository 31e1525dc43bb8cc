//! The answer of another name server, as far as it leads a program to an address (RFC 1035, section 4; RFC 9460, section 7.3).

use std::net::IpAddr;

use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::rdata::SVCB;
use hickory_resolver::proto::rr::rdata::svcb::SvcParamValue;
use hickory_resolver::proto::rr::{Name, RData, Record};

use super::question::host;

/// DNAME (RFC 6672), which is read as bytes.
const DNAME: u16 = 39;

/// The addresses and names in an answer, in any of its sections: programs trust additional records
/// as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignAnswer {
    /// Addresses, those that HTTPS and SVCB hint at among them.
    pub addresses: Vec<IpAddr>,
    /// Names that stand for the one that was asked for, as [`super::Question::name`] writes them.
    pub aliases: Vec<String>,
}

impl ForeignAnswer {
    /// Reads a whole message; `None` if it is malformed, or has a DNAME: programs could read it
    /// differently.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let message = Message::from_vec(message).ok()?;
        let mut found = Self::default();
        let sections = [&message.answers, &message.authorities, &message.additionals];
        for record in sections.into_iter().flatten() {
            found.add(record)?;
        }
        Some(found)
    }

    fn add(&mut self, record: &Record) -> Option<()> {
        if u16::from(record.record_type()) == DNAME {
            return None;
        }
        match &record.data {
            RData::A(address) => self.addresses.push(address.0.into()),
            RData::AAAA(address) => self.addresses.push(address.0.into()),
            RData::CNAME(alias) => self.alias(&alias.0),
            RData::ANAME(alias) => self.alias(&alias.0),
            RData::HTTPS(service) => self.add_service(&service.0),
            RData::SVCB(service) => self.add_service(service),
            _ => {}
        }
        Some(())
    }

    fn add_service(&mut self, service: &SVCB) {
        self.alias(&service.target_name);
        for (_, value) in &service.svc_params {
            match value {
                SvcParamValue::Ipv4Hint(hints) => {
                    self.addresses
                        .extend(hints.0.iter().map(|hint| IpAddr::from(hint.0)));
                }
                SvcParamValue::Ipv6Hint(hints) => {
                    self.addresses
                        .extend(hints.0.iter().map(|hint| IpAddr::from(hint.0)));
                }
                _ => {}
            }
        }
    }

    fn alias(&mut self, name: &Name) {
        self.aliases.extend(host(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with one question and these records, each a type and its data, of which the last `additional` are additional ones.
    fn message(records: &[(u16, &[u8])], additional: u8) -> Vec<u8> {
        let answers = u8::try_from(records.len()).unwrap() - additional;
        let mut message = vec![7, 7, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, additional];
        message.extend(b"\x07rebound\x07example\0\0\x01\0\x01");
        for (kind, data) in records {
            message.extend([0xc0, 12]);
            message.extend(kind.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 60]);
            message.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            message.extend(*data);
        }
        message
    }

    fn found(message: &[u8]) -> ForeignAnswer {
        ForeignAnswer::decode(message).unwrap()
    }

    #[test]
    fn every_record_that_leads_to_an_address_is_found() {
        let v4: &[u8] = &[100, 64, 0, 7];
        let v6: &[u8] = &[0xfd, 0x64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let hint_v4 = [&[0, 1, 0, 0, 4, 0, 4][..], v4].concat();
        let hint_v6 = [&[0, 1, 0, 0, 6, 0, 16][..], v6].concat();
        for additional in [0, 1] {
            for record in [(1, v4), (65, &hint_v4), (64, &hint_v4)] {
                let found = found(&message(&[record], additional));
                assert_eq!(found.addresses, [IpAddr::from([100, 64, 0, 7])]);
            }
            for record in [(28, v6), (65, &hint_v6), (64, &hint_v6)] {
                let found = found(&message(&[record], additional));
                assert_eq!(found.addresses, ["fd64::7".parse::<IpAddr>().unwrap()]);
            }
        }
    }

    #[test]
    fn aliases_are_found_and_written_as_questions_write_names() {
        let alias = b"\x05ViDeO\0";
        assert_eq!(found(&message(&[(5, alias)], 0)).aliases, ["video"]);
        let service = [&[0, 0][..], alias].concat();
        assert_eq!(found(&message(&[(65, &service)], 0)).aliases, ["video"]);
        assert_eq!(ForeignAnswer::decode(&message(&[(39, alias)], 0)), None);
    }

    #[test]
    fn what_cannot_be_read_to_its_end_is_no_answer() {
        let whole = message(&[(1, &[100, 64, 0, 7]), (16, b"\x02hi")], 0);
        assert_eq!(found(&whole).addresses.len(), 1);
        for length in 0..whole.len() {
            assert_eq!(ForeignAnswer::decode(&whole[..length]), None, "{length}");
        }
        assert_eq!(
            ForeignAnswer::decode(&message(&[(1, &[100, 64, 0])], 0)),
            None
        );
    }
}

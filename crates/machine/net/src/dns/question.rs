//! Questions of programs, and their answers (RFC 1035, section 4): one question a message, as all
//! that ask do (RFC 9619).

use std::net::IpAddr;

use hickory_resolver::proto::op::{Edns, Header, Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, PTR};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_resolver::proto::serialize::binary::{BinDecodable, BinDecoder};

/// Bytes of an answer that we take and send in one datagram of UDP: the most that fits into a
/// packet of IPv6 on every path (RFC 9715).
const PAYLOAD: u16 = 1232;

/// A question that was decoded.
#[derive(Debug, Clone)]
pub struct Question {
    message: Message,
    /// The name that is asked for, as [names](Question::name) are compared; `None` if it is not a
    /// host name.
    name: Option<String>,
}

/// Why a message is no question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoQuestion {
    /// The message is not a question, or too short: it is not answered.
    Nothing,
    /// The question is malformed, or asks for something unsupported; this is the answer.
    Answer(Vec<u8>),
}

/// Why a question gets no answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionRefusal {
    /// The question is not answered here, and is not passed on.
    Refused,
    /// The question cannot be answered now.
    Failed,
    /// There is no such name.
    NoName,
}

impl Question {
    /// Reads a message. Records behind the question are read only when it is answered here: other
    /// servers may understand more of them.
    ///
    /// # Errors
    /// [`NoQuestion`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NoQuestion> {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).map_err(|_| NoQuestion::Nothing)?;
        if header.metadata.message_type != MessageType::Query {
            return Err(NoQuestion::Nothing);
        }

        let error = |code| NoQuestion::Answer(error(&header, code));
        if header.metadata.op_code != OpCode::Query {
            return Err(error(ResponseCode::NotImp));
        }
        if header.counts.queries != 1 {
            return Err(error(ResponseCode::FormErr));
        }
        let queries = Message::read_queries(&mut decoder, 1);
        let queries = queries.map_err(|_| error(ResponseCode::FormErr))?;

        let mut message = Message::response(header.metadata.id, OpCode::Query);
        message.metadata.recursion_desired = header.metadata.recursion_desired;
        message.metadata.checking_disabled = header.metadata.checking_disabled;
        message.metadata.recursion_available = true;
        let name = queries.first().and_then(|query| host(query.name()));
        message.add_queries(queries);
        Ok(Self { message, name })
    }

    /// The name that is asked for: in lower case, and without the last dot. `None` if it is not a
    /// host name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The address of a reverse lookup, if it is one.
    pub fn reverse(&self) -> Option<IpAddr> {
        let query = self.message.queries.first()?;
        if query.query_type() != RecordType::PTR {
            return None;
        }
        let net = query.name().parse_arpa_name().ok()?;
        (net.prefix_len() == net.max_prefix_len()).then(|| net.addr())
    }

    /// Answers with the addresses of the wanted family, which may be an empty list; they may be
    /// cached for `ttl` seconds. `asked` is the message that it was decoded from.
    pub fn answer(self, asked: &[u8], addresses: &[IpAddr], ttl: u32) -> Vec<u8> {
        let wanted = self.wanted();
        let records = addresses.iter().map(|address| match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        });
        let records = records.filter(|record| wanted.is_none_or(|one| record.record_type() == one));
        let records: Vec<RData> = records.collect();
        self.with(asked, records, ttl)
    }

    /// Answers with the name of the address that it asks for; it may be kept for so many seconds.
    pub fn answer_name(self, asked: &[u8], name: &str, ttl: u32) -> Vec<u8> {
        match Name::from_ascii(name) {
            Ok(mut name) => {
                name.set_fqdn(true);
                self.with(asked, vec![RData::PTR(PTR(name))], ttl)
            }
            Err(_) => self.refuse(QuestionRefusal::NoName),
        }
    }

    /// Answers that there is no answer.
    pub fn refuse(mut self, refusal: QuestionRefusal) -> Vec<u8> {
        self.message.metadata.response_code = match refusal {
            QuestionRefusal::Refused => ResponseCode::Refused,
            QuestionRefusal::Failed => ResponseCode::ServFail,
            QuestionRefusal::NoName => ResponseCode::NXDomain,
        };
        encode(&self.message)
    }

    /// The wanted type of record; `None` for any (RFC 8482, section 4.1).
    fn wanted(&self) -> Option<RecordType> {
        let asked = self.message.queries.first().map(|query| query.query_type());
        asked.filter(|one| *one != RecordType::ANY)
    }

    fn with(mut self, asked: &[u8], records: Vec<RData>, ttl: u32) -> Vec<u8> {
        let Ok(whole) = Message::from_vec(asked) else {
            self.message.metadata.response_code = ResponseCode::FormErr;
            return encode(&self.message);
        };
        // RFC 6891, section 6.1.1: an answer has an OPT where the question has one.
        if whole.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(PAYLOAD);
            self.message.set_edns(edns);
        }

        self.message.metadata.authoritative = true;
        let query = self.message.queries.first();
        let is_internet = query.is_some_and(|query| query.query_class() == DNSClass::IN);
        let name = query.map(|query| query.name().clone()).unwrap_or_default();
        for record in records.into_iter().filter(|_| is_internet) {
            let record = Record::from_rdata(name.clone(), ttl, record);
            self.message.add_answer(record);
        }
        encode(&self.message)
    }
}

/// A name as it is compared, if a host can have it (RFC 1123, section 2.1, and `_`, which services have).
pub(super) fn host(name: &Name) -> Option<String> {
    let text = name.to_ascii().to_ascii_lowercase();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!text.is_empty() && text.bytes().all(is_sound)).then(|| text.to_owned())
}

/// An error about a message that was not understood further than its header.
fn error(header: &Header, code: ResponseCode) -> Vec<u8> {
    let metadata = header.metadata;
    encode(&Message::error_msg(metadata.id, metadata.op_code, code))
}

fn encode(message: &Message) -> Vec<u8> {
    // The records were read, or made of addresses: they fit.
    message.to_vec().unwrap_or_default()
}

/// Reads any bytes as a question, and answers it in all ways: every answer can be read again.
#[doc(hidden)]
pub fn fuzz_question(bytes: &[u8]) {
    let question = match Question::decode(bytes) {
        Ok(question) => question,
        Err(NoQuestion::Nothing) => return,
        Err(NoQuestion::Answer(answer)) => return is_an_answer(bytes, &answer),
    };
    let _ = question.reverse();
    let addresses = [[192, 0, 2, 7].into(), IpAddr::from([0xfd64; 8])];
    is_an_answer(bytes, &question.clone().answer(bytes, &addresses, 60));
    is_an_answer(bytes, &question.clone().answer_name(bytes, "video", 60));
    is_an_answer(bytes, &question.refuse(QuestionRefusal::NoName));
}

/// An answer has the number of its question, and is short: no one can have much sent to others by asking.
fn is_an_answer(question: &[u8], answer: &[u8]) {
    assert_eq!(question[..2], answer[..2]);
    assert!(answer.len() <= question.len() + 128, "{}", answer.len());
    let read = Message::from_vec(answer);
    assert!(read.is_ok_and(|read| read.metadata.message_type == MessageType::Response));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question as `getaddrinfo` asks it.
    fn asked(name: &[&str], kind: u16) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes
    }

    fn answered(bytes: &[u8]) -> Message {
        Message::from_vec(bytes).unwrap()
    }

    const ADDRESSES: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(100, 64, 0, 9)),
        IpAddr::V6(std::net::Ipv6Addr::new(0xfd64, 0, 0, 0, 0, 0, 0, 9)),
    ];

    #[test]
    fn a_question_gets_addresses_of_its_kind() {
        for (kind, count) in [(1, 1), (28, 1), (255, 2), (16, 0), (65, 0)] {
            let bytes = asked(&["VIDEO"], kind);
            let question = Question::decode(&bytes).unwrap();
            assert_eq!(question.name(), Some("video"));
            let answer = answered(&question.answer(&bytes, &ADDRESSES, 60));
            assert_eq!(answer.answers.len(), count, "{kind}");
            assert_eq!(answer.metadata.id, 0x1234);
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
            assert_eq!(answer.queries[0].name().to_ascii(), "VIDEO.");
            assert!(answer.edns.is_none());
        }
    }

    #[test]
    fn a_question_with_an_opt_gets_one() {
        let mut bytes = asked(&["video"], 1);
        bytes[11] = 1;
        bytes.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        let question = Question::decode(&bytes).unwrap();
        let answer = answered(&question.answer(&bytes, &ADDRESSES, 60));
        assert_eq!(answer.edns.unwrap().max_payload(), PAYLOAD);
    }

    #[test]
    fn the_name_of_an_address_is_told() {
        let bytes = asked(&["9", "0", "64", "100", "in-addr", "arpa"], 12);
        let question = Question::decode(&bytes).unwrap();
        assert_eq!(question.reverse(), Some(ADDRESSES[0]));
        let answer = answered(&question.answer_name(&bytes, "video", 60));
        assert_eq!(answer.answers[0].data.to_string(), "video.");

        // A whole network has no reverse name.
        let bytes = asked(&["64", "100", "in-addr", "arpa"], 12);
        assert_eq!(Question::decode(&bytes).unwrap().reverse(), None);
    }

    #[test]
    fn what_is_no_question_is_not_answered_or_refused() {
        for nothing in [&b""[..], &[0; 11], &asked(&["a"], 1)[..11]] {
            assert_eq!(Question::decode(nothing).unwrap_err(), NoQuestion::Nothing);
        }
        let mut answer = asked(&["a"], 1);
        answer[2] |= 0x80;
        assert_eq!(Question::decode(&answer).unwrap_err(), NoQuestion::Nothing);

        let code = |bytes: &[u8]| match Question::decode(bytes).unwrap_err() {
            NoQuestion::Answer(answer) => answered(&answer).metadata.response_code,
            NoQuestion::Nothing => panic!("not answered"),
        };
        // A name that points to itself, and one that is cut off.
        let mut looped = asked(&["a"], 1);
        looped.splice(12..15, [0xc0, 12]);
        assert_eq!(code(&looped), ResponseCode::FormErr);
        assert_eq!(code(&asked(&["a"], 1)[..14]), ResponseCode::FormErr);
        let mut two = asked(&["a"], 1);
        two[5] = 2;
        assert_eq!(code(&two), ResponseCode::FormErr);
        let mut update = asked(&["a"], 1);
        update[2] = 5 << 3;
        assert_eq!(code(&update), ResponseCode::NotImp);
    }

    #[test]
    fn a_name_that_no_host_has_is_no_name_of_the_overlay() {
        let question = Question::decode(&asked(&["a b"], 1)).unwrap();
        assert_eq!(question.name(), None);
        let question = Question::decode(&asked(&[], 1)).unwrap();
        assert_eq!(question.name(), None);
    }

    #[test]
    fn any_bytes_are_answered_well_or_not_at_all() {
        let seeds = [
            asked(&["video"], 1),
            asked(&["9", "0", "64", "100", "in-addr", "arpa"], 12),
        ];
        let mut state = 1_u32;
        for round in 0..20_000 {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..round % 4 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            bytes.truncate(1 + (state >> 16) as usize % bytes.len().max(1));
            fuzz_question(&bytes);
        }
    }
}

//! External authorisation over gRPC: `envoy.service.auth.v3.Authorization/Check`, as servers for Envoy offer it.
//!
//! The messages are written and read by the field numbers that Envoy publishes; of its answer everything is read that says what becomes
//! of the exchange. gRPC itself is a request over HTTP/2 whose content is a message with its length before it, and whose result stands in the
//! trailers.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hermes_http::{AnswerFields, RequestHead, ResponseHead};
use hermes_plug::{Decision, Denial, QueryChanges, Subject};
use hermes_proto::fields::Fields;
use hermes_proto::protobuf::{BadMessage, Message, Reader};
use hermes_rego::present;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;

use super::answer::{self, Answer, Answered, Owned};
use super::envoy;
use super::undecided::Undecided;
use crate::buffered::Content;

/// The method that is called.
pub const PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The content of a question: a `CheckRequest`, with these fields of the exchange.
pub fn question(subject: &Subject<'_>, shown: &Fields) -> Vec<u8> {
    let shown = envoy::input_with(subject, shown);
    let attributes = &shown["attributes"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let asked = &attributes["request"]["http"];
    let mut http = Message::default().text(2, &text(&asked["method"]));
    for (name, value) in asked["headers"].as_object().into_iter().flatten() {
        http = http.entry(3, name, &text(value));
    }
    let http = http
        .text(4, &text(&asked["path"]))
        .text(5, &text(&asked["host"]))
        .text(6, &text(&asked["scheme"]))
        .text(10, &text(&asked["protocol"]));

    let mut context = Message::default()
        .message(1, &peer(&attributes["source"]))
        .message(2, &peer(&attributes["destination"]))
        .message(
            4,
            &Message::default()
                .message(1, &timestamp(present()))
                .message(2, &http),
        );
    for (name, value) in envoy::context(subject) {
        context = context.entry(10, &name, &text(&value));
    }

    framed(&Message::default().message(1, &context).into_bytes())
}

/// A `google.protobuf.Timestamp`: seconds and nanoseconds.
fn timestamp(at: SystemTime) -> Message {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Message::default()
        .number(1, since.as_secs())
        .number(2, since.subsec_nanos().into())
}

/// A `Peer`: address and principal.
fn peer(peer: &Value) -> Message {
    let socket = &peer["address"]["socketAddress"];
    let principal = peer["principal"].as_str().unwrap_or_default();
    let Some(address) = socket["address"].as_str() else {
        return Message::default().text(4, principal);
    };
    let socket = Message::default()
        .text(2, address)
        .number(3, socket["portValue"].as_u64().unwrap_or_default());
    Message::default()
        .message(1, &Message::default().message(1, &socket))
        .text(4, principal)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// A question about nothing.
pub fn empty() -> Vec<u8> {
    framed(&[])
}

/// Makes a head that of a call.
pub fn call(head: &mut RequestHead) {
    head.method = Method::POST;
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    for (name, value) in fields {
        head.fields.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
}

/// Reads an answer. One that decides nothing is refused: the question may be why.
pub fn answer(head: &ResponseHead, content: &Content, owned: &Owned<'_>) -> Answered {
    if head.status != StatusCode::OK {
        return Err(Undecided::status(head.status, "the server"));
    }
    let trailers = content.trailers.as_ref().unwrap_or(&head.fields);
    let result = trailers.get("grpc-status");
    let result = result.and_then(|result| result.to_str().ok()?.parse::<u16>().ok());
    match result {
        Some(0) => {}
        Some(code) => return Err(failed(code)),
        None => return Err(Undecided::unknown("the server's answer has no end")),
    }

    let message = unframed(&content.data).ok_or("the server's answer is not a gRPC message")?;
    let checked = Checked::read(message).map_err(|error| error.to_string())?;
    checked.decide(owned)
}

/// A call that failed, by the codes of gRPC.
fn failed(code: u16) -> Undecided {
    let reason = format!("the server answered {code} (gRPC)");
    match code {
        // INVALID_ARGUMENT, OUT_OF_RANGE.
        3 | 11 => Undecided::client(reason),
        // UNKNOWN and INTERNAL too, which a question can bring about, and UNAVAILABLE, which a crowd of them can.
        _ => Undecided::unknown(reason),
    }
}

/// The one message in a content, not compressed.
fn unframed(content: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = content.split_at_checked(PREFIX)?;
    let [0, length @ ..] = prefix else {
        return None;
    };
    let length = u32::from_be_bytes(length.try_into().ok()?);
    (message.len() as u64 == u64::from(length)).then_some(message)
}

/// A `CheckResponse`.
#[derive(Debug, Default)]
struct Checked {
    /// The code of `status`; `None` if there is none.
    code: Option<u64>,
    denied: bool,
    allowed: bool,
    status: Option<u64>,
    body: String,
    /// Of the exchange, or of its denial.
    fields: Lines,
    remove: Vec<String>,
    /// Of the answer when it comes.
    answer: Lines,
    query: QueryChanges,
    /// Whether a field is to be added in a way that no one knows.
    is_foreign: bool,
}

/// Lines of fields.
#[derive(Debug, Default)]
struct Lines {
    set: Vec<(String, String)>,
    append: Vec<(String, String)>,
    if_absent: Vec<(String, String)>,
    if_present: Vec<(String, String)>,
}

impl Lines {
    /// A `HeaderValueOption`. Where it does not say whether it appends, `appends` does. Returns whether it asks for an unknown action.
    fn read(&mut self, mut reader: Reader<'_>, mut appends: bool) -> Result<bool, BadMessage> {
        let mut pair = (String::new(), String::new());
        let mut action = 0;
        while let Some((field, value)) = reader.next_field()? {
            match field {
                1 => pair = read_pair(value.message()?)?,
                2 => appends = code(value.message()?)? != 0,
                3 => action = value.number()?,
                _ => {}
            }
        }

        // `HeaderAppendAction`; 0 is the default.
        let lines = match (action, appends) {
            (0, true) => &mut self.append,
            (0, false) | (2, _) => &mut self.set,
            (1, _) => &mut self.if_absent,
            (3, _) => &mut self.if_present,
            _ => return Ok(true),
        };
        lines.push(pair);
        Ok(false)
    }
}

impl Checked {
    fn read(message: &[u8]) -> Result<Self, BadMessage> {
        let mut checked = Self::default();
        let mut reader = Reader::new(message);
        while let Some((field, value)) = reader.next_field()? {
            match field {
                1 => checked.code = Some(code(value.message()?)?),
                2 => checked.read_denied(value.message()?)?,
                3 => checked.read_allowed(value.message()?)?,
                _ => {}
            }
        }
        Ok(checked)
    }

    fn read_denied(&mut self, mut reader: Reader<'_>) -> Result<(), BadMessage> {
        self.denied = true;
        while let Some((field, value)) = reader.next_field()? {
            match field {
                1 => self.status = Some(code(value.message()?)?),
                2 => self.is_foreign |= self.fields.read(value.message()?, false)?,
                3 => value.text()?.clone_into(&mut self.body),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_allowed(&mut self, mut reader: Reader<'_>) -> Result<(), BadMessage> {
        self.allowed = true;
        while let Some((field, value)) = reader.next_field()? {
            match field {
                2 => self.is_foreign |= self.fields.read(value.message()?, false)?,
                5 => self.remove.push(value.text()?.to_owned()),
                6 => self.is_foreign |= self.answer.read(value.message()?, true)?,
                7 => self.query.set.push(read_pair(value.message()?)?),
                8 => self.query.remove.push(value.text()?.to_owned()),
                _ => {}
            }
        }
        Ok(())
    }

    fn decide(self, owned: &Owned<'_>) -> Answered {
        if self.is_foreign {
            return Err("the server's answer has an unknown `append_action`".into());
        }

        let allows = self.code == Some(0) || self.code.is_none() && self.allowed;
        match (allows, self.denied) {
            (true, false) => self.allow(owned),
            (true, true) => Err("the server allows and denies".into()),
            (false, _) if self.code.is_some() || self.denied => self.deny(),
            // Nothing at all would be a permission to read of it; it is an empty answer.
            (false, _) => Err("the server's answer is empty".into()),
        }
    }

    fn allow(self, owned: &Owned<'_>) -> Answered {
        let set = fields(&self.fields.set)?;
        let mut changes = owned.changes(set, fields(&self.fields.append)?)?;
        changes.if_absent = owned.conditional(fields(&self.fields.if_absent)?)?;
        changes.if_present = owned.conditional(fields(&self.fields.if_present)?)?;
        changes.query = self.query;
        *changes.answer = owned.answer(AnswerFields {
            set: fields(&self.answer.set)?,
            append: fields(&self.answer.append)?,
            if_absent: fields(&self.answer.if_absent)?,
            if_present: fields(&self.answer.if_present)?,
            ..AnswerFields::default()
        })?;
        for name in &self.remove {
            let name = name.parse().map_err(|_| "a field to remove has no name")?;
            changes.remove.push(name);
        }
        Ok(Answer {
            decision: Decision::Allow(changes),
            reason: "OK".to_owned(),
            lasts: None,
        })
    }

    fn deny(self) -> Answered {
        let status = match self.status {
            None | Some(0) => StatusCode::FORBIDDEN,
            Some(code) => {
                let code = u16::try_from(code).ok();
                let status = code.and_then(|code| StatusCode::from_u16(code).ok());
                answer::denying(status.ok_or("the server's status is not valid")?)
            }
        };
        let mut fields = fields(&self.fields.set)?;
        fields.extend(&self::fields(&self.fields.append)?);
        fields.extend_absent(&self::fields(&self.fields.if_absent)?);
        fields.replace_present(&self::fields(&self.fields.if_present)?);
        answer::without_reserved(&mut fields);

        let content = (!self.body.is_empty()).then(|| Bytes::from(self.body));
        Ok(Answer {
            decision: Decision::Deny(Denial {
                status,
                fields,
                content,
            }),
            reason: status.as_u16().to_string(),
            lasts: None,
        })
    }
}

/// The number that a message has as its first field: a code, a status, a truth value.
fn code(mut reader: Reader<'_>) -> Result<u64, BadMessage> {
    let mut code = 0;
    while let Some((field, value)) = reader.next_field()? {
        if field == 1 {
            code = value.number()?;
        }
    }
    Ok(code)
}

/// A `HeaderValue`: its name and its value, of which there are two kinds.
fn read_pair(mut reader: Reader<'_>) -> Result<(String, String), BadMessage> {
    let mut pair = (String::new(), String::new());
    while let Some((field, value)) = reader.next_field()? {
        match field {
            1 => value.text()?.clone_into(&mut pair.0),
            2 | 3 => value.text()?.clone_into(&mut pair.1),
            _ => {}
        }
    }
    Ok(pair)
}

fn fields(pairs: &[(String, String)]) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for (name, value) in pairs {
        let name: HeaderName = name
            .parse()
            .map_err(|_| "a field of the server's answer has a bad name")?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("{name} of the server's answer is not a field value"))?;
        fields.append(&name, value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use hermes_config::model::FieldPattern;

    use super::*;
    use crate::filter::answer::Others;
    use crate::filter::undecided::Whose;

    fn read(response: Message, result: &'static str) -> Answered {
        read_bytes(framed(&response.into_bytes()), result)
    }

    fn read_bytes(data: Vec<u8>, result: &'static str) -> Answered {
        let patterns: [FieldPattern; 1] = ["x-role".parse().unwrap()];
        let owned = Owned {
            patterns: &patterns,
            others: Others::Ignored,
        };
        let mut trailers = Fields::new();
        trailers.append("grpc-status", HeaderValue::from_static(result));
        let content = Content {
            trailers: Some(trailers),
            ..Content::of(data.into())
        };
        answer(&ResponseHead::new(StatusCode::OK), &content, &owned)
    }

    fn option(name: &str, value: &str) -> Message {
        let pair = Message::default().text(1, name).text(2, value);
        Message::default().message(1, &pair)
    }

    fn status(code: u64) -> Message {
        Message::default().number(1, code)
    }

    #[test]
    fn an_answer_allows_with_the_fields_that_are_taken_over() {
        let ok = Message::default()
            .message(2, &option("x-role", "admin"))
            .message(2, &option("x-other", "1"))
            .text(5, "token");
        let answer = read(
            Message::default().message(1, &status(0)).message(3, &ok),
            "0",
        );
        let Decision::Allow(changes) = answer.unwrap().decision else {
            panic!()
        };
        assert_eq!(changes.set.len(), 1);
        assert_eq!(changes.set.get("x-role").unwrap(), "admin");
        assert_eq!(changes.remove.len(), 2);
    }

    #[test]
    fn an_answer_changes_the_query_and_the_answer_to_come() {
        let ok = Message::default()
            .message(6, &option("x-seen", "yes"))
            .message(6, &option("x-only", "yes").number(3, 2))
            .message(6, &option("x-one", "yes").message(2, &Message::default()))
            .message(6, &option("content-length", "1"))
            .message(7, &Message::default().text(1, "a").text(2, "1"))
            .text(8, "b");
        let answer = read(Message::default().message(3, &ok), "0");
        let Decision::Allow(changes) = answer.unwrap().decision else {
            panic!()
        };
        assert_eq!(changes.query.set, [("a".to_owned(), "1".to_owned())]);
        assert_eq!(changes.query.remove, ["b"]);
        let names = |fields: &Fields| {
            fields
                .names()
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&changes.answer.append), ["x-seen"]);
        assert_eq!(names(&changes.answer.set), ["x-only", "x-one"]);
    }

    #[test]
    fn fields_may_depend_on_what_is_there() {
        let only_new = |name: &str| option(name, "new").number(3, 1);
        let only_old = |name: &str| option(name, "old").number(3, 3);
        let ok = Message::default()
            .message(2, &only_new("x-role"))
            .message(2, &only_new("x-other"))
            .message(2, &only_new("user"))
            .message(6, &only_new("x-a"))
            .message(6, &only_old("x-b"));
        let answer = read(Message::default().message(3, &ok), "0");
        let Decision::Allow(changes) = answer.unwrap().decision else {
            panic!()
        };
        assert_eq!(changes.if_absent.len(), 1);
        assert_eq!(changes.if_absent.get("x-role").unwrap(), "new");
        assert_eq!(changes.answer.if_absent.get("x-a").unwrap(), "new");
        assert_eq!(changes.answer.if_present.get("x-b").unwrap(), "old");

        let denied = Message::default()
            .message(2, &option("x-a", "1"))
            .message(2, &only_new("x-a"))
            .message(2, &only_new("x-b"))
            .message(2, &only_old("x-c"));
        let answer = read(Message::default().message(2, &denied), "0");
        let Decision::Deny(denial) = answer.unwrap().decision else {
            panic!()
        };
        assert_eq!(denial.fields.len(), 2);
        assert_eq!(denial.fields.get("x-a").unwrap(), "1");
        assert_eq!(denial.fields.get("x-b").unwrap(), "new");
    }

    #[test]
    fn an_answer_denies_with_status_fields_and_content() {
        let denied = Message::default()
            .message(1, &status(401))
            .message(2, &option("www-authenticate", "Token"))
            .text(3, "who?");
        let answer = read(
            Message::default()
                .message(1, &status(16))
                .message(2, &denied),
            "0",
        );
        let Decision::Deny(denial) = answer.unwrap().decision else {
            panic!()
        };
        assert_eq!(denial.status, StatusCode::UNAUTHORIZED);
        assert_eq!(denial.fields.get("www-authenticate").unwrap(), "Token");
        assert_eq!(denial.content.unwrap(), "who?");

        let short = read(Message::default().message(1, &status(7)), "0").unwrap();
        let Decision::Deny(denial) = short.decision else {
            panic!()
        };
        assert_eq!(denial.status, StatusCode::FORBIDDEN);
    }

    #[test]
    fn what_is_no_decision_says_whose_doing_it_is() {
        let whose = |answered: Answered| answered.unwrap_err().whose;
        assert_eq!(whose(read(Message::default(), "0")), Whose::Unknown);
        assert_eq!(whose(read(Message::default(), "14")), Whose::Unknown);
        assert_eq!(whose(read(Message::default(), "3")), Whose::Client);
        assert_eq!(whose(read(Message::default(), "8")), Whose::Unknown);
        assert_eq!(whose(read(Message::default(), "x")), Whose::Unknown);
        for bad in [
            &b""[..],
            b"\0\0\0\0\x01",
            b"\x01\0\0\0\0",
            b"\0\0\0\0\x01\x0b",
        ] {
            assert_eq!(
                whose(read_bytes(bad.to_vec(), "0")),
                Whose::Unknown,
                "{bad:?}"
            );
        }
        let both = Message::default()
            .message(1, &status(0))
            .message(2, &Message::default());
        assert!(read(both, "0").is_err());
        let unknown = option("x-a", "1").number(3, 4);
        let added = Message::default().message(6, &unknown);
        assert!(read(Message::default().message(3, &added), "0").is_err());
    }
}

//! Heads as processors see them, and the changes that they ask for.

use bytes::Bytes;
use hermes_http::{RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue, StatusCode, Version};

use super::conversation::misspoken;
use super::messages::{
    HeaderMap, HeaderMutation, HeaderValue as Field, HttpHeaders, ImmediateResponse,
};
use crate::guard;

/// Changes of fields in one answer of a processor.
#[doc(alias = "bound")]
const CHANGES: usize = 256;

/// The head of a request.
pub(super) fn request(head: &RequestHead, is_whole: bool) -> HttpHeaders {
    let path = head.path.as_ref().map_or("/", |path| path.as_str());
    let scheme = head
        .scheme
        .as_ref()
        .map_or("http", |scheme| scheme.as_str());
    let authority = head.authority.as_ref();
    let authority = authority.map_or("", |authority| authority.as_str());
    let pseudo = [
        (":method", head.method.as_str()),
        (":scheme", scheme),
        (":authority", authority),
        (":path", path),
    ];
    shown(&pseudo, &head.fields, is_whole)
}

/// The head of an answer.
pub(super) fn answer(head: &ResponseHead, is_whole: bool) -> HttpHeaders {
    let pseudo = [(":status", head.status.as_str())];
    shown(&pseudo, &head.fields, is_whole)
}

fn shown(pseudo: &[(&str, &str)], fields: &Fields, is_whole: bool) -> HttpHeaders {
    let field = |key: &str, value: &[u8]| Field {
        key: key.to_owned(),
        value: String::new(),
        raw_value: value.to_vec(),
    };
    let mut seen = fields.clone();
    guard::hide(&mut seen);
    let pseudo = pseudo
        .iter()
        .map(|(key, value)| field(key, value.as_bytes()));
    let own = seen.iter();
    let own = own.map(|(name, value)| field(name.as_str(), value.as_bytes()));
    HttpHeaders {
        headers: Some(HeaderMap {
            headers: pseudo.chain(own).collect(),
        }),
        end_of_stream: is_whole,
    }
}

/// The fields of a message after the changes of a processor; those that [guard] names stay as they were.
///
/// # Errors
/// It changes the target or the status, gives malformed fields, or too many.
pub(super) fn changed(own: &Fields, changes: HeaderMutation) -> Result<Fields, Refusal> {
    let mut fields = own.clone();
    let HeaderMutation {
        set_headers,
        remove_headers,
    } = changes;
    if set_headers.len() + remove_headers.len() > CHANGES {
        return Err(misspoken("changes too many fields"));
    }
    for removed in remove_headers {
        fields.remove(name(&removed)?);
    }
    for set in set_headers {
        let Some(Field {
            key,
            value,
            raw_value,
        }) = set.header
        else {
            continue;
        };
        let name = name(&key)?;
        let value = match raw_value.is_empty() {
            true => value.into_bytes(),
            false => raw_value,
        };
        let value = HeaderValue::from_bytes(&value);
        let value = value.map_err(|_| misspoken("gives malformed fields"))?;
        let is_there = fields.contains_key(&name);
        // The numbers are those of `HeaderAppendAction`; `append` is the form before it.
        match (set.append_action, set.append) {
            (0, Some(false)) | (2, _) => {
                fields.insert(name, value);
            }
            (0, _) => fields.append(name, value),
            (1, _) if is_there => {}
            (1, _) => fields.append(name, value),
            (3, _) if is_there => {
                fields.insert(name, value);
            }
            (3, _) => {}
            _ => return Err(misspoken("changes fields in an unknown way")),
        }
    }
    Ok(guard::merge(own, fields))
}

fn name(key: &str) -> Result<HeaderName, Refusal> {
    if key.starts_with(':') {
        return Err(misspoken("changes the target or the status of a message"));
    }
    HeaderName::from_bytes(key.as_bytes()).map_err(|_| misspoken("gives malformed fields"))
}

/// An answer in place of that of the target.
///
/// # Errors
/// It is malformed.
pub(super) fn immediate(answer: ImmediateResponse) -> Result<(ResponseHead, Bytes), Refusal> {
    let code = answer.status.map_or(200, |status| status.code);
    let status = u16::try_from(code)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(|status| !status.is_informational());
    let status = status.ok_or_else(|| misspoken("answers with a status that is none"))?;
    let changes = answer.headers.unwrap_or_default();
    let fields = changed(&Fields::new(), changes)?;
    let head = ResponseHead {
        status,
        fields,
        version: Version::HTTP_11,
    };
    Ok((head, answer.body))
}

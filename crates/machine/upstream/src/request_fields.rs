//! The fields that this node adds to every request to an upstream: credentials, and configured
//! fields.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_config::model::{self, RequestField};
use hermes_config::{Problem, child, secret};
use hermes_http::h1::client::Receiver;
use hermes_proto::fields::Fields;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderName, HeaderValue};

/// Credentials and fields of an upstream, ready to be written. Their values are sensitive: nothing shows them, and no
/// table of HPACK or QPACK keeps them (RFC 7541, section 7.1.3).
#[derive(Debug, Default)]
pub(crate) struct RequestFields {
    credentials: Option<HeaderValue>,
    lines: Vec<(HeaderName, HeaderValue)>,
}

impl RequestFields {
    /// Reads the files that hold secrets.
    ///
    /// # Errors
    /// A file cannot be used, or its content can be no field's value.
    pub(crate) fn build(name: &str, config: &model::Upstream) -> Result<Self, Problem> {
        let path = child("upstreams", name);
        let credentials = config.credentials.as_ref();
        let credentials = credentials
            .map(|credentials| basic(&format!("{path}.credentials.password_file"), credentials))
            .transpose()?;

        let lines = config.fields.iter();
        let lines =
            lines.map(|(name, value)| line(&child(&child(&path, "fields"), name), name, value));
        Ok(Self {
            credentials,
            lines: lines.collect::<Result<_, _>>()?,
        })
    }

    /// Whether there are credentials among them.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// Whether there are no fields.
    pub(crate) fn is_empty(&self) -> bool {
        self.credentials.is_none() && self.lines.is_empty()
    }

    /// Writes them in place of fields of the same names. A proxy and an origin are shown credentials in different fields
    /// (RFC 9110, sections 11.6.2 and 11.7.2).
    pub(crate) fn write(&self, fields: &mut Fields, receiver: Receiver) {
        for (name, value) in &self.lines {
            fields.insert(name, value);
        }

        if let Some(credentials) = &self.credentials {
            let name = match receiver {
                Receiver::Proxy => PROXY_AUTHORIZATION,
                Receiver::Origin => AUTHORIZATION,
            };
            fields.insert(name, credentials);
        }
    }
}

/// `Basic`, of user and password (RFC 7617, section 2).
fn basic(path: &str, credentials: &model::Credentials) -> Result<HeaderValue, Problem> {
    let password = credentials.password_file.secret();
    let password = password.map_err(|reason| Problem::new(path, reason))?;
    // A colon in the user's name is a finding of `lint`; RFC 7617 forbids control characters in both.
    if password.chars().any(char::is_control) {
        return Err(Problem::new(path, "the password holds a control character"));
    }

    let pair = format!("{}:{password}", credentials.user);
    value(path, &format!("Basic {}", STANDARD.encode(pair)))
}

fn line(
    path: &str,
    name: &str,
    field: &RequestField,
) -> Result<(HeaderName, HeaderValue), Problem> {
    let Ok(name) = name.parse::<HeaderName>() else {
        return Err(Problem::new(path, "this is not the name of a field"));
    };
    let value = match field {
        RequestField::Text(text) => value(path, text),
        RequestField::File { file } => value(&child(path, "file"), &read(path, file)?),
        RequestField::Inline { inline } => value(
            &child(path, "inline"),
            inline.trim_end_matches(['\n', '\r']),
        ),
    };
    Ok((name, value?))
}

fn read(path: &str, file: &model::FilePath) -> Result<String, Problem> {
    secret(&file.0).map_err(|reason| Problem::new(path, reason))
}

fn value(path: &str, text: &str) -> Result<HeaderValue, Problem> {
    let trimmed = text.trim_matches([' ', '\t']);
    let is_clean = !trimmed.chars().any(char::is_control);
    match HeaderValue::from_bytes(trimmed.as_bytes()) {
        Ok(mut value) if is_clean => {
            value.set_sensitive(true);
            Ok(value)
        }
        _ => Err(Problem::new(path, "the value holds a control character")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    /// The request fields of an upstream with this password in its file.
    fn built(password: &str) -> Result<RequestFields, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        write(&file, password).unwrap();
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let config = json!({
            "endpoints": ["a:1"],
            "credentials": { "user": "Aladdin", "password_file": file },
            "fields": { "x-key": { "file": file }, "x-tenant": " north " },
        });
        RequestFields::build("office", &serde_json::from_value(config).unwrap())
    }

    #[test]
    fn proxies_and_origins_are_shown_credentials_in_different_fields() {
        let own = built("open sesame\n").unwrap();
        for (receiver, shown, hidden) in [
            (Receiver::Proxy, PROXY_AUTHORIZATION, AUTHORIZATION),
            (Receiver::Origin, AUTHORIZATION, PROXY_AUTHORIZATION),
        ] {
            let mut fields = Fields::new();
            fields.insert(&shown, HeaderValue::from_static("Bearer of-the-client"));
            own.write(&mut fields, receiver);
            // The example of RFC 7617, section 2.
            let expected = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
            let lines: Vec<_> = fields.values(&shown).collect();
            assert_eq!(lines, [expected]);
            assert!(!fields.contains_key(hidden));
            assert_eq!(fields.get("x-key").unwrap(), "open sesame");
            assert_eq!(fields.get("x-tenant").unwrap(), "north");
        }
    }

    #[test]
    fn nothing_shows_the_values() {
        let own = format!("{:?}", built("open sesame").unwrap());
        assert!(!own.contains("QWxh") && !own.contains("sesame"), "{own}");
    }

    #[test]
    fn a_password_of_two_lines_is_refused_without_being_shown() {
        let error = built("open\nsesame").unwrap_err();
        assert_eq!(error.path, "upstreams.office.credentials.password_file");
        assert!(!error.to_string().contains("sesame"), "{error}");
    }
}

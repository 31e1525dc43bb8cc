//! Messages for a channel.

use bytes::Bytes;
use hermes_certified::{Approval, Statement, content_digest};
use hermes_proto::relay::fields::{Delivered, PUBLISH, Publish};
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt;

use crate::channel::Channel;
use crate::connection::{Connection, Content, Trouble, empty, fields, whole};
use crate::error::ClientError;
use crate::seal::SEALED;
use crate::signing;

/// Relays that a publisher is sent to, one after the other, before it gives up.
#[doc(alias = "bound")]
const MAX_REDIRECTS: usize = 4;

/// A message to be published.
///
/// # Examples
/// ```
/// use hermes_relay_client::Outgoing;
///
/// let message = Outgoing::new("21 C").of_topic("temperature").of_type("text/plain");
/// assert!(!message.how.is_reliable);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// Its content.
    pub data: Bytes,
    /// Its media type.
    pub content_type: Option<String>,
    /// The mode, topic and age.
    pub how: Publish,
    /// Seconds that a reliable message waits for room; as the relay likes if absent.
    pub wait: Option<u64>,
}

/// Publishes to one channel, by one connection for all messages.
#[derive(Debug)]
pub struct Publisher {
    channel: Channel,
    /// The first relay, or the rendezvous that knows where the channel is.
    first: Uri,
    connection: Option<Connection>,
}

impl Outgoing {
    /// A message of this content, in the real-time mode.
    #[must_use]
    pub fn new(data: impl Into<Bytes>) -> Self {
        Self {
            data: data.into(),
            ..Self::default()
        }
    }

    /// It waits until each receiver has room.
    #[must_use]
    pub fn reliable(mut self) -> Self {
        self.how.is_reliable = true;
        self
    }

    /// A later message of the topic replaces it where it still waits.
    #[must_use]
    pub fn of_topic(mut self, topic: impl Into<String>) -> Self {
        self.how.topic = Some(topic.into());
        self
    }

    /// Its media type.
    #[must_use]
    pub fn of_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }
}

impl Publisher {
    /// Publishes to this channel: connects with the first message.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Self {
            first: channel.url.clone(),
            channel,
            connection: None,
        }
    }

    /// Publishes a message; the counts of its receivers.
    ///
    /// # Errors
    /// The relay is not there, or refuses, or is none. A message with a number (`how.sequence`) may be published again: it is
    /// delivered once.
    pub async fn publish(&mut self, message: &Outgoing) -> Result<Delivered, ClientError> {
        let (data, kind) = self.sealed(message)?;
        for _ in 0..MAX_REDIRECTS {
            // Signed anew each time: no relay takes a signature twice.
            let request = self.request(message, &data, kind.as_deref())?;
            match self.send(request).await {
                Err(Trouble::Moved(there)) => {
                    self.channel.url = there;
                    self.connection = None;
                }
                Err(Trouble::Failed(error)) => {
                    // Another attempt asks where the channel is now.
                    self.channel.url = self.first.clone();
                    return Err(error);
                }
                Ok(delivered) => return Ok(delivered),
            }
        }
        let url = &self.channel.url;
        let reason = format!("{url}: the relay sends from one to another without an end");
        Err(ClientError::Away(reason))
    }

    /// Says who else may publish to a channel whose key this is, or to one whose receiver's key this is.
    ///
    /// # Errors
    /// The relay is not there, or refuses; or the channel has no key to sign with.
    pub async fn approve(&mut self, approval: &Approval) -> Result<(), ClientError> {
        let Some(key) = self.channel.signing.clone() else {
            let reason = "only the owner of a channel approves of senders: give its key";
            return Err(ClientError::Invalid(reason.to_owned()));
        };
        let path = self.channel.path();
        let text = approval.value();
        let statement = Statement {
            method: "POST",
            target: &path,
            approve: Some(&text),
            ..Statement::default()
        };
        let mut request = Request::new(empty());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri(&path)?;
        signing::sign(&key, &statement, request.headers_mut())?;
        let sent = self.connected(request).await;
        sent.map(|_| ()).map_err(Trouble::error)
    }

    /// The content and media type as they are sent.
    fn sealed(&self, message: &Outgoing) -> Result<(Bytes, Option<String>), ClientError> {
        let Some(seal) = &self.channel.seal else {
            return Ok((message.data.clone(), message.content_type.clone()));
        };
        let sealed = seal.seal(message.content_type.as_deref(), &message.data);
        let sealed = sealed
            .ok_or_else(|| ClientError::Invalid("the system gives no random numbers".to_owned()))?;
        Ok((sealed, Some(SEALED.to_owned())))
    }

    fn request(
        &self,
        message: &Outgoing,
        data: &Bytes,
        kind: Option<&str>,
    ) -> Result<Request<Content>, ClientError> {
        let path = self.channel.path();
        let mut request = Request::new(whole(data.clone()));
        *request.method_mut() = Method::POST;
        // With the grant of a rendezvous, which is not signed.
        *request.uri_mut() = uri(&crate::channel::path(&self.channel.url))?;
        let headers = request.headers_mut();
        let publish = message.how.value();
        if let Some(value) = &publish {
            headers.insert(PUBLISH, value.clone());
        }
        if let Some(kind) = kind {
            let value = HeaderValue::from_str(kind);
            let value = value.map_err(|error| ClientError::Invalid(format!("{kind}: {error}")))?;
            headers.insert(header::CONTENT_TYPE, value);
        }
        if let Some(wait) = message.wait
            && let Ok(value) = HeaderValue::try_from(format!("wait={wait}"))
        {
            headers.insert("prefer", value);
        }
        if let Some(key) = &self.channel.signing {
            let digest = content_digest(data);
            let publish = publish.as_ref().map(HeaderValue::to_str).transpose();
            let statement = Statement {
                method: "POST",
                target: &path,
                content_digest: Some(&digest),
                content_type: kind,
                publish: publish.map_err(|error| ClientError::Invalid(error.to_string()))?,
                approve: None,
            };
            signing::sign(key, &statement, headers)?;
        }
        Ok(request)
    }

    async fn send(&mut self, request: Request<Content>) -> Result<Delivered, Trouble> {
        let answer = self.connected(request).await?;
        let delivered = Delivered::read(&fields(answer.headers()));
        // The connection is free for the next message once this is read.
        drop(answer.into_body().collect().await);
        delivered.ok().flatten().ok_or_else(|| {
            let url = &self.channel.url;
            let reason = format!(
                "{url} is no channel of a relay: it took the message and named no receivers"
            );
            Trouble::Failed(ClientError::Refused(reason))
        })
    }

    async fn connected(
        &mut self,
        request: Request<Content>,
    ) -> Result<http::Response<hyper::body::Incoming>, Trouble> {
        // A connection whose request failed, or was dropped in the midst of it, is not used again.
        let kept = self.connection.take().filter(Connection::is_open);
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::to(&self.channel, &self.channel.url).await?,
        };
        let answer = connection.send(request).await?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

fn uri(path: &str) -> Result<Uri, ClientError> {
    path.parse()
        .map_err(|error| ClientError::Invalid(format!("{path}: {error}")))
}

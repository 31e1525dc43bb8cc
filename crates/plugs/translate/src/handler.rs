//! A request on its way: of the old interface before, of the new one behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_config::Problem;
use hermes_http::{Incoming, RequestHead, ResponseHead, pipe};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Opener, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};
use tokio::sync::oneshot;

use crate::content::ContentPlan;
use crate::mapped::{MappedFile, MappedFiles, within};
use crate::mapping::{Mapping, Translation};
use crate::pumped::{Broken, Pumped};
use crate::settings::TranslateSettings;
use crate::unfit::Unfit;

/// Translates requests and answers.
pub(crate) struct Translate {
    files: Arc<MappedFiles>,
    /// `None`: it was named without one.
    file: Option<Arc<MappedFile>>,
}

/// A request and its answer.
struct Translating {
    file: Arc<MappedFile>,
    mapping: Arc<Mapping>,
    owner: Owner,
    onward: Onward,
    opener: Opener,
}

impl Translate {
    /// Named alone: it refuses all requests.
    pub(crate) fn without_file(files: Arc<MappedFiles>) -> Self {
        Self { files, file: None }
    }

    fn make(
        files: Arc<MappedFiles>,
        settings: &TranslateSettings,
    ) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let file = files.open(&settings.file.0);
        let file = file.map_err(|wrong| wrong.0.into_iter().map(within).collect::<Vec<_>>())?;
        Ok(Arc::new(Self {
            files,
            file: Some(file),
        }))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let internal = |details: &str| Refusal::new(ProxyError::ProxyInternalError, details);
        let HandlerRequest {
            head,
            content,
            user,
            source,
            onward,
            opener,
            ..
        } = request;
        let onward = onward.ok_or_else(|| internal("translate: it stands in `through` only"))?;
        let file = self.file.clone();
        let file = file.ok_or_else(|| {
            internal("translate: it has no file; write `translate: { file: .. }`")
        })?;
        let translating = Translating {
            mapping: file.mapping(),
            file,
            owner: Owner::of(user.as_deref(), &source.peer),
            onward,
            opener,
        };
        translating.run(head, content.into_incoming()).await
    }
}

impl Translating {
    async fn run(self, head: RequestHead, content: Incoming) -> Result<Response, Refusal> {
        let is_head = head.method == Method::HEAD;
        // One mapping for the whole exchange, whatever a reload does meanwhile.
        let translation = self.mapping.request(&head);
        let translation = translation.map_err(|unfit| self.refused(unfit))?;
        let Some(mut translation) = translation else {
            self.file.counts.passed.fetch_add(1, Ordering::Relaxed);
            let (mut answer, content) = self.onward.send(head, content).await?;
            self.mapping.vary(&mut answer.fields);
            return Ok(Response::Stream(answer, content));
        };

        let plan = translation.content.clone();
        let plan = plan.filter(|plan| plan.makes() || !content.is_end());
        // The type of a content that is not there would confuse a server.
        if plan.is_none() && content.is_end() {
            translation.head.fields.remove("content-type");
        }
        let answered = match plan {
            None => self.onward.send(translation.head.clone(), content).await?,
            Some(plan) => self.send(&translation, &plan, content).await?,
        };
        self.file.counts.translated.fetch_add(1, Ordering::Relaxed);
        let (answer, content) = answered;
        self.back(&translation, answer, content, is_head).await
    }

    /// Sends a request whose content is translated.
    async fn send(
        &self,
        translation: &Translation,
        plan: &Arc<ContentPlan>,
        content: Incoming,
    ) -> Result<(ResponseHead, Incoming), Refusal> {
        // Nothing is sent before the first bytes are right: most mistakes cost the next hop nothing.
        let mut pumped = Pumped::new(plan, &translation.scope, content, &self.owner);
        let first = pumped.first().await;
        let first = first.map_err(|broken| self.broken(broken))?;
        let head = translation.head.clone();
        if pumped.is_done() {
            return self
                .onward
                .send(head, Incoming::Full(Some(first.into())))
                .await;
        }

        let (mut outgoing, incoming) = pipe(None);
        let (tells, mut told) = oneshot::channel();
        self.opener.spawn(async move {
            let sent = pumped.send(first, &mut outgoing).await;
            // The reason is told before the stream breaks off, as the next hop answers that with an error of its own.
            let _ = tells.send(sent.err());
        });
        let sending = self.onward.send(head, incoming);
        tokio::pin!(sending);
        tokio::select! {
            biased;
            Ok(Some(broken)) = &mut told => Err(self.broken(broken)),
            answer = &mut sending => answer,
        }
    }

    /// The way back of an answer.
    async fn back(
        &self,
        translation: &Translation,
        mut answer: ResponseHead,
        content: Incoming,
        is_head: bool,
    ) -> Result<Response, Refusal> {
        let left = self.mapping.lead_back(translation, &mut answer.fields);
        self.file.counts.left.fetch_add(left, Ordering::Relaxed);
        let plan = self.mapping.answer(translation, &mut answer);
        let plan = plan.map_err(|unfit| self.refused(unfit.of_answer()))?;
        let plan = plan.filter(|plan| !is_head && (plan.makes() || !content.is_end()));
        let Some(plan) = plan else {
            return Ok(Response::Stream(answer, content));
        };

        // The head waits for the first bytes, so that most mistakes are answered and not broken off.
        let mut pumped = Pumped::new(&plan, &translation.scope, content, &self.owner);
        let first = pumped.first().await.map_err(|broken| match broken {
            Broken::Unfit(unfit) => self.refused(unfit.of_answer()),
            Broken::Gone => {
                let details = "translate: the answer broke off";
                Refusal::new(ProxyError::HttpResponseIncomplete, details)
            }
        })?;
        if pumped.is_done() {
            return Ok(Response::Whole(answer, first.into()));
        }
        let (mut outgoing, incoming) = pipe(None);
        let file = self.file.clone();
        self.opener.spawn(async move {
            let sent = pumped.send(first, &mut outgoing).await;
            // The head has gone: the client sees that the content breaks off, the operator why.
            if let Err(Broken::Unfit(unfit)) = sent {
                file.counts.refuse(&unfit.of_answer().reason);
            }
        });
        Ok(Response::Stream(answer, incoming))
    }

    fn broken(&self, broken: Broken) -> Refusal {
        match broken {
            Broken::Unfit(unfit) => self.refused(unfit),
            Broken::Gone => Refusal::client_gone("translate: its content broke off"),
        }
    }

    fn refused(&self, unfit: Unfit) -> Refusal {
        self.file.counts.refuse(&unfit.reason);
        let error = match unfit.status {
            StatusCode::BAD_GATEWAY => ProxyError::HttpProtocolError,
            StatusCode::SERVICE_UNAVAILABLE => ProxyError::ConnectionLimitReached,
            _ => ProxyError::HttpRequestError,
        };
        let details = format!("translate: {}", unfit.reason);
        Refusal::new(error, details).status(unfit.status)
    }
}

impl Handler for Translate {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let files = self.files.clone();
        Some(Settings::<dyn Handler>::new(
            move |settings: TranslateSettings| Self::make(files.clone(), &settings),
        ))
    }
}

//! The cache as a handler between requests and their next hop: the requests that it answers, and those that pass.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_http::{Incoming, RequestHead};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use http::Method;

use crate::asked::Asked;
use crate::cache_status::{CacheStatus, Forwarded};
use crate::control::{Directives, joined};
use crate::freshness::Wish;
use crate::name::ResourceName;
use crate::precondition;
use crate::selection::keyed;
use crate::settings::{CacheSettings, Rules};
use crate::shared::Shared;

/// Stores answers to GET, and gives them again.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
}

impl Cache {
    /// A cache that knows these responses, with every default.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let rules = CacheSettings::default().rules();
        Self {
            shared,
            rules: Arc::new(rules.expect("the defaults are right")),
        }
    }

    fn make(
        shared: Arc<Shared>,
        settings: &CacheSettings,
    ) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let rules = Arc::new(settings.rules()?);
        Ok(Arc::new(Self { shared, rules }))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            content,
            target,
            user,
            source,
            onward,
            opener,
            ..
        } = request;
        let onward = onward.ok_or_else(|| {
            let details = "`cache` is for `through` of a route";
            Refusal::new(ProxyError::ProxyConfigurationError, details)
        })?;

        let content = content.into_incoming();
        let is_secure = source.tls.is_some();
        let space = &self.rules.space;
        let name = ResourceName::of(space, onward.upstream(), &target, &head, is_secure);
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        if !is_read {
            return self
                .pass(Forwarded::Method, head, content, &onward, &name)
                .await;
        }

        // RFC 9110, section 9.3.1: a content has no meaning here, but some origin may see one.
        let has_content = !content.is_end() && content.length() != Some(0);
        let key = keyed(&head.fields, &self.rules.unkeyed);
        let is_for_origin = has_content || precondition::is_for_origin(&head.fields);
        let Some(keyed) = key.filter(|_| !is_for_origin) else {
            return self
                .pass(Forwarded::Bypass, head, content, &onward, &name)
                .await;
        };

        let owner = Owner::of(user.as_deref(), &source.peer);
        let wish = Wish::of(&Directives::of_request(&head.fields));
        let asked = Asked {
            head,
            name,
            user: user.map(Arc::from),
            owner,
            keyed,
            wish,
            onward,
            opener,
            shared: self.shared.clone(),
            rules: self.rules.clone(),
            collapsed: false,
            opened: None,
        };
        asked.answer().await
    }

    /// Sends on a request that is not for the cache. One that may change its resource invalidates it (section 4.4).
    async fn pass(
        &self,
        forwarded: Forwarded,
        head: RequestHead,
        content: Incoming,
        onward: &Onward,
        name: &ResourceName,
    ) -> Result<Response, Refusal> {
        let is_safe = head.method.is_safe();
        let (mut answer, content) = onward.send(head, content).await?;

        let is_done = answer.status.is_success() || answer.status.is_redirection();
        if !is_safe && is_done {
            let mut has_files = self.shared.invalidate(name);
            for field in ["location", "content-location"] {
                let changed = name.sibling(&joined(&answer.fields, field));
                if let Some(changed) = changed {
                    has_files |= self.shared.invalidate(&changed);
                }
            }
            // The client may count on it from its answer on, also where the node is killed in between.
            if has_files && let Some(disk) = self.shared.disk() {
                disk.settled().await;
            }
        }

        self.shared.counts.bypassed();
        let status = CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        };
        status.append(&mut answer.fields);
        Ok(Response::Stream(answer, content))
    }
}

impl Handler for Cache {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let shared = self.shared.clone();
        Some(Settings::<dyn Handler>::new(
            move |settings: CacheSettings| Self::make(shared.clone(), &settings),
        ))
    }
}

//! A handler of tunnels: it opens one of its own to the first of two places that takes it, and joins both.

use hermes_http::RequestHead;
use hermes_plug::arrival::End;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Connecting, Handler, HandlerRequest, Handling, Opener, TunnelRequest};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use http::uri::Authority;

/// Leads tunnels of bytes to one place, or else to another.
pub struct Detour {
    /// Where they lead.
    pub to: Authority,
    /// Where they lead if that refuses them.
    pub otherwise: Authority,
}

impl Detour {
    async fn join(&self, request: TunnelRequest) -> Result<End, Refusal> {
        let TunnelRequest { head, opener, .. } = request;
        match lead(&opener, &head, &self.to).await {
            Ok(end) => Ok(end),
            Err(_) => lead(&opener, &head, &self.otherwise).await,
        }
    }
}

impl Handler for Detour {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, "only tunnels are led on");
        let refused = Err(refusal.status(StatusCode::METHOD_NOT_ALLOWED));
        Box::pin(std::future::ready(refused))
    }

    fn tunnel(&self, request: TunnelRequest) -> Connecting<'_> {
        Box::pin(self.join(request))
    }
}

/// Opens the same tunnel to another place.
async fn lead(opener: &Opener, head: &RequestHead, to: &Authority) -> Result<End, Refusal> {
    let head = RequestHead {
        authority: Some(to.clone()),
        ..head.clone()
    };
    let opened = opener.tunnel(head).await?;
    Ok(End::Stream(opened.incoming, opened.outgoing))
}

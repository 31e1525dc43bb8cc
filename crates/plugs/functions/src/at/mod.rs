//! Functions at a node further on.

pub(crate) mod keyring;
pub(crate) mod plug;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_config::Problem;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Admitting, Beginning, BeginningDatagrams, FunctionSignatures, Payload, Settings, Transform,
    TunnelSubject,
};
use hermes_proto::functions_field::{
    DoneFunctions, FUNCTIONS, NodeFunctions, SignedFunctions, is_name,
};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use keyring::{Keyring, SharedKey, Unbelieved};

/// The settings of `at`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AtSettings {
    /// The name of the node.
    node: String,
    /// Names in its `functions`, in their order.
    #[serde(rename = "do")]
    functions: Vec<String>,
}

impl AtSettings {
    /// The part of the field.
    fn compile(self) -> Result<NodeFunctions, Vec<Problem>> {
        let mut problems = Vec::new();
        if !is_name(&self.node) {
            let problem = Problem::new("node", "this can be no name of a node");
            problems.push(problem.remedy("write the `node` of the document there"));
        }
        if self.functions.is_empty() || self.functions.len() > FUNCTIONS {
            let problem = Problem::new("do", "the number of functions is out of range");
            problems.push(problem.remedy("write 1 to 8"));
        }
        for (index, name) in self.functions.iter().enumerate() {
            if !is_name(name) {
                let problem =
                    Problem::new(format!("do[{index}]"), "this can be no name of a function");
                problems.push(problem.remedy("write one of `functions` of the document there"));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(NodeFunctions {
            node: self.node,
            functions: self.functions,
        })
    }
}

/// Asks a node further on for its functions. Named alone it asks none, and lets nothing through.
#[derive(Default)]
pub struct At {
    asked: Option<NodeFunctions>,
    keyring: Arc<Keyring>,
}

impl At {
    /// With these keys.
    pub(crate) fn new(keyring: Arc<Keyring>) -> Self {
        Self {
            asked: None,
            keyring,
        }
    }

    /// Only tunnels are opened by one answer, which tells whether the node has done its part. A node between may send a request twice,
    /// or answer it of its cache.
    fn judge(&self, payload: Payload) -> Result<(), Refusal> {
        let details = match (&self.asked, payload) {
            (Some(_), Payload::Bytes | Payload::Datagrams) => return Ok(()),
            (Some(_), Payload::Message | Payload::Packets) => {
                "functions of other nodes are for tunnels of bytes or datagrams"
            }
            (None, _) => "`at` has no node: give it `node` and `do`",
        };
        Err(refused(details))
    }

    fn key(&self, node: &str) -> Result<Arc<SharedKey>, Refusal> {
        let key = self.keyring.of(node);
        key.ok_or_else(|| refused(format!("no key is shared with the node {node}")))
    }
}

impl Transform for At {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let judged = self.judge(tunnel.payload);
        Box::pin(std::future::ready(judged.map(|()| None)))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let judged = self.judge(tunnel.payload);
        Box::pin(std::future::ready(judged.map(|()| None)))
    }

    fn admit<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Admitting<'a> {
        Box::pin(std::future::ready(self.judge(Payload::Message)))
    }

    fn elsewhere(&self) -> Option<&NodeFunctions> {
        self.asked.as_ref()
    }

    fn signatures(&self) -> Option<&dyn FunctionSignatures> {
        Some(self)
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        let keyring = self.keyring.clone();
        Some(Settings::<dyn Transform>::new(
            move |settings: AtSettings| {
                let at: Arc<dyn Transform> = Arc::new(Self {
                    asked: Some(settings.compile()?),
                    keyring: keyring.clone(),
                });
                Ok(at)
            },
        ))
    }

    fn memory(&self) -> usize {
        0
    }
}

impl FunctionSignatures for At {
    fn sign(
        &self,
        from: &str,
        functions: &NodeFunctions,
        target: &str,
    ) -> Result<SignedFunctions, Refusal> {
        let key = self.key(&functions.node)?;
        let mut signed = SignedFunctions {
            functions: functions.clone(),
            from: from.to_owned(),
            at: now(),
            once: random()?,
            mac: [0; 32],
        };
        signed.mac = key.sign(&signed.text(target));
        Ok(signed)
    }

    fn take(&self, asked: &SignedFunctions, target: &str) -> Result<DoneFunctions, Refusal> {
        let key = self.key(&asked.from)?;
        let taken = match key.is_of(&asked.mac, &asked.text(target)) {
            // Remembered only if it is genuine: no one else fills this memory.
            true => key.take(asked.at, asked.once, now()),
            false => Err(Unbelieved::Forged),
        };
        taken.map_err(|why| unbelieved(asked, why))?;

        Ok(DoneFunctions {
            node: asked.functions.node.clone(),
            mac: key.sign(&asked.proof_text(target)),
        })
    }

    fn is_proof(&self, asked: &SignedFunctions, target: &str, done: &DoneFunctions) -> bool {
        let key = self.keyring.of(&asked.functions.node);
        key.is_some_and(|key| key.is_of(&done.mac, &asked.proof_text(target)))
    }
}

fn unbelieved(asked: &SignedFunctions, why: Unbelieved) -> Refusal {
    let from = &asked.from;
    let details = match why {
        Unbelieved::Forged => format!(
            "the functions that {from} asks for are signed for another tunnel, or by another key"
        ),
        Unbelieved::Expired => {
            format!("{from} asked for functions too long ago, or its clock differs by over 30 s")
        }
        Unbelieved::Replayed => {
            format!("{from} asked for functions by a signature that was used before")
        }
        Unbelieved::Full => {
            let details = format!("{from} asks for functions of too many tunnels at once");
            return Refusal::new(ProxyError::ConnectionLimitReached, details)
                .status(StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::FORBIDDEN)
}

fn refused(details: impl Into<String>) -> Refusal {
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn random() -> Result<u64, Refusal> {
    let mut bytes = [0; 8];
    let filled = aws_lc_rs::rand::fill(&mut bytes);
    let failed = |_| Refusal::new(ProxyError::ProxyInternalError, "there is no randomness");
    filled.map_err(failed)?;
    Ok(u64::from_be_bytes(bytes))
}

//! Functions that nodes ask each other for, along a tunnel of bytes or of datagrams.

use std::sync::Arc;

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_http::h1::client::Receiver;
use hermes_plug::refusal::Refusal;
use hermes_plug::{FunctionSignatures, Payload, Transform};
use hermes_proto::fields::Fields;
use hermes_proto::functions_field::{self, DoneFunctions, NODES, SignedFunctions};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

/// The functions of a tunnel that nodes have asked each other for.
#[derive(Default)]
pub(crate) struct Beyond {
    /// Those for this node, and the proof that they are done; `None` if it is not asked.
    here: Option<HereFunctions>,
    /// Those that nodes before this one ask of nodes behind it.
    passed_on: Vec<SignedFunctions>,
    /// Those that this node asks for.
    own: Vec<SignedFunctions>,
    /// Proofs of nodes behind this one for nodes before it.
    done: Vec<DoneFunctions>,
    /// The target, as it is signed.
    target: String,
    /// The transform with the keys, once something is asked for.
    keys: Option<Arc<dyn Transform>>,
}

/// The functions that this node is asked for.
struct HereFunctions {
    functions: Vec<(String, Arc<dyn Transform>)>,
    proof: DoneFunctions,
}

impl Beyond {
    /// Takes the field out of a request, and adds the part of the route.
    ///
    /// # Errors
    /// It is malformed or not to be believed, asks for functions that this node has not, or for a node that does not follow.
    pub(crate) fn of(
        routed: &Routed,
        head: &mut RequestHead,
        next: &Next,
        payload: Payload,
    ) -> Result<Self, Refusal> {
        let taken = functions_field::take(&mut head.fields).map_err(|error| {
            Refusal::new(ProxyError::HttpRequestError, error.to_string())
                .status(StatusCode::BAD_REQUEST)
        })?;
        if taken.is_empty() && next.through.elsewhere.is_empty() {
            return Ok(Self::default());
        }
        if payload == Payload::Packets {
            let details = "functions of other nodes take no tunnels of IP packets";
            return Err(refused(details.to_owned()));
        }

        let keys = next.through.known.find("at").ok().cloned();
        let mut beyond = Self {
            target: routed.target.canonical().with_path(""),
            keys,
            ..Self::default()
        };
        let node = &*routed.snapshot.node.name;
        for asked in taken {
            match *asked.functions.node == *node {
                true => beyond.here = Some(beyond.take(next, &asked, payload)?),
                false => beyond.passed_on.push(asked),
            }
        }
        for functions in &next.through.elsewhere {
            let signed = beyond.signatures()?.sign(node, functions, &beyond.target)?;
            beyond.own.push(signed);
        }

        beyond.check(next)?;
        Ok(beyond)
    }

    fn signatures(&self) -> Result<&dyn FunctionSignatures, Refusal> {
        let signatures = self.keys.as_ref().and_then(|keys| keys.signatures());
        signatures
            .ok_or_else(|| refused("this program asks no other nodes for functions".to_owned()))
    }

    /// Judges what this node is asked for, and finds it.
    fn take(
        &self,
        next: &Next,
        asked: &SignedFunctions,
        payload: Payload,
    ) -> Result<HereFunctions, Refusal> {
        let proof = self.signatures()?.take(asked, &self.target)?;
        let is_proxy = next.receiver() == Receiver::Proxy;
        let mut functions = Vec::with_capacity(asked.functions.functions.len());
        for name in &asked.functions.functions {
            let Some(transform) = next.through.defined.get(name) else {
                return Err(refused(format!(
                    "this node has no function {name} for tunnels"
                )));
            };
            // Left out it would be no proof.
            if transform.needs_peer() && !is_proxy {
                return Err(refused(format!(
                    "nothing undoes {name} where the overlay ends"
                )));
            }
            if transform.needs_peer() && payload == Payload::Datagrams {
                return Err(refused(format!("{name} does nothing to datagrams")));
            }
            if transform.elsewhere().is_some() {
                return Err(refused(format!("{name} is a function of another node")));
            }
            functions.push((name.clone(), transform.clone()));
        }
        Ok(HereFunctions { functions, proof })
    }

    /// Each node is asked by one, and there is one to go on to.
    fn check(&self, next: &Next) -> Result<(), Refusal> {
        let asked = || self.passed_on.iter().chain(&self.own);
        let Some(first) = asked().next() else {
            return Ok(());
        };
        let mut names: Vec<_> = asked().map(|asked| &asked.functions.node).collect();
        names.sort_unstable();
        names.dedup();
        let nodes = asked().count();
        if names.len() < nodes || nodes > NODES {
            return Err(refused(
                "functions of too many nodes, or of one node for two".to_owned(),
            ));
        }
        match next.receiver() {
            Receiver::Proxy => Ok(()),
            Receiver::Origin => {
                let node = &first.functions.node;
                Err(refused(format!("no node {node} is on the way")))
            }
        }
    }

    /// Whether no node has asked for anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.here.is_none() && self.passed_on.is_empty() && self.own.is_empty()
    }

    /// Whether a node before this one has asked for something: it signed that for one path, and has to ask again for another.
    pub(crate) fn is_of_others(&self) -> bool {
        self.here.is_some() || !self.passed_on.is_empty()
    }

    /// The functions that are asked for here, before those of the route.
    pub(crate) fn here(&self) -> impl Iterator<Item = &(String, Arc<dyn Transform>)> {
        self.here.iter().flat_map(|here| &here.functions)
    }

    /// Asks the nodes further on.
    pub(crate) fn ask(&self, head: &mut RequestHead) {
        functions_field::write(self.passed_on.iter().chain(&self.own), &mut head.fields);
    }

    /// Whether the nodes that this one has asked have proved that they did their part.
    ///
    /// # Errors
    /// One has not.
    pub(crate) fn confirmed(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let done = functions_field::take_done(fields);
        for asked in &self.own {
            let node = &asked.functions.node;
            let signatures = self.signatures()?;
            let is_done = done
                .iter()
                .any(|done| done.node == *node && signatures.is_proof(asked, &self.target, done));
            if !is_done {
                return Err(refused(format!(
                    "the node {node} has not proved that it did its functions"
                )));
            }
        }

        // Those of this node's own part are none of the client's business.
        let passed_on = &self.passed_on;
        let is_passed_on = |done: &DoneFunctions| {
            passed_on
                .iter()
                .any(|asked| asked.functions.node == done.node)
        };
        self.done = done.into_iter().filter(is_passed_on).collect();
        Ok(())
    }

    /// Tells the nodes before that this one, and those behind it, have done their part.
    pub(crate) fn confirm(&self, fields: &mut Fields) {
        let own = self.here.iter().map(|here| &here.proof);
        functions_field::write_done(own.chain(&self.done), fields);
    }
}

fn refused(details: String) -> Refusal {
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

//! Starts the processes of a system.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::decider::Decider;
use super::envoy::{self, EnvoyDecision};
use super::hermes::{self, NodeDecision};
use super::rules::{FEW, MANY, REGO, REGO_OF_DATA_API};
use crate::peers::{Surroundings, ports};
use crate::process::Process;

/// The file of the policy in Rego, within the folder.
const POLICY: &str = "policy.rego";

/// The place of a system.
pub(super) struct Launch<'a> {
    /// Where its proxy listens.
    pub address: SocketAddr,
    /// Programs, and the origin.
    pub around: &'a Surroundings,
    /// The folder of its files.
    pub folder: &'a Path,
}

/// A server that decides.
struct DecisionServer {
    process: Process,
    address: SocketAddr,
}

impl Launch<'_> {
    /// Starts the processes; they may not be ready yet.
    ///
    /// # Errors
    /// When a file cannot be written, or a program is missing.
    pub(super) fn start(&self, decider: Decider) -> Result<Vec<Process>> {
        let node = |decision: NodeDecision<'_>| Ok(vec![self.node(&decision)?]);
        let envoy = |decision: EnvoyDecision| Ok(vec![self.envoy(&decision)?]);

        match decider {
            Decider::Hermes => node(NodeDecision::Nothing),
            Decider::Native10 => node(NodeDecision::Rules(FEW)),
            Decider::Native10000 => node(NodeDecision::Rules(MANY)),
            Decider::Unindexed10000 => node(NodeDecision::Unindexed(MANY)),
            Decider::Rego => {
                fs::write(self.folder.join(POLICY), REGO)?;
                node(NodeDecision::Rego(POLICY))
            }
            Decider::HermesOpa => {
                let server = self.opa()?;
                let node = self.node(&NodeDecision::Opa(server.address))?;
                Ok(vec![server.process, node])
            }
            Decider::HermesGrpc => {
                let server = self.opa_plugin()?;
                let node = self.node(&NodeDecision::Grpc(server.address))?;
                Ok(vec![server.process, node])
            }
            Decider::Envoy => envoy(EnvoyDecision::Nothing),
            Decider::Rbac10 => envoy(EnvoyDecision::Rbac(FEW)),
            Decider::Rbac10000 => envoy(EnvoyDecision::Rbac(MANY)),
            Decider::EnvoyOpa => {
                let server = self.opa_plugin()?;
                let envoy = self.envoy(&EnvoyDecision::Opa(server.address))?;
                Ok(vec![server.process, envoy])
            }
        }
    }

    fn node(&self, decision: &NodeDecision<'_>) -> Result<Process> {
        let file = self.folder.join("node.yaml");
        let document = hermes::document(self.address, &self.around.origin, decision);
        fs::write(&file, document)?;
        let arguments = ["run".as_ref(), file.as_os_str()];
        Process::start(
            "node",
            self.folder,
            &self.around.programs.hermes,
            &arguments,
        )
    }

    fn envoy(&self, decision: &EnvoyDecision) -> Result<Process> {
        let file = self.folder.join("envoy.json");
        let document = envoy::document(self.address, &self.around.origin, decision);
        fs::write(&file, document)?;
        let arguments = [
            // One thread, as the node has one worker: costs of a decision are those of one thread.
            "--concurrency".as_ref(),
            "1".as_ref(),
            "--disable-hot-restart".as_ref(),
            "--log-level".as_ref(),
            "error".as_ref(),
            "-c".as_ref(),
            file.as_os_str(),
        ];
        Process::start(
            "envoy",
            self.folder,
            &self.around.programs.envoy,
            &arguments,
        )
    }

    /// OPA's server, with its data API.
    fn opa(&self) -> Result<DecisionServer> {
        let address = ports::free()?;
        let listens = address.to_string();
        let policy = self.folder.join(POLICY);
        fs::write(&policy, REGO_OF_DATA_API)?;
        let arguments = [
            "run".as_ref(),
            "--server".as_ref(),
            "--log-level".as_ref(),
            "error".as_ref(),
            "--addr".as_ref(),
            listens.as_ref(),
            policy.as_os_str(),
        ];
        let process = Process::start("opa", self.folder, &self.around.programs.opa, &arguments)?;

        Ok(DecisionServer { process, address })
    }

    /// OPA with its plugin for Envoy.
    fn opa_plugin(&self) -> Result<DecisionServer> {
        let address = ports::free()?;
        let listens = format!("plugins.envoy_ext_authz_grpc.addr={address}");
        let policy = self.folder.join(POLICY);
        fs::write(&policy, REGO)?;
        // Its data API listens too; nothing asks it.
        let api = ports::free()?.to_string();
        let arguments = [
            "run".as_ref(),
            "--server".as_ref(),
            "--disable-telemetry".as_ref(),
            "--log-level".as_ref(),
            "error".as_ref(),
            "--addr".as_ref(),
            api.as_ref(),
            "--set".as_ref(),
            listens.as_ref(),
            "--set".as_ref(),
            "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow".as_ref(),
            policy.as_os_str(),
        ];
        let opa = &self.around.programs.opa_envoy;
        let process = Process::start("opa-envoy", self.folder, opa, &arguments)?;

        Ok(DecisionServer { process, address })
    }
}

//! Asking a controller on this machine.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use serde::Serialize;
use serde_json::Value;

use crate::admin;
use crate::failure::Failure;

/// Which controller is meant.
#[derive(Debug, Clone, Default, Args)]
pub struct ControllerSocket {
    /// Socket of the controller. Default: `controller/controller.sock` in the folder for state.
    #[arg(long, value_name = "PATH", env = "HERMES_CONTROLLER_SOCKET", hide_env = true)]
    controller: Option<PathBuf>,
}

impl ControllerSocket {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.controller {
            Some(path) => Ok(path.clone()),
            None => Ok(super::folder(None, "controller")?.join(super::SOCKET)),
        }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// The controller cannot be reached, or refuses.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, "").await
    }

    /// Makes a request.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn post(&self, path: &str, asked: &impl Serialize) -> Result<Value, Failure> {
        let body = serde_json::to_string(asked)
            .map_err(|error| Failure::failed(format!("the request: {error}")))?;
        self.call(Method::POST, path, &body).await
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> Result<Value, Failure> {
        let socket = self.path()?;
        if !socket.exists() {
            return Err(Failure::unreachable(format!("no controller runs here: there is no {}", socket.display()))
                .remedy("start one with `hermes controller --node NAME`, or name its socket with --controller PATH"));
        }
        let (status, answer) = admin::call(&socket, method, path, body).await?;
        match status {
            200 => Ok(answer),
            _ => Err(refused(status, &answer)),
        }
    }
}

fn refused(status: u16, answer: &Value) -> Failure {
    let reason = answer["error"].as_str().map_or_else(|| answer.to_string(), str::to_owned);
    let problems = serde_json::from_value(answer["problems"].clone()).unwrap_or_default();
    let failure = match status {
        400 | 422 => Failure::invalid(reason),
        _ => Failure::failed(reason),
    };
    Failure { problems, ..failure }
}

//! Asking a controller on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hermes_config::{Place, Problem};
use http::Method;
use serde::Serialize;
use serde_json::Value;

use crate::admin;
use crate::failure::Failure;
use crate::output::note;

/// How often a change is asked for while another one spreads: for ten minutes.
#[doc(alias = "bound")]
const TURNS: u32 = 1200;

/// The pause between.
const TURN: Duration = Duration::from_millis(500);

/// Which controller is meant.
#[derive(Debug, Clone, Default, Args)]
pub struct ControllerSocket {
    /// Socket of the controller. Default: `controller/controller.sock` in the folder for state.
    #[arg(
        long,
        value_name = "PATH",
        env = "HERMES_CONTROLLER_SOCKET",
        hide_env = true
    )]
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
        self.call(Method::POST, path, &body(asked)?).await
    }

    /// Makes a request that changes the overlay. While another change spreads, it waits for its end.
    ///
    /// # Errors
    /// As for [`get`](Self::get); or the other change spreads for too long.
    pub async fn change(&self, path: &str, asked: &impl Serialize) -> Result<Value, Failure> {
        let body = body(asked)?;
        let mut turn = 0;
        loop {
            let (status, answer) = self.answer(Method::POST, path, &body).await?;
            turn += 1;
            if answer["spreads"].is_null() || turn == TURNS {
                return granted(status, answer);
            }
            if turn == 1 {
                let reason = answer["error"].as_str().unwrap_or_default();
                note(format_args!("{reason}; waiting for its end"));
            }
            tokio::time::sleep(TURN).await;
        }
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> Result<Value, Failure> {
        let (status, answer) = self.answer(method, path, body).await?;
        granted(status, answer)
    }

    /// An answer with its status.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<(u16, Value), Failure> {
        let socket = self.path()?;
        // Said apart from a controller that does not answer: the remedy is another one.
        if !socket.exists() {
            return Err(Failure::unreachable(format!("no controller runs here: there is no {}", socket.display()))
                .remedy("start one with `hermes controller --node NAME`, or name its socket with --controller PATH"));
        }
        admin::call(&socket, method, path, body).await
    }
}

fn body(asked: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(asked).map_err(|error| Failure::failed(format!("the request: {error}")))
}

fn granted(status: u16, answer: Value) -> Result<Value, Failure> {
    match status {
        200 => Ok(answer),
        _ => Err(refused(status, &answer)),
    }
}

fn refused(status: u16, answer: &Value) -> Failure {
    let reason = answer["error"]
        .as_str()
        .map_or_else(|| answer.to_string(), str::to_owned);
    let problems = answer["problems"].as_array().into_iter().flatten();
    let problems = problems.map(problem).collect();
    let failure = match status {
        400 | 422 => Failure::invalid(reason),
        _ => Failure::failed(reason),
    };
    Failure {
        problems,
        ..failure
    }
}

/// A mistake in a resource, named by the resource and the field.
fn problem(found: &Value) -> Problem {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let path = text(&found["path"]).unwrap_or_default();
    let path = match (found["resource"].as_str(), path.as_str()) {
        (Some(resource), "") => resource.to_owned(),
        (Some(resource), path) => format!("{resource}: {path}"),
        (None, path) => path.to_owned(),
    };
    Problem {
        place: place(&found["place"]),
        remedy: text(&found["remedy"]),
        ..Problem::new(path, text(&found["reason"]).unwrap_or_default())
    }
}

fn place(place: &Value) -> Option<Place> {
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let file = Path::new(place["file"].as_str()?);
    Some(Place::new(
        file,
        number(&place["line"])?,
        number(&place["column"])?,
    ))
}

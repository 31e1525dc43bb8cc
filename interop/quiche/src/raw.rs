//! Bytes of any kind on streams, by h3i, and what the server does about them.

use h3i::actions::h3::{Action, StreamEvent, StreamEventType, WaitType};
use h3i::client::sync_client;
use h3i::config::Config;
use h3i::frame::H3iFrame;
use serde_json::{Value, json};

use crate::Failure;

/// How long the server may do nothing, in milliseconds.
const PATIENCE: u64 = 10_000;

/// What we end the connection with.
const NO_ERROR: u64 = 0x100;

/// Each step is `STREAM HEX` or `STREAM HEX fin` with `-` between the words. Then it waits for the end of stream 0 or of the
/// connection.
pub fn run(address: &str, steps: &[&str]) -> Result<Value, Failure> {
    let mut config =
        Config::new().with_host_port(address.to_owned()).with_idle_timeout(PATIENCE).verify_peer(false).build()?;
    config.omit_sni = true;
    let mut actions = steps.iter().map(|step| parse(step)).collect::<Result<Vec<_>, _>>()?;
    let end = StreamEvent { stream_id: 0, event_type: StreamEventType::Finished };
    actions.extend([
        Action::FlushPackets,
        Action::Wait { wait_type: WaitType::StreamEvent(end) },
        Action::ConnectionClose {
            error: quiche::ConnectionError { is_app: true, error_code: NO_ERROR, reason: Vec::new() },
        },
    ]);
    let seen = sync_client::connect(config, actions, None).map_err(|error| format!("{error:?}"))?;
    let mut said = json!({ "closed": null, "reset": null, "status": null });
    if let Some(error) = seen.conn_close_details.peer_error() {
        said["closed"] = error.error_code.into();
        said["reason"] = String::from_utf8_lossy(&error.reason).into();
    }
    said["timed_out"] = seen.conn_close_details.timed_out.into();
    for frame in seen.stream_map.stream(0) {
        match frame {
            H3iFrame::Headers(head) if said["status"].is_null() => {
                said["status"] =
                    head.status_code().map(|status| String::from_utf8_lossy(status).into()).unwrap_or_default();
            }
            H3iFrame::ResetStream(reset) => said["reset"] = reset.error_code.into(),
            _ => {}
        }
    }
    Ok(said)
}

fn parse(step: &str) -> Result<Action, Failure> {
    let words: Vec<&str> = step.split('-').collect();
    let [stream, hex, ref more @ ..] = words[..] else { return Err(format!("no step: {step}").into()) };
    let bytes: Result<Vec<u8>, _> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16)).collect();
    Ok(Action::StreamBytes { stream_id: stream.parse()?, fin_stream: more == ["fin"], bytes: bytes? })
}

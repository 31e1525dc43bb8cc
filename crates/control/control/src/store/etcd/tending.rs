//! Work that comes with time: etcd's own history and slots of the past are let go of, and a database that fills is told in time.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::clock::unix_seconds;
use tokio::sync::watch;
use tokio::time::interval;

use super::Shared;
use super::messages::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, RangeRequest,
    StatusRequest, StatusResponse, methods,
};
use crate::store::StoreError;

/// How often the size is looked at.
const LOOK: Duration = Duration::from_secs(60);

/// Looks between two compactions: states of etcd's own history are kept for at most twice that time, and no one reads them.
const COMPACT: u32 = 5;

/// Bytes of a database, by etcd's default of `--quota-backend-bytes`. It does not tell another one.
const QUOTA: i64 = 2 * 1024 * 1024 * 1024;

/// Sixty percent of it is told.
const TOLD: i64 = QUOTA / 10 * 6;

const NO_SPACE: i32 = 1;

/// Tends the store while this controller leads, until it is told to end.
pub(super) async fn tend(shared: Arc<Shared>, mut ends: watch::Receiver<bool>) {
    let tending = async {
        let mut look = interval(LOOK);
        let mut looks = 0_u32;
        let mut compact_to = None;
        let mut was_told = false;
        loop {
            look.tick().await;
            if shared.term.lock().is_none() {
                compact_to = None;
                continue;
            }
            if let Err(error) = check(&shared, &mut was_told).await {
                tracing::error!("{error}");
            }
            looks += 1;
            if looks.is_multiple_of(COMPACT) {
                match compact(&shared, compact_to).await {
                    Ok(revision) => compact_to = Some(revision),
                    Err(error) => tracing::warn!("etcd's history is not let go of: {error}"),
                }
            }
        }
    };
    tokio::select! {
        () = tending => {}
        _ = ends.wait_for(|ends| *ends) => {}
    }
}

/// Tells once that the database fills.
///
/// # Errors
/// It is full, or etcd does not answer.
pub(super) async fn check(shared: &Shared, was_told: &mut bool) -> Result<(), StoreError> {
    let client = &shared.client;
    let alarms: AlarmResponse = client.ask(methods::ALARM, AlarmRequest {}).await?;
    let full = alarms.alarms.iter().find(|one| one.alarm == NO_SPACE);
    if let Some(full) = full {
        return Err(client.full(&format!("member {:x} has raised NOSPACE", full.member)));
    }
    let status: StatusResponse = client.ask(methods::STATUS, StatusRequest {}).await?;
    let fills = status.size > TOLD;
    if fills && !*was_told {
        tracing::warn!(
            "the database of etcd {} has {} MiB, and etcd takes {} MiB by default; `etcdctl defrag` makes room, --quota-backend-bytes of etcd allows more",
            status.version,
            status.size >> 20,
            QUOTA >> 20
        );
    }
    *was_told = fills;
    Ok(())
}

/// Lets go of all of etcd's history up to a revision; returns the one of now, for the next time.
async fn compact(shared: &Shared, revision: Option<i64>) -> Result<i64, StoreError> {
    let client = &shared.client;
    if let Some(revision) = revision {
        let request = CompactionRequest { revision };
        let compacted = client
            .ask::<_, CompactionResponse>(methods::COMPACT, request)
            .await;
        match compacted {
            // Another controller, or etcd itself, was faster.
            Err(StoreError::Other(reason)) if reason.contains("compacted") => {}
            Err(error) => return Err(error),
            Ok(CompactionResponse {}) => {}
        }
    }
    shared.records().tend_slots(unix_seconds()).await?;
    let head = RangeRequest {
        key: shared.keys.leader(),
        keys_only: true,
        ..RangeRequest::default()
    };
    let found = client.range(head).await?;
    Ok(found.header.map_or(0, |header| header.revision))
}

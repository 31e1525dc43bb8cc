//! The responses that an earlier process left on disk.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use crate::disk::{FileId, LoadedFiles};
use crate::kept::KeptHead;
use crate::moment::Moment;
use crate::storage::{PurgeEpoch, Storage};
use crate::stored::{FilePlace, Stored};

/// Stores the responses of a folder that are whole, and removes the others. `asked`: when the process began to wait for the folder.
pub(crate) fn restore(storage: &Weak<Storage>, files: &LoadedFiles<'_>, asked: PurgeEpoch) {
    let latest = files.written();
    let now = Moment::now();
    let mut loaded = 0_usize;
    let mut dropped = 0_usize;
    for id in files.ids() {
        let Some(storage) = storage.upgrade() else {
            return;
        };
        let found = stored(files, id, &now, latest);
        let is_stored =
            found.is_some_and(|(stored, place)| storage.adopt(&Arc::new(stored), place, asked));
        if is_stored {
            loaded += 1;
        } else {
            dropped += 1;
            files.remove(id);
        }
    }

    if let Some(storage) = storage.upgrade() {
        storage.loaded();
        // Those that came before the folder was there.
        storage.each(|stored| {
            storage.keep(stored);
            ControlFlow::Continue(())
        });
    }
    let path = files.path().display();
    tracing::info!(%path, loaded, dropped, "stored responses were read from disk");
}

/// The response of these files; `None` if they are damaged or not whole.
fn stored(
    files: &LoadedFiles<'_>,
    id: FileId,
    now: &Moment,
    latest: u64,
) -> Option<(Stored, FilePlace)> {
    let bytes = files.head(id)?;
    let Some(head) = KeptHead::decode(id, &bytes) else {
        let path = files.path().display();
        tracing::warn!(%path, file = id.0, "a damaged response is forgotten");
        return None;
    };
    let (content, bytes) = files.content(id, &bytes, head.length)?;
    let age = now.since(&head.stored_at, latest);
    Some((head.restore(content, age)?, FilePlace { id, bytes }))
}

//! The numbers of clients and browsers that load the page, and the names of the figures.

use std::time::Duration;

use super::page::PageSize;

/// Clients, each behind a link of its own, with as many browsers as load the page at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct BrowseCase {
    pub name: &'static str,
    pub clients: u8,
    pub browsers: u8,
    pub size: PageSize,
    /// A load that takes longer is ended, and counts as this long.
    pub limit: Duration,
}

impl BrowseCase {
    const fn of(
        name: &'static str,
        [clients, browsers]: [u8; 2],
        size: PageSize,
        limit: u64,
    ) -> Self {
        Self {
            name,
            clients,
            browsers,
            size,
            limit: Duration::from_secs(limit),
        }
    }

    pub(super) fn loads(&self) -> usize {
        usize::from(self.clients) * usize::from(self.browsers)
    }

    /// As `--cases` names it.
    pub(super) fn counts(&self) -> String {
        format!("{}x{}", self.clients, self.browsers)
    }
}

/// All cases. Sixteen whole pages over one link would take five minutes at best.
pub(super) const CASES: [BrowseCase; 5] = [
    BrowseCase::of("1 client, whole page", [1, 1], PageSize::Whole, 180),
    BrowseCase::of("1 client, 4 browsers", [1, 4], PageSize::Tenth, 120),
    BrowseCase::of("4 clients", [4, 1], PageSize::Tenth, 120),
    BrowseCase::of("1 client, 16 browsers", [1, 16], PageSize::Tenth, 180),
    BrowseCase::of("16 clients", [16, 1], PageSize::Tenth, 120),
];

/// The case of a short run.
pub(super) const SHORT: BrowseCase =
    BrowseCase::of("1 client, small page", [1, 1], PageSize::Tenth, 60);

pub(super) const LOAD: &str = "page load";
pub(super) const FIRST: &str = "first byte";
pub(super) const ENDED: &str = "loads that ended";

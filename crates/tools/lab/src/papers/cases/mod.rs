//! Two cases of policy from the paper: requests with a role reach a site or its administration, beside nginx; and clients at an allowed address
//! dump a database, beside a direct connection.

mod bench;
mod database;
mod nginx;
mod requests;

use anyhow::Result;

use super::PaperBench;
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::{PageHead, Sheet, SheetGoal};
use bench::CaseBench;

pub(super) const HEAD: PageHead = PageHead {
    title: "Two cases of policy",
    command: "papers cases",
    notes: "",
    words: "Requests: who has the role of an administrator reaches the site and its administration, a member the site alone, and no one else anything; \
            the time of a download by curl, through a pair of nodes of Hermes under mutual TLS, through a pair of nginx with the same rules, and from the \
            origin. Database: mariadb-dump of tables of this size, through a node that lets in by the client's address and carries the connection \
            as POST to another one, and directly.",
};

/// Megabytes of a download, and of a table.
const LONG: &[u64] = &[1, 25, 50];
const SHORT: &[u64] = &[1, 10];

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let rounds = &bench.options.rounds;
    let pki = Pki::create(bench.folder())?;
    let mut sheet = Sheet::default();
    let mut progress = Progress::new(2 * rounds.repeats as usize);
    let case = CaseBench {
        papers: bench,
        pki: &pki,
        sizes: if rounds.short { SHORT } else { LONG },
    };
    requests::measure(&case, &mut progress, &mut sheet)?;
    database::measure(&case, &mut progress, &mut sheet)?;
    progress.end();
    Ok(sheet)
}

/// The paper's comparisons: nginx for requests, a direct connection for the database.
pub(super) fn goals(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for (case, other, most) in LONG.iter().flat_map(|size| {
        [
            (format!("request of {size} MB"), "nginx", 1.2),
            (format!("dump of {size} MB"), "direct", 1.2),
        ]
    }) {
        let of = |system| sheet.of(&case, system, "time");
        if let (Some(own), Some(theirs)) = (of("hermes"), of(other)) {
            let value = own.median / theirs.median;
            goals.push(SheetGoal {
                words: format!("{case}: time to that of {other}, at most {most}"),
                value,
                is_reached: value <= most,
            });
        }
    }
    goals
}

//! The results as a page of the documentation.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::results::TimedDownloads;

/// Writes the page.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(
    results: &TimedDownloads,
    margin: f64,
    picture: Option<&Path>,
    file: &Path,
) -> Result<()> {
    let picture = picture.and_then(Path::file_name);
    let picture = picture.map(|name| name.to_string_lossy().into_owned());
    let text = page(results, margin, picture.as_deref())?;
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

fn page(results: &TimedDownloads, margin: f64, picture: Option<&str>) -> Result<String> {
    let mut text = String::from(
        "# Links of which one is up at a time\n\n\
         <!-- Made by `hermes-lab intermittent --markdown`. -->\n\n\
         Three links of 10 Mbit/s in a row, one up for a second at a time, curl or wget at one end and a server at the other:\n\
         [what is measured](../performance.md#links-of-which-one-is-up-at-a-time). The bound is what no protocol can be below; the paper's \
         figure\nis that of its overlay. Seconds are means of the downloads that were whole; in brackets stands how many were.\n\n",
    );
    if let Some(picture) = picture {
        writeln!(
            text,
            "![Seconds of each way beside the bound and the paper]({picture})\n"
        )?;
    }
    writeln!(text, "{}\n", results.table())?;

    let custody = results.downloads.iter();
    let custody: Vec<_> = custody
        .filter(|one| one.download.way.is_custody())
        .collect();
    let mut shares: Vec<f64> = custody.iter().filter_map(|one| one.share()).collect();
    shares.sort_by(f64::total_cmp);
    let within = shares
        .iter()
        .filter(|share| **share <= 1.0 + margin)
        .count();
    if let (Some(median), Some(most)) = (shares.get(shares.len() / 2), shares.last()) {
        writeln!(
            text,
            "In custody {} of {} were whole, and {within} within {:.0} % of the bound: {:.1} % of it in the middle, {:.1} % at most.",
            shares.len(),
            custody.len(),
            100.0 * (1.0 + margin),
            100.0 * median,
            100.0 * most
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::Carriage;
    use super::super::results::tests::download;
    use super::*;

    #[test]
    fn a_page_says_how_many_were_near_the_bound() {
        let mut results = download(Carriage::Custody, Some(10.4));
        let more = [Some(10.6), None];
        let more = more.map(|seconds| download(Carriage::Custody, seconds).downloads);
        results.downloads.extend(more.into_iter().flatten());
        let page = page(&results, 0.05, Some("a.svg")).unwrap();
        assert!(page.contains("](a.svg)"));
        let said = "In custody 2 of 3 were whole, and 1 within 105 % of the bound: 106.0 % of it in the middle, 106.0 % at most.";
        assert!(page.contains(said), "{page}");
    }
}

//! Columns of text, as wide as their widest cell.

/// Space between two columns.
const GAP: usize = 2;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Texts.
    Left,
    /// Figures.
    Right,
}

/// Lines of a table: the header, then the rows; each is cut at `width` characters.
pub fn lines(header: &[(&str, Side)], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let longest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(longest).collect();
    let titles: Vec<String> = header.iter().map(|(title, _)| (*title).to_owned()).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(header, row, &widths, width)).collect()
}

fn line(header: &[(&str, Side)], row: &[String], widths: &[usize], width: usize) -> String {
    let mut line = String::new();
    for ((cell, (_, side)), wide) in row.iter().zip(header).zip(widths) {
        let space = " ".repeat(wide - cell.chars().count());
        line.push_str(&" ".repeat(GAP));
        match side {
            Side::Left => line.extend([cell.as_str(), &space]),
            Side::Right => line.extend([&space, cell.as_str()]),
        }
    }
    cut(line.trim_end(), width)
}

/// At most `width` characters, the last of which says that there are more.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_right_and_texts_left() {
        let rows = [vec!["alice".to_owned(), "7".to_owned()], vec!["b".to_owned(), "12".to_owned()]];
        let lines = lines(&[("user", Side::Left), ("n", Side::Right)], &rows, 40);
        assert_eq!(lines, ["  user    n", "  alice   7", "  b      12"]);
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!((cut("abcdef", 4), cut("abc", 4)), ("abc…".to_owned(), "abc".to_owned()));
    }
}

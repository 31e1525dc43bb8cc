//! Columns of text, as wide as their widest cell, and fewer or narrower ones where there is no room for them.

/// Space before each column.
const GAP: usize = 2;

/// The shortest rest of a text that has to be cut.
const LEAST: usize = 8;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Texts.
    Left,
    /// Figures.
    Right,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    side: Side,
    /// Where there is no room for all, the column with the highest rank goes first; one of rank 0 stays.
    rank: u8,
}

impl Column {
    /// A column of texts.
    pub const fn text(title: &'static str, rank: u8) -> Self {
        Self {
            title,
            side: Side::Left,
            rank,
        }
    }

    /// A column of figures.
    pub const fn figure(title: &'static str, rank: u8) -> Self {
        Self {
            title,
            side: Side::Right,
            rank,
        }
    }
}

/// A table that fits.
#[derive(Debug)]
pub struct Fitted {
    /// The header, then the rows.
    pub lines: Vec<String>,
    /// Titles of the columns for which there was no room.
    pub missing: Vec<&'static str>,
}

/// Lays a table out in `width` characters: drops columns by their rank, then cuts texts, those of the widest column first.
pub fn fit(columns: &[Column], rows: &[Vec<String>], width: usize) -> Fitted {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| longest(index, column, rows))
        .collect();
    let kept = keep(columns, &widths, width);
    shorten(columns, &kept, &mut widths, width);

    let titles: Vec<String> = columns
        .iter()
        .map(|column| column.title.to_owned())
        .collect();
    let line = |row: &Vec<String>| cut(&line(columns, row, &kept, &widths), width);
    Fitted {
        lines: std::iter::once(&titles).chain(rows).map(line).collect(),
        missing: (0..columns.len())
            .filter(|index| !kept.contains(index))
            .map(|index| columns[index].title)
            .collect(),
    }
}

/// Characters of the longest cell of a column, its title included.
fn longest(index: usize, column: &Column, rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(index));
    cells
        .map(|cell| cell.chars().count())
        .chain([column.title.chars().count()])
        .max()
        .unwrap_or(0)
}

/// Characters that these columns take.
fn needed(kept: &[usize], widths: &[usize]) -> usize {
    kept.iter().map(|index| GAP + widths[*index]).sum()
}

/// The columns that stay: those of the highest rank go first, of equals the last.
fn keep(columns: &[Column], widths: &[usize], width: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    while needed(&kept, widths) > width {
        let Some(last) = kept
            .iter()
            .copied()
            .filter(|index| columns[*index].rank > 0)
            .max_by_key(|index| columns[*index].rank)
        else {
            break;
        };
        kept.retain(|index| *index != last);
    }

    kept
}

/// Takes from the widest text, a character at a time.
fn shorten(columns: &[Column], kept: &[usize], widths: &mut [usize], width: usize) {
    while needed(kept, widths) > width {
        let texts = kept
            .iter()
            .copied()
            .filter(|index| columns[*index].side == Side::Left && widths[*index] > LEAST);
        let Some(widest) = texts.max_by_key(|index| widths[*index]) else {
            break;
        };
        widths[widest] -= 1;
    }
}

fn line(columns: &[Column], row: &[String], kept: &[usize], widths: &[usize]) -> String {
    let mut line = String::new();
    for index in kept {
        // A row may have no cell in the last columns.
        let Some(cell) = row.get(*index) else {
            continue;
        };
        let cell = cut(cell, widths[*index]);
        let space = " ".repeat(widths[*index] - cell.chars().count());
        line.push_str(&" ".repeat(GAP));

        match columns[*index].side {
            Side::Left => line.extend([cell.as_str(), &space]),
            Side::Right => line.extend([&space, cell.as_str()]),
        }
    }

    line.trim_end().to_owned()
}

/// At most `width` characters, the last of which says that there are more.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("user", 0),
        Column::figure("n", 0),
        Column::text("from", 2),
        Column::text("to", 1),
    ];

    fn rows() -> Vec<Vec<String>> {
        [["alice", "7", "a:1", "somewhere"], ["b", "12", "b:22", "x"]]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec()
    }

    #[test]
    fn figures_stand_right_and_texts_left() {
        let table = fit(&COLUMNS, &rows(), 40);
        let lines = [
            "  user    n  from  to",
            "  alice   7  a:1   somewhere",
            "  b      12  b:22  x",
        ];
        assert_eq!(
            (table.lines, table.missing),
            (lines.map(str::to_owned).to_vec(), vec![])
        );
    }

    #[test]
    fn columns_go_by_their_rank_where_there_is_no_room() {
        assert_eq!(fit(&COLUMNS, &rows(), 25).missing, ["from"]);
        assert_eq!(fit(&COLUMNS, &rows(), 12).missing, ["from", "to"]);
        assert_eq!(fit(&COLUMNS, &rows(), 12).lines[1], "  alice   7");
    }

    #[test]
    fn the_widest_text_is_cut_where_no_column_may_go() {
        let columns = [Column::text("target", 0), Column::figure("n", 0)];
        let table = fit(
            &columns,
            &[vec!["a-very-long-name:443".into(), "7".into()]],
            20,
        );
        assert_eq!(table.lines[1], "  a-very-long-na…  7");
        assert!(
            fit(&columns, &[vec!["x".repeat(99), "7".repeat(99)]], 20).lines[1]
                .chars()
                .count()
                == 20
        );
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(
            (cut("abcdef", 4), cut("abc", 4)),
            ("abc…".to_owned(), "abc".to_owned())
        );
    }
}

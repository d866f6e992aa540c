//! Tables for terminals: the first column is aligned to the left, numbers to the right.

/// The width of a terminal that tables fit, if the caller does not choose another width.
pub const COLUMNS: usize = 80;

/// Formats the rows as aligned lines, each with a line end.
pub fn align(rows: &[Vec<String>]) -> String {
    align_with(rows, 3)
}

/// Formats the rows like [`align()`], in blocks that are at most `width` characters wide. Columns that do not fit follow
/// in a further block below, which repeats the first column.
pub fn fold(rows: &[Vec<String>], width: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut blocks = Vec::new();
    let mut from = 1;
    while from < columns {
        let block = |to: usize| -> Vec<Vec<String>> {
            let cells = rows.iter().map(|row| {
                let rest = row.iter().take(to).skip(from);
                row.first().into_iter().chain(rest).cloned().collect()
            });
            cells.collect()
        };
        let fits = |to: &usize| {
            let drawn = align_with(&block(*to), 2);
            drawn.lines().all(|line| line.chars().count() <= width)
        };
        // One column at least, however wide it is.
        let to = (from + 1..=columns).rev().find(fits).unwrap_or(from + 1);
        blocks.push(align_with(&block(to), 2));
        from = to;
    }
    blocks.join("\n")
}

/// Formats the rows like [`align()`], with `gap` spaces between columns.
pub fn align_with(rows: &[Vec<String>], gap: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match i {
                0 => line.push_str(&format!("{cell:<width$}")),
                _ => line.push_str(&format!("{:gap$}{cell:>width$}", "")),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_follow_below() {
        let rows = [
            vec!["flow", "sent", "lost %", "late %"],
            vec!["call", "1500", "1.40", "0.00"],
        ];
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|&cell| cell.to_owned()).collect())
            .collect();
        assert_eq!(
            fold(&rows, 18),
            "flow  sent  lost %\ncall  1500    1.40\n\nflow  late %\ncall    0.00\n"
        );
        assert_eq!(fold(&rows, 80), align_with(&rows, 2));
        assert_eq!(
            fold(&rows, 3).lines().count(),
            8,
            "one column is always there"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["", "direct", "µ"],
            vec!["lost", "5 %"],
            vec!["late, ms", "", "10"],
        ];
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|&cell| cell.to_owned()).collect())
            .collect();
        let text = "           direct    µ\nlost          5 %\nlate, ms            10\n";
        assert_eq!(align(&rows), text);
        assert_eq!(align(&[]), "");
    }
}

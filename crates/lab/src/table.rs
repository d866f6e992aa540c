//! Tables for terminals: the first column to the left, numbers to the right.

/// The rows as aligned lines, each ended.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    align_with(rows, 3)
}

/// The same with so many spaces between columns.
pub(crate) fn align_with(rows: &[Vec<String>], gap: usize) -> String {
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

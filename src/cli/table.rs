//! Tables for people: columns aligned, the last one as it is.

/// Head and rows as lines. The last column is not padded, so that long texts do not drag spaces through every line.
pub(super) fn lines<const N: usize>(head: [&str; N], rows: &[[impl AsRef<str>; N]]) -> String {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.as_ref().chars().count());
        }
    }
    let rows = rows.iter().map(|row| row.each_ref().map(|cell| cell.as_ref()));
    std::iter::once(head).chain(rows).map(|row| line(row, widths)).collect()
}

fn line<const N: usize>(row: [&str; N], widths: [usize; N]) -> String {
    let mut text = String::new();
    for (cell, width) in row.iter().zip(widths).take(N.saturating_sub(1)) {
        text.push_str(&format!("{cell:width$}  "));
    }
    text + row.last().unwrap_or(&"") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_begin_below_each_other() {
        let rows = [["a", "bcd"], ["efgh", "i"]];
        assert_eq!(lines(["X", "YY"], &rows), "X     YY\na     bcd\nefgh  i\n");
    }
}

//! Tables as kubectl prints them: aligned columns without lines, headings in capitals.

use std::io::{self, Write};

use anstyle::Style;

/// The spaces between two columns.
const GAP: usize = 3;

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Returns a cell with a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), style: Style::new() }
    }
}

/// A table that may grow. Its columns never become narrower, so later rows stand below the earlier ones.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    indent: usize,
    widths: Vec<usize>,
}

impl Table {
    /// Returns a table with these headings. Each line begins with so many spaces.
    pub fn new(headings: &[&'static str], indent: usize) -> Self {
        Self { headings: headings.to_vec(), indent, widths: vec![0; headings.len()] }
    }

    /// Prints the headings and rows.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn print(&mut self, rows: &[Vec<Cell>], out: &mut dyn Write) -> io::Result<()> {
        let headings: Vec<Cell> = self.headings.iter().map(|heading| Cell::from(*heading)).collect();
        self.widen(&headings);
        for row in rows {
            self.widen(row);
        }
        self.line(&headings, out)?;
        self.add(rows, out)
    }

    /// Prints further rows.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn add(&mut self, rows: &[Vec<Cell>], out: &mut dyn Write) -> io::Result<()> {
        for row in rows {
            self.widen(row);
        }
        rows.iter().try_for_each(|row| self.line(row, out))
    }

    fn widen(&mut self, row: &[Cell]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.chars().count());
        }
    }

    fn line(&self, row: &[Cell], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{:indent$}", "", indent = self.indent)?;
        let last = row.len().saturating_sub(1);
        for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            let Cell { text, style } = cell;
            // No line ends with spaces.
            let filler = if index == last { 0 } else { width.saturating_sub(text.chars().count()) + GAP };
            write!(out, "{style}{text}{style:#}{:filler$}", "")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_stay_where_they_are() {
        let mut out = Vec::new();
        let mut table = Table::new(&["NAME", "PODS"], 1);
        table.print(&[vec!["log-agent".into(), "3".into()]], &mut out).unwrap();
        table.add(&[vec!["a".into(), "12".into()]], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " NAME        PODS\n log-agent   3\n a           12\n");
    }
}

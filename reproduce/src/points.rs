//! The points of plots as a table.

use run::table::{Cell, Column, Kind, Table};

use crate::Plot;

/// A row for each point: plot, line, x, y and, where the line has a band, its ends.
pub(crate) fn table(plots: &[Plot]) -> Table {
    let real = |name| Column::new(name, "as the plot's axis says", Kind::Real);
    let mut table = Table::new(vec![
        Column::new("plot", "", Kind::Text),
        Column::new("line", "", Kind::Text),
        real("x"),
        real("y"),
        real("low"),
        real("high"),
    ]);
    for plot in plots {
        for line in &plot.lines {
            for (index, (x, y)) in line.points.iter().enumerate() {
                let band = line.spread.get(index);
                let number = |value: f64| Cell::Real(value.is_finite().then_some(value));
                table.push([
                    Cell::Text(plot.title.as_str().into()),
                    Cell::Text(line.label.as_str().into()),
                    number(*x),
                    number(*y),
                    number(band.map_or(f64::NAN, |(low, _)| *low)),
                    number(band.map_or(f64::NAN, |(_, high)| *high)),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line};

    #[test]
    fn tables_hold_what_plots_show() {
        let line = Line::new("ours", vec![(0.0, 1.0), (1.0, f64::NAN)]).spread(vec![(0.5, 1.5)]);
        let plot = Plot::new("Errors", Axis::linear("time in s"), Axis::linear("error in %"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figure.parquet");
        table(&[plot.line(line)]).write(&path).unwrap();
        let read = Table::read(&path).unwrap();
        assert_eq!(read.texts("plot").unwrap(), ["Errors", "Errors"]);
        assert_eq!(read.reals("x").unwrap(), [Some(0.0), Some(1.0)]);
        assert_eq!(read.reals("y").unwrap(), [Some(1.0), None]);
        assert_eq!(read.reals("high").unwrap(), [Some(1.5), None]);
    }
}

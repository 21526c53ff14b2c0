//! The figures as a picture: curves over the number of Pods, with logarithmic axes.
#![allow(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]

use std::path::Path;

use anyhow::{Context as _, anyhow};
use plotters::prelude::*;

use crate::measured::Point;
use crate::report::{grouped, watched};

/// Reads a figure of a cluster.
type Figure = fn(&Point) -> f64;

/// Width and height of one chart.
const CHART: (u32, u32) = (420, 300);
const FONT: &str = "sans-serif";

/// One chart: its title with the unit, and a curve for each name.
struct Chart {
    title: &'static str,
    curves: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// Writes the picture, as SVG.
///
/// # Errors
/// The file cannot be written, or there is nothing to show.
pub fn write(path: &Path, points: &[Point]) -> anyhow::Result<()> {
    std::fs::write(path, draw(points)?).with_context(|| path.display().to_string())
}

/// Returns the picture.
fn draw(points: &[Point]) -> anyhow::Result<String> {
    let charts = charts(points);
    let rows = u32::try_from(charts.len().div_ceil(2))?;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (2 * CHART.0, rows * CHART.1)).into_drawing_area();
        let failed = |error: &dyn std::fmt::Display| anyhow!("the picture: {error}");
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        for (chart, area) in charts.iter().zip(area.split_evenly((usize::try_from(rows)?, 2))) {
            chart.draw(&area).map_err(|error| failed(&error))?;
        }
        area.present().map_err(|error| failed(&error))?;
    }
    described(&text, points)
}

/// Gives a picture a title and a description for readers who do not see it, and the width of its page.
fn described(text: &str, points: &[Point]) -> anyhow::Result<String> {
    let (head, rest) = text.split_once('>').context("the picture has no start")?;
    let (_, view) = head.split_once(" viewBox=").context("the picture has no viewBox")?;
    let pods = points.iter().map(|point| grouped(point.size.pods)).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "<svg role=\"img\" aria-labelledby=\"title desc\" viewBox={view}>\n\
         <title id=\"title\">The cost of the controllers over the number of Pods</title>\n\
         <desc id=\"desc\">Memory, CPU, time, CPU at rest, requests and bytes of watches in clusters of {pods} Pods, with \
         logarithmic axes. The tables have the numbers.</desc>{rest}"
    ))
}

fn charts(points: &[Point]) -> Vec<Chart> {
    let curve = |of: Figure| -> Vec<(f64, f64)> {
        // A logarithm needs more than nothing.
        points.iter().map(|point| (point.size.pods as f64, of(point).max(0.001))).collect()
    };
    let chart = |title, curves: &[(&'static str, Figure)]| Chart {
        title,
        curves: curves.iter().map(|(name, of)| (*name, curve(*of))).collect(),
    };
    vec![
        chart(
            "memory at most, MiB",
            &[
                ("first start", |point| mebibytes(point.start.peak)),
                ("restart", |point| mebibytes(point.restart.peak)),
                ("pillion serve", |point| mebibytes(point.admission.peak)),
            ],
        ),
        chart(
            "CPU, seconds",
            &[
                ("first start", |point| point.start.cpu.as_secs_f64()),
                ("restart", |point| point.restart.cpu.as_secs_f64()),
                ("rollout to a tenth", |point| point.rollout.first.cpu.as_secs_f64()),
            ],
        ),
        chart(
            "time, seconds",
            &[
                ("ready after a restart", |point| point.restart.time.as_secs_f64()),
                ("rollout to a tenth", |point| point.rollout.first.time.as_secs_f64()),
                ("next rollout to a tenth", |point| point.rollout.next.time.as_secs_f64()),
                ("change to admission", |point| point.admission.time.as_secs_f64()),
            ],
        ),
        chart(
            "CPU, % of a core",
            &[
                ("1 % of the Pods replaced a minute", |point| share(&point.churn)),
                ("at rest", |point| share(&point.rest)),
            ],
        ),
        chart(
            "requests",
            &[
                ("first start", |point| requests(&point.start)),
                ("restart", |point| requests(&point.restart)),
                ("rollout to a tenth", |point| requests(&point.rollout.first)),
            ],
        ),
        chart(
            "watched, MB",
            &[
                ("1 % of the Pods replaced a minute", |point| watched(&point.churn) as f64 / 1e6),
                ("rollout to a tenth", |point| watched(&point.rollout.first) as f64 / 1e6),
            ],
        ),
    ]
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn share(phase: &crate::measured::Phase) -> f64 {
    100.0 * phase.cpu.as_secs_f64() / phase.time.as_secs_f64().max(f64::EPSILON)
}

fn requests(phase: &crate::measured::Phase) -> f64 {
    phase.counted.values().map(|count| count.requests).sum::<u64>() as f64
}

impl Chart {
    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let all = || self.curves.iter().flat_map(|(_, points)| points);
        let range = |of: fn(&(f64, f64)) -> f64| {
            let (least, most) = (all().map(of).fold(f64::MAX, f64::min), all().map(of).fold(f64::MIN, f64::max));
            least * 0.7..most * 6.0
        };
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(self.title, (FONT, 16))
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(range(|point| point.0).log_scale(), range(|point| point.1).log_scale())
            .map_err(|error| error.to_string())?;
        chart
            .configure_mesh()
            .x_desc("Pods")
            .x_labels(4)
            .y_labels(5)
            .x_label_formatter(&|value| format!("{value}"))
            .light_line_style(RGBColor(240, 240, 240))
            .label_style((FONT, 12))
            .draw()
            .map_err(|error| error.to_string())?;
        for ((name, points), number) in self.curves.iter().zip(0..) {
            let colour = Palette99::pick(number).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))
                .map_err(|error| error.to_string())?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 11))
            .draw()
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measured::{Admission, Phase, Rollout};
    use crate::plan::Size;

    #[test]
    fn a_picture_has_a_title_and_all_charts() {
        let phase = Phase { time: Duration::from_secs(2), peak: 100 << 20, ..Phase::default() };
        let point = |pods| Point {
            size: Size::of_pods(pods),
            pod: 7_000,
            start: phase.clone(),
            rollout: Rollout { first: phase.clone(), next: phase.clone(), ..Rollout::default() },
            admission: Admission::default(),
            churn: phase.clone(),
            rest: phase.clone(),
            restart: phase.clone(),
        };
        let points = [point(1_000), point(10_000)];
        let text = draw(&points).unwrap();
        assert!(text.starts_with("<svg role=\"img\" aria-labelledby=\"title desc\" viewBox=\"0 0 840 900\""), "{text}");
        assert!(text.contains("clusters of 1,000, 10,000 Pods"), "{text}");
        assert!(charts(&points).iter().all(|chart| text.contains(chart.title)), "{text}");
    }
}

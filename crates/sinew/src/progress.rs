//! The progress of a transfer: the share, the current rate, and the time that is left.

use base::{Duration, Time};
use std::collections::VecDeque;

/// How often progress is drawn.
pub const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// The span over which the current rate is measured.
const NOW: Duration = Duration::from_secs(2);
/// Most marks that are kept: one for each drawing in that span, and some more.
const MARKS_MAX: usize = 16;
/// Width of the bar. The bar and the text beside it together fit in a line of 80 columns.
const BAR: usize = 10;

/// Measures the current rate.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    marks: VecDeque<(Time, u64)>,
}

impl Pace {
    /// Records that `bytes` bytes are transferred at `now`. Returns the current rate in bit/s.
    pub fn mark(&mut self, now: Time, bytes: u64) -> Option<f64> {
        let is_old = |mark: Option<&(Time, u64)>| mark.is_some_and(|(at, _)| now.since(*at) >= NOW);
        // One mark that is older than the span stays, as the start of the measurement.
        while is_old(self.marks.get(1)) || self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((now, bytes));
        let (at, before) = *self.marks.front()?;
        let seconds = now.since(at).as_secs_f64();
        (seconds > 0.0).then(|| bytes.saturating_sub(before) as f64 * 8.0 / seconds)
    }
}

/// Formats a line of progress, with `more` at its end. Without a total, the line has no share and no time left. If the
/// line is wider than `width`, the bar is dropped first and then the amounts: the other values matter more.
pub fn line(
    (bytes, total): (u64, Option<u64>),
    rate_bps: Option<f64>,
    seconds: f64,
    more: &str,
    width: usize,
) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let rate = rate_bps.map_or_else(String::new, |bps| format!("  {:.1} Mbit/s", bps / 1e6));
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{:.1} MB in {seconds:.0} s{rate}{more}", mb(bytes));
    };
    let bytes = bytes.min(total);
    let share = bytes as f64 / total as f64;
    let full = (share * BAR as f64) as usize;
    let left = rate_bps
        .filter(|bps| *bps >= 1.0)
        .map(|bps| (total - bytes) as f64 * 8.0 / bps);
    let left = left.map_or_else(String::new, |s| {
        format!("  {} left", crate::date::span(s.ceil()))
    });
    let bar = format!("[{}{}] ", "#".repeat(full), ".".repeat(BAR - full));
    let share = format!("{:.0} %", (share * 100.0).floor());
    let amounts = format!("  {:.1} of {:.1} MB", mb(bytes), mb(total));
    let end = format!("{rate}{left}{more}");
    let lines = [
        format!("{bar}{share}{amounts}{end}"),
        format!("{share}{amounts}{end}"),
    ];
    let fits = |line: &String| line.chars().count() <= width;
    let short = || format!("{share}{end}");
    lines.into_iter().find(fits).unwrap_or_else(short)
}

/// Formats the final result.
pub fn whole(bytes: u64, seconds: f64) -> String {
    let mbit = bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9);
    let mb = bytes as f64 / 1e6;
    format!("{mb:.1} MB in {seconds:.1} s, {mbit:.1} Mbit/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_rate_is_that_of_now_and_not_of_the_whole() {
        let mut pace = Pace::default();
        assert_eq!(pace.mark(at(0), 0), None);
        for i in 1..40 {
            pace.mark(at(i * 250), i * 250_000);
        }
        let fast = pace.mark(at(10_000), 10_000_000).unwrap();
        assert!((fast - 8e6).abs() < 1.0, "{fast}");
        // The transfer stops for three seconds.
        let slow = (41..=52).map(|i| pace.mark(at(i * 250), 10_000_000)).last();
        assert_eq!(slow, Some(Some(0.0)));
    }

    #[test]
    fn share_rate_and_time_left_are_in_a_line_that_fits() {
        let some = |more, width| {
            let bytes = (12_900_000, Some(30_000_000));
            line(bytes, Some(19.1e6), 5.4, more, width)
        };
        assert_eq!(
            some("", 80),
            "[####......] 43 %  12.9 of 30.0 MB  19.1 Mbit/s  8s left"
        );
        let more = "  file 3 of 120  slowest: ams to fra";
        assert_eq!(
            some(more, 80),
            "43 %  12.9 of 30.0 MB  19.1 Mbit/s  8s left  file 3 of 120  slowest: ams to fra"
        );
        assert_eq!(
            some(more, 78),
            "43 %  19.1 Mbit/s  8s left  file 3 of 120  slowest: ams to fra"
        );
        let unknown = line((1_500_000, None), None, 2.2, "", 80);
        assert_eq!(unknown, "1.5 MB in 2 s");
        assert_eq!(
            line((7, Some(5)), Some(0.0), 1.0, "", 80),
            "[##########] 100 %  0.0 of 0.0 MB  0.0 Mbit/s"
        );
    }
}

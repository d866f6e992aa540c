//! Measures a scene: both profiles and UDP, with several seeds.

use super::scene::{DEADLINE_MS, INTERVAL_MS, Scene};
use crate::experiment::{Cell, CellError, Row};
use crate::live;
use crate::scenario::{Call, FlowReport, Report, Scenario, Simulation};
use crate::stats::{mean, most, standard_error};
use base::Duration;
use std::path::Path;

/// The carriers, as in the names of a row's values.
pub(super) const CARRIERS: [&str; 3] = ["udp", "default", "paper"];
/// The time after a fault in which losses still count as caused by it.
pub(super) const AFTER_MS: f64 = 400.0;
/// The largest percentage that a nearly perfect call misses.
pub(super) const GOOD_PCT: f64 = 0.5;

/// The share of the misses of refused calls that must be drops for lack of room: the rest was under way before.
const NAMED_SHARE: f64 = 0.9;

/// The results of a carrier's calls in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    sent: f64,
    lost_pct: f64,
    late_pct: f64,
    silence_ms: f64,
    /// The share that was missed apart from the faults and the time after them, of the packets sent apart from them.
    outside_pct: f64,
    /// Route changes of all nodes by all metrics, whether used or not.
    route_changes: f64,
    /// Route changes of the call whose path changed most often.
    call_route_changes: f64,
    /// Number of nearly perfect calls.
    good: f64,
    /// Number of other calls that were refused: their clients were notified, or the node counts the drops as lack of
    /// room.
    refused: f64,
}

/// One run of a scene with a profile: the results of UDP and the overlay.
pub(super) type Live<'a> = &'a dyn Fn(&Scene, &str, u64) -> Result<[Run; 2], CellError>;

/// Measures the scene's row: means over the seeds, and the maximum of some values.
pub(super) fn measure(
    cell: &Cell,
    scene: &Scene,
    seeds: u32,
    seed: u64,
    live: Live<'_>,
) -> Result<Row, CellError> {
    let mut runs: [Vec<Run>; 3] = Default::default();
    for n in 0..seeds {
        let seed = seed.wrapping_add(u64::from(n));
        for (profile, carrier) in [("modern", 1), ("paper", 2)] {
            let [udp, overlay] = live(scene, profile, seed)?;
            runs[carrier].push(overlay);
            if profile == "modern" {
                runs[0].push(udp);
            }
        }
    }
    let mut row = Row::of(cell);
    row.set("seeds", f64::from(seeds));
    for (carrier, runs) in CARRIERS.iter().zip(&runs) {
        let mut set = |name: &str, (mean, most): (f64, f64)| {
            row.set(format!("{carrier} {name}"), mean);
            row.set(format!("{carrier} {name} most"), most);
        };
        set("lost %", mean_and_most(runs, |run| run.lost_pct));
        set("late %", mean_and_most(runs, |run| run.late_pct));
        set("missed %", mean_and_most(runs, Run::missed_pct));
        set("silence ms", mean_and_most(runs, |run| run.silence_ms));
        set("outside %", mean_and_most(runs, |run| run.outside_pct));
        set(
            "route changes",
            mean_and_most(runs, |run| run.route_changes),
        );
        set(
            "call route changes",
            mean_and_most(runs, |run| run.call_route_changes),
        );
        let least = |of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::MAX, f64::min);
        row.set(format!("{carrier} good calls least"), least(|run| run.good));
        row.set(
            format!("{carrier} refused calls least"),
            least(|run| run.refused),
        );
    }
    for (n, carrier) in CARRIERS.iter().enumerate().skip(1) {
        let differences = |of: fn(&Run) -> f64| -> Vec<f64> {
            let pairs = runs[n].iter().zip(&runs[0]);
            pairs.map(|(overlay, udp)| of(overlay) - of(udp)).collect()
        };
        let missed = match seeds {
            // For one run there is only the variation of independent losses.
            1 => (runs[n][0].chance_pct().powi(2) + runs[0][0].chance_pct().powi(2)).sqrt(),
            _ => error(&differences(Run::missed_pct)),
        };
        row.set(format!("{carrier} missed % error"), missed);
        let silence = error(&differences(|run| run.silence_ms));
        row.set(format!("{carrier} silence ms error"), silence);
    }
    Ok(row)
}

/// Runs a scene in the simulator.
pub(super) fn simulated(scene: &Scene, profile: &str, seed: u64) -> Result<[Run; 2], CellError> {
    let scenario = parsed(&scene.text("messy", profile, seed, false))?;
    let mut simulation = Simulation::new(&scenario, seed);
    while simulation.run_for(Duration::from_secs(3_600)) {}
    let (report, calls) = simulation.finish_with_calls();
    Ok(runs_of(scene, seed, &report, &calls))
}

/// Runs a scene with real nodes. They do not record which packets were missed.
pub(super) fn in_earnest(
    program: &Path,
    scene: &Scene,
    profile: &str,
    seed: u64,
) -> Result<[Run; 2], CellError> {
    let scenario = parsed(&scene.text("messy", profile, seed, true))?;
    let report =
        live::report_of(&scenario, program).map_err(|error| CellError(error.to_string()))?;
    let none = vec![Vec::new(); report.flows.len()];
    Ok(runs_of(scene, seed, &report, &none))
}

fn parsed(text: &str) -> Result<Scenario, CellError> {
    Scenario::parse("messy", text).map_err(|error| CellError(error.to_string()))
}

fn runs_of(scene: &Scene, seed: u64, report: &Report, calls: &[Vec<Call>]) -> [Run; 2] {
    let (overlay, udp) = report.flows.split_at(scene.calls.count as usize);
    let (overlay_calls, udp_calls) = calls.split_at(overlay.len());
    let troubles = scene.troubles_ms(seed);
    let starts = scene.starts_ms();
    // The calls by UDP all begin at once, as one flow with a count.
    let udp_starts = vec![0.0; starts.len()];
    let mut runs = [
        Run::of(udp, udp_calls, &udp_starts, &troubles),
        Run::of(overlay, overlay_calls, &starts, &troubles),
    ];
    runs[1].route_changes = report.overlay.route_changes as f64;
    let of_calls = overlay.iter().filter_map(|flow| flow.route_changes);
    runs[1].call_route_changes = of_calls.max().unwrap_or_default() as f64;
    let no_room = report.overlay.dropped.get("no_room").copied();
    let bad = overlay.iter().filter(|flow| !is_good(flow));
    let missed = bad
        .clone()
        .map(|flow| flow.packets.lost + flow.packets.late);
    if no_room.is_some_and(|drops| drops as f64 >= NAMED_SHARE * missed.sum::<u64>() as f64) {
        runs[1].refused = bad.count() as f64;
    }
    runs
}

impl Run {
    fn of(
        flows: &[FlowReport],
        calls: &[Vec<Call>],
        starts: &[f64],
        troubles: &[(f64, f64)],
    ) -> Run {
        let sum = |of: fn(&FlowReport) -> u64| flows.iter().map(of).sum::<u64>() as f64;
        let percent = |count: f64| 100.0 * count / sum(|flow| flow.packets.sent).max(1.0);
        let calls = || calls.iter().flatten();
        let (mut outside, mut missed_outside) = (0.0_f64, 0.0);
        for (call, start_ms) in calls().zip(starts) {
            for (n, fate) in call.iter().enumerate() {
                let at = start_ms + n as f64 * INTERVAL_MS;
                if troubles
                    .iter()
                    .any(|(from, to)| (*from..to + AFTER_MS).contains(&at))
                {
                    continue;
                }
                outside += 1.0;
                missed_outside += f64::from(u8::from(is_missed(fate)));
            }
        }
        let silences = flows.iter().map(|flow| flow.packets.longest_gap_ms);
        let is_good_call = |call: &&Call| {
            let missed = call.iter().filter(|fate| is_missed(fate)).count();
            100.0 * missed as f64 <= GOOD_PCT * call.len() as f64
        };
        let good = calls().filter(is_good_call).count() as f64;
        let is_refused = |flow: &&FlowReport| flow.packets.refused > 0 && !is_good(flow);
        Run {
            sent: sum(|flow| flow.packets.sent),
            lost_pct: percent(sum(|flow| flow.packets.lost)),
            late_pct: percent(sum(|flow| flow.packets.late)),
            silence_ms: silences.fold(0.0, f64::max),
            outside_pct: 100.0 * missed_outside / outside.max(1.0),
            route_changes: 0.0,
            call_route_changes: 0.0,
            good,
            refused: flows.iter().filter(is_refused).count() as f64,
        }
    }

    fn missed_pct(&self) -> f64 {
        self.lost_pct + self.late_pct
    }

    /// Returns the standard deviation by chance of this many misses, if they are independent.
    fn chance_pct(&self) -> f64 {
        let share = self.missed_pct() / 100.0;
        100.0 * (share * (1.0 - share) / self.sent.max(1.0)).sqrt()
    }
}

fn is_good(flow: &FlowReport) -> bool {
    flow.packets.lost_pct + flow.packets.late_pct <= GOOD_PCT
}

/// Returns the standard error; 0 for one run, which has none.
fn error(samples: &[f64]) -> f64 {
    standard_error(samples).unwrap_or(0.0)
}

fn mean_and_most(runs: &[Run], of: impl Fn(&Run) -> f64) -> (f64, f64) {
    (mean(runs.iter().map(&of)), most(runs.iter().map(&of)))
}

fn is_missed(fate: &Option<u32>) -> bool {
    fate.is_none_or(|us| us > DEADLINE_MS * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::messy::scene::{Path, Trouble};

    #[test]
    fn a_link_that_fails_costs_udp_what_it_was_down() {
        let trouble = Trouble::Outage {
            every_ms: 10_000,
            for_ms: 500,
        };
        let scene = Scene::link(Path::new(20, 0.0), trouble, 30);
        let [udp, overlay] = simulated(&scene, "modern", 3).unwrap();
        let outages = scene.troubles_ms(3).len() as f64;
        let expected = 100.0 * outages * 0.5 / 30.0;
        assert!((udp.lost_pct - expected).abs() < 0.2, "{udp:?}");
        assert!((480.0..=520.0).contains(&udp.silence_ms), "{udp:?}");
        assert_eq!((udp.outside_pct, udp.late_pct), (0.0, 0.0));
        assert!(overlay.lost_pct > expected / 2.0, "{overlay:?}");
    }

    #[test]
    fn the_error_of_a_mean_is_that_of_textbooks() {
        assert!((error(&[1.0, 2.0, 3.0, 4.0]) - 0.6455).abs() < 1e-4);
        assert_eq!(error(&[5.0]), 0.0);
    }
}

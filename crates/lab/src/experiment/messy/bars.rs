//! The goals for the defaults in a scene, as numbers, and the check whether a measured row reaches them.

use super::measure::{AFTER_MS, GOOD_PCT};
use super::scene::Scene;
use crate::experiment::Row;

/// How much more than UDP the overlay may miss, in percent of the packets.
const MORE_POINTS: f64 = 0.3;
/// The longest silence if another path exists.
const SILENCE_MS: f64 = 500.0;
/// The largest percentage that may be missed apart from outages and the time after them.
const OUTSIDE_PCT: f64 = 0.1;
/// If both carriers' losses are drawn independently, a mean over few runs may differ by this many standard errors of
/// the difference by chance.
const ERRORS: f64 = 2.0;

/// A goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    /// Lost and late together: at most UDP's plus 0.3 points.
    NoMoreThanUdp,
    /// The same, plus the share of the time in which the overlay's only path stood still.
    NoMoreThanUdpAndStalls,
    /// The longest silence: at most the fault plus 400 ms if there is no other path, 500 ms if there is one.
    Silence,
    /// The longest silence: at most UDP's plus 400 ms, for losses in runs of any length.
    SilenceOfUdp,
    /// Missed apart from outages and the 400 ms after them: at most 0.1 %, or what UDP misses there if no answer to a
    /// request can arrive in time.
    BesideOutages,
    /// Lost and late together: at most this percentage.
    Missed(f64),
    /// Changes of a call's route, for the call with the most of them: at most this many in 300 s. Trees by other
    /// metrics and to nodes without traffic are only reported.
    RouteChanges(f64),
    /// This many calls nearly perfect, and all others refused.
    Served(u32),
}

/// The result of a goal in one scene.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reached {
    pub(super) holds: bool,
    /// The measured value and the limit.
    pub(super) text: String,
    /// The excess over the limit, as a share of the limit: to find the worst of many.
    pub(super) excess: f64,
}

impl Bar {
    /// Judges whether a scene's row reaches the goal.
    pub(super) fn judge(self, scene: &Scene, row: &Row) -> Reached {
        let value = |name: &str| row.value(&format!("default {name}"));
        let udp = |name: &str| row.value(&format!("udp {name}"));
        let at_most = |what: &str, measured: f64, limit: f64, unit: &str| Reached {
            holds: measured <= limit,
            text: format!("{what} {measured:.2}{unit} (at most {limit:.2})"),
            excess: (measured - limit) / limit.max(0.1),
        };
        match self {
            Bar::NoMoreThanUdp | Bar::NoMoreThanUdpAndStalls => {
                let stood_still = match self {
                    Bar::NoMoreThanUdp => 0.0,
                    _ => stood_still_pct(scene),
                };
                let slack = ERRORS * value("missed % error");
                let limit = udp("missed %") + MORE_POINTS + slack + stood_still;
                at_most("missed", value("missed %"), limit, " %")
            }
            Bar::Silence => {
                let limit = match (scene.has_another_way(), scene.trouble.rhythm()) {
                    (true, _) => SILENCE_MS,
                    (false, Some((_, for_ms))) => f64::from(for_ms) + AFTER_MS,
                    (false, None) => AFTER_MS,
                };
                at_most("silence", value("silence ms most"), limit, " ms")
            }
            Bar::SilenceOfUdp => {
                let slack = ERRORS * value("silence ms error");
                let limit = udp("silence ms") + AFTER_MS + slack;
                at_most("silence", value("silence ms"), limit, " ms")
            }
            Bar::BesideOutages => {
                let path_loses = match scene.can_recover() {
                    true => 0.0,
                    false => udp("outside %"),
                };
                let limit = OUTSIDE_PCT + path_loses;
                at_most("beside outages", value("outside %"), limit, " %")
            }
            Bar::Missed(limit) => at_most("missed", value("missed %"), limit, " %"),
            Bar::RouteChanges(limit) => {
                let per_300_s = |name| value(name) * 300.0 / f64::from(scene.seconds);
                let calls = per_300_s("call route changes");
                let mut reached = at_most("changes of the call's route in 300 s", calls, limit, "");
                let all = per_300_s("route changes");
                reached.text += &format!(", of all nodes' routes by all metrics {all:.0}");
                reached
            }
            Bar::Served(wanted) => served(wanted, scene, row),
        }
    }
}

/// Returns the share of the time in which the only path stood still, in percent.
fn stood_still_pct(scene: &Scene) -> f64 {
    match scene.trouble.rhythm() {
        Some((every_ms, for_ms)) if !scene.has_another_way() => {
            100.0 * f64::from(for_ms) / f64::from(every_ms)
        }
        _ => 0.0,
    }
}

fn served(wanted: u32, scene: &Scene, row: &Row) -> Reached {
    let good = row.value("default good calls least");
    let refused = row.value("default refused calls least");
    let others = f64::from(scene.calls.count.saturating_sub(wanted));
    let holds =
        good >= f64::from(wanted) && refused >= others.min(f64::from(scene.calls.count) - good);
    Reached {
        holds,
        text: format!(
            "{good} calls missed no more than {GOOD_PCT} % (at least {wanted}), of others {refused} were told so (all)"
        ),
        excess: f64::from(wanted) - good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::messy::scene::{Calls, Path, Trouble, Way};

    fn row(values: &[(&str, f64)]) -> Row {
        let mut row = Row::default();
        for (name, value) in values {
            row.set(*name, *value);
        }
        row
    }

    fn scene() -> Scene {
        let trouble = Trouble::Outage {
            every_ms: 60_000,
            for_ms: 500,
        };
        Scene::link(Path::new(20, 1.0), trouble, 600)
    }

    #[test]
    fn bars_can_be_missed() {
        let values = [
            ("udp missed %", 2.0),
            ("default missed %", 2.2),
            ("default missed % error", 0.0),
            ("default silence ms most", 901.0),
            ("default outside %", 0.11),
            ("default route changes", 90.0),
            ("default call route changes", 30.0),
        ];
        let row = row(&values);
        let holds = |bar: Bar| bar.judge(&scene(), &row).holds;
        assert!(holds(Bar::NoMoreThanUdp) && holds(Bar::Missed(2.2)));
        assert!(!holds(Bar::Silence) && !holds(Bar::BesideOutages));
        assert!(!holds(Bar::RouteChanges(10.0)) && holds(Bar::RouteChanges(15.0)));
        let way = scene().ways[0];
        let ways = scene().over(vec![way, Way { links: 2, ..way }]);
        assert!(Bar::Silence.judge(&ways, &row).text.contains("500"));
        // A value that was not measured reaches no goal.
        assert!(!Bar::Missed(2.2).judge(&scene(), &Row::default()).holds);
    }

    #[test]
    fn who_is_not_served_must_be_told() {
        let calls = Calls {
            count: 3,
            apart_ms: 0,
        };
        let scene = Scene { calls, ..scene() };
        let judged = |good: f64, refused: f64| {
            let values = [
                ("default good calls least", good),
                ("default refused calls least", refused),
            ];
            Bar::Served(1).judge(&scene, &row(&values)).holds
        };
        assert!(judged(1.0, 2.0) && judged(2.0, 1.0));
        assert!(!judged(1.0, 1.0) && !judged(0.0, 3.0));
    }
}

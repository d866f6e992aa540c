//! What the defaults must reach in a scene, as numbers, and whether a measured row does.

use super::measure::{AFTER_MS, GOOD_PCT};
use super::scene::Scene;
use crate::experiment::Row;

/// How much more than UDP the overlay may miss, in percent of the packets.
const MORE_POINTS: f64 = 0.3;
/// The longest silence where another way exists.
const SILENCE_MS: f64 = 500.0;
/// What may be missed beside outages and the time after them, in percent.
const OUTSIDE_PCT: f64 = 0.1;
/// Where both carriers' losses are drawn, each with draws of its own, a mean over few runs is off by
/// so many standard errors of the difference before that says anything.
const ERRORS: f64 = 2.0;

/// A bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    /// Lost and late together: at most UDP's and 0.3 points.
    NoMoreThanUdp,
    /// The same, and the share of the time in which the overlay's only way stood still.
    NoMoreThanUdpAndStalls,
    /// The longest silence: of the trouble and 400 ms where there is no other way, 500 ms where
    /// there is one.
    Silence,
    /// The longest silence: UDP's and 400 ms, where losses come in runs of any length.
    SilenceOfUdp,
    /// Missed beside outages and the 400 ms after them: at most 0.1 %, and what UDP misses there where
    /// no answer to a request can come in time.
    BesideOutages,
    /// Lost and late together: at most so many percent.
    Missed(f64),
    /// Changes of the call's route, of the call that has most of them: at most so many in 300 s. Trees by metrics and to
    /// nodes that nothing goes by are told beside.
    RouteChanges(f64),
    /// So many calls as good as perfect, and all others refused.
    Served(u32),
}

/// A bar in one scene.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reached {
    pub(super) holds: bool,
    /// What was measured and what it had to be.
    pub(super) text: String,
    /// By how much it is off, as a share of the limit: for the worst of many.
    pub(super) excess: f64,
}

impl Bar {
    /// Whether a scene's row reaches it.
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

/// The share of the time in which the only way stood still, in percent.
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
        // What was not measured holds for nothing.
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

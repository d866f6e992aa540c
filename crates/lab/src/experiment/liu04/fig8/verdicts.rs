//! Verdicts from the rows on each claim.

use super::{LINKS, NOTHING, SLOWEST, value};
use crate::experiment::liu04::chain::{BUFFER_SEGMENTS, LINK_BPS, LINK_MS};
use crate::experiment::{Rows, Verdict};
use crate::stats::{every, least, mean, most};

/// Largest relative difference of ordinary losses to those without the transfer.
const NEGLIGIBLE: f64 = 0.05;
/// Runs are similar if each is within this share of their mean.
const SIMILAR: f64 = 0.35;
/// How far above the slowest link's own rate a pipeline may be by chance.
const CHANCE: f64 = 0.25;

pub(super) struct Judge<'a> {
    pub(super) rows: &'a Rows,
    pub(super) layouts: &'static [[u32; LINKS]],
    pub(super) runs: u32,
}

impl Judge<'_> {
    pub(super) fn all(&self) -> Vec<Verdict> {
        vec![
            Verdict::setup(
                "setup-links",
                &[
                    ("links", LINKS as f64, 6.0),
                    ("Mbit/s", LINK_BPS as f64 / 1e6, 20.0),
                    ("ms in each direction", LINK_MS as f64, 10.0),
                ],
            ),
            self.setup_background(),
            self.most_congested(),
            self.negligible(),
            self.rises(),
            self.boost(),
            self.hop_by_hop_bound(),
            self.non_decreasing(),
            self.back_pressure(),
            self.similar(),
        ]
    }

    fn setup_background(&self) -> Verdict {
        let all = self.layouts.iter().flatten();
        let all: std::collections::BTreeSet<u32> = all.copied().collect();
        let counts: Vec<u32> = all.into_iter().collect();
        let nth = |n: usize| counts.get(n).map_or(f64::NAN, |count| f64::from(*count));
        let parameters = [
            ("different numbers of flows", counts.len() as f64, 3.0),
            ("flows on the emptiest link", nth(0), 40.0),
            ("on the next", nth(1), 80.0),
            ("on the fullest", nth(2), 120.0),
        ];
        Verdict::setup("setup-background", &parameters)
            .note("which link has how many is in the figure's drawing only: see the method")
    }

    fn over_layouts(&self) -> std::ops::Range<usize> {
        0..self.layouts.len()
    }

    fn kbps(&self, layout: usize, connections: usize) -> f64 {
        value(self.rows, layout, connections, "kbps")
    }

    fn most_congested(&self) -> Verdict {
        let by = |flows: u32| -> Vec<f64> {
            let links = self.over_layouts().flat_map(|layout| {
                let of = self.layouts[layout].iter().enumerate();
                let of = of.filter(move |(_, count)| **count == flows);
                of.map(move |(at, _)| (layout, at))
            });
            let loss = |(layout, at)| value(self.rows, layout, NOTHING, &format!("loss_{at}"));
            links.map(loss).collect()
        };
        let [few, some, many] = [40, 80, 120].map(by);
        let holds = most(&few) < least(&some) && most(&some) < least(&many);
        let said = [(40, &few), (80, &some), (120, &many)].map(|(flows, losses)| {
            format!(
                "{flows} flows {:.1} %",
                100.0 * mean(losses.iter().copied())
            )
        });
        Verdict::of(
            "most-congested",
            holds,
            format!("lost: {}", said.join(", ")),
        )
    }

    fn negligible(&self) -> Verdict {
        let links = self
            .over_layouts()
            .flat_map(|layout| (0..LINKS).map(move |at| (layout, at)));
        let worst = most(links.map(|(layout, at)| {
            let without = value(self.rows, layout, NOTHING, &format!("loss_{at}"));
            let with = value(self.rows, layout, LINKS, &format!("loss_with_{at}"));
            (with / without - 1.0).abs()
        }));
        let said = format!(
            "hop by hop, no link's loss is off by more than {:.1} %",
            100.0 * worst
        );
        Verdict::of("negligible", worst <= NEGLIGIBLE, said)
    }

    fn rises(&self) -> Verdict {
        let mut holds = true;
        let said = self.over_layouts().map(|layout| {
            let rates: Vec<f64> = (1..=LINKS).map(|m| self.kbps(layout, m)).collect();
            holds &= rates.windows(2).all(|pair| pair[1] > pair[0]);
            let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            format!("{} kbit/s with 0 to {} relays", rates.join(", "), LINKS - 1)
        });
        let said: Vec<String> = said.collect();
        Verdict::of("rises", holds, said.join("; ")).because(
            "a relay that does not touch the slowest segment moves nothing but chance; see what the model predicts in the drawing",
        )
    }

    fn boost(&self) -> Verdict {
        let gains = self
            .over_layouts()
            .map(|layout| self.kbps(layout, LINKS) / self.kbps(layout, 1));
        let gains: Vec<f64> = gains.collect();
        let holds = gains.iter().all(|gain| *gain > 1.0);
        let said: Vec<String> = gains.iter().map(|gain| format!("{gain:.1}")).collect();
        Verdict::of(
            "boost",
            holds,
            format!("hop by hop {} times the single connection", said.join(", ")),
        )
        .note("with equal links the model has 6·√6 = 14.7")
    }

    fn hop_by_hop_bound(&self) -> Verdict {
        let mut holds = true;
        let said = self.over_layouts().map(|layout| {
            let (pipeline, alone) = (self.kbps(layout, LINKS), self.kbps(layout, SLOWEST));
            let most = most((1..=LINKS).map(|m| self.kbps(layout, m)));
            holds &= most <= alone * (1.0 + CHANCE);
            format!("hop by hop {pipeline:.0} kbit/s, the slowest link alone {alone:.0}")
        });
        let said: Vec<String> = said.collect();
        Verdict::of("bound", holds, said.join("; "))
            .note("two runs of one connection among 120 differ by more than a tenth")
    }

    fn non_decreasing(&self) -> Verdict {
        let rows = self.rows.0.iter();
        let mut holds = !self.rows.0.is_empty();
        for row in rows.filter(|row| row.parameter("connections") == LINKS as f64) {
            let [layout, run] = ["layout", "run"].map(|name| row.parameter(name));
            let rates = (1..=LINKS).map(|m| {
                let place = [("layout", layout), ("run", run), ("connections", m as f64)];
                self.rows.value(&place, "model_kbps")
            });
            let rates: Vec<f64> = rates.collect();
            holds &= rates.windows(2).all(|pair| pair[1] >= pair[0]);
        }
        let said = self.over_layouts().map(|layout| {
            let rates = (1..=LINKS).map(|m| value(self.rows, layout, m, "model_kbps"));
            rates
                .map(|rate| format!("{rate:.0}"))
                .collect::<Vec<_>>()
                .join(", ")
        });
        let said: Vec<String> = said.collect();
        Verdict::of(
            "non-decreasing",
            holds,
            format!("{} kbit/s by the model", said.join("; ")),
        )
        .note("the formula knows no timeouts, so where a tenth is lost it is far above what passes")
    }

    fn back_pressure(&self) -> Verdict {
        let rows = self.rows.0.iter().map(|row| {
            let relays = (row.parameter("connections") - 1.0).clamp(0.0, LINKS as f64 - 1.0);
            // Each relay has a receive buffer and a send buffer.
            (
                row.value("held_most"),
                relays * 2.0 * f64::from(BUFFER_SEGMENTS),
            )
        });
        // Without a relay nothing is held.
        let rows: Vec<(f64, f64)> = rows.filter(|(_, room)| *room > 0.0).collect();
        let holds = every(&rows, |(held, room)| held <= room);
        let most = most(rows.iter().map(|(held, _)| held));
        let said = format!(
            "relays of one transfer together held at most {most:.0} segments, and never more than their buffers"
        );
        Verdict::of("back-pressure", holds, said)
    }

    fn similar(&self) -> Verdict {
        let worst = most(self.over_layouts().map(|layout| {
            let average = self.kbps(layout, LINKS);
            let place = [("layout", layout as f64), ("connections", LINKS as f64)];
            let runs = self.rows.with(&place);
            most(runs.map(|row| (row.value("kbps") / average - 1.0).abs()))
        }));
        let said = format!(
            "{} runs hop by hop, each within {:.0} % of their mean",
            self.runs,
            100.0 * worst
        );
        Verdict::of("similar", worst <= SIMILAR, said)
    }
}

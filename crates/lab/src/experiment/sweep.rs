//! Measures cells: on all cores, or one by one when real time is measured. Each row is kept as soon as it is there.

use super::cells::{self, MeasuredCell};
use super::kept::Kept;
use super::{Cell, CellError, Experiment, LabError, Plan, Row, Shard, overrides};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Why not all cells were measured.
pub(super) enum Stopped {
    /// Ctrl-C.
    Interrupted,
    /// The grid cannot be had.
    Refused(LabError),
    /// A cell failed.
    Failed(String, CellError),
}

/// How often it is looked whether to stop while cells are measured.
const LOOK: Duration = Duration::from_millis(100);

/// How often it is told how far it is where no bar is drawn.
const TELL: Duration = Duration::from_secs(60);

/// Rows of a run, by family and key of their cells.
pub(super) type Measured = BTreeMap<(&'static str, String), Row>;

/// The rows of the shard's cells, in the order of the grid. What the family has measured before is
/// not measured again, nor what an earlier run has kept.
pub(super) fn measure(
    experiment: &dyn Experiment,
    plan: &Plan,
    shard: Option<Shard>,
    (measured, kept): (&mut Measured, &mut Kept),
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Vec<Row>, Stopped> {
    let cells =
        overrides::grid(experiment, plan.size, &plan.overrides).map_err(Stopped::Refused)?;
    let mine = (0..cells.len()).filter(|place| shard.is_none_or(|shard| shard.holds(*place)));
    let all: Vec<&Cell> = mine.map(|place| &cells[place]).collect();
    let family = experiment.family();
    let recording = cells::recording(plan.speech.as_deref()).map_err(Stopped::Refused)?;
    let identity = |cell: &Cell| {
        cells::identity(experiment, plan, &cell.key, recording.as_deref()).map_err(Stopped::Refused)
    };
    let (mut mine, mut identities, mut taken): (Vec<&Cell>, Vec<String>, usize) =
        Default::default();
    for cell in &all {
        let key = (family, cell.key.clone());
        if measured.contains_key(&key) {
            continue;
        }
        let identity = identity(cell)?;
        match kept.take(&identity) {
            Some(row) => {
                measured.insert(key, row);
                taken += 1;
            }
            None => {
                mine.push(cell);
                identities.push(identity);
            }
        }
    }
    if taken > 0 {
        progress.begin(&format!(
            "{}: {taken} of {} cells are taken over from a run that did not end; --fresh measures them again",
            experiment.id(),
            all.len()
        ));
    }
    let (next, stop) = (AtomicUsize::new(0), &plan.stop);
    let work = |done: mpsc::Sender<(usize, Result<Row, CellError>)>| {
        while !stop.is_set() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = mine.get(place) else { break };
            let row = overrides::measure(experiment, plan, cell);
            if done.send((place, row)).is_err() {
                break;
            }
        }
    };
    let workers = match experiment.is_real_time() {
        true => 1,
        false => thread::available_parallelism().map_or(1, usize::from),
    };
    let mut rows: Vec<Option<Row>> = vec![None; mine.len()];
    let (mut stopped, mut is_kept) = (None, true);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..workers.min(mine.len()) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        let (mut count, mut told, begun) = (0, Instant::now(), Instant::now());
        loop {
            if told.elapsed() >= TELL {
                told = Instant::now();
                progress.tell(&format!(
                    "{}: {count} of {} cells after {} min",
                    experiment.id(),
                    mine.len(),
                    begun.elapsed().as_secs() / 60
                ));
            }
            match receiver.recv_timeout(LOOK) {
                Ok((place, Ok(row))) => {
                    count += 1;
                    let share = f64::from(count) / mine.len() as f64;
                    progress.draw(share, &format!("{} {}", experiment.id(), row.cell));
                    let identity = std::mem::take(&mut identities[place]);
                    let cell = MeasuredCell { identity, row };
                    // A full disk is no reason to stop: perhaps it is not full any more at the end.
                    if is_kept && let Err(error) = kept.add(&cell) {
                        is_kept = false;
                        progress.warn(&format!(
                            "rows are not kept for another run from here on: {error}"
                        ));
                    }
                    rows[place] = Some(cell.row);
                }
                // Those that were interrupted failed for that.
                Ok((_, Err(_))) if matches!(stopped, Some(Stopped::Interrupted)) => {}
                Ok((place, Err(error))) => {
                    stop.set();
                    stopped.get_or_insert(Stopped::Failed(mine[place].key.clone(), error));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if stopped.is_none() && interrupt.came() {
                stop.set();
                stopped = Some(Stopped::Interrupted);
            }
        }
    });
    progress.clear();
    match stopped {
        Some(stopped) => Err(stopped),
        None => {
            let keyed = |row: Row| ((family, row.cell.clone()), row);
            measured.extend(rows.into_iter().flatten().map(keyed));
            let row = |cell: &&Cell| measured.get(&(family, cell.key.clone())).cloned();
            Ok(all.iter().filter_map(row).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Findings, Rows, Size, Stop};
    use crate::files::Scratch;
    use std::sync::atomic::AtomicBool;

    /// Three cells, one after the other; the second fails as long as it is told to.
    #[derive(Default)]
    struct Fragile {
        fails: AtomicBool,
        measured: AtomicUsize,
    }

    impl Experiment for Fragile {
        fn id(&self) -> &'static str {
            "own/fragile"
        }

        fn title(&self) -> &'static str {
            "fragile"
        }

        fn method(&self, _: Size) -> String {
            String::new()
        }

        fn cells(&self, _: Size) -> Vec<Cell> {
            [1.0, 2.0, 3.0].map(|n| Cell::at(&[("n", n)])).to_vec()
        }

        fn measure(&self, _: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
            if self.fails.load(Ordering::Relaxed) && cell.parameter("n") == 2.0 {
                return Err(CellError("fragile".into()));
            }
            self.measured.fetch_add(1, Ordering::Relaxed);
            let mut row = Row::of(cell);
            row.set("seed", (seed >> 16) as f64);
            Ok(row)
        }

        fn conclude(&self, _: &Plan, _: &Rows) -> Findings {
            Findings::default()
        }

        fn is_real_time(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_run_that_failed_in_one_cell_keeps_the_others() {
        let scratch = Scratch::new("lab-sweep").unwrap();
        let experiment = Fragile::default();
        let elsewhere = Interrupt::elsewhere().unwrap();
        let run = |seed: u64, is_fresh: bool| {
            let plan = Plan {
                size: Size::Quick,
                seed,
                program: "sinew".into(),
                speech: None,
                overrides: Vec::new(),
                stop: Stop::default(),
            };
            let mut kept = Kept::open(scratch.path(), experiment.id(), None, is_fresh).unwrap();
            let mut measured = Measured::new();
            experiment.measured.store(0, Ordering::Relaxed);
            let rows = measure(
                &experiment,
                &plan,
                None,
                (&mut measured, &mut kept),
                &elsewhere,
                Progress::Silent,
            );
            (rows.ok(), experiment.measured.load(Ordering::Relaxed))
        };
        let (whole, count) = run(7, true);
        assert_eq!(count, 3);
        experiment.fails.store(true, Ordering::Relaxed);
        assert_eq!(run(7, true), (None, 1));
        experiment.fails.store(false, Ordering::Relaxed);
        // Another seed has other rows.
        assert_eq!(run(8, false).1, 3);
        assert_eq!(run(7, false), (whole.clone(), 2));
        assert_eq!(run(7, true), (whole, 3));
    }
}

//! Measures cells: on all cores, or one by one if real time is measured. If not all cells are measured, the measured
//! ones are still returned.

use super::{Cell, CellError, Experiment, LabError, Plan, Row, Shard, overrides};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tools::progress::Progress;

/// Why not all cells were measured.
pub(super) enum Stopped {
    /// Ctrl-C.
    Interrupted,
    /// A cell failed: its name, and why.
    Failed(String, CellError),
}

/// The result of a sweep.
pub(super) struct Swept {
    /// Rows, in the order of the grid.
    pub(super) rows: Vec<Row>,
    /// Why rows are missing.
    pub(super) stopped: Option<Stopped>,
}

/// How often the sweep checks whether to stop while cells are measured.
const LOOK: Duration = Duration::from_millis(100);

/// How often a line reports how many cells are done, if no bar is drawn.
const TELL: Duration = Duration::from_secs(60);

/// Rows of a run, by family and key of their cells.
pub(super) type Measured = BTreeMap<(&'static str, String), Row>;

/// Returns the rows of the shard's cells. Cells that the family has measured before are not measured again.
///
/// A failing simulated cell ends the sweep, because the cause is a programming error. A cell with real nodes may fail
/// because of events on the machine, and takes minutes: the other cells are measured all the same. With real nodes, a
/// row that arrives after Ctrl-C does not count, since the signal also reaches the programs that the cells have
/// started.
pub(super) fn measure(
    experiment: &dyn Experiment,
    plan: &Plan,
    shard: Option<Shard>,
    measured: &mut Measured,
    has_come: &dyn Fn() -> bool,
    progress: Progress,
) -> Result<Swept, LabError> {
    let cells = overrides::grid(experiment, plan.size, &plan.overrides)?;
    let mine = (0..cells.len()).filter(|place| shard.is_none_or(|shard| shard.holds(*place)));
    let all: Vec<&Cell> = mine.map(|place| &cells[place]).collect();
    let family = experiment.family();
    let is_new = |cell: &&Cell| !measured.contains_key(&(family, cell.key.clone()));
    let mine: Vec<&Cell> = all.iter().copied().filter(is_new).collect();
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
    let mut stopped = None;
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
            let came = receiver.recv_timeout(LOOK);
            if !stop.is_set() && has_come() {
                stop.set();
                stopped = Some(Stopped::Interrupted);
            }
            let is_interrupted = matches!(stopped, Some(Stopped::Interrupted));
            match came {
                Ok((_, Ok(_))) if is_interrupted && experiment.is_real_time() => {}
                Ok((place, Ok(row))) => {
                    count += 1;
                    let share = f64::from(count) / mine.len() as f64;
                    progress.draw(share, &format!("{} {}", experiment.id(), row.cell));
                    rows[place] = Some(row);
                }
                // An interrupted cell failed because of the interrupt.
                Ok((_, Err(_))) if is_interrupted => {}
                Ok((place, Err(error))) => {
                    let key = &mine[place].key;
                    match experiment.is_real_time() {
                        true => progress.tell(&format!("{key} failed: {error}")),
                        false => stop.set(),
                    }
                    stopped.get_or_insert(Stopped::Failed(key.clone(), error));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    progress.clear();
    let keyed = |row: Row| ((family, row.cell.clone()), row);
    measured.extend(rows.into_iter().flatten().map(keyed));
    let row = |cell: &&Cell| measured.get(&(family, cell.key.clone())).cloned();
    Ok(Swept {
        rows: all.iter().filter_map(row).collect(),
        stopped,
    })
}

//! Measuring a load of Table I: one contender after the other in the same networks.

use super::loads::{LOADS, Load};
use super::overlay::{Kind, Overlay};
use super::site::{Shape, Site};
use super::stats::tell;
use super::talk::{Ends, Stream, Told};
use super::{bare, native};
use crate::bench::usage;
use crate::experiment::{Cell, CellError, Plan, Row, Size};

/// The impairment of the lossy link, in both directions, in the cells that have one.
const LOSSY: &str = "loss=1%";
/// How often each contender carries a load.
const TRIALS_QUICK: usize = 3;
const TRIALS_FULL: usize = 5;
/// Loads that a quick run measures over the lossy link: one of each payload, none near any limit.
const LOSSY_QUICK: [u32; 3] = [2, 7, 12];

/// Returns a cell for each load of the table, over both topologies.
pub(super) fn cells() -> Vec<Cell> {
    let shapes = [0.0, 1.0].into_iter();
    let all = shapes.flat_map(|tree| LOADS.iter().map(move |load| (tree, load)));
    all.map(|(tree, load)| cell(tree, load, 0.0)).collect()
}

/// Returns the same cells with loss on a middle link.
pub(super) fn lossy_cells(size: Size) -> Vec<Cell> {
    let is_in = |load: &&Load| size == Size::Full || LOSSY_QUICK.contains(&load.no);
    let shapes = [0.0, 1.0].into_iter();
    let all = shapes.flat_map(|tree| LOADS.iter().filter(is_in).map(move |load| (tree, load)));
    all.map(|(tree, load)| cell(tree, load, 1.0)).collect()
}

fn cell(tree: f64, load: &Load, loss_pct: f64) -> Cell {
    Cell::at(&[
        ("tree", tree),
        ("no", f64::from(load.no)),
        ("payload", load.payload as f64),
        ("mbps", load.mbps),
        ("loss_pct", loss_pct),
    ])
}

/// Returns how often each contender carries a load.
pub(super) fn trials(size: Size) -> usize {
    match size {
        Size::Quick => TRIALS_QUICK,
        Size::Full => TRIALS_FULL,
    }
}

/// A cell during its measurement.
pub(super) struct Bout<'a> {
    plan: &'a Plan,
    site: Site,
    stream: Stream,
    row: Row,
}

impl Bout<'_> {
    /// Sets up the networks of a cell.
    pub(super) fn new<'a>(plan: &'a Plan, cell: &Cell, seed: u64) -> Result<Bout<'a>, CellError> {
        native::available()?;
        let load = Load::numbered(cell.parameter("no"));
        let lossy = cell.parameter("loss_pct") > 0.0;
        let site = Site::new(Shape::of(cell.parameter("tree")), lossy.then_some(seed))?;
        if lossy {
            site.impair(LOSSY);
        }
        let mut row = Row::of(cell);
        row.set("offered_pps", load.rate_pps());
        row.set("load_average", usage::load());
        Ok(Bout {
            plan,
            site,
            stream: Stream {
                payload: load.payload,
                rate_pps: load.rate_pps(),
                packets: load.packets(plan.size),
            },
            row,
        })
    }

    /// Measures native multicast.
    pub(super) fn native(&mut self) -> Result<(), CellError> {
        let _routes = native::Native::start(&self.site)?;
        let ends = native::ends(&self.site)?;
        self.carry("native", &ends)
    }

    /// Measures as many bare forwarders as there are hosts.
    pub(super) fn bare(&mut self) -> Result<(), CellError> {
        let forwarders = bare::Bare::start(&self.site)?;
        let ends = bare::ends(&self.site)?;
        self.carry("bare", &ends)?;
        if let Some(report) = forwarders.stop().get(self.site.shape.middle()) {
            let per_copy = report.ns_per_packet() / 1e3;
            self.row.set("bare_copy_cpu_us", per_copy);
        }
        // The sender's processor time pays for crossing a veth. The bare sender's packets cross one and end in a
        // socket; native ones cross one more for every copy.
        let of = |who: &str| self.row.value(&format!("{who}_sender_cpu_us"));
        let per_copy = (of("native") - of("bare")) / self.site.shape.copies() as f64;
        if per_copy.is_finite() {
            self.row.set("native_copy_cpu_us", per_copy);
        }
        Ok(())
    }

    /// Measures one kind of the overlay.
    pub(super) fn overlay(&mut self, kind: Kind) -> Result<(), CellError> {
        let who = kind.name;
        let mut overlay = Overlay::start(&self.plan.program, &self.site, kind)?;
        let ends = overlay.ends(&self.site)?;
        let opened = ends.open(who);
        overlay.check()?;
        self.row
            .set(format!("{who}_open_ms"), opened?.as_secs_f64() * 1e3);
        let before = overlay.middle_usage()?;
        let trials = self.run(&ends)?;
        let used = overlay.middle_usage()?.since(before);
        let branches = self.site.shape.children(self.site.shape.middle()).count();
        let sent: u64 = trials.iter().map(|told| told.sent).sum();
        let copies = (sent * branches as u64).max(1) as f64;
        self.row.set(
            format!("{who}_copy_cpu_us"),
            used.cpu_ns as f64 / 1e3 / copies,
        );
        overlay.check()?;
        tell(&mut self.row, who, self.site.shape.drawn(), &trials);
        Ok(())
    }

    fn carry(&mut self, who: &str, ends: &Ends) -> Result<(), CellError> {
        ends.open(who)?;
        let trials = self.run(ends)?;
        tell(&mut self.row, who, self.site.shape.drawn(), &trials);
        Ok(())
    }

    fn run(&self, ends: &Ends) -> Result<Vec<Told>, CellError> {
        let trials = 0..trials(self.plan.size);
        trials.map(|_| ends.run(&self.stream)).collect()
    }

    /// Returns the measurements.
    pub(super) fn row(self) -> Row {
        self.row
    }
}

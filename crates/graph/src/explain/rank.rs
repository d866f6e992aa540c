//! The next best paths.
//!
//! For a metric these are exactly the next shortest paths. Width and delivery have no such order that is cheap to
//! follow. So for these the result is the best of a limited set: the shortest paths by every metric, which include the
//! short, the clean and the balanced ones, and the shortest paths of the next narrower widths.

use super::{Class, PATH_METRIC, Question, RECOVERY, RUNNERS_UP_MAX};
use crate::delivery::Distribution;
use crate::metric::{self, Metric};
use crate::paths::{self, NoPath, Path};
use crate::topology::Topology;
use crate::width::{Width, shortest_of_width};
use core::cmp::Ordering;

/// Returns up to as many paths as the question wants, best first by the deciding measure. None of them is a chosen
/// path.
pub(super) fn runners_up(
    topology: &Topology,
    question: &Question,
    chosen: &[Path],
) -> Result<Vec<Path>, NoPath> {
    let wanted = question.runners_up.min(RUNNERS_UP_MAX);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let Question { src, dst, .. } = *question;
    let by = |metric| paths::shortest(topology, src, dst, metric, wanted + chosen.len());
    let mut field = match question.class {
        Class::Metric(metric) => by(metric)?,
        Class::Disjoint(_) | Class::Targeted => by(PATH_METRIC)?,
        Class::Width | Class::Best => {
            let mut field = Vec::new();
            for metric in Metric::ALL {
                field.append(&mut by(metric)?);
            }
            field.extend(narrower(topology, question, chosen, wanted)?);
            sort(topology, question, &mut field);
            field
        }
    };
    let same = |a: &Path, b: &Path| a.nodes().eq(b.nodes());
    let mut next: Vec<Path> = Vec::new();
    for path in field.drain(..) {
        if !chosen.iter().chain(&next).any(|known| same(known, &path)) {
            next.push(path);
        }
    }
    next.truncate(wanted);
    Ok(next)
}

/// Returns the shortest paths that may be narrower than the chosen one, step by step: each is the shortest path of
/// those that are as wide as the widest link that the path before was too wide for.
fn narrower(
    topology: &Topology,
    question: &Question,
    chosen: &[Path],
    wanted: usize,
) -> Result<Vec<Path>, NoPath> {
    let mut found = Vec::new();
    let mut width = chosen.iter().map(Path::width).min().unwrap_or(Width::NONE);
    let links = topology.nodes().flat_map(|node| topology.links_from(node));
    let mut widths: Vec<Width> = links.map(|edge| edge.width()).collect();
    widths.sort_unstable();
    widths.dedup();
    // The number of widths is limited, so that this takes no more work than the other paths.
    for _ in 0..4 * wanted {
        let below = widths.partition_point(|other| *other < width);
        let Some(&next) = below.checked_sub(1).and_then(|at| widths.get(at)) else {
            break;
        };
        width = next;
        let path = shortest_of_width(topology, question.src, question.dst, PATH_METRIC, width)?;
        if found.last() != Some(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Sorts by the deciding measure, then by cost, then by addresses.
fn sort(topology: &Topology, question: &Question, field: &mut [Path]) {
    let score = |path: &Path| match question.class {
        Class::Width => path.width().0 as f64,
        _ => delivered(topology, path, question.deadline_us),
    };
    let cost = |path: &Path| -> u64 {
        let links = path.hops.iter();
        let cost = |link| metric::cost(PATH_METRIC, link, topology.parameters());
        links.map(|hop| cost(hop.link).0).sum()
    };
    field.sort_by_cached_key(|path| {
        let addrs: Vec<_> = path.nodes().collect();
        (Descending(score(path)), cost(path), addrs)
    });
}

fn delivered(topology: &Topology, path: &Path, deadline_us: u32) -> f64 {
    let nodes: Vec<_> = path
        .nodes()
        .filter_map(|addr| topology.index(addr))
        .collect();
    let delays = Distribution::of_path(topology, &nodes, RECOVERY, deadline_us);
    delays.map_or(0.0, |delays| delays.delivered())
}

/// A number that sorts the larger value first.
struct Descending(f64);

impl Ord for Descending {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0)
    }
}

impl PartialOrd for Descending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Descending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Descending {}

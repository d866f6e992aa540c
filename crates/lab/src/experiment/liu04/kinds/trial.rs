//! One cell: all placements one after the other, and then, with new nodes that have no knowledge of them, a copy as a
//! user makes it.
//!
//! ```text
//!   nodes ─▶ placement, placement, …          each a stream of zeros for so long
//!   new nodes ─▶ sinew cp --probe FILE        a file of what the best placement carries in that time
//! ```

use super::kind::{Beside, Kind};
use super::others;
use crate::bench::copying::Copying;
use crate::experiment::liu04::hosts::{Connection, Copy, Pings, Relays, Site, number, payload_bps};
use crate::experiment::{CellError, Row, Stop};
use crate::files::Scratch;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Length of the measurement of round trips without load.
const IDLE: Duration = Duration::from_secs(1);
/// Time in which nodes inform each other about their links, and whether they are busy.
const SETTLED: Duration = Duration::from_secs(3);
/// The time after its span, as a share of it, in which a placement must end: data under way arrives.
const DRAINED: f64 = 0.5;
/// The longest time of the probes of each path.
const PROBED: Duration = Duration::from_secs(60);
/// A copy that takes longer than this multiple of its time is given up.
const PATIENCE: u32 = 6;
/// Smallest file.
const FILE_BYTES_MIN: f64 = 1e6;
const LOOK: Duration = Duration::from_millis(20);

/// The row's key for the placements that failed, and why.
pub(super) const PLACEMENT_FAILED: &str = "placement_failed";

/// One cell.
pub(super) struct Trial<'a> {
    pub(super) program: &'a Path,
    pub(super) kind: &'a Kind,
    /// The rate of links, and the length of copies.
    pub(super) mbit: f64,
    pub(super) span: Duration,
    /// The congestion control of all kernels.
    pub(super) congestion: &'a str,
    /// Whether other programs are measured too.
    pub(super) has_others: bool,
    pub(super) seed: u64,
    /// Set when the result is no longer needed.
    pub(super) stop: &'a Stop,
}

/// The measurements of one placement.
struct Placed {
    relays: usize,
    stripes: u8,
    bps: f64,
    /// Mean round trips over the links.
    rtt_ms: Vec<f64>,
}

impl Trial<'_> {
    /// Measures the cell.
    pub(super) fn measure(&self, row: &mut Row) -> Result<(), CellError> {
        let links = self.kind.links(self.mbit);
        let site = Site::new(links, self.congestion, self.seed)?;
        let pings = Pings::start(&site)?;
        let begun = Instant::now();
        sleep(IDLE);
        let idle = pings.between(begun, Instant::now());
        let beside = match self.kind.beside {
            Beside::Connection => {
                let ends = (0, self.kind.to);
                Some(Connection::start(&site, ends, self.congestion)?)
            }
            _ => None,
        };
        let tried = self.placements(&site, &pings, row)?;
        let best = tried.iter().map(|placed| placed.bps).fold(0.0, f64::max);
        let folder = Scratch::new("kinds").map_err(failed)?;
        let bytes = (best / 8.0 * self.span.as_secs_f64()).max(FILE_BYTES_MIN) as u64;
        let file = folder.path().join("data");
        write(&file, bytes).map_err(failed)?;
        let rtt_ms = self.copy(&site, &pings, &file, row)?;
        self.goes_on()?;
        tell(row, &tried, &idle, &rtt_ms);
        if self.has_others {
            others::measure(&site, self.kind.to, (&file, bytes), self.span, row)?;
        }
        // The other programs had to share the link too.
        drop(beside);
        self.goes_on()
    }

    /// Fails after Ctrl-C: it also reaches the measured programs, so their results are not valid.
    fn goes_on(&self) -> Result<(), CellError> {
        match self.stop.is_set() {
            true => Err(CellError("interrupted".into())),
            false => Ok(()),
        }
    }

    /// Starts the nodes, and the transfer that occupies a relay's only place.
    fn start(&self, site: &Site) -> Result<(Relays, Option<Holding>), CellError> {
        let full = match self.kind.beside {
            Beside::Transfer(relay) => vec![relay],
            _ => Vec::new(),
        };
        let relays = Relays::start(self.program, site, &full)?;
        let holding = match full.is_empty() {
            true => None,
            false => {
                let copy = Copy {
                    to: self.kind.to,
                    via: Some(full),
                    stripes: vec![1],
                    ..Copy::default()
                };
                let mut command = relays.copy_of(site, "-", &copy);
                let command = command.stdout(Stdio::null()).stderr(Stdio::null());
                Some(Holding(command.spawn().map_err(failed)?))
            }
        };
        sleep(SETTLED);
        Ok((relays, holding))
    }

    fn placements(
        &self,
        site: &Site,
        pings: &Pings,
        row: &mut Row,
    ) -> Result<Vec<Placed>, CellError> {
        let (mut relays, _holding) = self.start(site)?;
        let mut all = Vec::new();
        for (via, stripes) in self.kind.placements() {
            self.goes_on()?;
            let copy = Copy {
                to: self.kind.to,
                via: Some(via),
                stripes: vec![stripes],
                ..Copy::default()
            };
            let (placed, failed) = self.placed(site, pings, &relays, &copy)?;
            relays.check()?;
            let name = format!("relays{}_stripes{stripes}", placed.relays);
            row.set(format!("{name}_bps"), placed.bps);
            if let Some(why) = failed {
                let all = row.words.entry(PLACEMENT_FAILED.into()).or_default();
                *all += &format!("{name}: {why}; ");
            }
            all.push(placed);
        }
        Ok(all)
    }

    /// Measures one placement. A placement that does not finish soon after its time is too slow to be the best: its
    /// result is the data that has arrived by then. The same holds for one that fails, with the reason.
    fn placed(
        &self,
        site: &Site,
        pings: &Pings,
        relays: &Relays,
        copy: &Copy,
    ) -> Result<(Placed, Option<io::Error>), CellError> {
        let (before, begun) = (site.received(copy.to)?, Instant::now());
        let copying = Copying::begin(relays.copy_of(site, "-", copy), u64::MAX).map_err(failed)?;
        sleep(self.span);
        let rtt_ms = pings.between(begun, Instant::now());
        let (after, took) = (site.received(copy.to)?, begun.elapsed());
        let (told, failed) = match copying.stop_within(self.span.mul_f64(DRAINED)) {
            Ok(told) => (told, None),
            Err(error) => (None, Some(error)),
        };
        let placed = Placed {
            relays: copy.via.as_ref().map_or(0, Vec::len),
            stripes: copy.stripes[0],
            bps: match told {
                Some(told) => number(&told, "rate_bps"),
                None => payload_bps(after - before, took),
            },
            rtt_ms,
        };
        Ok((placed, failed))
    }

    /// Copies as a user does. Returns the mean round trips over the links during the copy.
    fn copy(
        &self,
        site: &Site,
        pings: &Pings,
        file: &Path,
        row: &mut Row,
    ) -> Result<Vec<f64>, CellError> {
        let (mut relays, _holding) = self.start(site)?;
        let copy = Copy {
            to: self.kind.to,
            probes: true,
            ..Copy::default()
        };
        let mut command = relays.copy_of(site, &file.to_string_lossy(), &copy);
        let begun = Instant::now();
        let mut child = command.stdin(Stdio::null()).spawn().map_err(failed)?;
        let latest = begun + PROBED + self.span * PATIENCE;
        while child.try_wait().map_err(failed)?.is_none() {
            if Instant::now() >= latest || self.stop.is_set() {
                // The process may end at this moment.
                let _ = child.kill();
            }
            sleep(LOOK);
        }
        let ended = child.wait_with_output().map_err(failed)?;
        relays.check()?;
        let told: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        for (key, name) in TOLD {
            row.set(name, number(&told, key));
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).collect();
        let key = if ended.status.success() {
            "said"
        } else {
            "failed"
        };
        row.words.insert(key.into(), said.join("; "));
        let segments = told["segments"].as_array().map_or(&[][..], Vec::as_slice);
        let stripes = segments.iter().map(|one| number(one, "stripes"));
        row.set("used_stripes", stripes.fold(f64::NAN, f64::max));
        row.set("used_relays", segments.len() as f64 - 1.0);
        let after = |seconds: f64| begun + Duration::from_secs_f64(seconds.max(0.0));
        let probed_s = number(&told, "probed_s").max(0.0);
        let whole_s = number(&told, "seconds").max(probed_s);
        Ok(pings.between(after(probed_s), after(whole_s)))
    }
}

/// The values from the output of `sinew cp`, and their names.
const TOLD: [(&str, &str); 7] = [
    ("rate_bps", "achieved_bps"),
    ("predicted_bps", "predicted_bps"),
    ("predicted_low_bps", "predicted_low_bps"),
    ("predicted_high_bps", "predicted_high_bps"),
    ("probed_s", "probed_s"),
    ("seconds", "seconds_all"),
    ("attempts", "attempts"),
];

/// Writes the results of the placements, compared with the copy. Round trips are those of the link to which the copy
/// adds the most compared with the best single connections.
fn tell(row: &mut Row, tried: &[Placed], idle: &[f64], copied: &[f64]) {
    let most = |placed: &[&Placed]| -> Option<usize> {
        let each = placed.iter().enumerate();
        let most = each.max_by(|a, b| a.1.bps.total_cmp(&b.1.bps));
        most.map(|(at, _)| at)
    };
    let all: Vec<&Placed> = tried.iter().collect();
    let single: Vec<&Placed> = tried.iter().filter(|placed| placed.stripes == 1).collect();
    let (Some(best), Some(one)) = (most(&all), most(&single)) else {
        return;
    };
    let (best, one) = (all[best], single[one]);
    row.set("best_bps", best.bps);
    row.set("best_relays", best.relays as f64);
    row.set("best_stripes", f64::from(best.stripes));
    row.set("one_bps", one.bps);
    let added = copied.iter().zip(&one.rtt_ms);
    let added = added.map(|(copied, one)| copied - one).enumerate();
    let Some((link, added)) = added.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    row.set("rtt_added_ms", added);
    row.set("rtt_idle_ms", idle[link]);
    row.set("rtt_one_ms", one.rtt_ms[link]);
    row.set("rtt_copy_ms", copied[link]);
}

/// A copy that sends nothing, until this is dropped.
struct Holding(Child);

impl Drop for Holding {
    fn drop(&mut self) {
        // This fails if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes data and no hole, because a hole would not be sent.
fn write(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::copy(&mut io::repeat(7).take(bytes), &mut file)?;
    Ok(())
}

pub(super) fn failed(error: io::Error) -> CellError {
    CellError(format!("a copy: {error}"))
}

//! Progress of a copy: how much is copied, the rate of each segment, and the limiting segment. Also the report of the
//! result.

use super::Copy;
use super::route::Prediction;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::progress::{self, DRAWN_EVERY, Pace};
use crate::quantity::bytes_in_words;
use crate::table;
use crate::terminal;
use base::NodeAddr;
use host::relay::Progress;
use host::relay::origin::{Done, EntryKind, Segment, Total};
use net::Clock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Collects the progress of a copy.
pub(super) struct Meter {
    names: Names,
    ends: BTreeSet<NodeAddr>,
    predicted: Option<Prediction>,
    as_json: bool,
    is_quiet: bool,
    /// It is a dry run: nothing is copied.
    is_dry: bool,
    /// The digest of every file is wanted.
    lists: bool,
    draws: bool,
    told: Option<PathBuf>,
    clock: Clock,
    begun: base::Time,
    /// Bytes of everything to be copied, if that is known before the first attempt.
    total: Option<u64>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Bytes that the ends have written in this attempt, and in earlier attempts.
    written: u64,
    before: u64,
    attempts: u64,
    /// The total that the source has reported.
    total: Option<Total>,
    /// The present attempt stops before anything is copied, because segments are measured first.
    to_probe: bool,
    has_probed: bool,
    /// The ends that are complete.
    done: BTreeMap<NodeAddr, Done>,
    /// Entries and bytes that were there before this command: left by an earlier attempt, or the same anyway.
    found: Option<(u64, u64)>,
    /// The digest of the content, if the copy is one file.
    digest: Option<Digest>,
    /// Files that were sent, and files that are finished in this attempt, sent or already there.
    files: u64,
    through: u64,
    digests: BTreeMap<Vec<u8>, Digest>,
    spared: BTreeMap<String, String>,
    spared_count: u64,
    /// Entries and bytes that would be copied, and the number of entries that would be removed.
    would: (u64, u64),
    gone: u64,
    /// An attempt has reached the other ends. Then: when something last moved, and whether in this attempt.
    begun: bool,
    moved: Option<base::Time>,
    has_moved: bool,
    waited: base::Duration,
    /// Time spent on measuring segments.
    probed: base::Duration,
    said: String,
    /// The bytes and the rate of the last expectation that was shown.
    foretold: Option<(Option<u64>, Option<u64>)>,
    kept: (u64, u64),
    /// Bytes of the entries that have begun; their number is in `entries`.
    announced: u64,
    /// Bytes of these entries that the ends already had.
    had: u64,
    /// The ends have no entry of the copy in this attempt.
    is_anew: bool,
    entries: u64,
    segments: BTreeMap<(NodeAddr, NodeAddr), Told>,
    /// The end for which the other ends wait, and how long they have waited.
    awaited: Option<(NodeAddr, Duration)>,
    pace: Pace,
    drawn: Option<base::Time>,
}

/// The digest of a file's content.
type Digest = [u8; 32];

/// Most skipped files that are reported by name. The rest is only counted.
const SPARED_MAX: usize = 1_000;
/// Most files whose digests are kept for a manifest: some 150 bytes each.
const LISTED_MAX: usize = 4 << 20;

impl State {
    /// Returns the bytes that have arrived. Reports of the ends come late, in steps of megabytes. Reports of the last
    /// segments come every second, and between two of them the function assumes the segment's rate.
    fn arrived(&self, now: base::Time) -> u64 {
        let goes_on = |node| self.segments.keys().any(|(from, _)| *from == node);
        let last = self.segments.iter().filter(|((_, to), _)| !goes_on(*to));
        let carried = last.map(|(_, told)| {
            let since = now.since(told.at).as_secs_f64().min(TOLD_EVERY_S);
            told.last.bytes + (told.last.rate_bps as f64 / 8.0 * since) as u64
        });
        carried.min().unwrap_or(0).max(self.written)
    }

    /// Returns the end for which the other ends have waited at least `span`.
    fn awaited(&self, span: Duration) -> Option<NodeAddr> {
        let awaited = self.awaited.filter(|(_, waited)| *waited >= span);
        awaited.map(|(node, _)| node)
    }

    /// Returns the content that was sent in all attempts, if `last` bytes were sent in the last one. The last attempt
    /// found more content than the first; the difference was sent in between. An attempt that stopped early had not
    /// reported everything that was there, so no more counts than the ends had written.
    fn came(&self, last: u64) -> u64 {
        let first = self.found.map_or(self.kept.1, |(_, bytes)| bytes);
        last + self.kept.1.saturating_sub(first).min(self.before)
    }

    /// Returns the rate, without the time in which nothing was copied yet.
    fn rate_bps(&self, bytes: u64, seconds: f64) -> f64 {
        let copied = seconds - self.probed.as_secs_f64();
        (bytes as f64 * 8.0 / copied.max(1e-9)).round()
    }
}

/// An end for which the other ends have waited this long is named. Choice: an end acknowledges written data within 250
/// ms and the one-way delay of the message.
const NAMED_AFTER: Duration = Duration::from_secs(2);
/// After this time the other ends no longer wait for it. Choice: a slow disk needs seconds to store data, and
/// restarting without the end costs the others a moment.
const LEFT_AFTER: Duration = Duration::from_secs(30);
/// Smaller copies end soon on most paths: 0.8 s at 10 Mbit/s.
const SMALL_BYTES: u64 = 1_000_000;
/// After this many attempts, a copy does not change to a faster path.
const TURNS_MAX: u64 = 3;
/// Interval of the reports of a segment.
const TOLD_EVERY_S: f64 = 1.0;

#[derive(Clone, Copy, Default)]
struct Told {
    last: Segment,
    at: base::Time,
    /// Sums over the reported seconds, for means.
    seconds: u64,
    waited: u64,
    starved: u64,
}

impl Told {
    fn idle(&self) -> u64 {
        (self.waited + self.starved) / self.seconds.max(1)
    }
}

/// What a copy has reached, seen from another thread.
pub(super) struct Reached {
    state: Arc<Mutex<State>>,
    total: Option<u64>,
    draws: bool,
}

impl Reached {
    /// Returns how much is copied, in words.
    pub(super) fn amount(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.draws && state.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let total = state.total.map(|total| total.bytes).or(self.total);
        // What an attempt finds includes what earlier attempts have written.
        let copied = state.written + state.kept.1.max(state.before);
        match total {
            Some(total) => {
                let copied = bytes_in_words(copied.min(total));
                format!("{copied} of {}", bytes_in_words(total))
            }
            None => bytes_in_words(copied),
        }
    }
}

impl Meter {
    /// Makes the meter of a copy of `total` bytes, if that number is known.
    pub(super) fn new(args: &Copy, total: Option<u64>) -> Meter {
        let clock = Clock::new();
        let to_terminal =
            args.paths.last().is_some_and(|last| last == "-") && io::stdout().is_terminal();
        Meter {
            names: Names::default(),
            ends: BTreeSet::new(),
            predicted: None,
            as_json: args.json,
            is_quiet: args.quiet,
            is_dry: args.dry_run,
            lists: args.manifest.is_some(),
            // A bar on the same terminal would break up the data.
            draws: !args.quiet && io::stderr().is_terminal() && !to_terminal,
            told: args.told.clone(),
            begun: clock.now(),
            clock,
            total,
            state: Arc::default(),
        }
    }

    /// Returns what the copy reaches, for another thread.
    pub(super) fn reached(&self) -> Reached {
        Reached {
            state: self.state.clone(),
            total: self.total,
            draws: self.draws,
        }
    }

    /// Starts an attempt.
    pub(super) fn begin(
        &mut self,
        names: &Names,
        predicted: Option<Prediction>,
        ends: BTreeSet<NodeAddr>,
    ) {
        self.names = names.clone();
        self.predicted = predicted;
        self.ends = ends;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        state.before += std::mem::take(&mut state.written);
        // An attempt that stopped for measurements does not count.
        if !std::mem::take(&mut state.to_probe) {
            state.attempts += 1;
            if state.begun {
                let kept = state.kept;
                state.found.get_or_insert(kept);
            }
        }
        (state.announced, state.entries, state.kept) = (0, 0, (0, 0));
        (state.had, state.is_anew, state.awaited) = (0, false, None);
        state.through = 0;
        (state.spared_count, state.would, state.gone) = (0, (0, 0), 0);
        state.spared.clear();
        (state.has_moved, state.pace) = (false, Pace::default());
        state.segments.clear();
    }

    /// Shows the expectation before the copy runs, once for each prediction. Choice: not for a small copy, unless it
    /// will take some time, because the final report has it, too.
    pub(super) fn foretell(&self) {
        if self.is_dry {
            return;
        }
        let total = self.total();
        let known = self.predicted.filter(|predicted| predicted.is_known);
        let lasts = |total| known.is_some_and(|known| lasts_s(total, known.rate_bps) >= 1.0);
        let is_short = total.is_some_and(|total| total < SMALL_BYTES && !lasts(total));
        let of = Some((total, known.map(|known| known.rate_bps)));
        if is_short || std::mem::replace(&mut self.state().foretold, of) == of {
            return;
        }
        self.say(&expected(known, total));
    }

    /// Adds the time since then, in which segments were measured.
    pub(super) fn on_probed(&mut self, since: base::Time) {
        let mut state = self.state();
        state.probed += self.clock.now().since(since);
        state.has_probed = true;
    }

    /// Returns true if segments were measured once.
    pub(super) fn has_probed(&self) -> bool {
        self.state().has_probed
    }

    /// Ends the present attempt, so that segments are measured before the data is sent.
    pub(super) fn turn_to_probe(&self) {
        self.state().to_probe = true;
    }

    /// Returns true if the attempt ended for measurements.
    pub(super) fn turns_to_probe(&self) -> bool {
        self.state().to_probe
    }

    /// Returns the end for which the other ends have waited too long.
    pub(super) fn stalled(&self) -> Option<NodeAddr> {
        self.state().awaited(LEFT_AFTER)
    }

    /// Returns the ends that are complete, whatever happened to the others.
    pub(super) fn done(&self) -> BTreeMap<NodeAddr, Done> {
        self.state().done.clone()
    }

    /// Returns true if this end is complete.
    pub(super) fn has_got(&self, node: &str) -> bool {
        let node = self.names.address(node);
        node.is_ok_and(|node| self.state().done.contains_key(&node))
    }

    /// Returns the bytes of everything to be copied, if that is known.
    pub(super) fn total(&self) -> Option<u64> {
        self.state().total.map(|total| total.bytes).or(self.total)
    }

    /// Returns the bytes that are known to be missing, once the first file with content has begun. If the ends have no
    /// entry of the copy, this is everything; otherwise it is what they lack of the entries that have begun.
    pub(super) fn to_come(&self) -> Option<u64> {
        let total = self.total()?;
        let state = self.state();
        let wanted = match state.is_anew {
            true => total,
            false => state.announced,
        };
        let lacked = wanted.saturating_sub(state.had + state.written);
        (state.announced > 0).then_some(lacked)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time, for [`Meter::on_probed`].
    pub(super) fn now(&self) -> base::Time {
        self.clock.now()
    }

    /// Returns true if the copy may still change to a faster path. Choice: further changes after a few would only
    /// alternate between paths.
    pub(super) fn may_turn(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.attempts <= TURNS_MAX
    }

    /// Prints a line.
    pub(super) fn say(&self, text: &str) {
        if !self.is_quiet {
            let _ = writeln!(io::stderr(), "sinew: {text}");
        }
    }

    /// Returns the ends, which no path can avoid.
    pub(super) fn ends(&self) -> &BTreeSet<NodeAddr> {
        &self.ends
    }

    /// Handles the failure of an attempt. Returns whether an attempt has ever begun, and how long nothing has moved.
    pub(super) fn on_broken(&self) -> (bool, Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = self.clock.now().since(state.moved.unwrap_or(self.begun));
        let idle = Duration::from_nanos(idle.as_nanos());
        (state.begun, idle)
    }

    /// Returns true if something has moved in this attempt.
    pub(super) fn has_moved(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_moved
    }

    /// Shows why the copy waits.
    pub(super) fn wait(&self, why: &str, give_up: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let why = why.split("; run the same command").next().unwrap_or(why);
        let (now, moved) = (self.clock.now(), state.moved.unwrap_or(self.begun));
        let idle = now.since(moved).as_secs_f64();
        let left = crate::date::span((give_up.as_secs_f64() - idle).max(0.0).ceil());
        let text = format!("waits: {why}; gives up in {left}");
        if let Some(path) = &self.told {
            tell(path, &text);
        }
        if self.draws {
            let width = net::terminal::size(io::stderr()).map_or(table::WIDTH, |(w, _)| w);
            let _ = write!(io::stderr(), "\r{}\x1b[K", table::cut(&text, width));
            state.drawn = Some(now);
        } else if !self.is_quiet && state.said != why {
            why.clone_into(&mut state.said);
            let _ = writeln!(io::stderr(), "sinew: {text}");
        }
    }

    /// Adds a report. Returns true for the first report of an attempt whose ends have begun.
    pub(super) fn on(&self, progress: Progress<'_>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        // The other reports do not mean that something has moved.
        let has_moved = !matches!(
            progress,
            Progress::Anew | Progress::Awaited(_) | Progress::Segment(..)
        );
        let is_first = !state.has_moved && has_moved;
        if has_moved {
            if state.attempts > 1 && !state.has_moved {
                let moved = state.moved.unwrap_or(self.begun);
                state.waited += now.since(moved);
            }
            (state.begun, state.has_moved, state.moved) = (true, true, Some(now));
        }
        match progress {
            Progress::Anew => state.is_anew = true,
            Progress::Total(total) => state.total = Some(total),
            Progress::Kept(kind, bytes) => {
                state.through += u64::from(kind == EntryKind::File);
                state.kept.0 += 1;
                state.kept.1 += bytes;
                state.entries += 1;
            }
            Progress::From(bytes) => {
                state.kept.1 += bytes;
                state.had += bytes;
            }
            Progress::File(path, digest) => {
                if path.is_empty() {
                    state.digest = Some(digest);
                }
                state.files += 1;
                state.through += 1;
                if self.lists && state.digests.len() < LISTED_MAX {
                    state.digests.insert(path.to_vec(), digest);
                }
            }
            Progress::Spared(path, why) => {
                state.spared_count += 1;
                if state.spared.len() < SPARED_MAX {
                    let path = String::from_utf8_lossy(path).into_owned();
                    state.spared.insert(path, why.to_owned());
                }
            }
            Progress::Would(path, bytes) => {
                state.would.0 += 1;
                state.would.1 += bytes;
                if !self.as_json && !self.is_quiet {
                    let mut line = shown(path);
                    line.push(b'\n');
                    let _ = io::stdout().write_all(&line);
                }
            }
            Progress::Gone(node, path) => {
                state.gone += 1;
                if !self.as_json && !self.is_quiet {
                    let mut line = b"deleting ".to_vec();
                    line.extend(shown(path));
                    // The own node is one of the ends.
                    if self.ends.len() > 2 {
                        let node = node.to_string();
                        line.extend(format!(" at {}", self.names.name(&node)).bytes());
                    }
                    line.push(b'\n');
                    let _ = io::stdout().write_all(&line);
                }
            }
            Progress::Entry(bytes) => {
                state.announced += bytes;
                state.entries += 1;
            }
            Progress::Done(node, done) => {
                state.done.insert(node, done);
            }
            Progress::Awaited(awaited) => state.awaited = awaited,
            Progress::Written(bytes) => state.written = bytes,
            Progress::Segment(from, to, segment) => {
                let told = state.segments.entry((from, to)).or_default();
                told.last = segment;
                told.at = now;
                told.seconds += 1;
                told.waited += u64::from(segment.waited);
                told.starved += u64::from(segment.starved);
            }
        }
        let is_due = state
            .drawn
            .is_none_or(|drawn| now.since(drawn) >= DRAWN_EVERY);
        if let (Some(path), true) = (&self.told, is_due) {
            state.drawn = Some(now);
            let text = self.line(&mut state, now, usize::MAX);
            tell(path, &text);
        }
        if self.draws && is_due {
            state.drawn = Some(now);
            let width = net::terminal::size(io::stderr()).map_or(table::WIDTH, |(w, _)| w);
            let text = self.line(&mut state, now, width);
            let _ = write!(io::stderr(), "\r{}\x1b[K", table::cut(&text, width));
        }
        is_first
    }

    /// Formats the share, the current rate, the time left, the file's number, and the segment for which the others
    /// wait.
    fn line(&self, state: &mut State, now: base::Time, width: usize) -> String {
        let seconds = now.since(self.begun).as_secs_f64();
        let known = match (
            state.total.map(|total| total.bytes),
            self.total,
            state.entries,
        ) {
            (Some(total), ..) | (None, Some(total), _) => Some(total),
            (None, None, 1) => Some(state.announced),
            // The sizes of earlier and later entries are not known.
            _ => None,
        };
        let total = known.map(|known| known.saturating_sub(state.kept.1));
        let arrived = state.arrived(now).min(total.unwrap_or(u64::MAX));
        let rate_bps = state.pace.mark(now, arrived);
        let mut more = String::new();
        if let Some(files) = state.total.map(|total| total.files).filter(|n| *n > 1) {
            more = format!("  file {} of {files}", (state.through + 1).min(files));
        }
        if let Some(node) = state.awaited(NAMED_AFTER) {
            more += &format!("  waits for {}", self.names.name(&node.to_string()));
        } else if let Some(ends) = limiting(&state.segments).filter(|_| state.segments.len() > 1) {
            more += &format!("  slowest: {}", self.segment(ends));
        }
        progress::line((arrived, total), rate_bps, seconds, &more, width)
    }

    fn segment(&self, (from, to): (NodeAddr, NodeAddr)) -> String {
        let name = |node: NodeAddr| self.names.name(&node.to_string()).to_owned();
        format!("{} to {}", name(from), name(to))
    }

    /// Reports the result.
    pub(super) fn finish(&self, (word, paths): &(&str, Vec<String>), done: Done) -> Outcome {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = self.clock.now().since(self.begun).as_secs_f64();
        if self.draws && state.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let done = Done {
            bytes: state.came(done.bytes),
            ..done
        };
        let achieved = state.rate_bps(done.bytes, seconds);
        let outcome = match state.spared_count {
            0 => Ok(()),
            count => {
                let mut text = format!("{count} could not be read, and were left out:");
                for (path, why) in &state.spared {
                    text += &format!("\n  {path}: {why}");
                }
                let more = count - state.spared.len() as u64;
                if more > 0 {
                    text += &format!("\n  and {more} more");
                }
                Err(Failure::failed(text))
            }
        };
        if self.as_json {
            terminal::json(&self.value(&state, word, paths, done, seconds, achieved))?;
            return outcome;
        }
        if !self.is_quiet {
            let text = self.text(&state, (word, paths), done.bytes, seconds);
            let _ = writeln!(io::stderr(), "{text}");
        }
        outcome
    }

    /// Formats the result as text, with the digest of a single file as `b3sum` writes it.
    fn text(
        &self,
        state: &State,
        (word, paths): (&str, &[String]),
        bytes: u64,
        seconds: f64,
    ) -> String {
        let achieved = state.rate_bps(bytes, seconds);
        let mut text = format!(
            "{word} {}: {}",
            paths.join(", "),
            progress::whole(bytes, seconds)
        );
        text += &self
            .predicted
            .map_or_else(String::new, |predicted| foretold(predicted, achieved));
        let found = state.found.unwrap_or(state.kept);
        if found != (0, 0) {
            let (entries, bytes) = found;
            text += &format!("; {entries} entries and {bytes} bytes were there");
        }
        let limits = limiting(&state.segments).map(|ends| self.segment(ends));
        if let Some(limits) = limits.filter(|_| state.segments.len() > 1) {
            text += &format!("; {limits} was the slowest");
        }
        if let Some(digest) = state.digest {
            text += &format!("\n  BLAKE3 {}", hex(&digest));
        }
        text
    }

    /// Returns the digests of the sent files, by their paths.
    pub(super) fn digests(&self) -> BTreeMap<Vec<u8>, Digest> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.digests)
    }

    fn value(
        &self,
        state: &State,
        word: &str,
        paths: &[String],
        done: Done,
        seconds: f64,
        achieved: f64,
    ) -> Value {
        let limits = limiting(&state.segments);
        let segments: Vec<Value> = state
            .segments
            .iter()
            .map(|(ends, told)| {
                json!({
                    "from": ends.0.to_string(), "to": ends.1.to_string(),
                    "bytes": told.last.bytes,
                    "rate_bps": state.rate_bps(told.last.bytes, seconds),
                    "rtt_ms": f64::from(told.last.rtt_us) / 1e3,
                    "resent": told.last.resent,
                    "waited_permille": told.waited / told.seconds.max(1),
                    "starved_permille": told.starved / told.seconds.max(1),
                    "stripes": told.last.stripes,
                    "limits": Some(*ends) == limits,
                })
            })
            .collect();
        let found = state.found.unwrap_or(state.kept);
        let spared: Vec<Value> = state
            .spared
            .iter()
            .map(|(path, why)| json!({"path": path, "why": why}))
            .collect();
        json!({
            word: paths, "bytes": done.bytes, "entries": done.entries, "seconds": seconds,
            "rate_bps": achieved, "predicted_bps": self.predicted.filter(|p| p.is_known).map(|p| p.rate_bps),
            "predicted_low_bps": self.predicted.map(|p| p.low_bps),
            "predicted_high_bps": self.predicted.map(|p| p.high_bps),
            "predicted_by": self.predicted.map(|p| p.confidence),
            "digest": state.digest.map(|digest| hex(&digest)), "stream_digest": hex(&done.digest),
            "total_bytes": state.total.map(|total| total.bytes),
            "total_files": state.total.map(|total| total.files),
            "files": state.files, "spared": spared, "spared_count": state.spared_count,
            "would_send": state.would.0, "would_send_bytes": state.would.1,
            "would_delete": state.gone,
            "resumed_entries": found.0, "resumed_bytes": found.1,
            "attempts": state.attempts, "waited_s": state.waited.as_secs_f64(),
            "probed_s": state.probed.as_secs_f64(),
            "segments": segments,
        })
    }
}

/// Writes the progress to a file for other programs. If that fails, the copy continues.
fn tell(path: &Path, text: &str) {
    let _ = std::fs::write(path, json!({ "text": text }).to_string());
}

/// Formats bytes as `b3sum` does.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the expectation: the rate with its range, and how long the copy takes at this rate.
fn expected(predicted: Option<Prediction>, total: Option<u64>) -> String {
    let Some(predicted) = predicted else {
        return "the rate of this path is unknown before the copy".to_owned();
    };
    let mbit = |bps: u64| bps as f64 / 1e6;
    let (low, rate) = (mbit(predicted.low_bps), mbit(predicted.rate_bps));
    let range = match predicted.high_bps {
        Some(high) => format!("{low:.1} to {:.1}", mbit(high)),
        None => format!("{low:.1} or more"),
    };
    let mut text = format!(
        "expects {rate:.1} Mbit/s ({range}, {})",
        predicted.confidence
    );
    if let Some(total) = total {
        let time = crate::date::span(lasts_s(total, predicted.rate_bps).ceil());
        text += &format!(": {time} for all {:.1} MB", total as f64 / 1e6);
    }
    text
}

/// Returns how long this number of bytes takes at a rate.
fn lasts_s(bytes: u64, rate_bps: u64) -> f64 {
    bytes as f64 * 8.0 / rate_bps.max(1) as f64
}

/// Describes the prediction, and how far the achieved rate is from it.
fn foretold(predicted: Prediction, achieved_bps: f64) -> String {
    let mbit = |bps: u64| bps as f64 / 1e6;
    if !predicted.is_known {
        return ", unknown before".to_owned();
    }
    let high = predicted.high_bps.unwrap_or(predicted.rate_bps);
    let off = 100.0 * (achieved_bps / predicted.rate_bps.max(1) as f64 - 1.0);
    format!(
        ", {:.1} Mbit/s predicted ({:.1} to {:.1}, {}): {off:+.0} %",
        mbit(predicted.rate_bps),
        mbit(predicted.low_bps),
        mbit(high),
        predicted.confidence
    )
}

/// Returns the segment that was idle least: the other segments waited for it.
fn limiting(segments: &BTreeMap<(NodeAddr, NodeAddr), Told>) -> Option<(NodeAddr, NodeAddr)> {
    let slowest = segments.iter().min_by_key(|(_, told)| told.idle());
    slowest.map(|(ends, _)| *ends)
}

/// Formats a path as a line. It comes from another node, so a terminal gets no control characters, as with `ls`.
fn shown(path: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| !byte.is_ascii_control();
    match io::stdout().is_terminal() || path.contains(&b'\n') {
        true => path
            .iter()
            .map(|byte| if is_plain(byte) { *byte } else { b'?' })
            .collect(),
        false => path.to_vec(),
    }
}

#[cfg(test)]
mod tests;

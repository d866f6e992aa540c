//! How far a copy is, how fast each segment goes, and which one limits; and what came of it.

use super::Copy;
use super::route::Prediction;
use crate::failure::{Failure, Outcome};
use crate::names::Names;
use crate::progress::{self, DRAWN_EVERY, Pace};
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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hears how a copy goes on.
pub(super) struct Meter {
    names: Names,
    ends: BTreeSet<NodeAddr>,
    predicted: Option<Prediction>,
    as_json: bool,
    is_quiet: bool,
    /// Nothing is copied.
    is_dry: bool,
    /// Every file's digest is wanted.
    lists: bool,
    draws: bool,
    told: Option<PathBuf>,
    clock: Clock,
    begun: base::Time,
    /// Bytes of all that is copied, if that is known before the first attempt.
    total: Option<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that the ends have written in this attempt, and in those before it.
    written: u64,
    before: u64,
    attempts: u64,
    /// What the source has told that all is.
    total: Option<Total>,
    /// The present attempt is broken off before anything is copied, because segments are to be measured first.
    to_probe: bool,
    has_probed: bool,
    /// The ends that have all.
    done: BTreeMap<NodeAddr, Done>,
    /// What an attempt before this command had left, or what was the same anyway: entries and bytes.
    found: Option<(u64, u64)>,
    /// The content of what is one file.
    digest: Option<Digest>,
    /// Files that came, and those that are through in this attempt: that came or were there.
    files: u64,
    through: u64,
    digests: BTreeMap<Vec<u8>, Digest>,
    spared: BTreeMap<String, String>,
    spared_count: u64,
    /// Entries and bytes that would be copied, and what would be removed.
    would: (u64, u64),
    gone: u64,
    /// An attempt has reached its end; when something moved last, and whether in this attempt.
    begun: bool,
    moved: Option<base::Time>,
    has_moved: bool,
    waited: base::Duration,
    /// Spent on measuring segments.
    probed: base::Duration,
    said: String,
    /// For what the expectation was said last: the bytes, and the rate.
    foretold: Option<(Option<u64>, Option<u64>)>,
    kept: (u64, u64),
    /// Bytes of the entries that have begun, and how many these are.
    announced: u64,
    /// Bytes of these that the ends had.
    had: u64,
    /// The ends have no entry of it in this attempt.
    is_anew: bool,
    entries: u64,
    segments: BTreeMap<(NodeAddr, NodeAddr), Told>,
    /// The end for which the others wait, and for how long they have.
    awaited: Option<(NodeAddr, Duration)>,
    pace: Pace,
    drawn: Option<base::Time>,
}

/// Of a file's content.
type Digest = [u8; 32];

/// What was left out and is told by name. The rest is counted.
const SPARED_MAX: usize = 1_000;
/// Files whose digests are kept for a manifest: some 150 bytes each.
const LISTED_MAX: usize = 4 << 20;

impl State {
    /// Bytes that have arrived. What the ends have written is known late, in steps of megabytes; what
    /// the last segments have carried is told every second, and between two seconds it goes on at
    /// the segment's rate.
    fn arrived(&self, now: base::Time) -> u64 {
        let goes_on = |node| self.segments.keys().any(|(from, _)| *from == node);
        let last = self.segments.iter().filter(|((_, to), _)| !goes_on(*to));
        let carried = last.map(|(_, told)| {
            let since = now.since(told.at).as_secs_f64().min(TOLD_EVERY_S);
            told.last.bytes + (told.last.rate_bps as f64 / 8.0 * since) as u64
        });
        carried.min().unwrap_or(0).max(self.written)
    }

    /// The end for which the others have waited so long.
    fn awaited(&self, span: Duration) -> Option<NodeAddr> {
        let awaited = self.awaited.filter(|(_, waited)| *waited >= span);
        awaited.map(|(node, _)| node)
    }

    /// Content that came in all attempts, if so much came in the last: what the last found beyond the first
    /// came in between. An attempt that broke early had not told all that was there, so no more counts than
    /// the ends had written.
    fn came(&self, last: u64) -> u64 {
        let first = self.found.map_or(self.kept.1, |(_, bytes)| bytes);
        last + self.kept.1.saturating_sub(first).min(self.before)
    }

    /// Without the time in which nothing was copied yet.
    fn rate_bps(&self, bytes: u64, seconds: f64) -> f64 {
        let copied = seconds - self.probed.as_secs_f64();
        (bytes as f64 * 8.0 / copied.max(1e-9)).round()
    }
}

/// An end for which the others have waited so long is named. Choice: an end that writes acknowledges it within 250 ms and
/// the way of the message.
const NAMED_AFTER: Duration = Duration::from_secs(2);
/// And for so long the others do not wait for it. Choice: a disk that is slow to store takes seconds, and what is
/// broken off costs the others a moment.
const LEFT_AFTER: Duration = Duration::from_secs(30);
/// What is smaller is over soon on most paths: 0.8 s at 10 Mbit/s.
const SMALL_BYTES: u64 = 1_000_000;
/// Attempts after which a copy is not broken off for a faster way.
const TURNS_MAX: u64 = 3;
/// How often a segment is told of.
const TOLD_EVERY_S: f64 = 1.0;

#[derive(Clone, Copy, Default)]
struct Told {
    last: Segment,
    at: base::Time,
    /// Sums over the seconds that were told of, for means.
    seconds: u64,
    waited: u64,
    starved: u64,
}

impl Told {
    fn idle(&self) -> u64 {
        (self.waited + self.starved) / self.seconds.max(1)
    }
}

impl Meter {
    /// Of a copy of `total` bytes, if that is known.
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
            // Data that scrolls by on the same terminal would be torn apart.
            draws: !args.quiet && io::stderr().is_terminal() && !to_terminal,
            told: args.told.clone(),
            begun: clock.now(),
            clock,
            total,
            state: Mutex::default(),
        }
    }

    /// An attempt begins.
    pub(super) fn begin(
        &mut self,
        names: &Names,
        predicted: Option<Prediction>,
        ends: BTreeSet<NodeAddr>,
    ) {
        self.names = names.clone();
        self.predicted = predicted;
        self.ends = ends;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.before += std::mem::take(&mut state.written);
        // What was broken off before it began is no attempt of its own.
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

    /// Says what is expected of the copy before it runs, once for each prediction. Choice: not of what is small,
    /// unless it is known to last: the end says it, too.
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

    /// Segments were measured since then, where there was something to find out.
    pub(super) fn on_probed(&mut self, since: base::Time) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.probed += self.clock.now().since(since);
        state.has_probed = true;
    }

    /// Segments were measured once.
    pub(super) fn has_probed(&self) -> bool {
        self.state().has_probed
    }

    /// The present attempt ends here: segments are measured before what was told that comes.
    pub(super) fn turn_to_probe(&self) {
        self.state().to_probe = true;
    }

    /// The attempt has ended for that.
    pub(super) fn turns_to_probe(&self) -> bool {
        self.state().to_probe
    }

    /// The end for which the others have waited long enough.
    pub(super) fn stalled(&self) -> Option<NodeAddr> {
        self.state().awaited(LEFT_AFTER)
    }

    /// The ends that have all, whatever became of the others.
    pub(super) fn done(&self) -> BTreeMap<NodeAddr, Done> {
        self.state().done.clone()
    }

    /// This one has.
    pub(super) fn has_got(&self, node: &str) -> bool {
        let node = self.names.address(node);
        node.is_ok_and(|node| self.state().done.contains_key(&node))
    }

    /// Bytes of all that is copied, as far as that is known.
    pub(super) fn total(&self) -> Option<u64> {
        self.state().total.map(|total| total.bytes).or(self.total)
    }

    /// Bytes that are known to come, once the first file with content has begun: all that the ends lack, where they have no
    /// entry of it, and else what they lack still of the entries that have begun.
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

    /// The time, for [`Meter::on_probed`].
    pub(super) fn now(&self) -> base::Time {
        self.clock.now()
    }

    /// It may be broken off for a faster way still. Choice: what was found out by a few does not lead
    /// to more, but to and fro.
    pub(super) fn may_turn(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.attempts <= TURNS_MAX
    }

    /// Says something in a line of its own.
    pub(super) fn say(&self, text: &str) {
        if !self.is_quiet {
            let _ = writeln!(io::stderr(), "sinew: {text}");
        }
    }

    /// The nodes that no way leads around.
    pub(super) fn ends(&self) -> &BTreeSet<NodeAddr> {
        &self.ends
    }

    /// An attempt has ended before its time: whether one has ever begun, and how long nothing moved.
    pub(super) fn on_broken(&self) -> (bool, Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = self.clock.now().since(state.moved.unwrap_or(self.begun));
        let idle = Duration::from_nanos(idle.as_nanos());
        (state.begun, idle)
    }

    /// Something has moved in this attempt.
    pub(super) fn has_moved(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_moved
    }

    /// Says what is waited for.
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

    /// Takes it in; true for what is told first of an attempt whose ends have begun.
    pub(super) fn on(&self, progress: Progress<'_>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        // The others tell what there is, and not that something has moved.
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
                    // The own node is among the ends.
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

    /// The share, the rate of now, the time left, which file it is, and the segment for which the others wait.
    fn line(&self, state: &mut State, now: base::Time, width: usize) -> String {
        let seconds = now.since(self.begun).as_secs_f64();
        let known = match (
            state.total.map(|total| total.bytes),
            self.total,
            state.entries,
        ) {
            (Some(total), ..) | (None, Some(total), _) => Some(total),
            (None, None, 1) => Some(state.announced),
            // What lies before and behind is not known.
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

    /// Tells what came of it.
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

    /// The same for who sees it, with the digest of a single file, as `b3sum` writes it.
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

    /// The digests of the files that came, by their paths.
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

/// Writes how far it is, for who looks. That it cannot is no reason to end.
fn tell(path: &Path, text: &str) {
    let _ = std::fs::write(path, json!({ "text": text }).to_string());
}

/// Bytes as `b3sum` writes them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is expected: the rate with its range, and how long all takes at it.
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

/// How long so many bytes take at a rate.
fn lasts_s(bytes: u64, rate_bps: u64) -> f64 {
    bytes as f64 * 8.0 / rate_bps.max(1) as f64
}

/// What was predicted, and how far what was achieved is from it.
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

/// The segment that was least idle: the others waited for it.
fn limiting(segments: &BTreeMap<(NodeAddr, NodeAddr), Told>) -> Option<(NodeAddr, NodeAddr)> {
    let slowest = segments.iter().min_by_key(|(_, told)| told.idle());
    slowest.map(|(ends, _)| *ends)
}

/// A path as a line of its own: it comes from another node. A terminal gets no control characters, as with `ls`.
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

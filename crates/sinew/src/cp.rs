//! `sinew cp`: copies files, directories and streams from one host to others, through relays.
//!
//! ```text
//!   sinew cp FILE NODE:PATH     here ─▶ own node ═▶ (relays) ═▶ NODE ─▶ PATH
//!   sinew cp NODE:PATH FILE     here ◀─ own node ◀═ (relays) ◀═ NODE ◀─ PATH
//! ```
//!
//! The bytes go from this process to the node on this host, over its relay socket, and from node to node over TCP; see
//! `host::relay`. If a copy was interrupted, the same command continues it.

mod branches;
mod doubt;
mod fresh;
mod manifest;
mod progress;
mod retry;
mod route;
mod several;
mod words;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::names::Names;
use crate::terminal;
use base::NodeAddr;
use doubt::{Achieved, Doubt};
use fresh::Fresh;
use host::relay::failure::FailureKind;
use host::relay::origin::Done;
use host::relay::{Named, Order, Place, Progress, Tree};
use manifest::Manifest;
use progress::Meter;
use retry::{Avoided, Next, Patience};
use route::{Ends, Planned, Probes, Route};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use words::{Remote, Wanted, remote, wanted};

pub use words::Copy;

/// What one command copies, and the state that its copies share.
#[derive(Clone, Copy)]
struct Command<'a> {
    args: &'a Copy,
    manifest: Option<&'a Manifest>,
    fresh: &'a Fresh,
    /// The nodes whose operators have cancelled a copy of this command.
    cancelled: &'a Mutex<BTreeSet<NodeAddr>>,
    reached: &'a Reached,
}

/// The copy that runs now, for the line at Ctrl-C.
type Reached = Arc<Mutex<Option<Running>>>;

struct Running {
    progress: progress::Reached,
    /// The same command continues it.
    can_repeat: bool,
    words: (&'static str, Vec<String>),
}

/// One copy.
#[derive(Clone, Copy)]
enum Job<'a> {
    Push(&'a OsStr, &'a [Remote]),
    Pull(&'a Remote, &'a OsStr),
}

/// Why a copy failed.
struct Broke {
    failure: Failure,
    /// The failure that a node reported. `None` if this host's own node was not available.
    cause: Option<host::relay::Failure>,
    /// Another attempt may succeed.
    again: bool,
    /// The kind of failure in JSON, if no node has reported one.
    kind: &'static str,
    /// The JSON of the failure has been printed.
    is_told: bool,
    about: Box<About>,
}

/// Details of a failure.
#[derive(Default)]
struct About {
    /// The target that caused the failure.
    target: Option<Remote>,
    /// The targets that got their copy before.
    done: Vec<Remote>,
    /// What was to be copied: `to` or `from`, and the paths.
    words: Option<(&'static str, Vec<String>)>,
}

impl Broke {
    /// Makes a failure that another attempt cannot change: the command line is wrong, or a file of this host.
    fn for_good(failure: Failure) -> Broke {
        let kind = match failure {
            Failure::Misused(_) => "misused",
            _ => FailureKind::File.label(),
        };
        Broke {
            failure,
            cause: None,
            again: false,
            kind,
            is_told: false,
            about: Box::default(),
        }
    }

    /// Returns true if the operator of a node has cancelled the copy there.
    fn is_cancelled(&self) -> bool {
        let kind = self
            .cause
            .as_ref()
            .map_or(self.kind, |cause| cause.kind.label());
        kind == FailureKind::Cancelled.label()
    }

    /// Returns true if the attempt was stopped in order to use another path.
    fn is_for_another_way(&self) -> bool {
        let cause = self.cause.as_ref();
        cause.is_some_and(|cause| cause.kind == FailureKind::Over)
    }

    fn of_own_node(failure: Failure) -> Broke {
        match failure {
            Failure::Failed(_) => Broke {
                again: true,
                kind: "own-node",
                ..Broke::for_good(failure)
            },
            other => Broke::for_good(other),
        }
    }

    /// Names the target that caused the failure.
    fn by(mut self, target: Option<Remote>) -> Broke {
        self.about.target = target;
        self
    }

    /// Prints the JSON of the failure once, if the user asked for JSON. Standard error has the failure as well.
    fn tell(&mut self, args: &Copy) {
        if !args.json || self.is_told || matches!(self.failure, Failure::NobodyReads) {
            return;
        }
        self.is_told = true;
        self.print();
    }

    /// Prints the failure as JSON.
    fn print(&self) {
        let cause = self.cause.as_ref();
        let mut value = json!({
            "error": self.failure.text(),
            "kind": cause.map_or(self.kind, |cause| cause.kind.label()),
            "node": cause.map(|cause| cause.node.to_string()),
        });
        if let Some((word, paths)) = &self.about.words {
            value[*word] = json!(paths);
        }
        let _ = terminal::json(&value);
    }
}

/// Runs the command.
pub fn run(args: &Copy) -> Outcome {
    if args.detach {
        return crate::transfers::detach(args);
    }
    copy_all(args).map_err(|mut broke| {
        broke.tell(args);
        broke.failure
    })
}

fn copy_all(args: &Copy) -> Result<(), Broke> {
    let wanted = wanted(&args.paths).map_err(Broke::for_good)?;
    let reached = Reached::default();
    let (seen, as_json) = (reached.clone(), args.json);
    interrupt::on_interrupt(move || stopped(&seen, as_json)).map_err(Broke::for_good)?;
    let manifest = args.manifest.as_deref();
    let manifest = manifest.map(|path| Manifest::new(path, wanted.sources(), patterns(args)));
    let command = Command {
        args,
        manifest: manifest.as_ref(),
        fresh: &Fresh::of(args),
        cancelled: &Mutex::default(),
        reached: &reached,
    };
    let copied = copy_each(command, wanted);
    // Sources that failed are not in the manifest. If all failed, there is nothing to list.
    let manifest = manifest.filter(|manifest| copied.is_ok() || !manifest.is_empty());
    let written = manifest.map_or(Ok(()), |manifest| manifest.write());
    let written = written.map_err(|error| {
        let path = args.manifest.clone().unwrap_or_default();
        Broke::for_good(unread(path.as_os_str(), &error))
    });
    copied.and(written)
}

/// Returns what Ctrl-C ends, in words; with `as_json`, prints it as the other failures, too.
fn stopped(reached: &Reached, as_json: bool) -> Failure {
    let mut reached = reached.lock().unwrap_or_else(PoisonError::into_inner);
    let running = reached.take();
    let text = match &running {
        None => "stopped before anything was copied".to_owned(),
        Some(running) => {
            let next = match running.can_repeat {
                true => "run the same command again to continue",
                false => "a stream cannot be continued, begin it again",
            };
            format!("stopped: {} copied; {next}", running.progress.amount())
        }
    };
    let mut broke = Broke::for_good(Failure::Interrupted(text));
    if as_json {
        broke.kind = "interrupted";
        broke.about.words = running.map(|running| running.words);
        broke.print();
    }
    broke.failure
}

fn copy_each(command: Command<'_>, wanted: Wanted) -> Result<(), Broke> {
    match wanted {
        Wanted::Push(sources, targets) => {
            let targets = match sources.len() {
                1 => targets,
                _ => targets.into_iter().map(Remote::into_directory).collect(),
            };
            let each = |source: &OsString| several::push(command, source, &targets);
            several::each(command.args, &sources, each)
        }
        Wanted::Pull(sources, target) => {
            let is_place = !command.args.discard && target != "-";
            if sources.len() > 1 && is_place && !Path::new(&target).is_dir() {
                return Err(Broke::for_good(Failure::misused(format_args!(
                    "{} is no directory, and {} sources need one: make it first",
                    target.display(),
                    sources.len()
                ))));
            }
            several::each(command.args, &sources, |source| {
                copy(command, Job::Pull(source, &target))
            })
        }
    }
}

/// Makes one copy, in as many attempts as necessary.
fn copy(command: Command<'_>, job: Job<'_>) -> Result<(), Broke> {
    let asked = command
        .args
        .give_up
        .map(|span| std::time::Duration::from_nanos(span.as_nanos()));
    let cancelled = || {
        command
            .cancelled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    let mut patience = Patience::new(asked, cancelled().clone());
    let mut meter = Meter::new(command.args, job.total());
    let mut reached = command
        .reached
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    *reached = Some(Running {
        progress: meter.reached(),
        can_repeat: job.can_repeat(),
        words: job.words(),
    });
    drop(reached);
    let copied = attempts(command, job, (&mut patience, &mut meter));
    cancelled().extend(&patience.avoided.cancelled);
    copied.map_err(|mut broke| {
        let done = several::done(job, &meter);
        let is_part = !broke.is_told && !several::rest(job, &meter).is_empty();
        if let Some(last) = meter.done().values().last().filter(|_| is_part) {
            // Report the complete targets, which would not be reported otherwise.
            let shown = done.iter().map(Remote::shown).collect();
            let _ = meter.finish(&("to", shown), *last);
        }
        // These targets are complete, whatever happens to the others.
        if !broke.is_told
            && !done.is_empty()
            && let Err(failure) = list(command, job, &meter)
        {
            meter.say(failure.text());
        }
        broke.about.done = done;
        broke.about.words = Some(job.words());
        broke
    })
}

/// Adds the copied files to the manifest, if there is one.
fn list(command: Command<'_>, job: Job<'_>, meter: &Meter) -> Result<(), Failure> {
    let Some(manifest) = command.manifest else {
        return Ok(());
    };
    let local = job.local();
    let listed = manifest.add(&local, job.name().as_deref(), meter.digests());
    listed.map_err(|error| unread(local.as_os_str(), &error))
}

/// Makes as many attempts as necessary. Targets that have got their copy are left out of the next attempt.
fn attempts(
    command: Command<'_>,
    job: Job<'_>,
    (patience, meter): (&mut Patience, &mut Meter),
) -> Result<(), Broke> {
    let mut last: Option<Broke> = None;
    let achieved = Mutex::new(Achieved::default());
    loop {
        let known = (&patience.avoided, &achieved);
        let rest = several::rest(job, meter);
        let now = match job {
            Job::Push(source, _) => Job::Push(source, &rest),
            Job::Pull(..) => job,
        };
        let broke = match attempt(command, now, meter, known, &mut last) {
            Ok(done) => {
                list(command, job, meter).map_err(Broke::for_good)?;
                return meter.finish(&job.words(), done).map_err(|failure| Broke {
                    is_told: true,
                    ..Broke::for_good(failure)
                });
            }
            Err(broke) if !broke.again || !job.can_repeat() => return Err(broke),
            Err(broke) => broke,
        };
        if broke.is_for_another_way() {
            if !meter.turns_to_probe() {
                meter.say("another way is faster: it goes on by that");
            }
            continue;
        }
        let (begun, idle) = meter.on_broken();
        if meter.has_moved() {
            patience.on_moved();
        }
        let ends = meter.ends().clone();
        match patience.next(broke.cause.as_ref(), &ends, (begun, idle), Instant::now()) {
            Next::Around(false) => last = Some(broke),
            Next::Around(true) => meter.wait(broke.failure.text(), patience.give_up()),
            // The other targets need not wait for this one.
            Next::Wait(_) if broke.about.target.is_some() => return Err(broke),
            Next::Wait(pause) => {
                meter.wait(broke.failure.text(), patience.give_up());
                std::thread::sleep(pause);
            }
            Next::GiveUp => return Err(broke),
        }
    }
}

impl<'a> Job<'a> {
    /// Returns false for a stream: it can be read or written only once.
    fn can_repeat(self) -> bool {
        !matches!(self, Job::Push(path, _) | Job::Pull(_, path) if path == "-")
    }

    /// Returns the number of bytes, if it is known before the source reports it.
    fn total(self) -> Option<u64> {
        match self {
            Job::Push(source, _) if source != "-" => size(Path::new(source)),
            _ => None,
        }
    }

    /// Returns the local path of the copied data: a path, or a directory that may contain it.
    fn local(self) -> PathBuf {
        match self {
            Job::Push(source, _) => PathBuf::from(source),
            Job::Pull(source, target) => {
                let target = PathBuf::from(target);
                match pulled_name(source) {
                    Some(name) if target.join(name).exists() => target.join(name),
                    _ => target,
                }
            }
        }
    }

    /// Returns the name of the copy in a directory with others; `None` for the content of a directory.
    fn name(self) -> Option<Vec<u8>> {
        match self {
            Job::Push(source, _) if source == "-" || is_content(source) => None,
            Job::Push(source, _) => named(Path::new(source)).map(OsString::into_vec),
            Job::Pull(source, _) if pulled_name(source).is_none() => None,
            Job::Pull(..) => {
                let local = self.local();
                local.file_name().map(|name| name.as_bytes().to_vec())
            }
        }
    }

    /// Returns the nodes at the copy's other ends.
    fn nodes(self) -> impl Iterator<Item = &'a str> {
        let remotes = match self {
            Job::Push(_, targets) => targets,
            Job::Pull(source, _) => std::slice::from_ref(source),
        };
        remotes.iter().map(|remote| remote.node.as_str())
    }

    /// Returns the words for the report of the result.
    fn words(self) -> (&'static str, Vec<String>) {
        match self {
            Job::Push(_, targets) => ("to", targets.iter().map(Remote::shown).collect()),
            Job::Pull(source, _) => ("from", vec![source.shown()]),
        }
    }
}

/// Makes one attempt. If the only path is one that should be avoided, and nothing has begun, the function does not try
/// it again: it returns the failure `last`.
fn attempt(
    command: Command<'_>,
    job: Job<'_>,
    meter: &mut Meter,
    (avoided, achieved): (&Avoided, &Mutex<Achieved>),
    last: &mut Option<Broke>,
) -> Result<Done, Broke> {
    let (args, own) = (command.args, Broke::of_own_node);
    let mut control = Control::find(args.node.as_deref()).map_err(own)?;
    let socket = control.beside(host::relay::SUFFIX).map_err(own)?;
    if !socket.exists() {
        return Err(own(Failure::failed(format_args!(
            "the node at {} serves no bulk data: see `[relay]` in its configuration",
            control.at()
        ))));
    }
    // A node that has just started gets the names of other nodes in a moment.
    let knows = |status: &Value| {
        let names = Names::of(status);
        job.nodes().all(|node| names.address(node).is_ok())
    };
    let status = control.status_when(knows).map_err(own)?;
    let names = Names::of(&status);
    let work = Work::of(args, job, &names)?;
    let before = achieved
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let known = (avoided, &before);
    let mut route = Route::new(&mut control, &status, &names, args, known).map_err(own)?;
    let ends = work.ends();
    let mut asked = ends.keys().copied().chain([route.own()]);
    if let Some(node) = asked.find(|node| avoided.cancelled.contains(node)) {
        let address = node.to_string();
        let name = names.name(&address);
        let failure = Failure::failed(format_args!(
            "{name}: its operator has ended this copy there"
        ));
        let broke = Broke {
            kind: FailureKind::Cancelled.label(),
            ..Broke::for_good(failure)
        };
        return Err(broke.by(several::target_at(job, node, &names)));
    }
    let probes = Probes {
        bytes: args.probe_bytes(meter),
        socket: &socket,
        congestion: args.congestion.as_deref().unwrap_or_default(),
    };
    let began = meter.now();
    route
        .refine(&work.ends(), &probes, &names, &|line| meter.say(&line))
        .map_err(own)?;
    if probes.bytes.is_some() {
        meter.on_probed(began);
    }
    let planned = route.to(&work.ends()).map_err(|failure| {
        if let Some(last) = last.take() {
            return Broke {
                again: false,
                ..last
            };
        }
        let unreached = route.unreached(&work.ends());
        let target = unreached.and_then(|end| several::target_at(job, end, &names));
        own(failure).by(target)
    })?;
    if !planned.is_around
        && let Some(last) = last.take()
    {
        return Err(Broke {
            again: false,
            ..last
        });
    }
    let ends: BTreeSet<NodeAddr> = work.ends().into_keys().chain([route.own()]).collect();
    meter.begin(&names, planned.predicted, ends);
    if meter.total().is_some() && !args.may_turn_to_probe(meter) {
        meter.foretell();
    }
    let fresh = command.fresh.is_due(job);
    let order = order((args, fresh), &route, &socket, &planned);
    let meter = &*meter;
    let ends = work.ends();
    let again = |achieved: &Achieved| {
        let mut control = Control::find(args.node.as_deref()).ok()?;
        let known = (avoided, achieved);
        let route = Route::new(&mut control, &status, &names, args, known).ok()?;
        route.to(&ends).ok()
    };
    let doubt = (job.can_repeat() && meter.may_turn())
        .then(|| Doubt::of(&planned, &again, achieved, &order.stop));
    let may_probe = job.can_repeat();
    let stalled = Mutex::new(None);
    let tell = |told: Progress<'_>| {
        let is_first = meter.on(told);
        if order.fresh && is_first {
            // Every end has removed what was there before.
            command.fresh.on_begun(job);
        }
        let is_entry = matches!(told, Progress::Entry(_) | Progress::From(_));
        if is_entry && may_probe && args.probe_bytes(meter).is_some() {
            // No byte of this entry has been copied yet.
            meter.turn_to_probe();
            order.stop.store(true, Ordering::Relaxed);
        }
        // A pull knows its total only now; a stream never has one. If segments are measured first, the expectation is
        // shown after that.
        let is_known = meter.to_come().is_some() || !args.may_turn_to_probe(meter);
        let says_what_comes = matches!(told, Progress::Total(_) | Progress::Entry(_));
        if says_what_comes && is_known && !meter.turns_to_probe() {
            meter.foretell();
        }
        if let (Progress::Segment(from, to, segment), Some(doubt)) = (told, &doubt) {
            doubt.on_segment((from, to), &segment);
        }
        // A stream cannot continue with the other targets alone.
        if matches!(told, Progress::Segment(..)) && job.can_repeat() {
            let node = meter.stalled();
            if node.is_some() {
                *stalled.lock().unwrap_or_else(PoisonError::into_inner) = node;
                order.stop.store(true, Ordering::Relaxed);
            }
        }
    };
    let done = match work {
        Work::Push(tree, _) => host::relay::push(&order, *tree, &tell),
        Work::Pull(_, place) => host::relay::pull(&order, place, &tell),
    };
    done.map_err(|mut cause| {
        let has_stopped = order.stop.load(Ordering::Relaxed);
        if cause.kind == FailureKind::Over && !has_stopped {
            // Only this process stops a copy, so this was a fault.
            cause.kind = FailureKind::Broken;
        }
        cause
    })
    .map_err(|cause| {
        let stalled = *stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = stalled.filter(|_| cause.kind == FailureKind::Over) {
            let name = node.to_string();
            let failure = Failure::failed(format_args!(
                "{} takes nothing, and the others wait for it",
                names.name(&name)
            ));
            let broke = Broke {
                kind: FailureKind::Broken.label(),
                ..Broke::for_good(failure)
            };
            return broke.by(several::target_at(job, node, &names));
        }
        let target = several::in_the_way(job, &cause, &names);
        let broke = Broke {
            again: true,
            ..Broke::for_good(told(&names, &cause))
        };
        Broke {
            cause: Some(cause),
            ..broke.by(target)
        }
    })
}

/// What an attempt reads or writes on this host, and its other ends.
enum Work {
    Push(Box<Tree>, Ends),
    Pull(Ends, Place),
}

impl Work {
    fn of(args: &Copy, job: Job<'_>, names: &Names) -> Result<Work, Broke> {
        let bad = Broke::for_good;
        match job {
            Job::Push(source, targets) => {
                let (tree, name) = match source.as_bytes() {
                    b"-" => (Tree::stream(Box::new(io::stdin())), None),
                    _ => {
                        let path = Path::new(source);
                        let tree = Tree::open(path).map_err(|error| bad(unread(source, &error)))?;
                        let tree = tree.without(patterns(args));
                        (tree, named(path).filter(|_| !is_content(source)))
                    }
                };
                let mut ends = Ends::new();
                for target in targets {
                    let node = names.address(&target.node).map_err(bad)?;
                    let mut path = target.path.clone();
                    if let Some(name) = &name {
                        path.push(wire::relay::NAME_SEPARATOR);
                        path.extend_from_slice(name.as_bytes());
                    }
                    if ends.insert(node, path).is_some() {
                        return Err(bad(Failure::misused(format_args!(
                            "two copies to node {} at once: run them one after the other",
                            target.node
                        ))));
                    }
                }
                Ok(Work::Push(Box::new(tree), ends))
            }
            Job::Pull(source, target) => {
                let node = names.address(&source.node).map_err(bad)?;
                let place = match target.as_bytes() {
                    b"-" => Place::Stream(Box::new(io::stdout())),
                    _ if args.discard => Place::Discard,
                    _ => {
                        let named = Named::at(Path::new(target), pulled_name(source));
                        let named = named.map_err(|error| bad(unread(target, &error)))?;
                        if args.no_clobber && named.is_there() {
                            let failure = Failure::failed(format_args!(
                                "{} is there, and stays as it is: that is what --no-clobber asks for",
                                target.display()
                            ));
                            return Err(Broke {
                                kind: FailureKind::Exists.label(),
                                ..bad(failure)
                            });
                        }
                        Place::Named(named)
                    }
                };
                let mut path = source.path.clone();
                for pattern in patterns(args) {
                    path.push(wire::relay::NAME_SEPARATOR);
                    path.extend(pattern);
                }
                Ok(Work::Pull(Ends::from([(node, path)]), place))
            }
        }
    }

    fn ends(&self) -> Ends {
        match self {
            Work::Push(_, ends) | Work::Pull(ends, _) => ends.clone(),
        }
    }
}

fn order((args, fresh): (&Copy, bool), route: &Route, socket: &Path, planned: &Planned) -> Order {
    Order {
        socket: socket.to_owned(),
        node: route.own(),
        route: planned.bytes.clone(),
        plain: args.plain,
        scavenge: args.scavenge,
        fresh,
        keep: args.no_clobber,
        delete: args.delete,
        spare: args.skip_errors,
        dry: args.dry_run,
        attributes: args.attributes,
        checksum: args.checksum,
        congestion: args.congestion.clone().unwrap_or_default(),
        stop: Arc::new(AtomicBool::new(false)),
    }
}

/// Counts the bytes of a file, or of all files in a directory. They decide whether segments are measured before the
/// first attempt. Returns `None` for more than [`COUNTED_MAX`] entries, because counting them would delay the copy. The
/// source reports its total in that case.
fn size(path: &Path) -> Option<u64> {
    let (mut total, mut entries) = (0, 0);
    let mut rest = vec![path.canonicalize().ok()?];
    while let Some(path) = rest.pop() {
        let metadata = path.symlink_metadata().ok()?;
        entries += 1;
        if entries > COUNTED_MAX {
            return None;
        }
        match metadata.is_dir() {
            true => rest.extend(path.read_dir().ok()?.flatten().map(|entry| entry.path())),
            false if metadata.is_file() => total += metadata.len(),
            false => {}
        }
    }
    Some(total)
}

/// Most entries that are counted before a copy begins: some 10 µs each, a tenth of a second for all.
const COUNTED_MAX: usize = 10_000;

/// Returns the patterns of files that are left out.
fn patterns(args: &Copy) -> Vec<Vec<u8>> {
    let patterns = args.exclude.iter();
    patterns.map(|p| p.as_bytes().to_vec()).collect()
}

/// Returns the targets of a copy that was begun in this directory, in words.
pub(crate) fn targets(args: &Copy, directory: &Path) -> Result<Vec<String>, Failure> {
    Ok(match wanted(&args.paths)? {
        Wanted::Push(_, targets) => targets.iter().map(Remote::shown).collect(),
        Wanted::Pull(_, target) => vec![directory.join(target).display().to_string()],
    })
}

/// Returns true if the content of the source goes into the target itself, as with rsync.
fn is_content(source: &OsStr) -> bool {
    source.as_bytes().ends_with(b"/")
}

/// Returns the name in a directory of a copy from another node.
fn pulled_name(source: &Remote) -> Option<&OsStr> {
    let path = OsStr::from_bytes(&source.path);
    if is_content(path) {
        return None;
    }
    Path::new(path).file_name()
}

/// Returns the name of a copy of `path` in a directory.
fn named(path: &Path) -> Option<OsString> {
    let whole = path.canonicalize().ok()?;
    whole.file_name().map(OsStr::to_owned)
}

fn unread(path: &OsStr, error: &io::Error) -> Failure {
    Failure::failed(format_args!("{}: {error}", path.display()))
}

fn told(names: &Names, failure: &host::relay::Failure) -> Failure {
    let node = failure.node.to_string();
    Failure::failed(format_args!("{}: {}", names.name(&node), failure.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_directory_is_that_of_its_files() {
        let dir = crate::testing::directory("cp-size");
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::fs::write(dir.join("a/x"), [0; 100]).unwrap();
        std::fs::write(dir.join("a/b/y"), [0; 23]).unwrap();
        assert_eq!(size(&dir), Some(123));
        assert_eq!(size(&dir.join("a/b/y")), Some(23));
        assert_eq!(size(&dir.join("nothing")), None);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

//! `sinew cp --detach` and `sinew transfers`: copies that continue after the shell has ended.
//!
//! ```text
//!   cp --detach ─▶ spool: job ─▶ a process of its own: cp, in its directory ─▶ progress, end, notification
//!                     ▲                                     ▲
//!   transfers: reads it; cancel: ends that process, or asks a node to end its part in another copy;
//!              resume: begins it anew, what has arrived is not sent again
//! ```

mod spool;

use crate::control::{self, Control};
use crate::cp::{self, Copy};
use crate::date;
use crate::failure::{Failure, Outcome};
use crate::quantity;
use crate::show::text;
use crate::table::{Column, Table};
use crate::terminal;
use clap::{Args, Parser, Subcommand};
use host::relay::place::orphans;
use net::Clock;
use serde_json::{Value, json};
use spool::{End, Job, Spool, State};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long a detached copy keeps trying, by default.
const GIVE_UP: base::Duration = base::Duration::from_secs(3_600);
/// How often the process tries to lock a copy that another process holds, and the pause between two tries.
const TAKES: u32 = 20;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// How often a copy checks whether it is its turn.
const TURN_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// Options of `sinew transfers`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Transfers {
    /// What to do; without it, the copies are listed
    #[command(subcommand)]
    pub what: Option<What>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to do with copies.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Cancel a copy; data that has arrived stays at the target
    #[command(
        after_help = "Examples:\n  sinew transfers cancel 7\n  sinew transfers cancel 9f3c21aa --node net/fra"
    )]
    Cancel(Cancelled),
    /// Resume copies that were interrupted or have failed; without a number, all of them
    #[command(after_help = "Examples:\n  sinew transfers resume\n  sinew transfers resume 7")]
    Resume(Which),
    /// Remove copies that have ended from the list
    #[command(after_help = "Example:\n  sinew transfers clear")]
    Clear,
    /// Remove the unfinished data of copies that nobody resumes, below these directories
    #[command(after_help = "Example:\n  sinew transfers clean /srv/data --older 7d")]
    Clean(Clean),
    /// Do a copy: what runs by itself
    #[command(hide = true)]
    Work(One),
}

/// A copy.
#[derive(Debug, Args)]
pub struct One {
    /// The number of the copy
    pub number: u32,
}

/// A copy of this user, or a transfer in which a node has a part.
#[derive(Debug, Args)]
pub struct Cancelled {
    /// The number of the copy; with --node, 8 or more digits of a transfer's name in `sinew status`
    pub which: String,
    /// The control socket of the node that ends its part in it, whoever has begun the copy
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
}

/// A copy, or all of them.
#[derive(Debug, Args)]
pub struct Which {
    /// The number of the copy
    pub number: Option<u32>,
}

/// Where copies have left something.
#[derive(Debug, Args)]
pub struct Clean {
    /// The directories, as a node's `[relay] roots` name them
    #[arg(required = true)]
    pub directories: Vec<PathBuf>,
    /// Keep what was changed less than this time ago
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = quantity::seconds)]
    pub older: base::Duration,
    /// Remove nothing: print what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Transfers) -> Outcome {
    let spool = Spool::own;
    match &args.what {
        None => list(&spool()?, args.json),
        Some(What::Cancel(one)) => match &one.node {
            Some(node) => end_part(node, &one.which),
            None => {
                let number = one.which.parse().map_err(|_| {
                    let which = &one.which;
                    Failure::misused(format_args!(
                        "`{which}` is no number of `sinew transfers`: for a transfer of `sinew status`, name the node \
                         by --node"
                    ))
                })?;
                cancel(&spool()?, number)
            }
        },
        Some(What::Resume(some)) => resume(&spool()?, some.number),
        Some(What::Clear) => clear(&spool()?),
        Some(What::Clean(which)) => clean(which),
        Some(What::Work(one)) => work(&spool()?, one.number),
    }
}

/// `cp --detach`: runs the same copy without this option, in a process of its own.
pub(crate) fn detach(args: &Copy) -> Outcome {
    let stream = |path: &OsString| path == "-";
    if args.paths.iter().any(stream) {
        return Err(Failure::misused(
            "a copy that goes on by itself has no standard input or output: name files",
        ));
    }
    if control::is_elsewhere(args.node.as_deref()) {
        return Err(Failure::misused(
            "a copy is made in the name of the node: run it on the node's own host",
        ));
    }
    let node = control::socket(args.node.as_deref())?;
    let node = std::path::absolute(node).map_err(Failure::failed)?;
    let mut words = undetached(std::env::args_os());
    if args.node.is_none() {
        // The option comes first, because everything after `--` is a path.
        words.splice(0..0, [OsString::from("--node"), node.into_os_string()]);
    }
    let job = Job {
        words,
        directory: std::env::current_dir().map_err(Failure::failed)?,
        notify: args.notify.clone(),
        begun_s: Clock::new().unix_s(),
    };
    let spool = Spool::own()?;
    let number = spool.add(&job)?;
    start(&spool, number)?;
    if args.json {
        return terminal::json(&json!({ "transfer": number }));
    }
    terminal::line(&format!("copy {number} has begun: see `sinew transfers`"))
}

/// Returns the words after `cp`, without the options that detach the copy.
fn undetached(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.skip_while(|word| word != "cp").skip(1);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--") => {
                kept.push(word);
                kept.extend(words);
                break;
            }
            Some("--detach") => {}
            Some("--notify") => drop(words.next()),
            Some(word) if word.starts_with("--notify=") => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// Starts the process of a copy.
fn start(spool: &Spool, number: u32) -> Outcome {
    let job = spool.job(number)?;
    if let Some(_held) = spool.hold(number)? {
        spool.reset(number);
    }
    let log = File::options()
        .create(true)
        .append(true)
        .open(spool.file(number, "log"));
    let log = log.map_err(Failure::failed)?;
    let program = tools::program::path().map_err(Failure::failed)?;
    let mut command = Command::new(program);
    command.args(["transfers", "work", &number.to_string()]);
    command.current_dir(&job.directory).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(Failure::failed)?);
    // A terminal that closes ends only the processes of its own group.
    let begun = command.stderr(log).process_group(0).spawn();
    begun.map_err(|error| {
        let directory = job.directory.display();
        Failure::failed(format_args!(
            "copy {number} does not start in {directory}: {error}"
        ))
    })?;
    // Wait until the copy runs, so that the next command sees it as running.
    for _ in 0..TAKES {
        if spool.state(number)? != State::Interrupted {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Runs a copy in its own process.
fn work(spool: &Spool, number: u32) -> Outcome {
    let held = take(spool, number)?;
    let job = spool.job(number)?;
    spool.reset(number);
    spool.write(number, "pid", &std::process::id().to_string())?;
    let turn = wait_for_turn(spool, number)?;
    let done = parse(&job.words).and_then(|mut copy| {
        copy.told = Some(spool.file(number, "progress"));
        copy.begun = Some(spool.file(number, "begun"));
        // No user sees the failure at once, and after a reboot the node may start later.
        copy.give_up.get_or_insert(GIVE_UP);
        cp::run(&copy)
    });
    let end = End {
        ok: done.is_ok(),
        cancelled: false,
        text: done.as_ref().err().map_or("", Failure::text).to_owned(),
        ended_s: Clock::new().unix_s(),
    };
    drop(turn);
    if end.ok {
        spool.forget_begun(number);
    }
    spool.rest(number);
    spool.end(number, &end)?;
    // The copy has ended from now on, even if the notification takes long.
    drop(held);
    if let Some(notify) = &job.notify {
        let state = if end.ok { "done" } else { "failed" };
        let mut command = Command::new("sh");
        command
            .args(["-c", notify])
            .env("SINEW_TRANSFER", number.to_string());
        command
            .env("SINEW_TRANSFER_STATE", state)
            .env("SINEW_TRANSFER_TEXT", &end.text);
        let told = command.status();
        told.map_err(|error| Failure::failed(format_args!("`{notify}`: {error}")))?;
    }
    done
}

/// Waits while the largest number of copies is running.
fn wait_for_turn(spool: &Spool, number: u32) -> Result<File, Failure> {
    let mut is_told = false;
    spool.write(number, "waits", "")?;
    loop {
        if spool.is_next(number)?
            && let Some(turn) = spool.turn()?
        {
            spool.go(number);
            return Ok(turn);
        }
        if !is_told {
            let waits = json!({ "text": "waits for another copy to end" });
            spool.write(number, "progress", &waits.to_string())?;
            is_told = true;
        }
        std::thread::sleep(TURN_EVERY);
    }
}

/// Locks a copy for this process. A process that lists the copies locks each for a moment.
fn take(spool: &Spool, number: u32) -> Result<File, Failure> {
    for _ in 0..TAKES {
        if let Some(held) = spool.hold(number)? {
            return Ok(held);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Failure::failed(format_args!("copy {number} runs already")))
}

/// The words of a copy, on their own.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    copy: Copy,
}

pub(crate) fn parse<W: Clone + Into<OsString>>(words: &[W]) -> Result<Copy, Failure> {
    let words = words.iter().cloned().map(Into::into);
    let words = [OsString::from("cp")].into_iter().chain(words);
    let alone = Alone::try_parse_from(words).map_err(Failure::misused)?;
    Ok(alone.copy)
}

/// Lets a node end its part in a transfer, whoever began it.
fn end_part(node: &Path, transfer: &str) -> Outcome {
    let question = json!({"cmd": "cancel", "transfer": transfer});
    Control::find(Some(node))?.ask(&question)?;
    terminal::line(&format!("{transfer} is being ended there"))
}

fn cancel(spool: &Spool, number: u32) -> Outcome {
    spool.job(number)?;
    let State::Running(_) = spool.state(number)? else {
        return Err(Failure::failed(format_args!("copy {number} does not run")));
    };
    let pid = spool.pid(number).ok_or_else(|| {
        Failure::failed(format_args!(
            "copy {number} is just beginning, or ending: try again"
        ))
    })?;
    net::signals::kill(pid).map_err(Failure::failed)?;
    let _held = take(spool, number)?;
    let end = End {
        ok: false,
        cancelled: true,
        text: "cancelled".to_owned(),
        ended_s: Clock::new().unix_s(),
    };
    spool.rest(number);
    spool.end(number, &end)?;
    let targets = spool.job(number).and_then(|job| {
        let copy = parse(&job.words)?;
        cp::targets(&copy, &job.directory)
    });
    terminal::line(&left(number, &targets.unwrap_or_default()))
}

/// Describes what a cancelled copy leaves at its targets, and the commands that continue it or remove its data.
fn left(number: u32, targets: &[String]) -> String {
    let places = match targets {
        [] => "at its target".to_owned(),
        _ => format!("at {}", targets.join(", ")),
    };
    format!(
        "copy {number} is cancelled. What has arrived of it stays {places}: `sinew transfers resume {number}` goes \
         on with that, and `sinew transfers clean DIRECTORY --older 0s` on the host that has it removes it"
    )
}

fn resume(spool: &Spool, number: Option<u32>) -> Outcome {
    if let Some(number) = number {
        return match spool.state(number)? {
            State::Running(_) => Err(Failure::failed(format_args!("copy {number} runs already"))),
            _ => start(spool, number),
        };
    }
    let mut outcome = Ok(());
    for each in spool.numbers()? {
        let again = match spool.state(each) {
            Ok(State::Interrupted) => true,
            Ok(State::Ended(end)) => !end.ok && !end.cancelled,
            Ok(State::Running(_)) | Err(_) => false,
        };
        // If one copy cannot start, the others are still started.
        if again && let Err(failure) = start(spool, each) {
            outcome = Err(failure);
        }
    }
    outcome
}

fn clear(spool: &Spool) -> Outcome {
    for number in spool.numbers()? {
        // The copy is locked first, so that no process begins it meanwhile. A copy that cannot be read is removed, too.
        let Ok(Some(_held)) = spool.hold(number) else {
            continue;
        };
        if spool.has_ended(number) || spool.job(number).is_err() {
            spool.remove(number);
        }
    }
    Ok(())
}

/// Removes what no copy continues. Files of running copies stay, however old they are.
fn clean(which: &Clean) -> Outcome {
    let older = std::time::Duration::from_nanos(which.older.as_nanos());
    let now_s = Clock::new().unix_s();
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for root in &which.directories {
        let cleaned = orphans::clean(root, older, now_s, which.dry_run);
        all.extend(
            cleaned
                .removed
                .iter()
                .map(|path| path.display().to_string()),
        );
        failed.extend(cleaned.failed);
    }
    let failed: Vec<String> = failed
        .iter()
        .map(|(path, error)| format!("{}: {error}", path.display()))
        .collect();
    match which.json {
        true => {
            let key = match which.dry_run {
                true => "would_remove",
                false => "removed",
            };
            terminal::json(&json!({ key: all, "failed": failed }))?;
        }
        false => all.iter().try_for_each(|path| terminal::line(path))?,
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(failed.join("\n  "))),
    }
}

fn list(spool: &Spool, as_json: bool) -> Outcome {
    let mut all = Vec::new();
    for number in spool.numbers()? {
        // A copy may be cleared meanwhile.
        if let (Ok(job), Ok(state)) = (spool.job(number), spool.state(number)) {
            all.push((number, job, state));
        }
    }
    if as_json {
        let values = all
            .iter()
            .map(|(number, job, state)| value(*number, job, state));
        return terminal::json(&values.collect());
    }
    let mut table = Table::new(&[
        Column::numbers("#", 0),
        Column::words("STATE", 0),
        Column::words("COPY", 1),
        Column::words("PROGRESS", 0),
    ]);
    for (number, job, state) in &all {
        let told = value(*number, job, state);
        table.row([
            number.to_string(),
            text(&told["state"]).to_owned(),
            shown(job).join(" "),
            text(&told["text"]).to_owned(),
        ]);
    }
    let nothing = "there are no detached copies: start one with `sinew cp --detach`";
    let page = table.page(&terminal::look(), nothing)?;
    terminal::line(page.to_string().trim_end())
}

/// Returns the words of a copy, for output.
fn shown(job: &Job) -> Vec<String> {
    let words = job.words.iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn value(number: u32, job: &Job, state: &State) -> Value {
    let (word, about, ended_s) = match state {
        State::Running(progress) => ("running", text(&progress["text"]).to_owned(), None),
        State::Interrupted => ("interrupted", "sinew transfers resume".to_owned(), None),
        State::Ended(end) if end.ok => ("done", date::day(end.ended_s), Some(end.ended_s)),
        State::Ended(end) if end.cancelled => ("cancelled", String::new(), Some(end.ended_s)),
        State::Ended(end) => ("failed", end.text.clone(), Some(end.ended_s)),
    };
    json!({
        "transfer": number, "state": word, "text": about, "copy": shown(job),
        "directory": job.directory.to_string_lossy(), "begun_s": job.begun_s, "ended_s": ended_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_detaches_a_copy_is_not_repeated() {
        let words = "python -m sinew cp a b:c --detach --notify x --json --notify=y --fresh";
        let words = words.split(' ').map(OsString::from);
        assert_eq!(undetached(words), ["a", "b:c", "--json", "--fresh"]);
        let words = "sinew cp --detach -- a --notify b:c --detach";
        let words = words.split(' ').map(OsString::from);
        assert_eq!(
            undetached(words),
            ["--", "a", "--notify", "b:c", "--detach"]
        );
    }
}

//! `sinew record`: records a live network as a scenario that the simulator can replay.

use crate::control::{Control, Watched};
use crate::failure::{Failure, Outcome};
use crate::quantity::counted;
use crate::show::list;
use crate::{date, terminal};
use base::Duration;
use clap::Args;
use host::files;
use lab::scenario::{OwnLink, Recording};
use overlay::snapshot::NetworkSnapshot;
use serde_json::json;
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Samples between two writes of the file, so that little is lost if the host goes down.
const SAVED_AFTER: u64 = 60;

/// Options of `sinew record`.
#[derive(Debug, Args)]
pub struct Record {
    /// The scenario file to write
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// End after this time. Default: at Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = crate::quantity::span)]
    pub span: Option<Duration>,
    /// Time between two queries of the network
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    pub every: Duration,
    /// Control socket of the node to ask; default: SINEW_NODE, else the only one below this directory
    /// or in /run/sinew
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print JSON at the end
    #[arg(long)]
    pub json: bool,
}

fn every(text: &str) -> Result<Duration, String> {
    let span = crate::quantity::span(text)?;
    crate::quantity::within(span, Duration::from_millis(100), Duration::from_secs(3_600))
}

/// Records until the time is over, or Ctrl-C.
pub fn run(args: &Record) -> Outcome {
    let interrupt = Interrupt::install().map_err(Failure::failed)?;
    let progress = Progress::choose(false);
    let mut node = Watched::find_soon(args.node.as_deref())?;
    let name = args.file.file_stem().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let mut recording = Recording::default();
    let clock = net::Clock::new();
    let (begun, mut samples, mut missed) = (clock.now(), 0_u64, 0_u64);
    progress.begin(&format!(
        "recording to {}; Ctrl-C ends it",
        args.file.display()
    ));
    loop {
        let at = clock.now().since(begun);
        match node.with(sample) {
            Ok((network, own)) => recording.take(at, &network, &own),
            // The node may be restarted and come back. A misuse does not go away.
            Err(Failure::Failed(_)) if samples > 0 => missed += 1,
            Err(failure) => {
                progress.clear();
                if samples > 0 {
                    save(args, &recording, &name)?;
                }
                return Err(failure);
            }
        }
        samples += 1;
        // The first sample is written at once, so that a file that cannot be written is noticed.
        if samples == 1 || samples.is_multiple_of(SAVED_AFTER) {
            save(args, &recording, &name)?;
        }
        let share = args
            .span
            .map_or(0.0, |span| at.as_secs_f64() / span.as_secs_f64());
        let age = date::span(at.as_secs_f64().floor());
        progress.draw(share, &format!("{}, {age}", shown(&recording)));
        let left = args.span.map(|span| span.saturating_sub(at));
        let pause = left.map_or(args.every, |left| left.min(args.every));
        let is_over = left == Some(Duration::ZERO) || recording.is_full();
        if is_over || interrupt.wait(pause).map_err(Failure::failed)? {
            break;
        }
    }
    progress.clear();
    save(args, &recording, &name)?;
    let (nodes, links, changes) = recording.counts();
    if recording.is_full() && !args.json {
        progress.warn("a scenario holds no more, so the recording has ended");
    }
    if args.json {
        return terminal::json(&json!({
            "file": args.file, "nodes": nodes, "links": links, "changes": changes,
            "samples": samples, "missed": missed, "full": recording.is_full(),
        }));
    }
    terminal::line(&format!(
        "{}. Replay it: sinew sim run {}",
        shown(&recording),
        args.file.display()
    ))
}

fn shown(recording: &Recording) -> String {
    let (nodes, links, changes) = recording.counts();
    let counts = [(nodes, "node"), (links, "link"), (changes, "change")];
    counts
        .map(|(count, what)| counted(count as u64, what))
        .join(", ")
}

fn save(args: &Record, recording: &Recording, name: &str) -> Outcome {
    let text = recording.to_toml(name);
    files::write_whole(&args.file, &text, 0o644).map_err(|error| {
        Failure::failed(format_args!(
            "cannot write {}: {error}",
            args.file.display()
        ))
    })
}

/// Returns the network as the node knows it, and the node's own links as it measures them.
fn sample(control: &mut Control) -> Result<(NetworkSnapshot, Vec<OwnLink>), Failure> {
    let network = crate::why::ask(control)?.snapshot().clone();
    let status = control.status()?;
    let own = list(&status["snapshot"]["links"]);
    let own = own.iter().filter_map(OwnLink::read);
    Ok((network, own.collect()))
}

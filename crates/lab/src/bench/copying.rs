//! `sinew cp` as a process that gets zeros as input for as long as needed.

use serde_json::Value;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Block size of writes.
const BLOCK_BYTES: usize = 256 * 1024;
/// How often the benchmark checks whether the copy has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A copy in progress. Dropping it ends it.
pub(crate) struct Copying {
    child: Child,
    fed: Arc<AtomicU64>,
    feeder: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Copying {
    /// Runs `sinew cp - …`, and feeds it with at most `bytes` bytes.
    pub(crate) fn begin(mut command: Command, bytes: u64) -> io::Result<Copying> {
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (fed, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let input = child.stdin.take().expect("it was asked for");
        let (counter, end) = (Arc::clone(&fed), Arc::clone(&stop));
        let feeder = thread::spawn(move || feed(input, bytes, &counter, &end));
        Ok(Copying {
            child,
            fed,
            feeder: Some(feeder),
            stop,
        })
    }

    /// Returns the bytes that it has accepted so far.
    pub(crate) fn fed(&self) -> u64 {
        self.fed.load(Ordering::Relaxed)
    }

    /// Ends the input, and waits until the copy is done.
    pub(crate) fn stop(self) -> io::Result<Value> {
        self.stop.store(true, Ordering::Relaxed);
        self.end()
    }

    /// Ends the input, and waits at most `patience` until the copy is done. If it is not done by then, the copy is
    /// ended and there is no result.
    pub(crate) fn stop_within(mut self, patience: Duration) -> io::Result<Option<Value>> {
        self.stop.store(true, Ordering::Relaxed);
        let latest = Instant::now() + patience;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= latest {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
        self.end().map(Some)
    }

    /// Waits until the copy is done. Returns its `--json` output.
    pub(crate) fn end(mut self) -> io::Result<Value> {
        let mut told = Vec::new();
        let mut said = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            io::Read::read_to_end(&mut out, &mut told)?;
        }
        if let Some(mut out) = self.child.stderr.take() {
            io::Read::read_to_string(&mut out, &mut said)?;
        }
        let status = self.child.wait()?;
        if let Some(feeder) = self.feeder.take() {
            // The feeder ends when the copy accepts no more input.
            let _ = feeder.join();
        }
        match status.success() {
            true => Ok(serde_json::from_slice(&told)?),
            false => Err(io::Error::other(format!("sinew cp: {}", said.trim_end()))),
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        // This fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn feed(mut input: ChildStdin, bytes: u64, fed: &AtomicU64, stop: &AtomicBool) {
    let block = vec![0; BLOCK_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let left = bytes - fed.load(Ordering::Relaxed);
        let next = left.min(BLOCK_BYTES as u64) as usize;
        // The end of the copy shows why it accepts no more input.
        if next == 0 || input.write_all(&block[..next]).is_err() {
            break;
        }
        fed.fetch_add(next as u64, Ordering::Relaxed);
    }
}

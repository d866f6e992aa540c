//! Processor time of this thread.

use crate::bench::BenchError;
use std::io;

/// Returns the result of `work` and how long it kept a processor busy, in seconds. The kernel counts in ticks of some
/// milliseconds, so `work` should last longer.
pub(super) fn timed<T>(
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, f64), BenchError> {
    let before = thread_ns()?;
    let done = work()?;
    Ok((done, thread_ns()?.saturating_sub(before) as f64 / 1e9))
}

fn thread_ns() -> Result<u64, BenchError> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let number = text.split(' ').next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| {
        let what = "this kernel does not tell the processor time of threads (schedstat)";
        BenchError::Io(io::Error::new(io::ErrorKind::Unsupported, what))
    })
}

//! One transfer: as much data as possible within a span, read as fast as it arrives.

use super::{Arena, BenchError, Trial};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Block size of reads and writes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes to `to` for `span` and then ends the stream, while another thread reads `from` to its end.
pub(super) fn transfer(
    mut to: impl Write,
    finish: impl FnOnce() -> io::Result<()>,
    from: impl Read + Send,
    span: Duration,
) -> io::Result<Trial> {
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || drain(from));
        let write = || -> io::Result<u64> {
            // The content is not constant, so that compression or skipping of zeros gives no advantage.
            let buffer: Vec<u8> = (0..BUFFER_BYTES).map(|i| (i * 7 + i / 251) as u8).collect();
            let until = Instant::now() + span;
            let mut written = 0u64;
            while Instant::now() < until {
                to.write_all(&buffer)?;
                written += buffer.len() as u64;
            }
            finish()?;
            Ok(written)
        };
        let written = write();
        let read = reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (trial, written) = (read?, written?);
        if trial.bytes == written {
            Ok(trial)
        } else {
            Err(io::Error::other(format!(
                "{written} bytes were written and {} arrived",
                trial.bytes
            )))
        }
    })
}

fn drain(mut from: impl Read) -> io::Result<Trial> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    let mut began = None;
    loop {
        let len = from.read(&mut buffer)?;
        let began = *began.get_or_insert_with(Instant::now);
        if len == 0 {
            return Ok(Trial {
                bytes,
                seconds: began.elapsed().as_secs_f64(),
                ..Trial::default()
            });
        }
        bytes += len as u64;
    }
}

/// Transfers over one TCP connection from the first host to the last.
pub(super) fn tcp(arena: &Arena<'_>) -> Result<Trial, BenchError> {
    let row = &arena.row;
    let listener = row.within(2, || TcpListener::bind((row.ip(2, 1), 0)))??;
    let at = listener.local_addr()?;
    let to = row.within(0, || TcpStream::connect(at))??;
    let (from, _) = listener.accept()?;
    let trial = transfer(
        &to,
        || to.shutdown(Shutdown::Write),
        from,
        arena.options.span(),
    )?;
    Ok(trial)
}

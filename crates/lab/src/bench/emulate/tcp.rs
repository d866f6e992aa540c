//! The goodput of a kernel TCP connection through the emulated link.

use super::link::Link;
use super::report::Tcp;
use crate::bench::BenchError;
use base::Duration;
use net::Clock;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

/// The link of the table in docs/emulate.md.
const LINK: &str = "delay=10ms rate=10mbit queue=50";
/// A sender that is not released within this time ends its connection by itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Returns the goodput of one connection; `None` if the kernel has no such congestion control.
pub(super) fn goodput(
    link: &Link,
    control: &str,
    loss: &str,
    seconds: f64,
) -> Result<Option<Tcp>, BenchError> {
    let Some((mut source, mut sink)) = link.tcp(control)? else {
        return Ok(None);
    };
    let words = format!("loss={loss} {LINK}");
    link.set(&words, &words);
    source.set_write_timeout(Some(PATIENCE))?;
    sink.set_read_timeout(Some(PATIENCE))?;
    let (clock, span) = (Clock::new(), Duration::from_secs_f64(seconds));
    let bytes = std::thread::scope(|scope| -> std::io::Result<u64> {
        let sending = scope.spawn(move || {
            let block = [0x5a; 16_384];
            while source.write_all(&block).is_ok() {}
        });
        let (mut block, mut bytes) = (vec![0; 65_536], 0);
        while clock.now().since(base::Time::ZERO) < span {
            match sink.read(&mut block) {
                Ok(0) => break,
                Ok(len) => bytes += len as u64,
                // The connection waits for its timer.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        // The connection ends with a reset, so that the sender does not wait for the link.
        sink.shutdown(Shutdown::Both)?;
        drop(sink);
        link.set("clean", "clean");
        let _ = sending.join();
        Ok(bytes)
    })?;
    let took_s = clock.now().as_secs_f64().max(seconds);
    Ok(Some(Tcp {
        control: control.to_owned(),
        loss: loss.to_owned(),
        link: LINK,
        goodput_mbps: bytes as f64 * 8.0 / took_s / 1e6,
    }))
}

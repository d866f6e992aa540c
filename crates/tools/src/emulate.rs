//! `sinew emulate`: a link for any IP traffic between two networks of this machine. It loses,
//! delays and queues packets as the simulator's links do.
//!
//! ```text
//!   namespace A                                                        namespace B
//!   programs ── emu0 ══ Tap ── Line (forward) ────────────▶ Tap ══ emu0 ── programs
//!                        ◀──────────── Line (back) ──────────
//!                        one thread: epoll with a timeout in nanoseconds
//! ```
//!
//! Each direction is a `base::impair::Line`, the model behind a node's `link set` and behind every
//! link of the simulator: the same words, seed and packets have the same result. The rate and
//! queues in bytes count the IP packet, without the Ethernet header, as in the simulator, where
//! links have no such header.
//!
//! The emulator makes the interfaces inside the two networks and removes them when it ends. The
//! interfaces send no packets of their own (there are no IPv6 link-local addresses, and permanent
//! neighbour entries if the emulator sets the addresses of both ends). So only the packets of the
//! programs use up the model's random numbers.

pub mod bridge;
pub mod end;
mod report;

#[cfg(test)]
mod tests;

pub use end::{BadPlace, Place};
pub use report::{Direction, Report};

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use base::Duration;
use base::impair::Model;
use bridge::Bridge;
use end::End;
use net::netns::SetupError;
use net::tap;
use std::io;

/// The smallest MTU that IPv4 allows.
const MTU_MIN: usize = 68;
/// How often the main thread checks whether the bridge still runs.
const LOOK: Duration = Duration::from_millis(500);

/// What to emulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The two networks.
    pub between: [Place; 2],
    /// The link from the first network to the second, and back.
    pub models: [Model; 2],
    /// The name of the interface in each namespace.
    pub interface: String,
    /// Addresses with prefix lengths that the interfaces get: `10.9.0.1/24`.
    pub addresses: [Vec<String>; 2],
    /// Longest IP packet.
    pub mtu: usize,
    /// Seed of the random numbers. Equal seeds lose and delay the same packets.
    pub seed: u64,
    /// How long the emulator runs; until Ctrl-C if `None`.
    pub seconds: Option<f64>,
}

/// Why the link could not be made, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// An option has an invalid value; the command was misused.
    #[error("{0}")]
    Option(String),
    /// A network or interface could not be set up.
    #[error("{0}; it needs root, and namespaces that exist (`ip netns add NAME`)")]
    Setup(#[from] SetupError),
    /// A device could not be made.
    #[error(
        "the TAP device `{name}` cannot be opened: {error}; it needs root, and nobody else may hold it"
    )]
    Device {
        /// The name of the device.
        name: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The emulator stopped.
    #[error("the emulator failed: {0}")]
    Io(#[from] io::Error),
}

impl Options {
    fn check(&self) -> Result<(), EmulateError> {
        let bad = |what: String| Err(EmulateError::Option(what));
        if !tap::is_interface_name(&self.interface) {
            return bad(format!(
                "`{}` is no name of an interface: 1 to 15 letters, digits and signs",
                self.interface
            ));
        }
        if !(MTU_MIN..=tap::MTU_MAX).contains(&self.mtu) {
            let max = tap::MTU_MAX;
            return bad(format!("the MTU lies between {MTU_MIN} and {max} bytes"));
        }
        if self.seconds.is_some_and(|s| !(0.0..=1e9).contains(&s)) {
            return bad("it runs for 0 seconds or more".into());
        }
        for address in self.addresses.iter().flatten() {
            let parsed = address.split_once('/').is_some_and(|(ip, length)| {
                ip.parse::<std::net::IpAddr>().is_ok_and(|ip| {
                    let longest = if ip.is_ipv4() { 32 } else { 128 };
                    length.parse::<u8>().is_ok_and(|length| length <= longest)
                })
            });
            if !parsed {
                return bad(format!(
                    "`{address}` is no address with a prefix length, such as 10.9.0.1/24"
                ));
            }
        }
        Ok(())
    }
}

/// Makes the link and carries packets until the user or `seconds` ends it.
///
/// # Errors
/// [`EmulateError`]; the interfaces are removed in that case.
pub fn run(options: &Options, progress: Progress) -> Result<Report, EmulateError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    let ends = end::open(options)?;
    let [a, b] = &ends;
    let until = match options.seconds {
        Some(seconds) => format!("for {seconds} s"),
        None => "until Ctrl-C".to_owned(),
    };
    progress.begin(&format!("sinew emulate: {a} and {b} are joined, {until}"));
    let bridge = Bridge::start(ends.each_ref().map(End::tap), &options.models, options.seed)?;
    let mut left = options.seconds.map(Duration::from_secs_f64);
    while left != Some(Duration::ZERO) && bridge.is_running() {
        let span = left.map_or(LOOK, |left| left.min(LOOK));
        if interrupt.wait(span)? {
            break;
        }
        left = left.map(|left| left.saturating_sub(span));
    }
    let overrun = ends.each_ref().map(End::overrun);
    Ok(Report::new(options, &bridge.stop()?, overrun))
}

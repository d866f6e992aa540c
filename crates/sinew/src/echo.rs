//! Echo requests and their answers: the basis of `sinew ping` and `sinew trace`.
//!
//! Every node answers at its virtual port 7. A node at which a request's time to live expires reports that. A request
//! carries the sender's clock, so the sender only remembers whether a request was answered.

use crate::control::{self, Control};
use crate::failure::Failure;
use crate::names::{Names, as_client, client_socket};
use crate::quantity;
use crate::service::{Paths, Service};
use base::{Duration, NodeAddr, Time};
use clap::Args;
use client::{DatagramSocket, Node, Options, RouteBy, Target};
use net::Clock;
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use serde_json::{Value, json};
use std::path::PathBuf;
use wire::echo::{ECHO_BYTES, Echo, Kind, PORT};

/// Where to, and how, for both commands.
#[derive(Debug, Args)]
pub struct Way {
    /// The node: name or overlay address
    pub to: String,
    /// The service that the packets need
    #[arg(long, alias = "class", value_enum, default_value_t = Service::BestEffort)]
    pub service: Service,
    #[command(flatten)]
    pub(crate) paths: Paths,
    /// How long to wait for an answer; a bare number is in seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub timeout: Duration,
    /// The control socket of the node to start from, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The node that sends requests, and the node that is to answer.
#[derive(Debug)]
pub struct Path {
    /// The node that sends the requests.
    pub node: Node,
    /// The names that this node knows.
    pub names: Names,
    /// The node that is to answer.
    pub to: NodeAddr,
    service: Service,
    routing: Option<RouteBy>,
    /// The links of the sending node have just changed, so the path may still be missing.
    settling: bool,
}

/// Reads a time from one millisecond to a minute.
pub fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
    quantity::within(quantity::seconds(text)?, least, most)
}

/// The number of the first request that only tests whether there is a path, and the interval of these requests.
const FIRST_TRY: u16 = 0xff00;
const TRY_EVERY: Duration = Duration::from_millis(50);

/// A socket that sends requests.
pub struct Prober {
    socket: DatagramSocket,
    poller: Poller,
    termination: Termination,
    clock: Clock,
    to: NodeAddr,
    id: u16,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The request that it answers.
    pub seq: u16,
    /// The node that answered.
    pub node: NodeAddr,
    /// The answer comes from the destination, and not from a node on the path.
    pub arrived: bool,
    /// Number of hops that the request took.
    pub hops: u8,
    /// The round trip.
    pub rtt_ms: f64,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard {
    /// An answer came.
    Answer(Answer),
    /// The time ended.
    Nothing,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl Path {
    /// Finds the node to start from, and the destination.
    pub fn find(way: &Way) -> Result<Path, Failure> {
        let mut path = Path {
            service: way.service,
            ..Path::soon(way.node.as_deref(), &way.to)?
        };
        path.routing = way.paths.chosen();
        path.come(way.timeout)?;
        Ok(path)
    }

    /// Returns the path to a node as soon as its name is known. While a node starts, certificates with names may still
    /// be missing.
    pub fn soon(node: Option<&std::path::Path>, to: &str) -> Result<Path, Failure> {
        if let Some(node) = as_client(node)? {
            let names = Names::default();
            return Ok(Path {
                to: names.address(to)?,
                node,
                names,
                service: Service::BestEffort,
                routing: None,
                settling: false,
            });
        }
        let mut control = Control::find_soon(node)?;
        let status = control.status_when(|status| Names::of(status).address(to).is_ok())?;
        let names = Names::of(&status);
        Ok(Path {
            to: names.address(to)?,
            node: Node::at(client_socket(&status)?),
            names,
            service: Service::BestEffort,
            routing: None,
            settling: control::is_settling(&status),
        })
    }

    /// Waits a short time for a path that is still missing, until an answer comes.
    pub fn come(&self, deadline: Duration) -> Result<(), Failure> {
        if !self.settling {
            return Ok(());
        }
        let mut prober = self.prober(Options::best_effort().ttl, deadline)?;
        let until = prober.now() + Duration::from_nanos(control::SOON.as_nanos() as u64);
        for seq in FIRST_TRY.. {
            prober.ask(seq, ECHO_BYTES)?;
            let next = (prober.now() + TRY_EVERY).min(until);
            match prober.wait(next)? {
                Heard::Answer(answer) if answer.arrived => break,
                Heard::Interrupted => {
                    return Err(Failure::failed("stopped before there was a path"));
                }
                _ if prober.now() >= until => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens a socket whose requests take at most `ttl` hops.
    pub fn prober(&self, ttl: u8, deadline: Duration) -> Result<Prober, Failure> {
        let deadline = std::time::Duration::from_nanos(deadline.as_nanos());
        let mut options = self.service.options(deadline);
        if let Some(routing) = self.routing {
            options.routing = routing;
            // The best path depends on a deadline.
            options.deadline = Some(deadline);
        }
        let socket = self.node.bind(0, Options { ttl, ..options })?;
        socket.set_nonblocking(true)?;
        let io = |error: std::io::Error| Failure::failed(error);
        let (poller, termination) = (
            Poller::new().map_err(io)?,
            Termination::install().map_err(io)?,
        );
        poller.add(&socket, 0, Interest::READ).map_err(io)?;
        poller.add(&termination, 1, Interest::READ).map_err(io)?;
        let id = socket.local().port.0;
        Ok(Prober {
            socket,
            poller,
            termination,
            clock: Clock::new(),
            to: self.to,
            id,
        })
    }
}

impl Prober {
    /// Returns the time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sends a request. A request that cannot be sent now counts as lost.
    pub fn ask(&self, seq: u16, bytes: usize) -> Result<(), Failure> {
        let mut payload = vec![0; bytes.max(ECHO_BYTES)];
        let request = Echo {
            kind: Kind::Request,
            id: self.id,
            seq,
            stamp_us: self.stamp_us(),
            node: self.socket.local().node,
            hop: 0,
        };
        request
            .emit(&mut payload)
            .map_err(|_| Failure::failed("the request is too short"))?;
        match self.socket.send_to(
            &payload,
            Target {
                node: self.to,
                port: PORT,
            },
        ) {
            Ok(()) | Err(client::Error::WouldBlock) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for an answer until `end`.
    pub fn wait(&mut self, end: Time) -> Result<Heard, Failure> {
        let mut ready = Vec::new();
        loop {
            if let Some(answer) = self.take()? {
                return Ok(Heard::Answer(answer));
            }
            let now = self.clock.now();
            if now >= end {
                return Ok(Heard::Nothing);
            }
            self.poller
                .wait(Some(end.since(now)), &mut ready)
                .map_err(Failure::failed)?;
            if self.termination.take() > 0 {
                return Ok(Heard::Interrupted);
            }
        }
    }

    fn take(&self) -> Result<Option<Answer>, Failure> {
        let mut buffer = [0; 2_048];
        loop {
            let len = match self.socket.recv_from(&mut buffer) {
                Ok((len, ..)) => len,
                Err(client::Error::WouldBlock) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let Ok(echo) = Echo::parse(&buffer[..len]) else {
                continue;
            };
            if echo.id == self.id && echo.kind != Kind::Request {
                // The stamp wraps after 71 minutes, as the clock does.
                let rtt_us = self.stamp_us().wrapping_sub(echo.stamp_us);
                return Ok(Some(Answer {
                    seq: echo.seq,
                    node: echo.node,
                    arrived: echo.kind == Kind::Reply,
                    hops: echo.hop,
                    rtt_ms: f64::from(rtt_us) / 1e3,
                }));
            }
        }
    }

    fn stamp_us(&self) -> u32 {
        self.clock.now().as_micros() as u32
    }
}

/// The round trips of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Rtts(Vec<f64>);

impl Rtts {
    /// Adds a round trip.
    pub fn add(&mut self, rtt_ms: f64) {
        self.0.push(rtt_ms);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the number of round trips.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no round trip.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the round trip below which this share of them lies.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        self.0.get((share * last as f64).round() as usize).copied()
    }

    /// Returns the stable keys `min`, `median`, `p95`, `max`; null if there is no round trip.
    pub fn json(&self) -> Value {
        let at = |share| self.quantile(share);
        json!({"min": at(0.0), "median": at(0.5), "p95": at(0.95), "max": at(1.0)})
    }
}

/// Returns the share of requests without an answer, in percent.
pub fn loss_pct(sent: usize, received: usize) -> f64 {
    if sent == 0 {
        0.0
    } else {
        (sent - received.min(sent)) as f64 * 100.0 / sent as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_losses_are_those_of_the_measured() {
        let mut rtts = Rtts::default();
        assert!(rtts.is_empty() && rtts.quantile(0.5).is_none());
        assert_eq!(rtts.json()["median"], Value::Null);
        for rtt in [5.0, 1.0, 3.0] {
            rtts.add(rtt);
        }
        assert_eq!(
            rtts.json(),
            json!({"min": 1.0, "median": 3.0, "p95": 5.0, "max": 5.0})
        );
        assert_eq!(
            (loss_pct(4, 3), loss_pct(0, 0), loss_pct(4, 0)),
            (25.0, 0.0, 100.0)
        );
    }
}

//! The setup of a run of the paper's network. [Papadimitriou06 §4.2, Figure 1]
//!
//! ```text
//!   sources ──┐                                                          ┌── sinks (errors)
//!             R1 ══ bottleneck of voice ══ R2 ══ voice and FTP ══ R3 ────┤
//!                          FTP sources ────┘                             └── FTP sinks
//! ```

use base::Duration;
use base::impair::{Model, Queue};

/// The transport of voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    Vegas,
    Westwood,
    Real,
    Reno,
    Udp,
    /// TCP-Real's congestion control without the guarantee to deliver everything. [Papadimitriou06 §6]
    Partial,
}

impl Transport {
    pub(super) const ALL: [Transport; 6] = [
        Transport::Vegas,
        Transport::Westwood,
        Transport::Real,
        Transport::Udp,
        Transport::Reno,
        Transport::Partial,
    ];
    /// The transports of the paper's figures.
    pub(super) const PAPER: [Transport; 4] = [
        Transport::Vegas,
        Transport::Westwood,
        Transport::Real,
        Transport::Udp,
    ];
    /// Those of them that back off.
    pub(super) const TCPS: [Transport; 3] =
        [Transport::Vegas, Transport::Westwood, Transport::Real];

    pub(super) fn name(self) -> &'static str {
        match self {
            Transport::Vegas => "Vegas",
            Transport::Westwood => "Westwood",
            Transport::Real => "Real",
            Transport::Reno => "Reno",
            Transport::Udp => "UDP",
            Transport::Partial => "partially reliable",
        }
    }

    /// Returns the transport as a coordinate of a cell.
    pub(super) fn code(self) -> f64 {
        self as u8 as f64
    }

    pub(super) fn of(code: f64) -> Option<Transport> {
        Transport::ALL.into_iter().find(|t| t.code() == code)
    }
}

/// The capacities of Figure 1.
///
/// Choice: the figure's numbers are not in its text. A call is 64 kbit/s in its talkspurts, so 21.3 packets/s in the
/// mean; with 40 bytes of headers 34 kbit/s. 80 calls are 2.7 Mbit/s in the mean and more in every second minute, 120
/// are 4.1 Mbit/s: at 3 Mbit/s contention begins between 60 and 120 calls. Queues hold hundreds of milliseconds,
/// without which none of the paper's delays can appear: 600 packets of 200 bytes are 320 ms at 3 Mbit/s, 800 of 1040
/// bytes 277 ms at 24 Mbit/s. Voice is a small part of R2's traffic: with 6 Mbit/s there, 20 FTP flows leave no TCP a
/// quality that would satisfy its callers, while the paper's callers are satisfied (§5.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Network {
    /// The link from R1 to R2: bits per second, and its queue in packets.
    pub(super) first: (u64, usize),
    /// The link from R2 to R3. FTP gets what voice leaves.
    pub(super) second: (u64, usize),
    /// Delay of each access link, one way.
    pub(super) access: Duration,
    /// Delay of each link between routers.
    pub(super) hop: Duration,
}

/// Capacities of the second link in Mbit/s with which scenario 3 is run. Choice: from that of the first link, where FTP
/// gets what voice leaves, to one of which voice is an eighth.
pub(super) const SECOND_MBPS: [f64; 4] = [3.0, 6.0, 12.0, 24.0];

/// The capacities in use.
pub(super) const FIGURE_1: Network = Network {
    first: (3_000_000, 600),
    second: (24_000_000, 800),
    access: Duration::from_millis(5),
    hop: Duration::from_millis(10),
};

impl Network {
    /// Returns the network with another second link, whose full queue holds a packet for the same time.
    pub(super) fn with_second_mbps(self, mbps: f64) -> Network {
        let (rate_bps, packets) = self.second;
        let share = mbps * 1e6 / rate_bps as f64;
        Network {
            second: ((mbps * 1e6) as u64, (packets as f64 * share) as usize),
            ..self
        }
    }

    /// Returns the link from R1 to R2; also the one back, which carries only acknowledgements.
    pub(super) fn first_link(&self) -> Model {
        link(self.hop, self.first)
    }

    /// Returns the link from R2 to R3.
    pub(super) fn second_link(&self) -> Model {
        link(self.hop, self.second)
    }

    /// Returns the rate of speech in packets of this size at the first bottleneck, in kbit/s.
    pub(super) fn speech_kbps(&self, bytes: f64) -> f64 {
        self.first.0 as f64 / 1e3 * bytes / (bytes + HEADER_BYTES as f64)
    }

    /// Returns the number of segments of 160 bytes that a speaker writes in a round trip without queues.
    pub(super) fn segments_per_round(&self) -> f64 {
        2.0 * self.propagation().as_secs_f64() * VOICE_BPS as f64 / (8.0 * 160.0)
    }

    /// Returns how long the full first queue holds a packet with this many bytes of speech, in ms.
    pub(super) fn first_queue_ms(&self, bytes: f64) -> f64 {
        let (rate_bps, packets) = self.first;
        packets as f64 * 8e3 * (bytes + HEADER_BYTES as f64) / rate_bps as f64
    }

    /// Returns the one-way delay without queues, over two access links and two between routers.
    pub(super) fn propagation(&self) -> Duration {
        self.access * 2 + self.hop * 2
    }
}

fn link(delay: Duration, (rate_bps, packets): (u64, usize)) -> Model {
    Model::default()
        .with_delay(delay)
        .and_then(|model| model.with_rate(rate_bps, Queue::Packets(packets)))
        .expect("a delay, a rate and a queue within the limits")
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) transport: Transport,
    pub(super) calls: usize,
    pub(super) ftp: usize,
    /// Bytes of speech per packet: 160, 300 or 500.
    pub(super) bytes: usize,
    /// Probability of a packet error on an access link to the sinks, each direction.
    pub(super) errors: f64,
    /// The length of the run.
    pub(super) span: Duration,
    pub(super) network: Network,
}

/// [Papadimitriou06 §4.2]
pub(super) const SPAN: Duration = Duration::from_secs(60);
/// The rate of a talkspurt.
pub(super) const VOICE_BPS: u64 = 64_000;
/// Headers of every packet of voice, with any transport. Choice: IP and TCP have 40 bytes, and so have IP, UDP and RTP,
/// whose numbers and times are necessary to play voice over UDP; so all compete with equal packets, as in ns-2, which
/// does not count headers.
pub(super) const HEADER_BYTES: usize = 40;
/// Headers of IP and TCP; of IP and UDP.
pub(super) const TCP_HEADER_BYTES: usize = 40;
pub(super) const UDP_HEADER_BYTES: usize = 28;
/// Payload of an FTP segment, ns-2's default.
pub(super) const FTP_BYTES: usize = 1000;
/// The time within which sources begin.
pub(super) const ENTER: Duration = Duration::from_secs(2);

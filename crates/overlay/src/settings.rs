//! Every timer and threshold of a node, by profile.
//!
//! `modern` is the default; `paper` sets what the papers used, for comparison.

use crate::{announce, hello, realtime, reliable, stream};
use base::Duration;
use congestion::brake;

/// The numbers of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The profile's name.
    pub name: &'static str,
    /// Hello protocol and failure detection.
    pub hello: hello::Settings,
    /// Real-time recovery.
    pub realtime: realtime::Settings,
    /// How the real-time lane gives way to congestion; none for never.
    pub brake: Option<brake::Settings>,
    /// Reliable links.
    pub reliable: reliable::Settings,
    /// When a link's cost is announced again.
    pub announce: announce::Settings,
    /// Streams.
    pub streams: stream::Settings,
    /// Tmax of the expected-latency metric: what a lost packet costs. [Amir06 §IV-B]: 100 ms.
    pub codec_threshold: Duration,
    /// Δ of the expected-latency metric: time until a loss is noticed. [Amir06 §IV-B]: 2 ms.
    pub detection: Duration,
}

impl Settings {
    /// The default numbers.
    pub fn modern() -> Settings {
        Settings {
            name: "modern",
            hello: hello::Settings::modern(),
            realtime: realtime::Settings::default(),
            brake: Some(brake::Settings::default()),
            reliable: reliable::Settings::default(),
            announce: announce::Settings::modern(),
            streams: stream::Settings::default(),
            codec_threshold: Duration::from_millis(100),
            detection: Duration::from_millis(2),
        }
    }

    /// The papers' numbers. [Amir06 §III-A, §IV-A]
    pub fn paper() -> Settings {
        Settings {
            name: "paper",
            hello: hello::Settings::paper(),
            realtime: realtime::Settings::paper(),
            brake: None,
            reliable: reliable::Settings::paper(),
            announce: announce::Settings::paper(),
            ..Settings::modern()
        }
    }
}

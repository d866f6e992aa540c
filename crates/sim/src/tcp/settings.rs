//! The settings of one connection.

use base::Duration;
use congestion::Family;

/// Bytes of IP and TCP header in ns-2, and of an acknowledgement.
pub(crate) const HEADER_BYTES: usize = 40;

/// The settings of one connection. Windows and buffers are in segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Congestion control, and with it the method to repair losses.
    pub family: Family,
    /// The settings of the control. `window` replaces its largest window and first threshold.
    pub control: congestion::Settings,
    /// Bytes of a full segment on the wire, headers included.
    pub segment_bytes: usize,
    /// The largest number of segments in flight.
    pub window: u32,
    /// The size of the buffer that the receiver has for an application that does not read. The receiver advertises it.
    pub receive_buffer: u32,
    /// The size of the buffer between the application and the oldest unacknowledged segment. Messages of an application
    /// beyond this size are dropped and counted; a relay waits.
    pub send_buffer: u32,
    /// The retransmission timer.
    pub timer: Timer,
    /// Whether the first two duplicate acknowledgements send something new [RFC 3042].
    pub limited_transmit: bool,
    /// How long the receiver waits for a second segment before it acknowledges.
    pub delayed_ack: Option<Duration>,
    /// Whether the window grows although the application does not fill it, as ns-2's does.
    pub grows_unused: bool,
    /// Whether losses are found by the order of transmissions [RFC 8985], whatever method the family has.
    pub rack: bool,
}

/// The retransmission timer [RFC 6298].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timer {
    /// The least timeout, before back-off. Never less than two ticks.
    pub min: Duration,
    /// The longest timeout, after back-off.
    pub max: Duration,
    /// The timeout before the first measurement.
    pub initial: Duration,
    /// The tick of the clock that measures round trips.
    pub tick: Duration,
}

impl Settings {
    /// Returns the defaults of ns-2.35: window 20, initial window 2, tick 10 ms, least timeout 200 ms, limited
    /// transmit. Segments are 1040 bytes on the wire.
    pub fn ns2(family: Family) -> Settings {
        Settings {
            family,
            control: congestion::Settings {
                initial_window: 2.0,
                minimum_window: 1.0,
                count_acks: true,
                ..congestion::Settings::default()
            },
            segment_bytes: 1000 + HEADER_BYTES,
            window: 20,
            receive_buffer: u32::MAX,
            send_buffer: u32::MAX,
            timer: Timer {
                min: Duration::from_millis(200),
                max: Duration::from_secs(60),
                initial: Duration::from_secs(3),
                tick: Duration::from_millis(10),
            },
            limited_transmit: true,
            delayed_ack: None,
            grows_unused: true,
            rack: false,
        }
    }

    /// Returns the parameters of the time of [Amir03 §III]: tick 100 ms, least timeout 1 s, initial window 1, no
    /// limited transmit, segments of 1000 bytes on the wire.
    pub fn of_2003(family: Family) -> Settings {
        let mut settings = Settings::ns2(family);
        settings.control.initial_window = 1.0;
        settings.segment_bytes = 1000;
        settings.limited_transmit = false;
        settings.timer.min = Duration::from_secs(1);
        settings.timer.tick = Duration::from_millis(100);
        settings
    }

    /// Returns the settings of a present-day kernel: segments of 1448 bytes in packets of 1500, initial window 10,
    /// least timeout 200 ms, losses by RACK, an acknowledgement for two segments or after 40 ms.
    pub fn linux(family: Family) -> Settings {
        Settings {
            control: congestion::Settings {
                whole: true,
                ..congestion::Settings::default()
            },
            segment_bytes: 1500,
            window: 32_768,
            timer: Timer {
                min: Duration::from_millis(200),
                max: Duration::from_secs(120),
                initial: Duration::from_secs(1),
                tick: Duration::from_millis(1),
            },
            limited_transmit: true,
            delayed_ack: Some(Duration::from_millis(40)),
            grows_unused: false,
            rack: true,
            ..Settings::ns2(family)
        }
    }

    /// Returns the settings with another largest window.
    #[must_use]
    pub fn with_window(mut self, window: u32) -> Settings {
        self.window = window;
        self
    }

    /// Returns the settings with another least timeout.
    #[must_use]
    pub fn with_rto_min(mut self, min: Duration) -> Settings {
        self.timer.min = min;
        self
    }

    /// Returns the number of data bytes in a full segment.
    pub fn payload_bytes(&self) -> usize {
        self.segment_bytes.saturating_sub(HEADER_BYTES).max(1)
    }

    pub(crate) fn control_settings(&self) -> congestion::Settings {
        let window = f64::from(self.window.max(1));
        congestion::Settings {
            max_window: self.control.max_window.min(window),
            initial_threshold: self.control.initial_threshold.min(window),
            ..self.control
        }
    }
}

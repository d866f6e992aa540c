//! The round trip from a gateway to a phone and back, from the RTCP that passes through the gateway.
//!
//! ```text
//!   far end ── SR ──> gateway ── SR ──> phone
//!                      │ noted here        │ DLSR
//!   far end <── RR ── gateway <── RR ──────┘     now − noted − DLSR
//! ```
//!
//! A report refers to its SR by the middle of the SR's NTP time, which need not be a true time. The sum of the round
//! trips to both ends is the round trip of the call.

use base::{Duration, Time};

use crate::rtp::rtcp::{Compound, ReportBlock, Rtcp};

/// Number of sender reports remembered: an end sends one every 5 s or so, and the next report answers it.
const REPORTS: usize = 8;

/// Sender reports that passed towards one end.
#[derive(Debug, Clone, Default)]
pub struct RoundTrip {
    noted: [Option<(u32, u32, Time)>; REPORTS],
    next: usize,
}

impl RoundTrip {
    /// Creates a state in which nothing has passed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes RTCP that passes towards the end.
    pub fn on_toward(&mut self, now: Time, rtcp: &Compound<'_>) {
        for packet in rtcp.packets() {
            if let Rtcp::SenderReport(info, _) = packet {
                self.noted[self.next] = Some((info.ssrc, info.ntp_middle(), now));
                self.next = (self.next + 1) % REPORTS;
            }
        }
    }

    /// Takes RTCP from the end. Returns the shortest round trip according to its reports.
    #[must_use]
    pub fn on_back(&self, now: Time, rtcp: &Compound<'_>) -> Option<Duration> {
        rtcp.reports()
            .filter_map(|(_, block)| self.of(now, &block))
            .min()
    }

    fn of(&self, now: Time, block: &ReportBlock) -> Option<Duration> {
        let answered = |(ssrc, middle, _): &&(u32, u32, Time)| {
            block.last_sr != 0 && (*ssrc, *middle) == (block.ssrc, block.last_sr)
        };
        let (_, _, noted) = self.noted.iter().flatten().find(answered)?;
        let held_ns = (u64::from(block.delay_since_last_sr) * 1_000_000_000) >> 16;
        let elapsed = now.since(*noted).as_nanos();
        // A delay longer than the elapsed time is false, or a clock was set.
        elapsed.checked_sub(held_ns).map(Duration::from_nanos)
    }
}

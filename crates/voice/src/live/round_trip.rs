//! The round trip from a gateway to a phone and back, from the RTCP that passes it.
//!
//! ```text
//!   far end ── SR ──> gateway ── SR ──> phone
//!                      │ noted here        │ DLSR
//!   far end <── RR ── gateway <── RR ──────┘     now − noted − DLSR
//! ```
//!
//! A report names the SR that it answers by the middle of its NTP time, which need not be a true
//! time. The round trips to both ends, added, are that of the call.

use base::{Duration, Time};

use crate::rtp::rtcp::{Compound, ReportBlock, Rtcp};

/// Sender reports remembered: one is sent every 5 s or so, and answered by the next report.
const REPORTS: usize = 8;

/// Sender reports that passed toward one end.
#[derive(Debug, Clone, Default)]
pub struct RoundTrip {
    noted: [Option<(u32, u32, Time)>; REPORTS],
    next: usize,
}

impl RoundTrip {
    /// Nothing passed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// RTCP passes toward the end.
    pub fn on_toward(&mut self, now: Time, rtcp: &Compound<'_>) {
        for packet in rtcp.packets() {
            if let Rtcp::SenderReport(info, _) = packet {
                self.noted[self.next] = Some((info.ssrc, info.ntp_middle(), now));
                self.next = (self.next + 1) % REPORTS;
            }
        }
    }

    /// RTCP came back from the end: the shortest round trip that its reports tell.
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
        // More than all the time there was is a lie, or a clock that was set.
        elapsed.checked_sub(held_ns).map(Duration::from_nanos)
    }
}

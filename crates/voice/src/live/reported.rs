//! An end's own report of what it receives: the latest of its RTCP and RTCP-XR.
//!
//! The end knows what this gateway cannot see: losses behind the gateway, and what the end's own buffer discarded.

use base::Time;

use crate::rtp::rtcp::{Compound, ReportBlock, Rtcp};
use crate::rtp::xr::VoipMetrics;

/// The reports of one end on one stream that it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reported {
    block: Option<(Time, ReportBlock)>,
    metrics: Option<(Time, VoipMetrics)>,
    ended: bool,
}

impl Reported {
    /// Creates a state without any report.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes RTCP from the end, which receives the stream of the source `ssrc`.
    pub fn on_rtcp(&mut self, now: Time, ssrc: u32, rtcp: &Compound<'_>) {
        let block = rtcp
            .reports()
            .map(|(_, block)| block)
            .filter(|block| block.ssrc == ssrc)
            .last();
        self.block = block.map(|block| (now, block)).or(self.block);
        for packet in rtcp.packets() {
            match packet {
                Rtcp::Bye(_) => self.ended = true,
                Rtcp::Extended(_, blocks) => {
                    let metrics = blocks.filter(|metrics| metrics.ssrc == ssrc).last();
                    self.metrics = metrics.map(|metrics| (now, metrics)).or(self.metrics);
                }
                _ => {}
            }
        }
    }

    /// Returns the end's latest report on the stream, and when it passed.
    #[must_use]
    pub fn block(&self) -> Option<(Time, ReportBlock)> {
        self.block
    }

    /// Returns the end's latest VoIP metrics, and when they passed.
    #[must_use]
    pub fn voip_metrics(&self) -> Option<(Time, VoipMetrics)> {
        self.metrics
    }

    /// Returns whether the end has sent BYE: it sends no more reports, though SIP may not have ended the call yet.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

//! Processing of the peer's segments: they show what has arrived, how much more the peer takes, what is lost, and
//! whether queues on the path are long.

use super::super::Content;
use super::super::sent::Patience;
use super::{Heard, NeverSent, PERSIST_START, Sender};
use base::{Duration, Time, seq};
use congestion::{Acked, Congestion};
use wire::data::LinkProtocol;

/// The least time that reliable links get to repair their losses: two strikes on a continental hop.
const REPAIR_LEAST: Duration = Duration::from_millis(100);

impl Sender {
    /// Takes in what a segment of the peer says about this direction.
    pub(crate) fn on_heard(
        &mut self,
        now: Time,
        heard: Heard,
        ranges: impl Iterator<Item = (u32, u32)>,
    ) -> Result<(), NeverSent> {
        let acknowledged = seq::widen(heard.acknowledged.into(), 32, self.una);
        if acknowledged > self.next {
            return Err(NeverSent);
        }
        if acknowledged < self.una {
            // The segment is old and came late.
            return Ok(());
        }
        let next = self.next;
        let widen = move |low: u32| seq::widen(low.into(), 32, acknowledged);
        let mut lies = false;
        let ranges = ranges.map(|(from, to)| (widen(from), widen(to)));
        let ranges = ranges.filter(|(from, to)| {
            let good = from < to && *to <= next;
            lies |= !good;
            good
        });
        let before = self.board.in_flight();
        let echo = heard.rtt.map(|rtt| heard.came - rtt);
        let news = self.board.on_ack(now, acknowledged, ranges, echo);
        if lies {
            return Err(NeverSent);
        }
        let advanced = acknowledged > self.una;
        if advanced {
            self.learn_wait(now, acknowledged, heard.rtt);
        }
        self.una = acknowledged;
        if let Some(messages) = &mut self.messages {
            messages.on_acknowledged(acknowledged);
        }
        let edge = acknowledged + u64::from(heard.window);
        if edge > self.edge {
            self.edge = edge;
            self.persist_at = None;
            self.persist = PERSIST_START;
        }
        if advanced || news.bytes > 0 {
            self.on_news(now, heard, news.bytes, before);
            if news.spurious || news.reordered {
                self.patience = (self.patience + 1).min(self.patience_most());
            }
        }
        self.find_lost(now);
        if news.bytes > 0 {
            let limited = before + self.segment > self.window();
            let told = self.board.delivered(now, heard.rtt, limited);
            self.control.on_delivered(&told);
        }
        // If the window does not limit the sender, it has not filled the queue either. A pace may have filled it.
        let fills = self.limited || self.control.pace().is_some();
        if heard.congested && fills && self.una >= self.marked {
            self.marked = self.next;
            let in_flight = before as f64 / self.segment as f64;
            self.control
                .on_congestion(now, in_flight, Congestion::Explicit);
        }
        if self.recovering.is_some_and(|until| self.una >= until) {
            self.recovering = None;
            self.control.on_recovered(now);
        }
        self.arm_timers(now);
        self.release();
        Ok(())
    }

    /// Takes the round trip of the handshake.
    pub(crate) fn on_first_round_trip(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
    }

    fn on_news(&mut self, now: Time, heard: Heard, bytes: u64, in_flight: u64) {
        self.progress = now;
        self.backoff = 0;
        self.probed = false;
        self.rto_at = None;
        if let Some(rtt) = heard.rtt {
            self.rtt.sample(rtt);
        }
        if self.recovering.is_none() && bytes > 0 {
            self.control.on_ack(&Acked {
                now,
                segments: bytes as f64 / self.segment as f64,
                bytes,
                rtt: heard.rtt,
                in_flight: in_flight as f64 / self.segment as f64,
                limited: self.limited,
                // CUBIC, the default of streams, uses neither of these two.
                receive_rate_bps: None,
                receive_jitter: None,
                srtt: self.rtt.cautious(),
            });
        }
    }

    /// Returns the most patience. Choice: it is better to send a message that expires twice than too late.
    fn patience_most(&self) -> u64 {
        match self.content {
            Content::Expiring => 1,
            Content::Bytes | Content::Messages => 4,
        }
    }

    pub(super) fn find_lost(&mut self, now: Time) {
        let rtt = self.rtt.cautious();
        let quarter = rtt.div(4).max(Duration::from_millis(1));
        let patience = match self.link {
            // No hop repairs bytes that went with the call.
            _ if self.una < self.early => Patience {
                by_count: false,
                time: rtt + quarter * self.patience.max(1),
            },
            LinkProtocol::BestEffort => Patience {
                by_count: self.patience == 0,
                time: rtt + quarter * self.patience.max(1),
            },
            // One strike on a hop takes a round trip of the hop, which is at most that of the path.
            LinkProtocol::RealTime => Patience {
                by_count: false,
                time: rtt * 2 + quarter * self.patience,
            },
            LinkProtocol::Reliable => Patience {
                by_count: false,
                time: rtt * 3 + REPAIR_LEAST,
            },
        };
        let (found, again) = self.board.find_lost(now, patience);
        self.lost_at = again;
        if found && self.recovering.is_none() && self.una >= self.restarting {
            self.recovering = Some(self.next);
            // The cut starts from the window and not from the bytes in flight: the window has not grown while the
            // application limited it.
            self.control
                .on_congestion(now, self.control.window(), Congestion::Loss);
        }
    }
}

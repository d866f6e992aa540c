//! The timers: the probe for the last segments, the retransmission timer, and the question about a closed window; and
//! the probe when the routes have changed.

use super::Sender;
use base::{Duration, Time};
use wire::data::LinkProtocol;

/// How long a tail probe waits beyond two round trips, for an acknowledgement that is combined with others.
const PROBE_SLACK: Duration = Duration::from_millis(5);
/// The longest wait before the sender asks about the peer's closed window again.
const PERSIST_MAX: Duration = Duration::from_secs(5);

impl Sender {
    /// Returns when something is due without any input.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let all = [
            self.rto_at,
            self.probe_at,
            self.lost_at,
            self.persist_at,
            self.paced_at,
            self.messages.as_ref().and_then(|m| m.expires_at()),
        ];
        all.into_iter().flatten().min()
    }

    /// Does what is due. Returns true if the peer is to be asked for its window.
    pub(crate) fn on_timeout(&mut self, now: Time) -> bool {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.paced_at) {
            self.paced_at = None;
        }
        if let Some(messages) = &mut self.messages {
            messages.drop_expired(now);
        }
        if is_due(self.lost_at) {
            self.find_lost(now);
        }
        if is_due(self.rto_at) {
            self.on_rto(now);
        } else if is_due(self.probe_at) {
            self.probe_at = None;
            self.probed = true;
            self.probes = 1;
        }
        if is_due(self.persist_at) {
            self.persist = (self.persist * 2).min(PERSIST_MAX);
            self.persist_at = Some(now + self.persist);
            return true;
        }
        false
    }

    fn on_rto(&mut self, now: Time) {
        // The second timeout of the same segment says nothing new about the path [RFC 5681 §3.1].
        if self.expired.replace(self.una) != Some(self.una) {
            self.begin_anew(now);
        }
        self.board.lose_all();
        self.recovering = None;
        self.restarting = self.next;
        self.marked = self.next;
        self.backoff = (self.backoff + 1).min(16);
        self.rto_at = Some(now + self.rtt.rto(self.backoff, self.ack_wait()));
        self.probe_at = None;
        self.lost_at = None;
        self.probes = 1;
        self.pace = now;
    }

    /// Takes in that the peer has answered the call that carried bytes. Unless the bytes are `taken`, all are sent
    /// again.
    pub(crate) fn on_early_answer(&mut self, taken: bool) {
        self.early = self.next;
        if !taken {
            self.board.lose_all();
            self.restarting = self.next;
            self.rto_at = None;
        }
    }

    /// Sets the window after a timeout. Choice: reliable links repair what they lose, and mark packets that wait long.
    /// So silence on a path of reliable links is an outage, which says nothing about queues.
    fn begin_anew(&mut self, now: Time) {
        match self.link {
            LinkProtocol::Reliable => self.control = self.family.control(self.settings),
            _ => self.control.on_timeout(now, self.control.window()),
        }
    }

    /// Takes in that the routes have changed. Segments whose acknowledgement is late may have been lost on the old
    /// path. The sender probes for them now, and not only when the backed-off timer expires.
    pub(crate) fn on_route_change(&mut self, now: Time) {
        if self.board.is_empty() {
            return;
        }
        self.backoff = 0;
        self.probed = false;
        self.rto_at = Some(now + self.rtt.rto(0, self.ack_wait()));
        if now.since(self.progress) > self.rtt.cautious() {
            self.probes = 1;
        }
    }

    /// Arms the probe. Call this when nothing more leaves in this batch.
    pub(crate) fn on_flushed(&mut self) {
        self.arm_probe();
    }

    pub(super) fn arm_timers(&mut self, now: Time) {
        if self.board.is_empty() {
            self.rto_at = None;
            self.probe_at = None;
            self.lost_at = None;
            return;
        }
        let rto = now + self.rtt.rto(self.backoff, self.ack_wait());
        self.rto_at.get_or_insert(rto);
        self.arm_probe();
    }

    /// Arms the probe for the last segments, two round trips after the last transmission, once.
    fn arm_probe(&mut self) {
        self.probe_at = None;
        if self.probed || self.board.is_empty() || self.lost_at.is_some() || self.backoff > 0 {
            return;
        }
        let Some(rtt) = self.rtt.present() else {
            return;
        };
        let wait = match self.lets_wait {
            true => self.ack_wait(),
            false => Duration::ZERO,
        };
        let at = self.last_sent + rtt * 2 + PROBE_SLACK + wait;
        self.probe_at = self.rto_at.is_none_or(|rto| at < rto).then_some(at);
    }
}

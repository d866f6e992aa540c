//! The byte stream (TCP) in addition to a link's datagrams: when the node asks the host for one, and when it tries
//! datagrams again.
//!
//! ```text
//!            no answer for 1.5 s: ask the host                 the host has a stream to the neighbour
//!   datagrams ------------------------> asking (once a second) ----------------> over the stream
//!       ^                                                                         |  every 8 s, or
//!       '--- a handshake by datagrams has come through both ways <--- probe <-----'  ever more seldom
//! ```
//! A stream is worse: one lost segment delays all that were sent after it. So a link never stays on a stream if
//! datagrams get through. A path that lets datagrams through only for moments would pull the link back again and again.
//! Therefore the rest between two probes doubles each time the link falls back soon after its return. It does not
//! double if no stream led to the neighbour either: in that case the neighbour's host was away, and the path of
//! datagrams is not to blame.
//!
//! The engine knows a stream only by an address that the host has made up ([`UnderlayAddr::is_stream`]).

use base::{Duration, Time, UnderlayAddr};

/// Time without an answer to dials after which the node assumes that the path lets no datagrams through. Choice: three
/// or four Inits, longer than the longest round trips; an unneeded stream costs one TLS handshake.
const BLOCKED_AFTER: Duration = Duration::from_millis(1_500);
/// The interval at which the node asks the host again, which may have been busy or have failed.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The rest between two probes by datagrams. Choice: the link returns 11 s after datagrams get through; a probe is six
/// Inits of 1152 bytes, 7 kbit/s.
const PROBE_EVERY: Duration = Duration::from_secs(8);
/// The rest before the first probe. It is shorter because the neighbour may just have started, and the stream may have
/// been there first.
const PROBE_FIRST: Duration = Duration::from_secs(1);
/// The longest rest, on a path that has let datagrams through only for moments.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(512);
/// A link that falls back this soon after its return was on such a path. Choice: a NAT or firewall that closes a flow
/// after a while takes 30 s or more.
const RELAPSE: Duration = Duration::from_secs(60);
/// A neighbour was away if the node had to ask the host this often before there was a stream. Choice: a TCP and a TLS
/// handshake that lose two segments take four seconds.
const AWAY: u32 = 6;

/// The stream beside one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    /// The open stream to the neighbour.
    stream: Option<UnderlayAddr>,
    /// The stream that this host dialled last, open or not.
    dialled: Option<UnderlayAddr>,
    asked: Option<Time>,
    /// How often the node has asked the host since datagrams have had no answer.
    asked_count: u32,
    probe_at: Time,
    rest: Duration,
    /// When the link last returned to datagrams.
    returned: Option<Time>,
    /// True if other nodes have been notified that the link runs over the stream.
    is_told: bool,
}

impl Default for Fallback {
    fn default() -> Fallback {
        Fallback {
            stream: None,
            dialled: None,
            asked: None,
            asked_count: 0,
            probe_at: Time::ZERO,
            rest: PROBE_EVERY,
            returned: None,
            is_told: false,
        }
    }
}

impl Fallback {
    /// Returns the open stream.
    pub(crate) fn stream(&self) -> Option<UnderlayAddr> {
        self.stream
    }

    /// Datagrams have had no answer for `silence`. Returns true if the node is to ask the host for a stream now.
    pub(crate) fn asks(&mut self, now: Time, silence: Option<Duration>) -> bool {
        let is_blocked = silence.is_some_and(|silence| silence >= BLOCKED_AFTER);
        if !is_blocked && self.stream.is_none() {
            self.asked_count = 0;
        }
        let has_rested = self.asked.is_none_or(|at| now.since(at) >= ASK_EVERY);
        let asks = self.stream.is_none() && is_blocked && has_rested;
        if asks {
            self.asked = Some(now);
            self.asked_count = self.asked_count.saturating_add(1);
        }
        asks
    }

    /// The host has a stream to the neighbour, which one of the two has dialled.
    pub(crate) fn on_open(&mut self, at: UnderlayAddr, is_dialled: bool) {
        self.stream = Some(at);
        self.dialled = match is_dialled {
            true => Some(at),
            false => self.dialled.filter(|dialled| *dialled != at),
        };
    }

    /// Returns true if this host has dialled that stream.
    pub(crate) fn has_dialled(&self, at: UnderlayAddr) -> bool {
        self.dialled == Some(at)
    }

    /// A stream has ended. Returns true if it was the stream of this link.
    pub(crate) fn on_end(&mut self, at: UnderlayAddr) -> bool {
        let was_open = self.stream.is_some_and(|open| open.remote() == at.remote());
        if was_open {
            self.stream = None;
        }
        was_open
    }

    /// The link changes to another address.
    pub(crate) fn on_moved(&mut self, now: Time, before: Option<UnderlayAddr>, to: UnderlayAddr) {
        let was_stream = before.is_some_and(UnderlayAddr::is_stream);
        if to.is_stream() {
            self.stream = Some(to);
        }
        match (was_stream, to.is_stream()) {
            (true, false) => self.returned = Some(now),
            (false, true) => {
                let was_away = core::mem::take(&mut self.asked_count) >= AWAY;
                let is_soon = self.returned.is_some_and(|at| now.since(at) < RELAPSE);
                let is_relapse = is_soon && !was_away;
                let (rest, first) = match is_relapse {
                    true => {
                        let rest = (self.rest * 2).min(PROBE_EVERY_MAX);
                        (rest, rest)
                    }
                    false => (PROBE_EVERY, PROBE_FIRST),
                };
                self.rest = rest;
                self.probe_at = now + first;
            }
            _ => {}
        }
    }

    /// Returns true if others do not know yet whether the link runs over a stream.
    pub(crate) fn is_news(&mut self, is_over_stream: bool) -> bool {
        core::mem::replace(&mut self.is_told, is_over_stream) != is_over_stream
    }

    /// Returns true if datagrams are to be tried now. To be called while the link uses the stream.
    pub(crate) fn probes(&mut self, now: Time) -> bool {
        let probes = now >= self.probe_at;
        if probes {
            self.probe_at = now + self.rest;
        }
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16, socket: u8) -> UnderlayAddr {
        UnderlayAddr {
            port,
            socket,
            ..UnderlayAddr::default()
        }
    }

    fn s(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_host_is_asked_once_a_second_while_there_is_no_stream() {
        let mut fallback = Fallback::default();
        assert!(!fallback.asks(s(0), None));
        assert!(!fallback.asks(s(1), Some(Duration::from_secs(1))));
        assert!(fallback.asks(s(2), Some(Duration::from_secs(2))));
        assert!(!fallback.asks(s(2), Some(Duration::from_secs(2))));
        assert!(fallback.asks(s(3), Some(Duration::from_secs(3))));
        fallback.on_open(at(443, UnderlayAddr::STREAM), true);
        assert!(fallback.has_dialled(at(443, UnderlayAddr::STREAM)));
        assert!(!fallback.asks(s(4), Some(Duration::from_secs(4))));
        assert!(!fallback.on_end(at(444, UnderlayAddr::STREAM)));
        assert!(fallback.on_end(at(443, UnderlayAddr::STREAM)));
        assert!(fallback.asks(s(5), Some(Duration::from_secs(5))));
    }

    #[test]
    fn datagrams_are_tried_again_and_ever_more_seldom_on_a_path_that_relapses() {
        let (udp, tcp) = (at(7700, 0), at(443, UnderlayAddr::STREAM));
        let mut fallback = Fallback::default();
        fallback.on_moved(s(0), None, udp);
        assert_eq!(fallback.stream(), None);
        fallback.on_moved(s(1), Some(udp), tcp);
        assert_eq!(fallback.stream(), Some(tcp));
        assert!(!fallback.probes(s(1)) && fallback.probes(s(2)));
        assert!(!fallback.probes(s(9)) && fallback.probes(s(10)));
        let mut now = 10;
        for rest in [16, 32, 64, 128, 256, 512, 512] {
            fallback.on_moved(s(now), Some(tcp), udp);
            fallback.on_moved(s(now + 1), Some(udp), tcp);
            assert!(!fallback.probes(s(now + rest)));
            now += 1 + rest;
            assert!(fallback.probes(s(now)), "{rest}");
        }
        // Short outages that end with datagrams do not add up.
        fallback.on_moved(s(now), Some(tcp), udp);
        assert!(fallback.on_end(tcp));
        for second in 1..=10 {
            assert!(fallback.asks(s(now + second), Some(Duration::from_secs(2))));
            assert!(!fallback.asks(s(now + second), None));
        }
        now += 11;
        fallback.on_moved(s(now), Some(udp), tcp);
        assert!(!fallback.probes(s(now + 500)) && fallback.probes(s(now + 512)));
        now += 512;
        // No stream led to the neighbour for some seconds: it was away, and datagrams may get through at once.
        fallback.on_moved(s(now), Some(tcp), udp);
        assert!(fallback.on_end(tcp));
        for second in 1..=10 {
            assert!(fallback.asks(s(now + second), Some(Duration::from_secs(second + 1))));
        }
        now += 11;
        fallback.on_moved(s(now), Some(udp), tcp);
        assert!(!fallback.probes(s(now)) && fallback.probes(s(now + 1)));
        // The link has held for longer: the next fall counts as a first one.
        fallback.on_moved(s(now), Some(tcp), udp);
        fallback.on_moved(s(now + 60), Some(udp), tcp);
        assert!(fallback.probes(s(now + 61)) && !fallback.probes(s(now + 68)));
        assert!(fallback.probes(s(now + 69)));
    }
}

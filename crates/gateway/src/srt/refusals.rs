//! Which refusals of callers are reported, so that callers who try again and again do not fill the log.
//!
//! ```text
//!   refusal of a host for a reason ──▶ Seldom: the first at once, further ones as one line in 10 s
//!   admitted, but no connection after HANDSHAKE ──▶ a refusal, because libsrt does not report failed handshakes
//! ```

use super::report::{Event, Why};
use crate::seldom::{Seldom, Shown};
use base::{Duration, Time};
use std::net::{IpAddr, SocketAddr};

/// Time in which an admitted caller completes the handshake. Choice: libsrt decides at once, and passes a connection on
/// within 20 ms; a busy host gets more.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Maximum number of handshakes that are remembered; the failures of further ones are counted but not reported.
const HANDSHAKES_MAX: usize = 256;

/// The refusals of the last seconds. A caller has a stream id of up to 512 bytes, so they take 150 kB at most.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    told: Seldom<(IpAddr, Why), (Caller, Why)>,
    shaking: Vec<(Caller, Time)>,
}

#[derive(Debug)]
struct Caller {
    peer: SocketAddr,
    stream_id: String,
}

impl Caller {
    fn new(peer: SocketAddr, stream_id: &str) -> Caller {
        let stream_id = stream_id.to_owned();
        Caller { peer, stream_id }
    }
}

impl Refusals {
    /// Records a refused caller.
    pub(super) fn on_refused(&mut self, now: Time, peer: SocketAddr, stream_id: &str, why: Why) {
        let caller = Caller::new(peer, stream_id);
        self.told.note(now, (peer.ip(), why), (caller, why));
    }

    /// Records a caller that was admitted and now completes the handshake.
    pub(super) fn on_admitted(&mut self, now: Time, peer: SocketAddr, stream_id: &str) {
        // libsrt asks again about a caller that repeats its request.
        let is_known = self.shaking.iter().any(|(caller, _)| caller.peer == peer);
        if !is_known && self.shaking.len() < HANDSHAKES_MAX {
            self.shaking.push((Caller::new(peer, stream_id), now));
        }
    }

    /// Records a caller that has completed the handshake.
    pub(super) fn on_shaken(&mut self, peer: SocketAddr) {
        self.shaking.retain(|(caller, _)| caller.peer != peer);
    }

    /// Returns the events that are due.
    pub(super) fn take(&mut self, now: Time) -> Vec<Event> {
        let is_late = |(_, since): &mut (Caller, Time)| now.since(*since) >= HANDSHAKE;
        let late: Vec<_> = self.shaking.extract_if(.., is_late).collect();
        for (caller, _) in late {
            self.on_refused(now, caller.peer, &caller.stream_id, Why::Handshake);
        }
        self.told.take(now).into_iter().map(event).collect()
    }
}

fn event(shown: Shown<(Caller, Why)>) -> Event {
    let (refused, again) = match shown {
        Shown::First(refused) => (refused, 0),
        Shown::Again { last, again, .. } => (last, again),
        Shown::Others(count) => {
            return Event::Warning(format!("{count} more callers of other hosts were refused"));
        }
    };
    let (Caller { peer, stream_id }, why) = refused;
    Event::refused(peer, stream_id, why, again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seldom::KEYS_MAX;
    use net::srt::Refusal;

    const UNKNOWN: Why = Why::Refusal(Refusal::NotFound);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn peer(host: u16, port: u16) -> SocketAddr {
        let [high, low] = host.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], port))
    }

    /// Returns the numbers in the events for refused callers.
    fn again(events: &[Event]) -> Vec<u64> {
        let numbers = events.iter().map(|event| match event {
            Event::Refused { again, .. } => *again,
            other => panic!("{other:?}"),
        });
        numbers.collect()
    }

    #[test]
    fn a_caller_that_tries_again_and_again_gets_one_line_in_ten_seconds() {
        let mut refusals = Refusals::default();
        let mut lines = Vec::new();
        // 75 calls per second for 21 s, as srt-live-transmit makes them, from a new port each.
        for n in 0..1_575u16 {
            let now = at(u64::from(n) * 40 / 3);
            refusals.on_refused(now, peer(1, n), "x", UNKNOWN);
            lines.extend(refusals.take(now));
        }
        assert_eq!(again(&lines), [0, 749, 750]);
        let text = lines[1].to_string();
        assert!(text.ends_with("749 more times since"), "{text}");
        // The rest is reported too, and then there is silence.
        assert_eq!(again(&refusals.take(at(60_000))), [75]);
        assert!(refusals.take(at(600_000)).is_empty());
        // After this, the host is new.
        refusals.on_refused(at(600_001), peer(1, 1), "x", UNKNOWN);
        assert_eq!(again(&refusals.take(at(600_001))), [0]);
    }

    #[test]
    fn other_hosts_and_other_reasons_have_lines_of_their_own_up_to_a_limit() {
        let mut refusals = Refusals::default();
        refusals.on_refused(at(0), peer(1, 1), "x", UNKNOWN);
        refusals.on_refused(at(0), peer(1, 2), "x", Why::Refusal(Refusal::Conflict));
        refusals.on_refused(at(0), peer(2, 1), "x", UNKNOWN);
        assert_eq!(again(&refusals.take(at(0))), [0; 3]);
        // Hosts 1 and 2 are known, 253 others are told, and the other 745 are only counted.
        for host in 0..1_000 {
            refusals.on_refused(at(1), peer(host, 9), "x", UNKNOWN);
        }
        assert_eq!(refusals.take(at(1)).len(), KEYS_MAX - 3);
        let lines = refusals.take(at(10_001));
        let rest = lines.iter().map(Event::to_string);
        let rest = rest.filter(|text| text.starts_with("745 more callers"));
        assert_eq!(rest.count(), 1, "{lines:?}");
    }

    #[test]
    fn a_handshake_that_does_not_end_is_a_refusal() {
        let mut refusals = Refusals::default();
        refusals.on_admitted(at(0), peer(1, 1), "studio");
        refusals.on_admitted(at(0), peer(2, 1), "studio");
        refusals.on_shaken(peer(2, 1));
        assert!(refusals.take(at(1_999)).is_empty());
        let lines = refusals.take(at(2_000));
        assert_eq!(again(&lines), [0]);
        let text = lines[0].to_string();
        assert!(
            text.starts_with("10.0.0.1:1 ") && text.contains("passphrase"),
            "{text}"
        );
        for n in 0..1_000 {
            refusals.on_admitted(at(3_000), peer(1, n), "studio");
        }
        assert_eq!(refusals.shaking.len(), HANDSHAKES_MAX);
        assert!(refusals.take(at(5_000)).is_empty());
        assert_eq!(again(&refusals.take(at(12_000))), [HANDSHAKES_MAX as u64]);
    }
}

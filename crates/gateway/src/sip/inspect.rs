//! What sees every message: a bound on what one source may send, and a trace.

use super::Counters;
use core::net::{IpAddr, SocketAddr};
use rsipstack::sip::SipMessage;
use rsipstack::transaction::endpoint::{MessageInspector, TransportEventInspector};
use rsipstack::transport::{SipAddr, TransportEvent};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Messages a second that one source may send: 400 calls set up and torn down by a PBX, at five
/// messages each.
const RATE_PER_S: f64 = 2_000.0;
/// As many at once.
const BURST: f64 = 2_000.0;
/// Sources that are remembered; when there are more, all begin anew.
const SOURCES_MAX: usize = 16_384;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the gateway.
    In,
    /// From it.
    Out,
}

/// Who sees every message: which way it goes, where from or to, if that is known, and its text.
pub type Trace = Arc<dyn Fn(Direction, Option<SocketAddr>, &str) + Send + Sync>;

/// Lets through what sources may send.
pub(super) struct Gate {
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
    counters: Arc<Counters>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Gate {
    pub(super) fn new(counters: Arc<Counters>) -> Gate {
        Gate {
            buckets: Mutex::default(),
            counters,
        }
    }

    fn lets(&self, from: IpAddr, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= SOURCES_MAX && !buckets.contains_key(&from) {
            buckets.clear();
        }
        let bucket = buckets.entry(from).or_insert(Bucket {
            tokens: BURST,
            at: now,
        });
        let passed = now.duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * RATE_PER_S).min(BURST);
        bucket.at = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }
}

#[async_trait::async_trait]
impl TransportEventInspector for Gate {
    async fn handle(&self, event: TransportEvent) -> Option<TransportEvent> {
        let TransportEvent::Incoming(_, _, from) = &event else {
            return Some(event);
        };
        let from = from.get_socketaddr().ok().map(|at| at.ip());
        if from.is_some_and(|from| !self.lets(from, Instant::now())) {
            self.counters.flood.add();
            return None;
        }
        Some(event)
    }
}

/// Shows every message to who wants to see them.
pub(super) struct Tracer(pub(super) Trace);

impl Tracer {
    fn show(&self, direction: Direction, at: Option<&SipAddr>, message: &SipMessage) {
        let at = at.and_then(|at| at.get_socketaddr().ok());
        (self.0)(direction, at, &message.to_string());
    }
}

impl MessageInspector for Tracer {
    fn before_send(&self, message: SipMessage, to: Option<&SipAddr>) -> SipMessage {
        self.show(Direction::Out, to, &message);
        message
    }

    fn after_received(&self, message: SipMessage, from: Option<&SipAddr>) -> SipMessage {
        self.show(Direction::In, from, &message);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_source_has_its_rate_and_others_theirs() {
        let gate = Gate::new(Arc::default());
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let now = Instant::now();
        let passed = (0..3 * BURST as usize).filter(|_| gate.lets(one, now));
        assert_eq!(passed.count(), BURST as usize);
        assert!(gate.lets(other, now));
        let later = now + Duration::from_millis(10);
        let passed = (0..100).filter(|_| gate.lets(one, later));
        assert_eq!(passed.count(), 20);
    }
}

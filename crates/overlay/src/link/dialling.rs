//! The results of dialling a neighbour: how long there was no answer, what obstacle there was, and in words why a link
//! is not up.
//!
//! ```text
//!   dial --> nothing for 10 s --> Event::Unanswered, again after a minute, then ever more seldom
//!        \-> refused, here or there ----------------> the reason, for as long as it is fresh
//! ```

use super::Link;
use base::{Duration, Time, UnderlayAddr};
use secure::Refusal;

/// Time without an answer after which the node reports the neighbour. Choice: four dials, each of six Inits; a host
/// that restarts is back by then, or will not be back soon.
const UNANSWERED: Duration = Duration::from_secs(10);
/// The node reports the silence again when it has lasted this many times as long,
const AGAIN: u64 = 6;
/// but at least at this interval.
const AT_LEAST_EVERY: Duration = Duration::from_secs(3_600);
/// How long a refusal explains that a link is down. Choice: three rests between dials at their longest, and the
/// handshake's own repetitions.
const FRESH: Duration = Duration::from_secs(30);

/// The state of dialling one neighbour since something authentic last arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialling {
    /// When the first dial was made.
    since: Option<Time>,
    /// The silence at which the next report is due; at first [`UNANSWERED`].
    tell_after: Option<Duration>,
    /// The last obstacle.
    obstacle: Option<(Obstacle, Time)>,
}

/// An obstacle between two nodes that reach each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
    /// One of the two nodes refused a handshake.
    Refused(Refusal),
    /// The neighbour has made a session and sent nothing under it.
    Silent,
}

impl Dialling {
    /// A dial begins.
    pub(crate) fn on_dial(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Something authentic has arrived.
    #[inline]
    pub(crate) fn on_heard(&mut self) {
        if self.since.is_some() || self.obstacle.is_some() {
            *self = Dialling::default();
        }
    }

    /// This node dials the neighbour's address, and there is an obstacle.
    pub(crate) fn on_obstacle(&mut self, now: Time, what: Obstacle) {
        self.obstacle = Some((what, now));
    }

    /// Returns how long there was no answer, if that is to be reported now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Duration> {
        let silence = now.since(self.since?);
        let after = self.tell_after.unwrap_or(UNANSWERED);
        if silence < after || self.obstacle(now).is_some() {
            return None;
        }
        let later = (silence * AGAIN).min(silence + AT_LEAST_EVERY);
        self.tell_after = Some(later);
        Some(silence)
    }

    /// Returns how long there was no answer.
    fn silence(&self, now: Time) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    fn obstacle(&self, now: Time) -> Option<Obstacle> {
        let (what, at) = self.obstacle?;
        (now.since(at) < FRESH).then_some(what)
    }
}

impl Link {
    /// Returns the address to dial. For a neighbour with a session, it is the address at which the neighbour was last
    /// heard; for others, the configured one. A stream is open because datagrams had no answer: it is dialled while the
    /// link is not up.
    pub(crate) fn dialled_at(&self) -> Option<UnderlayAddr> {
        if self.is_resting && !self.is_up() {
            return None;
        }
        let stream = self.fallback.stream();
        if !self.is_up() && self.dial.is_some() && stream.is_some() {
            return stream;
        }
        // Only the open stream leads to the neighbour; other streams do not.
        let at = self
            .path
            .at
            .filter(|at| !at.is_stream() || stream == Some(*at));
        let dial = self.dial.or(self.announced.first().copied());
        match self.path.sessions.is_empty() {
            true => dial.or(at),
            false => at.or(dial),
        }
    }

    /// Returns how long datagrams have had no answer: dials, or a link that was up. If datagrams get through in one
    /// direction only, there is nothing to dial for, and the other end reports that it hears nothing.
    pub(crate) fn unanswered(&self, now: Time) -> Option<Duration> {
        // A link that is down has already been silent for longer: an idle one for seconds.
        let down = self.path.hello.is_tried().then(|| {
            let down = now.since(self.path.hello.since());
            down.max(self.path.silence(now).unwrap_or_default())
        });
        self.dialling.silence(now).max(down)
    }

    /// Returns why the link is not up, in words; nothing while it is up.
    pub(crate) fn reason(&self, now: Time) -> Option<String> {
        if self.is_up() {
            return None;
        }
        let silence = self.dialling.silence(now);
        let silence = silence.filter(|silence| *silence >= UNANSWERED);
        let reason = match (self.dialling.obstacle(now), silence, self.dialled_at()) {
            (Some(Obstacle::Refused(why)), ..) => why.to_string(),
            (Some(Obstacle::Silent), ..) => {
                "it answers, and then says nothing: see its log, and its `accept` list".into()
            }
            (None, Some(silence), Some(at)) => {
                let seconds = silence.as_millis() / 1_000;
                let what = if at.is_stream() {
                    "it running"
                } else {
                    "UDP open"
                };
                format!("no answer from {at} for {seconds} s: is {what} there?")
            }
            (None, _, None) => match self.down_why {
                Some(why) => why.into(),
                None => "no address is known: it is to dial this node".into(),
            },
            (None, None, Some(at)) if self.path.sessions.is_empty() => format!("dialling {at}"),
            (None, None, Some(_)) => match self.down_why {
                Some(why) => why.into(),
                None => "it answers, and comes up when it has done so steadily".into(),
            },
        };
        Some(reason)
    }
}

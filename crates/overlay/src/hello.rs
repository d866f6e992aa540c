//! Is the other end there? The hello protocol of one link. [Amir06 §III-A]
//!
//! ```text
//!            hellos that say "I hear you": a row of           silence > probe_after
//!            them at first, one after an outage               (ask: "answer at once")
//!   +------+ -------------------------------------> +----+ ---------------> +---------+
//!   | Down |                                        | Up |                  | Probing |
//!   +------+ <------------------------------------- +----+ <--------------- +---------+
//!       ^      "I do not hear you", "I am closing"         any datagram         |
//!       '-----------------------------------------------------------------------'
//!                               silence > down_after + round trip
//! ```
//!
//! "Down" describes what is known. It does not block the link. A link that was up and has fallen silent is *tried* for
//! [`Settings::try_for`]: packets that have no other path are still sent over it, packets that arrive are accepted, and
//! the first hello that comes back brings it up. Until then it has the cost of a silent link, which no path takes if
//! there is another one. Afterwards each outage has a price for a while ([`price`]).
//!
//! Any authenticated datagram breaks the silence. A link that carries data is watched closely, an idle one cheaply
//! ([`Settings`]). A link that works in one direction only is of no use to either end: the end that receives nothing
//! says so, which takes the link down at the other end.
//!
//! The caller reports what happens (`on_…`), and calls [`Hello::on_timeout`] when [`Hello::next_timeout`] is due. It
//! returns the hello to send and the change to report. Everything that is sent comes from there, also answers, so there
//! is one place that keeps the budget.

mod pacing;
pub mod price;
mod settings;
mod silence;

pub use settings::{Pace, Settings};

use crate::estimate::Rtt;
use base::{Duration, Time};
use price::Price;
use wire::Loss;
use wire::control::Hello as Message;

/// What is known of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in use.
    Down,
    /// In use, but silent for suspiciously long.
    Probing,
    /// In use.
    Up,
}

/// Why a link went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The other end said good-bye.
    Closing,
    /// The other end does not hear us.
    NotHeard,
    /// Nothing came for this long.
    Silence(Duration),
}

/// A change that matters to routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link is out of use.
    Down {
        /// Why.
        why: Why,
        /// Whether packets without another path still try the link.
        tried: bool,
    },
    /// A link that was tried is not tried any more.
    GivenUp,
    /// The link is in use.
    Up,
}

/// What [`Hello::on_timeout`] wants done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// A hello to send to the other end at once.
    pub hello: Option<Message>,
    /// A change to report to routing.
    pub event: Option<Event>,
}

/// Number of hellos at the active pace after the link has gone down. So the other end learns it soon, even if some are
/// lost.
const DOWN_NOTICES: u8 = 5;
/// A gap of this many half intervals breaks a row of hellos: three losses in a row.
const ROW_GAP_HALVES: u64 = 7;
/// Hurried questions in a row that mean that the other end is about to give the link up.
const HURRIED: u32 = 3;

/// The hello protocol at one end of a link.
#[derive(Clone, Debug)]
pub struct Hello {
    settings: Settings,
    state: State,
    since: Time,
    /// When the last authenticated datagram came since the link was last given up.
    heard: Option<Time>,
    active: bool,
    active_since: Time,
    /// When data last passed, or the other end last said that data passes.
    active_at: Time,
    /// When data last passed at this end: our hellos report this. They do not repeat what the other end says, or two
    /// ends would keep each other active for ever.
    data_at: Option<Time>,
    last_sent: Option<Time>,
    next_send: Time,
    answer_until: Time,
    /// Until then, round trips are measured more often than usual.
    watched_until: Time,
    /// Number of questions in a row that came faster than unhurried ones do, and when the last question came.
    asked: u32,
    asked_at: Time,
    /// The next hello is an answer, so it does not ask for one.
    answering: bool,
    notices: u8,
    /// The newest stamp of the other end and when it came.
    peer_stamp: Option<(u32, Time)>,
    peer_interval: Duration,
    /// Whether the last hello of the other end said that it hears nothing.
    is_doubted: bool,
    loss_out: Loss,
    rtt: Rtt,
    row: u32,
    row_since: Time,
    row_last: Time,
    price: Price,
    /// Until when the link is tried although it is down.
    tried_until: Option<Time>,
    downs: u64,
    /// When this end sent the newest hello that the other end has echoed.
    answered: Time,
}

impl Hello {
    /// Creates a link that is down and sends a hello at once.
    pub fn new(now: Time, settings: Settings) -> Hello {
        Hello {
            settings,
            state: State::Down,
            since: now,
            heard: None,
            active: false,
            active_since: now,
            active_at: now,
            data_at: None,
            last_sent: None,
            next_send: now,
            answer_until: Time::ZERO,
            watched_until: Time::ZERO,
            asked: 0,
            asked_at: Time::ZERO,
            answering: false,
            notices: DOWN_NOTICES,
            peer_stamp: None,
            peer_interval: settings.idle.interval,
            is_doubted: false,
            loss_out: Loss::NONE,
            rtt: Rtt::default(),
            row: 0,
            row_since: now,
            row_last: now,
            price: Price::new(settings.price),
            tried_until: None,
            downs: 0,
            answered: Time::ZERO,
        }
    }

    /// Returns what is known of the other end.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns whether traffic may be sent over the link.
    pub fn is_usable(&self) -> bool {
        self.state != State::Down
    }

    /// Returns since when the link has been in use or out of use.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Returns whether the link carries data, or did so a moment ago.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns the round trips that hellos have measured.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Returns the packet loss in the direction to the other end, as that end measures it.
    pub fn loss_out(&self) -> Loss {
        self.loss_out
    }

    /// Returns whether the link is down, and packets without another path still try it.
    pub fn is_tried(&self) -> bool {
        self.tried_until.is_some()
    }

    /// Returns what recent outages cost a path that takes the link, in microseconds of latency.
    pub fn price_us(&self, now: Time) -> u32 {
        self.price.told_us(now)
    }

    /// Returns when the price of the outages so far ends, or `None` if there is no price.
    pub fn price_ends(&self, now: Time) -> Option<Time> {
        self.price.ends(now)
    }

    /// Notes that the link has less room than the traffic that it is given. `is_new` is false if this continues.
    pub fn on_too_full(&mut self, now: Time, is_new: bool) {
        match is_new {
            true => self.price.on_outage(now),
            false => self.price.on_up(now),
        }
    }

    /// Returns whether the link is in use and the other end said last that it hears nothing.
    pub fn is_doubted(&self) -> bool {
        self.is_doubted && self.state != State::Down
    }

    /// Returns how often the link went down.
    pub fn downs(&self) -> u64 {
        self.downs
    }

    /// Returns when to call [`Hello::on_timeout`]. The moment moves later with every datagram that arrives, so a caller
    /// may keep an earlier moment and ask again then.
    pub fn next_timeout(&self) -> Time {
        let given_up = self.tried_until.unwrap_or(Time::FAR);
        self.next_send.min(self.silence_ends()).min(given_up)
    }

    /// Measures round trips more often until `until`: this end asks more often, and the other end answers.
    pub fn watch(&mut self, now: Time, until: Time) {
        if until > now && now >= self.watched_until && self.active {
            self.next_send = self.next_send.min(self.earliest(now));
        }
        self.watched_until = self.watched_until.max(until);
    }

    /// Notes that an authenticated datagram came. This is cheap, because it is called for each datagram.
    #[inline]
    pub fn on_traffic(&mut self, now: Time) {
        let silent_since = self.silent_since();
        let heard = self.heard.replace(now);
        match self.state {
            State::Up => {}
            State::Probing => self.on_answered(now, silent_since),
            // The link is back after an outage: the other end should know at once that it is heard.
            State::Down if heard.is_none() && self.is_tried() => {
                self.next_send = self.next_send.min(self.earliest(now));
            }
            State::Down => {}
        }
    }

    /// Notes that data came from the other end.
    #[inline]
    pub fn on_data_received(&mut self, now: Time) {
        self.on_traffic(now);
        self.on_data_sent(now);
    }

    /// Watches the link for a while as closely as if it carried data.
    pub fn watch_closely(&mut self, now: Time) {
        self.active_at = now;
        if !self.active {
            self.activate(now);
        }
    }

    /// Returns when this end sent the newest hello that the other end has echoed: both directions have worked since
    /// then.
    pub(crate) fn answered(&self) -> Time {
        self.answered
    }

    /// Notes that data is sent to the other end.
    #[inline]
    pub fn on_data_sent(&mut self, now: Time) {
        self.data_at = Some(now);
        self.active_at = now;
        if !self.active {
            self.activate(now);
        }
    }

    /// Notes a new session. The handshake proves that both ends hear each other, and the other end should know it at
    /// once.
    pub fn on_new_session(&mut self, now: Time) {
        self.on_traffic(now);
        self.next_send = self.next_send.min(self.earliest(now));
    }

    /// Notes that the other end has restarted, and its clock with it. Call this before [`Hello::on_hello`] for its
    /// hello.
    pub fn on_restart(&mut self, now: Time) -> Option<Event> {
        self.peer_stamp = None;
        // The node was gone, not the link.
        self.price.forget();
        self.next_send = self.next_send.min(self.earliest(now));
        // Lanes begin anew: nothing is accepted before the other end knows.
        self.tried_until.take().map(|_| Event::GivenUp)
    }

    /// Takes in a hello of the other end. It waited in the socket of this host for `waited` before.
    pub fn on_hello(&mut self, now: Time, waited: Duration, hello: &Message) -> Option<Event> {
        self.on_traffic(now);
        let came = now - waited;
        // A hello that another one has overtaken says nothing about the present.
        let overtaken = |(stamp, _): (u32, Time)| {
            hello.stamp_us != stamp && stamp.wrapping_sub(hello.stamp_us) < 1 << 31
        };
        if self.peer_stamp.is_some_and(overtaken) {
            return None;
        }
        self.peer_stamp = Some((hello.stamp_us, came));
        // This hello came within the interval that the one before it announced.
        let interval = self.peer_interval;
        self.peer_interval = Duration::from_millis(u64::from(hello.interval_ms));
        self.loss_out = hello.loss_in;
        self.is_doubted = hello.doubts;
        if let Some(echo) = hello.echo {
            let us = clock(came)
                .wrapping_sub(echo.stamp_us)
                .wrapping_sub(echo.hold_us);
            // A difference below zero reads as 35 minutes and more, which `Rtt` ignores.
            self.rtt
                .on_sample(now, Duration::from_micros(u64::from(us)));
            let ago = clock(came).wrapping_sub(echo.stamp_us);
            if us < 1 << 31 && ago < 1 << 31 {
                let sent = came - Duration::from_micros(u64::from(ago));
                self.answered = self.answered.max(sent);
            }
        }
        if hello.closing {
            return self.on_closing(now);
        }
        if hello.active {
            self.active_at = now;
            if !self.active {
                self.activate(now);
            }
        }
        if hello.answer_now {
            self.next_send = self.next_send.min(self.earliest(now));
            self.answering = true;
            let in_a_row = now.since(self.asked_at) < self.pace().probe_interval;
            self.asked = if in_a_row { self.asked + 1 } else { 1 };
            self.asked_at = now;
            let hurried = self.asked >= HURRIED;
            self.answer_until = now + self.settings.answer_for * (1 + u64::from(hurried));
        } else {
            self.asked = 0;
        }
        if hello.i_hear_you {
            self.on_heard_by_peer(now, interval)
        } else {
            self.row = 0;
            self.go_down(now, Why::NotHeard)
        }
    }

    /// Notes that the other end is about to stop.
    pub fn on_closing(&mut self, now: Time) -> Option<Event> {
        self.row = 0;
        self.go_down(now, Why::Closing)
    }

    /// Does what is due: judges the silence, and returns the hello to send. `loss_in` is the packet loss in the
    /// direction to this end, which the hello reports. Calls that come too early do no harm. The caller sets the number
    /// of the node's start in the hello.
    pub fn on_timeout(&mut self, now: Time, loss_in: Loss) -> Output {
        self.forgive_stall(now);
        // Silence is judged by the pace at which it began. Otherwise a host that was not scheduled would ask more
        // seldom at the very time when it hears nothing, and would not report it.
        let is_over = now.since(self.active_at) >= self.settings.active_for;
        if self.active && self.state != State::Probing && is_over {
            self.active = false;
        }
        let event = self.judge_silence(now).or_else(|| self.judge_try(now));
        let hello = (now >= self.next_send).then(|| self.hello(now, loss_in));
        Output { hello, event }
    }

    /// Returns the last hello of a node that stops. Send it a few times.
    pub fn close(&mut self, now: Time, loss_in: Loss) -> Message {
        let mut hello = self.hello(now, loss_in);
        hello.closing = true;
        hello.answer_now = false;
        hello
    }

    fn pace(&self) -> &Pace {
        if self.active {
            &self.settings.active
        } else {
            &self.settings.idle
        }
    }

    fn activate(&mut self, now: Time) {
        self.active = true;
        self.active_since = now;
        self.next_send = self.next_send.min(self.earliest(now));
    }

    /// Notes that the other end says that it hears us: the row that brings a link up grows.
    fn on_heard_by_peer(&mut self, now: Time, interval: Duration) -> Option<Event> {
        if self.state != State::Down {
            return None;
        }
        if self.tried_until.take().is_some() {
            return Some(self.go_up(now));
        }
        let interval = interval.max(self.interval());
        if self.row == 0 || now.since(self.row_last) > (interval * ROW_GAP_HALVES).div(2) {
            self.row = 0;
            self.row_since = now;
        }
        self.row += 1;
        self.row_last = now;
        let lasted = now.since(self.row_since);
        if self.row < self.settings.up_hellos || lasted < self.settings.up_after {
            // A link that is about to come up uses the faster pace.
            let soon = self.last_sent.unwrap_or(now) + self.interval();
            self.next_send = self.next_send.min(soon.max(now));
            return None;
        }
        Some(self.go_up(now))
    }

    fn go_up(&mut self, now: Time) -> Event {
        self.state = State::Up;
        self.since = now;
        self.price.on_up(now);
        self.next_send = self.next_send.min(self.earliest(now));
        Event::Up
    }

    fn judge_try(&mut self, now: Time) -> Option<Event> {
        self.tried_until.take_if(|until| *until <= now)?;
        Some(Event::GivenUp)
    }

    fn go_down(&mut self, now: Time, why: Why) -> Option<Event> {
        if self.state == State::Down {
            let is_over = why == Why::Closing && self.tried_until.take().is_some();
            return is_over.then_some(Event::GivenUp);
        }
        let tried = why != Why::Closing && self.settings.try_for > Duration::ZERO;
        if why != Why::Closing {
            self.price.on_outage(now);
        }
        self.tried_until = tried.then(|| now + self.settings.try_for);
        self.state = State::Down;
        self.since = now;
        self.row = 0;
        self.notices = DOWN_NOTICES;
        self.downs += 1;
        self.next_send = self.next_send.min(self.earliest(now));
        Some(Event::Down { why, tried })
    }
}

/// Returns the time of the clock that stamps hellos. It wraps after 71 minutes, but differences stay correct.
fn clock(now: Time) -> u32 {
    now.as_micros() as u32
}

#[cfg(test)]
mod tests;

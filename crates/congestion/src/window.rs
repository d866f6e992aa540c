//! The two values that every member of the family keeps: the window and the threshold of slow start.

use base::Duration;

use crate::Settings;

/// Slow-start thresholds never fall below two segments [RFC 5681 §3.1].
const THRESHOLD_MIN: f64 = 2.0;

/// Window and threshold in segments, with the limits that hold for every rule.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: f64,
    threshold: f64,
    settings: Settings,
}

impl Window {
    pub(crate) fn new(settings: Settings) -> Window {
        let settings = settings.sane();
        Window {
            size: settings.initial_window.min(settings.max_window),
            threshold: settings.initial_threshold,
            settings,
        }
    }

    pub(crate) fn size(&self) -> f64 {
        self.size
    }

    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    pub(crate) fn set(&mut self, size: f64) {
        // `max` comes last: it also turns a not-a-number into 1.
        self.size = size.min(self.settings.max_window).max(1.0);
    }

    /// Sets the threshold to whole segments, as in RFC 5681 and ns-2: a threshold between two whole windows would only
    /// end slow start a fraction of a segment later.
    pub(crate) fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold.floor().max(THRESHOLD_MIN);
    }

    /// Grows by what was acknowledged, up to the threshold, and returns the rest for congestion avoidance [RFC 5681
    /// §3.1]. It counts all segments, and not two at most as in RFC 3465, because users pace.
    pub(crate) fn slow_start(&mut self, segments: f64) -> f64 {
        if !self.in_slow_start() {
            return segments;
        }
        let room = self.threshold - self.size;
        // A single acknowledged segment is never split: ns-2 takes the whole step across the threshold.
        let step = if segments <= 1.0 {
            segments
        } else {
            segments.min(room.ceil())
        };
        self.set(self.size + step);
        segments - step
    }

    /// Cuts to `kept` segments, for fast recovery.
    pub(crate) fn cut(&mut self, kept: f64) {
        self.set_threshold(kept);
        self.set(kept.max(self.settings.minimum_window));
    }

    /// Starts over from one segment, with slow start up to `kept`.
    pub(crate) fn collapse(&mut self, kept: f64) {
        self.set_threshold(kept);
        self.set(1.0);
    }

    /// Undoes a collapse.
    pub(crate) fn restore(&mut self, size: f64, threshold: f64) {
        self.threshold = self.threshold.max(threshold);
        self.set(self.size.max(size));
    }

    /// Takes back the segments that a partial acknowledgement shows to have left the path.
    pub(crate) fn deflate(&mut self, segments: f64) {
        self.set(self.size - segments);
    }

    /// Restarts after an RTO of silence. The path may have changed, so no more than the initial window is sent at once
    /// [RFC 5681 §4.1].
    pub(crate) fn restart(&mut self, idle: Duration, rto: Duration) {
        if idle >= rto {
            self.set(self.size.min(self.settings.initial_window));
        }
    }

    /// Returns the number of segments that an acknowledgement counts for.
    pub(crate) fn counted(&self, segments: f64) -> f64 {
        if self.settings.count_acks {
            segments.min(1.0)
        } else {
            segments
        }
    }
}

//! The long-term result of a window: throughput as a function of loss rate and round trip.

use base::Duration;

/// A path in terms of the models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// The probability, 0 to 1, that a packet is lost, and with it the rest of its window.
    pub loss: f64,
    /// The round trip.
    pub rtt: Duration,
    /// The retransmission timeout.
    pub rto: Duration,
    /// Number of packets that each acknowledgement acknowledges: 1, or 2 with delayed acknowledgements.
    pub per_ack: f64,
}

/// Returns the throughput of a TCP(α, β) in segments per second: a window that grows by α each round trip and keeps β
/// on a loss [Papadimitriou06 §3.1, equation 1]. Infinite without losses.
pub fn throughput(alpha: f64, beta: f64, path: &Path) -> f64 {
    let (p, b) = (path.loss, path.per_ack);
    let sawtooth = (2.0 * b * (1.0 - beta) * p / (alpha * (1.0 + beta))).sqrt();
    let timeouts = (3.0 * ((1.0 - beta * beta) * b * p / (2.0 * alpha)).sqrt()).min(1.0)
        * p
        * (1.0 + 32.0 * p * p);
    1.0 / (path.rtt.as_secs_f64() * sawtooth + path.rto.as_secs_f64() * timeouts)
}

/// Returns the α that gets as much as TCP does with this β, by the first term of [`throughput`]: 4(1 - β²)/3 is the
/// other common choice, which also matches its second term.
pub fn friendly_alpha(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}

/// Returns the throughput of TCP Reno in segments per second after Padhye et al. 1998, equation 30: at most
/// `window_max` each round trip.
pub fn padhye(path: &Path, window_max: f64) -> f64 {
    let limit = window_max / path.rtt.as_secs_f64();
    let (p, b) = (path.loss, path.per_ack);
    let sawtooth = path.rtt.as_secs_f64() * (2.0 * b * p / 3.0).sqrt();
    let timeouts = path.rto.as_secs_f64()
        * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0)
        * p
        * (1.0 + 32.0 * p * p);
    limit.min(1.0 / (sawtooth + timeouts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(loss: f64) -> Path {
        Path {
            loss,
            rtt: Duration::from_millis(100),
            rto: Duration::from_secs(1),
            per_ack: 1.0,
        }
    }

    #[test]
    fn tcp_is_the_pair_of_one_and_a_half() {
        for loss in [0.001, 0.01, 0.05] {
            let (a, b) = (throughput(1.0, 0.5, &path(loss)), padhye(&path(loss), 1e9));
            assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        }
        // Computed by hand: 0.1·√(0.02/3) + 3·√(0.00375)·0.01·1.0032 = 0.008165 + 0.001843.
        assert!((padhye(&path(0.01), 1e9) - 99.92).abs() < 0.1);
        assert_eq!(padhye(&path(0.0), 20.0), 200.0);
        assert!(throughput(1.0, 0.5, &path(0.0)).is_infinite());
    }

    #[test]
    fn friendly_pairs_take_alike() {
        for beta in [0.5, 0.7, 0.875] {
            let ours = throughput(friendly_alpha(beta), beta, &path(0.001));
            let tcp = throughput(1.0, 0.5, &path(0.001));
            assert!((ours / tcp - 1.0).abs() < 0.05, "{beta}: {ours} {tcp}");
        }
    }
}

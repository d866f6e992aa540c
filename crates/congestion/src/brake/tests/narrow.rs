//! A call over a link that becomes too narrow for it, and wide again.

use super::*;

/// A call of 92 kbit/s over a link of so many kbit/s in each millisecond; the share of its packets that the brake lets
/// through in each second.
fn call(kbps: impl Fn(u64) -> f64, seconds: u64) -> Vec<f64> {
    let mut brake = Brake::new(Settings::default());
    let (mut waiting_bits, mut told) = (0.0, 0);
    let mut shares = Vec::new();
    for second in 0..seconds {
        let mut sent = 0;
        for now_ms in second * 1_000..(second + 1) * 1_000 {
            waiting_bits = f64::max(waiting_bits - kbps(now_ms), 0.0);
            if now_ms % 20 == 0 {
                let packet = Packet {
                    bytes: 230,
                    priority: 4,
                    flow: 0,
                    is_elastic: false,
                    slack: Duration::from_millis(110),
                };
                if brake.admit(ms(now_ms), &packet) == Verdict::Sent {
                    waiting_bits += 230.0 * 8.0;
                    sent += 1;
                }
            }
            if now_ms % 60 == 0 {
                let queue = Duration::from_secs_f64(waiting_bits / kbps(now_ms) / 1e3);
                let (rtt, lane_bytes) = (RTT + queue, brake.lane_bytes());
                brake.on_told(sent - told, 0);
                told = sent;
                let echo = Echo {
                    sent: ms(now_ms),
                    rtt,
                    there: rtt,
                    link_bytes: lane_bytes,
                    lane_bytes,
                };
                brake.on_echo(ms(now_ms) + rtt, echo);
            }
        }
        told = 0;
        shares.push(sent as f64 / 50.0);
    }
    shares
}

#[test]
fn a_link_that_is_wide_again_is_found_within_two_seconds() {
    // 32 kbit/s from the third second to the tenth.
    let shares = call(
        |now_ms| match now_ms {
            3_000..10_000 => 32.0,
            _ => 10_000.0,
        },
        20,
    );
    assert!(shares[4..10].iter().all(|share| *share < 0.6), "{shares:?}");
    assert!(shares[12..].iter().all(|share| *share == 1.0), "{shares:?}");
}

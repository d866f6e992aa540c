//! Addresses that are the same far end.

use super::*;

#[test]
fn one_far_end_is_the_same_by_both_uplinks_and_another_one_by_a_stream() {
    let at = |socket: u8, port: u16| UnderlayAddr {
        socket,
        port,
        ..UnderlayAddr::default()
    };
    assert!(is_same_far_end(at(0, 7_700), at(1, 7_700)));
    assert!(!is_same_far_end(at(0, 7_700), at(0, 7_701)));
    let stream = at(UnderlayAddr::STREAM, 7_700);
    assert!(!is_same_far_end(at(0, 7_700), stream));
}

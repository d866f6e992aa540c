//! Handshakes with keys from X25519 alone.

mod shake;

fn main() {
    shake::all(secure::PostQuantum::Off, shake::CLASSIC_BYTES);
}

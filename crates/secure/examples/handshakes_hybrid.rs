//! Handshakes with keys from ML-KEM-768 too: a key, a ciphertext, and what is around their six pieces.

mod shake;

fn main() {
    shake::all(
        secure::PostQuantum::Prefer,
        shake::CLASSIC_BYTES + 1_184 + 1_088 + 6 * (5 + 16),
    );
}

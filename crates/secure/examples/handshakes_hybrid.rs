//! Handshakes that also use ML-KEM-768: a key, a ciphertext, and the frames of their six pieces.

mod shake;

fn main() {
    shake::all(
        secure::PostQuantum::Prefer,
        shake::CLASSIC_BYTES + 1_184 + 1_088 + 6 * (5 + 16),
    );
}

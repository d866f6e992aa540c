//! How a stripe shows that it belongs to a transfer.

use wire::relay::{TICKET_BYTES, TRANSFER_BYTES};

/// Computes the proof that stripe `stripe` of `transfer` shows. Only a node that received the ticket over the encrypted
/// control connection can compute it. An eavesdropper learns nothing that is useful for another stripe.
pub fn proof(
    ticket: &[u8; TICKET_BYTES],
    transfer: &[u8; TRANSFER_BYTES],
    stripe: u8,
) -> [u8; TICKET_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(ticket);
    hasher.update(transfer);
    hasher.update(&[stripe]);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_stripe_of_one_transfer_and_one_ticket() {
        let all = [
            proof(&[1; 32], &[2; 16], 0),
            proof(&[1; 32], &[2; 16], 1),
            proof(&[1; 32], &[3; 16], 0),
            proof(&[9; 32], &[2; 16], 0),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one));
        }
        assert_eq!(all[0], proof(&[1; 32], &[2; 16], 0));
    }
}

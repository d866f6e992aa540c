//! The results of signature checks that the nodes of one world share.

use base::Map;
use std::sync::{Mutex, PoisonError};

/// Verdicts of one generation; there are two, so at most 131 072: each record of 1000 nodes sixty times. A verdict
/// takes 33 bytes, so that is some 9 MB.
const GENERATION: usize = 1 << 16;

/// A bounded memo: when a generation is full, the previous one is forgotten.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: Map<[u8; 32], bool>,
    old: Map<[u8; 32], bool>,
}

impl secure::Memo for Shared {
    fn recall(&self, digest: &[u8; 32], verify: &mut dyn FnMut() -> bool) -> bool {
        let mut memo = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&verdict) = memo.young.get(digest) {
            return verdict;
        }
        let verdict = memo.old.get(digest).copied().unwrap_or_else(verify);
        if memo.young.len() >= GENERATION {
            memo.old = std::mem::take(&mut memo.young);
        }
        memo.young.insert(*digest, verdict);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secure::Memo;

    /// Returns how often a question was computed.
    fn asked(memo: &Shared, n: u32, verdict: bool) -> u32 {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&n.to_le_bytes());
        let mut asked = 0;
        let answer = memo.recall(&digest, &mut || {
            asked += 1;
            verdict
        });
        assert_eq!(answer, verdict);
        asked
    }

    #[test]
    fn each_question_is_looked_into_once_and_memory_is_bounded() {
        let memo = Shared::default();
        assert_eq!(asked(&memo, 0, true) + asked(&memo, 1, false), 2);
        assert_eq!(asked(&memo, 0, true) + asked(&memo, 1, false), 0);
        let many = 3 * GENERATION as u32;
        let looked: u32 = (2..many).map(|n| asked(&memo, n, n % 2 == 0)).sum();
        assert_eq!(looked, many - 2);
        assert_eq!(asked(&memo, many - 1, false), 0, "it is young");
        assert_eq!(asked(&memo, 0, true), 1, "it was forgotten");
        let kept = memo.0.lock().unwrap();
        assert!(kept.young.len() + kept.old.len() <= 2 * GENERATION);
    }
}

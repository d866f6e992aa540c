//! How a network gets a new root key: by a succession that the previous root and the new one have signed, whatever its
//! source. [`crate::chain`] says how long the older roots stay valid.

use super::Network;
use crate::certificate::Certificate;
use crate::chain::SuccessionError;
use crate::signature::{self, Context};
use wire::Malformed;
use wire::certificate::{KEY_BYTES, MAX_SUCCESSIONS, SUCCESSION_BYTES, Succession};

impl Network {
    /// Accepts a new root key. Returns `Ok(true)` if it was not known and is now the newest. For each number, the first
    /// succession that arrives counts.
    pub fn succeed(&mut self, succession: &Succession) -> Result<bool, SuccessionError> {
        if succession.network != self.id {
            return Err(SuccessionError::WrongNetwork);
        }
        let known = self.chain.succession(succession.number);
        if known == Some(succession) {
            return Ok(false);
        }
        let place = usize::from(succession.number) - 1;
        let mut before = self.chain.successions().iter().map(|it| &it.root);
        let old = match place {
            0 => Some(self.chain.first()),
            _ => before.nth(place - 1),
        };
        let old = old.ok_or(SuccessionError::Gap)?;
        if !self.is_signed_by_both(succession, old) {
            return Err(SuccessionError::BadSignature);
        }
        if known.is_some() {
            return Err(SuccessionError::Rival);
        }
        let was_root = self.chain.roots().any(|(_, key)| *key == succession.root);
        if was_root || !signature::is_usable(&succession.root) {
            return Err(SuccessionError::WeakKey);
        }
        self.chain.push(*succession);
        Ok(true)
    }

    fn is_signed_by_both(&self, succession: &Succession, old: &[u8; KEY_BYTES]) -> bool {
        let bytes = succession.to_bytes();
        let context = Context::Succession;
        let by_old = (Succession::signed_by_old(&bytes), &succession.by_old);
        let by_new = (Succession::signed_by_new(&bytes), &succession.by_new);
        self.proves(old, context, by_old.0, by_old.1)
            && self.proves(&succession.root, context, by_new.0, by_new.1)
    }

    /// Learns the newest root key from a certificate that carries its proof. Returns true if it was not known.
    pub fn learn(&mut self, certificate: &Certificate) -> bool {
        let succession = certificate.fields().options.succession();
        let succession = succession.filter(|it| it.number > self.root_number());
        succession.is_some_and(|it| self.succeed(&it) == Ok(true))
    }

    /// Returns the number of a root that a certificate proves, if another root has this number here. The proof needs
    /// the signatures of the previous root and of the root itself; an unsigned claim proves nothing.
    pub fn rival_of(&self, certificate: &Certificate) -> Option<u8> {
        let succession = certificate.fields().options.succession()?;
        self.is_rival(&succession).then_some(succession.number)
    }

    /// Returns the same for a list of concatenated successions.
    pub fn rival_among(&self, bytes: &[u8]) -> Option<u8> {
        let (successions, _) = bytes.as_chunks::<SUCCESSION_BYTES>();
        let successions = successions.iter().take(MAX_SUCCESSIONS);
        let mut successions = successions.filter_map(|bytes| Succession::parse(bytes).ok());
        let rival = successions.find(|succession| self.is_rival(succession));
        rival.map(|succession| succession.number)
    }

    fn is_rival(&self, succession: &Succession) -> bool {
        succession.number <= self.root_number()
            && self.clone().succeed(succession) == Err(SuccessionError::Rival)
    }

    /// Accepts the successions that another file or node of the same network knows. Returns true if one was not known
    /// here. The successions before a refused one are accepted.
    pub fn adopt(&mut self, other: &Network) -> Result<bool, SuccessionError> {
        if other.id != self.id {
            return Err(SuccessionError::WrongNetwork);
        }
        let mut is_news = false;
        for succession in other.successions() {
            is_news |= self.succeed(succession)?;
        }
        Ok(is_news)
    }

    /// Accepts concatenated successions, as they are stored and sent, from the first on.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (successions, rest) = bytes.as_chunks::<SUCCESSION_BYTES>();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        if successions.len() > MAX_SUCCESSIONS {
            return Err(Malformed::Count);
        }
        for bytes in successions {
            let succession = Succession::parse(bytes)?;
            self.succeed(&succession).map_err(|_| Malformed::Value)?;
        }
        Ok(())
    }

    /// Returns all successions, concatenated.
    pub fn chain_bytes(&self) -> Vec<u8> {
        let successions = self.successions().iter();
        successions.flat_map(Succession::to_bytes).collect()
    }
}

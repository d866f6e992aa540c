//! Finds the word that a user meant who has written another one.

/// Returns the word that was probably meant: the one with the fewest changed letters, if they are
/// no more than a third of its letters.
pub fn nearest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let distances = known.iter().map(|known| (changes(word, known), *known));
    let (changed, meant) = distances.min()?;
    (changed * 3 <= meant.chars().count().max(3)).then_some(meant)
}

/// Counts the letters to insert, drop, replace or swap with their neighbour to get from one word to
/// another.
fn changes(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // A word of this length is no typing error.
    if from.len() > 64 {
        return usize::MAX / 4;
    }
    let width = to.len() + 1;
    let mut rows = vec![0; (from.len() + 1) * width];
    for i in 0..=from.len() {
        for j in 0..width {
            let at = |i: usize, j: usize| rows[i * width + j];
            rows[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = at(i - 1, j - 1) + usize::from(from[i - 1] != to[j - 1]);
                let best = replaced.min(at(i - 1, j) + 1).min(at(i, j - 1) + 1);
                let swapped =
                    i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                if swapped {
                    best.min(at(i - 2, j - 2) + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[from.len() * width + to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = ["delay", "direct", "deadline", "a", "b", "at"];
        for (word, meant) in [
            ("dealy", Some("delay")),
            ("dedline", Some("deadline")),
            ("deadlines", Some("deadline")),
            ("Direct", Some("direct")),
            ("weather", None),
            ("", Some("a")),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), &known), None);
        assert_eq!(changes("ab", "ba"), 1);
    }
}

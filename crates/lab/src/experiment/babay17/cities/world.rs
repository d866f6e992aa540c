//! The twelve cities with their links and calls, and the problems of a run.
//!
//! Delays are those of light in a fibre (200 km/ms) over 1.3 times the great circle, rounded to a millisecond. The
//! links are those of [`LINKS`]: each city has four to six.
//!
//! Problems are drawn from the run's seed alone, so that all schemes have the same ones ([`trouble`]):
//!
//! | | |
//! |---|---|
//! | a problem begins | every 60 s in the mean, exponentially, at the earliest after 10 s |
//! | where, 60 % | around a node, on all its links in both directions; each node alike |
//! | where, 40 % | on one link, in both directions; each link alike |
//! | for | 10 to 120 s, evenly |
//! | loss | 5 to 40 %, evenly, in bursts of 50 %. Where two problems meet, the greater loss |
//!
//! A node's problem is one around the source or the destination for its own calls, and one of the middle for other
//! calls.

use base::Rng;

/// The links between cities, and their delay in ms.
pub(in super::super) const LINKS: [(&str, &str, u64); 32] = [
    ("new-york", "washington", 2),
    ("new-york", "chicago", 7),
    ("new-york", "atlanta", 8),
    ("new-york", "denver", 17),
    ("new-york", "london", 36),
    ("new-york", "frankfurt", 40),
    ("washington", "chicago", 6),
    ("washington", "atlanta", 6),
    ("washington", "dallas", 12),
    ("washington", "london", 38),
    ("washington", "frankfurt", 42),
    ("chicago", "denver", 10),
    ("chicago", "dallas", 8),
    ("chicago", "san-jose", 19),
    ("chicago", "atlanta", 6),
    ("denver", "dallas", 7),
    ("denver", "los-angeles", 9),
    ("denver", "san-jose", 10),
    ("atlanta", "dallas", 8),
    ("atlanta", "los-angeles", 20),
    ("atlanta", "johannesburg", 88),
    ("dallas", "los-angeles", 13),
    ("dallas", "san-jose", 15),
    ("los-angeles", "san-jose", 3),
    ("los-angeles", "hong-kong", 76),
    ("san-jose", "hong-kong", 73),
    ("london", "frankfurt", 4),
    ("london", "johannesburg", 59),
    ("london", "hong-kong", 63),
    ("frankfurt", "johannesburg", 57),
    ("frankfurt", "hong-kong", 60),
    ("hong-kong", "johannesburg", 70),
];
/// The cities, in the order of their first link.
pub(super) const NODES: [&str; 12] = [
    "new-york",
    "washington",
    "chicago",
    "denver",
    "los-angeles",
    "san-jose",
    "dallas",
    "atlanta",
    "london",
    "frankfurt",
    "hong-kong",
    "johannesburg",
];
/// The ends of the calls, with their deadline in milliseconds: 65 across a continent, as in the paper, and 150 between
/// continents.
pub(super) const CALLS: [(&str, &str, u64); 16] = [
    ("new-york", "los-angeles", 65),
    ("new-york", "san-jose", 65),
    ("washington", "los-angeles", 65),
    ("san-jose", "washington", 65),
    ("san-jose", "atlanta", 65),
    ("atlanta", "denver", 65),
    ("los-angeles", "chicago", 65),
    ("denver", "new-york", 65),
    ("london", "dallas", 150),
    ("frankfurt", "san-jose", 150),
    ("hong-kong", "new-york", 150),
    ("johannesburg", "new-york", 150),
    ("london", "hong-kong", 150),
    ("los-angeles", "london", 150),
    ("san-jose", "johannesburg", 150),
    ("denver", "frankfurt", 150),
];

pub(in super::super) const BETWEEN_S: f64 = 60.0;
const FIRST_S: f64 = 10.0;
const AROUND_NODE: f64 = 0.6;
const LASTS_S: (f64, f64) = (10.0, 120.0);
const LOSS_PCT: (f64, f64) = (5.0, 40.0);

/// A problem: some links lose packets for some time.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Problem {
    /// Indices in [`LINKS`].
    pub(in super::super) links: Vec<usize>,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) loss_pct: f64,
}

/// Draws the problems of a run.
pub(in super::super) fn trouble(seed: u64, seconds: u64) -> Vec<Problem> {
    let mut rng = Rng::new(seed);
    let between = |rng: &mut Rng, (least, most): (f64, f64)| least + (most - least) * rng.unit();
    let mut problems = Vec::new();
    let mut at = FIRST_S;
    loop {
        at -= BETWEEN_S * (1.0 - rng.unit()).ln();
        if at >= seconds as f64 {
            return problems;
        }
        let links = match rng.chance(AROUND_NODE) {
            true => {
                let node = NODES[rng.below(NODES.len() as u64) as usize];
                let touches = |place: &usize| [LINKS[*place].0, LINKS[*place].1].contains(&node);
                (0..LINKS.len()).filter(touches).collect()
            }
            false => vec![rng.below(LINKS.len() as u64) as usize],
        };
        problems.push(Problem {
            links,
            from_s: at,
            to_s: at + between(&mut rng, LASTS_S),
            loss_pct: between(&mut rng, LOSS_PCT),
        });
    }
}

/// Returns the changes of the links' loss: second, link, percent; in order of time.
pub(super) fn changes(problems: &[Problem]) -> Vec<(f64, usize, f64)> {
    let moments = problems.iter().flat_map(|p| [p.from_s, p.to_s]);
    let mut moments: Vec<f64> = moments.collect();
    moments.sort_by(f64::total_cmp);
    let mut now = [0.0; LINKS.len()];
    let mut changes = Vec::new();
    for at in moments {
        for (link, now) in now.iter_mut().enumerate() {
            let there = |p: &&Problem| p.links.contains(&link) && p.from_s <= at && at < p.to_s;
            let losses = problems.iter().filter(there).map(|p| p.loss_pct);
            let loss = losses.fold(0.0, f64::max);
            if loss != core::mem::replace(now, loss) {
                changes.push((at, link, loss));
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_as_stated_and_the_greater_loss_counts() {
        let problems = trouble(7, 100_000);
        assert!(
            (1_500..1_850).contains(&problems.len()),
            "{}",
            problems.len()
        );
        for problem in &problems {
            assert!((10.0..=120.0).contains(&(problem.to_s - problem.from_s)));
            assert!((5.0..=40.0).contains(&problem.loss_pct));
            assert!([1, 4, 5, 6].contains(&problem.links.len()));
        }
        let problem = |from_s, to_s, loss_pct| Problem {
            links: vec![3],
            from_s,
            to_s,
            loss_pct,
        };
        let told = changes(&[problem(1.0, 5.0, 10.0), problem(2.0, 3.0, 20.0)]);
        assert_eq!(
            told,
            [
                (1.0, 3, 10.0),
                (2.0, 3, 20.0),
                (3.0, 3, 10.0),
                (5.0, 3, 0.0)
            ]
        );
    }
}

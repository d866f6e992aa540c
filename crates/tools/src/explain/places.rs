//! The locations of nodes, as far as their names reveal them: `ams`, `fra-2` and `new-york` are
//! cities.

use graph::generate::FIBRE_KM_PER_MS;
use graph::generate::cities::{self, CITIES, Site, great_circle_km};

/// Cables do not follow great circles. Choice: they are longer by this factor, so that 1 ms covers
/// 154 km; between the sites of [Amir06 §V-B] it is 142 km.
const ROUTE_FACTOR: f64 = 1.3;
/// Two places that are nearer to each other than this count as one.
const SAME_KM: f64 = 60.0;

/// IATA's codes, and other short names that operators give to nodes.
const CODES: [(&str, &str); 60] = [
    ("akl", "auckland"),
    ("ams", "amsterdam"),
    ("arn", "stockholm"),
    ("ath", "athens"),
    ("atl", "atlanta"),
    ("ber", "berlin"),
    ("bkk", "bangkok"),
    ("bog", "bogota"),
    ("bom", "mumbai"),
    ("bos", "boston"),
    ("bru", "brussels"),
    ("cai", "cairo"),
    ("cdg", "paris"),
    ("chi", "chicago"),
    ("cph", "copenhagen"),
    ("cpt", "cape-town"),
    ("del", "delhi"),
    ("den", "denver"),
    ("dfw", "dallas"),
    ("dub", "dublin"),
    ("dxb", "dubai"),
    ("eze", "buenos-aires"),
    ("fra", "frankfurt"),
    ("gru", "sao-paulo"),
    ("hel", "helsinki"),
    ("hkg", "hong-kong"),
    ("hnl", "honolulu"),
    ("icn", "seoul"),
    ("ist", "istanbul"),
    ("jfk", "new-york"),
    ("jnb", "johannesburg"),
    ("kbp", "kyiv"),
    ("kix", "osaka"),
    ("lax", "los-angeles"),
    ("lhr", "london"),
    ("lim", "lima"),
    ("lis", "lisbon"),
    ("lon", "london"),
    ("los", "lagos"),
    ("mad", "madrid"),
    ("mex", "mexico-city"),
    ("mia", "miami"),
    ("mil", "milan"),
    ("mnl", "manila"),
    ("mrs", "marseille"),
    ("nbo", "nairobi"),
    ("nrt", "tokyo"),
    ("nyc", "new-york"),
    ("ord", "chicago"),
    ("osl", "oslo"),
    ("otp", "bucharest"),
    ("par", "paris"),
    ("prg", "prague"),
    ("scl", "santiago"),
    ("sea", "seattle"),
    ("sfo", "san-francisco"),
    ("sin", "singapore"),
    ("syd", "sydney"),
    ("waw", "warsaw"),
    ("yul", "montreal"),
];

/// Returns the city that a node's name contains: its name or code, whatever number or word follows.
pub(super) fn place(name: &str) -> Option<Site> {
    let name = name.to_ascii_lowercase();
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '.'));
    let first = word.split(['-', '_', '.']).next().unwrap_or(word);
    let first = first.trim_end_matches(|c: char| c.is_ascii_digit());
    named(word).or_else(|| named(first))
}

fn named(word: &str) -> Option<Site> {
    let code = CODES.iter().find(|(code, _)| *code == word);
    let name = code.map_or(word, |(_, name)| name);
    // The sites of a paper are not cities.
    let found = cities::find(name).ok()?;
    CITIES.contains(&found).then_some(found)
}

/// Returns the one-way latency between two places, in microseconds.
pub(super) fn latency_us(a: &Site, b: &Site) -> f64 {
    great_circle_km(a, b) * ROUTE_FACTOR / FIBRE_KM_PER_MS * 1e3
}

/// Returns true if the two count as one place.
pub(super) fn is_same(a: &Site, b: &Site) -> bool {
    great_circle_km(a, b) < SAME_KM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_tell_places() {
        let name = |node: &str| place(node).map(|site| site.name);
        for (node, city) in [
            ("ams", "amsterdam"),
            ("AMS2", "amsterdam"),
            ("fra-1", "frankfurt"),
            ("nyc1-edge", "new-york"),
            ("new-york", "new-york"),
            ("new-york-2", "new-york"),
        ] {
            assert_eq!(name(node), Some(city), "{node}");
        }
        for node in ["west", "10.7.0.1", "kaist", "a", ""] {
            assert_eq!(name(node), None, "{node}");
        }
    }

    #[test]
    fn every_code_is_of_a_city() {
        for (code, city) in CODES {
            assert!(named(code).is_some_and(|site| site.name == city), "{code}");
        }
    }

    #[test]
    fn a_fibre_of_an_ocean_is_as_long_as_it_is() {
        let of = |name| place(name).unwrap();
        let ms = latency_us(&of("ams"), &of("nyc")) / 1e3;
        assert!((37.0..40.0).contains(&ms), "{ms}");
        assert!(is_same(&of("lhr"), &of("lon")) && !is_same(&of("ams"), &of("bru")));
    }
}

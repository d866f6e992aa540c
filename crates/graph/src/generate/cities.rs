//! Sites of the world, with delays by great-circle distance.
//!
//! ```text
//!   names ──▶ sites (latitude, longitude) ──▶ every pair, or each with its nearest ──▶ Network
//! ```
//!
//! The table contains cities in which networks meet, and the 26 and 5 sites of [Amir06 Tables I, II]. The paper does
//! not say where its sites are. Their positions are those of the institutions; for the Internet2 and Canarie routers
//! they are those of the cities in their names.
//!
//! Cables do not follow great circles: [`ROUTED_KM_PER_MS`] is the speed at which packets cover the distance between
//! two sites in practice. Where a route makes a detour over another continent, as from RNP to KAIST in 290 ms [Amir06
//! §V-B], no speed is right; give that link its own delay.

use super::{BadShape, Network, Node, check_size, check_speed, delay_us};
use base::Set;

/// The mean radius of the Earth.
const EARTH_KM: f64 = 6_371.008_8;

/// Kilometres of great circle per millisecond. The University of Washington and KAIST are 8 399 km and 59 ms apart.
/// [Amir06 §V-B]
pub const ROUTED_KM_PER_MS: f64 = 142.4;

/// A place on the globe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// The name of the site.
    pub name: &'static str,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
}

const fn site(name: &'static str, latitude: f64, longitude: f64) -> Site {
    Site {
        name,
        latitude,
        longitude,
    }
}

/// Cities of every continent.
pub const CITIES: [Site; 64] = [
    site("amsterdam", 52.37, 4.90),
    site("athens", 37.98, 23.73),
    site("atlanta", 33.75, -84.39),
    site("auckland", -36.85, 174.76),
    site("bangkok", 13.76, 100.50),
    site("beijing", 39.90, 116.41),
    site("berlin", 52.52, 13.41),
    site("bogota", 4.71, -74.07),
    site("boston", 42.36, -71.06),
    site("brussels", 50.85, 4.35),
    site("bucharest", 44.43, 26.10),
    site("buenos-aires", -34.60, -58.38),
    site("cairo", 30.04, 31.24),
    site("calgary", 51.05, -114.07),
    site("cape-town", -33.92, 18.42),
    site("chennai", 13.08, 80.27),
    site("chicago", 41.88, -87.63),
    site("copenhagen", 55.68, 12.57),
    site("dallas", 32.78, -96.80),
    site("delhi", 28.61, 77.21),
    site("denver", 39.74, -104.99),
    site("dubai", 25.20, 55.27),
    site("dublin", 53.35, -6.26),
    site("frankfurt", 50.11, 8.68),
    site("helsinki", 60.17, 24.94),
    site("hong-kong", 22.32, 114.17),
    site("honolulu", 21.31, -157.86),
    site("istanbul", 41.01, 28.98),
    site("jakarta", -6.21, 106.85),
    site("johannesburg", -26.20, 28.05),
    site("kyiv", 50.45, 30.52),
    site("lagos", 6.52, 3.38),
    site("lima", -12.05, -77.04),
    site("lisbon", 38.72, -9.14),
    site("london", 51.51, -0.13),
    site("los-angeles", 34.05, -118.24),
    site("madrid", 40.42, -3.70),
    site("manila", 14.60, 120.98),
    site("marseille", 43.30, 5.37),
    site("melbourne", -37.81, 144.96),
    site("mexico-city", 19.43, -99.13),
    site("miami", 25.76, -80.19),
    site("milan", 45.46, 9.19),
    site("montreal", 45.50, -73.57),
    site("moscow", 55.76, 37.62),
    site("mumbai", 19.08, 72.88),
    site("nairobi", -1.29, 36.82),
    site("new-york", 40.71, -74.01),
    site("osaka", 34.69, 135.50),
    site("oslo", 59.91, 10.75),
    site("paris", 48.86, 2.35),
    site("perth", -31.95, 115.86),
    site("prague", 50.08, 14.44),
    site("san-francisco", 37.77, -122.42),
    site("santiago", -33.45, -70.67),
    site("sao-paulo", -23.55, -46.63),
    site("seattle", 47.61, -122.33),
    site("seoul", 37.57, 126.98),
    site("shanghai", 31.23, 121.47),
    site("singapore", 1.35, 103.82),
    site("stockholm", 59.33, 18.07),
    site("sydney", -33.87, 151.21),
    site("tokyo", 35.68, 139.69),
    site("warsaw", 52.23, 21.01),
];

/// The sites in North America. [Amir06 Table I]
pub const AMIR06_TABLE_I: [Site; 26] = [
    site("canarie-calgary", 51.05, -114.07),
    site("canarie-halifax", 44.65, -63.57),
    site("canarie-toronto", 43.65, -79.38),
    site("harvard", 42.37, -71.12),
    site("internet2-atlanta", 33.75, -84.39),
    site("internet2-chicago", 41.88, -87.63),
    site("internet2-denver", 39.74, -104.99),
    site("internet2-indianapolis", 39.77, -86.16),
    site("internet2-washington", 38.91, -77.04),
    site("johns-hopkins", 39.33, -76.62),
    site("mit", 42.36, -71.09),
    site("new-york-university", 40.73, -74.00),
    site("northeastern", 42.34, -71.09),
    site("princeton", 40.34, -74.66),
    site("purdue", 40.42, -86.92),
    site("rutgers", 40.50, -74.45),
    site("florida", 29.64, -82.35),
    site("georgia", 33.95, -83.38),
    site("illinois", 40.10, -88.23),
    site("kansas", 38.95, -95.25),
    site("maryland", 38.99, -76.94),
    site("pennsylvania", 39.95, -75.19),
    site("rochester", 43.13, -77.63),
    site("wisconsin", 43.08, -89.41),
    site("washington-st-louis", 38.65, -90.31),
    site("wayne-state", 42.36, -83.07),
];

/// The sites on five continents. [Amir06 Table II]
pub const AMIR06_TABLE_II: [Site; 5] = [
    site("washington", 47.65, -122.31),
    site("rnp", -30.03, -51.23),
    site("sics", 59.40, 17.95),
    site("kaist", 36.37, 127.36),
    site("monash", -37.91, 145.13),
];

/// The text is not the name of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no site is called '{0}': use names like 'frankfurt', 'new-york' or 'kaist'")]
pub struct UnknownSite(pub String);

/// Returns the site with this name: a city, or a site of [Amir06 Tables I, II].
pub fn find(name: &str) -> Result<Site, UnknownSite> {
    let mut all = CITIES.iter().chain(&AMIR06_TABLE_I).chain(&AMIR06_TABLE_II);
    let found = all.find(|site| site.name == name);
    found.copied().ok_or_else(|| UnknownSite(name.to_string()))
}

/// Returns the length of the shortest way over the globe.
pub fn great_circle_km(a: &Site, b: &Site) -> f64 {
    let [north_a, north_b] = [a, b].map(|site| site.latitude.to_radians());
    let half_north = (north_b - north_a) / 2.0;
    let half_east = (b.longitude - a.longitude).to_radians() / 2.0;
    // This is the haversine of the angle between them; it exceeds 1 only by rounding.
    let haversine =
        half_north.sin().powi(2) + north_a.cos() * north_b.cos() * half_east.sin().powi(2);
    2.0 * EARTH_KM * haversine.min(1.0).sqrt().asin()
}

/// Links each site to every other one, as in both experiments of [Amir06 §V-B].
pub fn full_mesh(sites: &[Site], km_per_ms: f64) -> Result<Network, BadShape> {
    nearest(sites, sites.len().saturating_sub(1).max(1), km_per_ms)
}

/// Links each site to its `neighbours` nearest ones. Adds the links that are needed to connect all sites, the shortest
/// first.
pub fn nearest(sites: &[Site], neighbours: usize, km_per_ms: f64) -> Result<Network, BadShape> {
    let n = sites.len();
    check_speed(km_per_ms)?;
    if n < 2 {
        return Err(BadShape::TooFewNodes { nodes: n, least: 2 });
    }
    check_size(n, n.saturating_mul(neighbours.min(n - 1)) / 2)?;
    let km = |a: usize, b: usize| great_circle_km(&sites[a], &sites[b]);
    let mut chosen = Set::default();
    for a in 0..n {
        let mut others: Vec<usize> = (0..n).filter(|b| *b != a).collect();
        others.sort_by(|x, y| km(a, *x).total_cmp(&km(a, *y)).then(x.cmp(y)));
        chosen.extend(
            others
                .iter()
                .take(neighbours)
                .map(|&b| (a.min(b), a.max(b))),
        );
    }
    // Kruskal's algorithm runs over all pairs, sorted by length, after the chosen ones.
    let mut pairs: Vec<(usize, usize)> = (0..n)
        .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
        .collect();
    pairs.sort_by(|x, y| km(x.0, x.1).total_cmp(&km(y.0, y.1)).then(x.cmp(y)));
    let mut piece: Vec<usize> = (0..n).collect();
    let mut links = Vec::new();
    for wanted in [true, false] {
        for pair in pairs.iter().filter(|pair| chosen.contains(*pair) == wanted) {
            let (one, other) = (piece[pair.0], piece[pair.1]);
            if wanted || one != other {
                links.push(*pair);
                piece
                    .iter_mut()
                    .filter(|p| **p == other)
                    .for_each(|p| *p = one);
            }
        }
    }
    links.sort_unstable();
    Ok(build(sites, &links, km_per_ms))
}

fn build(sites: &[Site], links: &[(usize, usize)], km_per_ms: f64) -> Network {
    let node = |site: &Site| Node {
        name: site.name.to_string(),
        x: site.longitude,
        y: site.latitude,
    };
    let link = |&(a, b): &(usize, usize)| super::Link {
        a,
        b,
        delay_us: delay_us(great_circle_km(&sites[a], &sites[b]), km_per_ms),
    };
    Network {
        nodes: sites.iter().map(node).collect(),
        links: links.iter().map(link).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::FIBRE_KM_PER_MS;

    #[track_caller]
    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() < tolerance, "{a} {b}");
    }

    #[test]
    fn distances_are_those_of_the_globe() {
        let km = |a, b| great_circle_km(&find(a).unwrap(), &find(b).unwrap());
        near(km("london", "new-york"), 5_570.0, 20.0);
        near(km("frankfurt", "singapore"), 10_260.0, 60.0);
        near(km("sydney", "auckland"), 2_160.0, 30.0);
        assert_eq!(km("tokyo", "tokyo"), 0.0);
        let poles = great_circle_km(&site("n", 90.0, 0.0), &site("s", -90.0, 77.0));
        near(poles, core::f64::consts::PI * EARTH_KM, 1e-6);
    }

    #[test]
    fn names_are_unique_and_places_are_on_the_globe() {
        let all = CITIES.iter().chain(&AMIR06_TABLE_I).chain(&AMIR06_TABLE_II);
        let mut names = Set::default();
        for site in all {
            assert!(names.insert(site.name), "{}", site.name);
            assert!(site.latitude.abs() < 66.0 && site.longitude.abs() <= 180.0);
            assert_eq!(find(site.name), Ok(*site));
        }
        assert_eq!(find("atlantis"), Err(UnknownSite("atlantis".to_string())));
    }

    /// [Amir06 §V-B]: the University of Washington and KAIST are 59 ms apart.
    #[test]
    fn the_papers_sites_are_a_mesh() {
        let network = full_mesh(&AMIR06_TABLE_II, ROUTED_KM_PER_MS).unwrap();
        assert_eq!(network.links.len(), 10);
        let link = network
            .links
            .iter()
            .find(|link| (link.a, link.b) == (0, 3))
            .unwrap();
        near(f64::from(link.delay_us), 59_000.0, 200.0);
        let us = full_mesh(&AMIR06_TABLE_I, FIBRE_KM_PER_MS).unwrap();
        assert_eq!((us.nodes.len(), us.links.len()), (26, 26 * 25 / 2));
    }

    #[test]
    fn neighbours_are_near_and_all_are_connected() {
        let network = nearest(&CITIES, 3, FIBRE_KM_PER_MS).unwrap();
        assert!(network.is_connected());
        assert!((64 * 3 / 2..64 * 3).contains(&network.links.len()));
        let mut longest = 0;
        for (i, node) in network.nodes.iter().enumerate() {
            let links = network
                .links
                .iter()
                .filter(|link| link.a == i || link.b == i);
            assert!(links.clone().count() >= 3, "{}", node.name);
            longest = longest.max(links.map(|link| link.delay_us).min().unwrap());
        }
        near(f64::from(longest), 19_300.0, 300.0); // Honolulu to San Francisco
        let apart = nearest(&CITIES, 0, FIBRE_KM_PER_MS).unwrap();
        assert!(
            apart.is_connected() && apart.links.len() == 63,
            "the shortest tree"
        );
        assert!(nearest(&CITIES[..1], 3, 200.0).is_err());
        assert!(full_mesh(&CITIES, 0.0).is_err());
    }
}

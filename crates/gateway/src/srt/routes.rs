//! Finds the stream for a caller of a listener, by the stream id and by whether the caller sends or receives.
//!
//! ```text
//!   studio                          the stream of that name
//!   #!::r=studio,m=publish          the same, and says that it sends (the form that SRT recommends)
//!   nothing, or what no stream is called    the stream without a name, if there is one
//! ```

use super::Direction;
use client::Target;
use net::srt::Refusal;

use crate::video::Place;

/// Maximum number of streams of one gateway in each direction.
pub const ROUTES_MAX: usize = 64;

/// A stream into the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name by which callers request the stream; none for any name.
    pub name: Option<String>,
    /// The destination of the stream.
    pub target: Target,
}

/// A stream out of the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The name by which callers request the stream; none for any name.
    pub name: Option<String>,
    /// The place of the stream.
    pub place: Place,
}

/// The streams of a gateway.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Streams into the overlay.
    pub inputs: Vec<Input>,
    /// Streams out of the overlay.
    pub outputs: Vec<Output>,
}

/// One of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The direction of the stream.
    pub direction: Direction,
    /// The index among the streams of this direction.
    pub index: usize,
}

/// The content of a stream id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked<'a> {
    name: &'a str,
    direction: Option<Direction>,
}

impl<'a> Asked<'a> {
    fn parse(id: &'a str) -> Result<Asked<'a>, Refusal> {
        let Some(keys) = id.strip_prefix("#!::") else {
            // The rest of `#!` is the standard's; its form with braces is for lists, which no stream here has.
            return match id.starts_with("#!") {
                true => Err(Refusal::BadRequest),
                false => Ok(Asked {
                    name: id,
                    direction: None,
                }),
            };
        };
        let mut asked = Asked::default();
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or(Refusal::BadRequest)?;
            match (key, value) {
                ("r", name) => asked.name = name,
                ("m", "publish") => asked.direction = Some(Direction::In),
                ("m", "request") => asked.direction = Some(Direction::Out),
                ("m", _) => return Err(Refusal::BadMode),
                // This gateway ignores the user and other keys.
                _ => {}
            }
        }
        Ok(asked)
    }
}

/// Returns whether this stream id has no mode, or one that a gateway knows.
pub(super) fn has_mode(id: &str) -> bool {
    !matches!(Asked::parse(id), Err(Refusal::BadMode))
}

impl Routes {
    /// Returns the stream that a caller requests.
    pub fn find(&self, id: &str) -> Result<Route, Refusal> {
        let asked = Asked::parse(id)?;
        let input = || self.named(asked.name, Direction::In);
        let output = || self.named(asked.name, Direction::Out);
        let found = match asked.direction {
            Some(Direction::In) => input(),
            Some(Direction::Out) => output(),
            // The specification assumes a request if there is no mode.
            None => output().or_else(input),
        };
        if let Some(route) = found {
            return Ok(route);
        }
        match input().or_else(output) {
            Some(_) => Err(Refusal::BadMode),
            None => Err(Refusal::NotFound),
        }
    }

    /// Returns the only stream, if there is exactly one.
    pub fn only(&self) -> Option<Route> {
        let direction = match (&self.inputs[..], &self.outputs[..]) {
            ([_], []) => Direction::In,
            ([], [_]) => Direction::Out,
            _ => return None,
        };
        Some(Route {
            direction,
            index: 0,
        })
    }

    fn named(&self, name: &str, direction: Direction) -> Option<Route> {
        let names: Vec<Option<&str>> = match direction {
            Direction::In => self.inputs.iter().map(|way| way.name.as_deref()).collect(),
            Direction::Out => self.outputs.iter().map(|way| way.name.as_deref()).collect(),
        };
        let place = |wanted| names.iter().position(|name| *name == wanted);
        let index = place(Some(name)).or_else(|| place(None))?;
        Some(Route { direction, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{In, Out};
    use base::NodeAddr;

    fn routes(inputs: &[Option<&str>], outputs: &[Option<&str>]) -> Routes {
        let target = Target::new(NodeAddr(0x0a07_0001), 5);
        Routes {
            inputs: inputs
                .iter()
                .map(|name| Input {
                    name: name.map(str::to_owned),
                    target,
                })
                .collect(),
            outputs: outputs
                .iter()
                .map(|name| Output {
                    name: name.map(str::to_owned),
                    place: Place::Port(5),
                })
                .collect(),
        }
    }

    fn found(routes: &Routes, id: &str) -> Result<(Direction, usize), Refusal> {
        routes.find(id).map(|route| (route.direction, route.index))
    }

    #[test]
    fn a_stream_without_a_name_takes_every_id() {
        let routes = routes(&[None], &[]);
        for id in ["", "studio", "#!::r=studio,m=publish", "#!::u=me"] {
            assert_eq!(found(&routes, id), Ok((In, 0)), "{id}");
        }
        assert_eq!(
            found(&routes, "#!::r=studio,m=request"),
            Err(Refusal::BadMode)
        );
        assert_eq!(routes.only().map(|route| route.direction), Some(In));
    }

    #[test]
    fn names_lead_to_their_streams_and_modes_to_their_way() {
        let routes = routes(&[Some("a"), Some("b")], &[Some("b"), Some("c")]);
        assert_eq!(found(&routes, "a"), Ok((In, 0)));
        assert_eq!(found(&routes, "b"), Ok((Out, 0)));
        assert_eq!(found(&routes, "#!::m=publish,r=b"), Ok((In, 1)));
        assert_eq!(found(&routes, "#!::r=c,m=publish"), Err(Refusal::BadMode));
        assert_eq!(found(&routes, "d"), Err(Refusal::NotFound));
        assert_eq!(found(&routes, ""), Err(Refusal::NotFound));
        assert_eq!(routes.only(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let routes = routes(&[None], &[None]);
        for id in ["#!::studio", "#!{x", "#!{r=x}", "#!", "#!:r=x"] {
            assert_eq!(found(&routes, id), Err(Refusal::BadRequest), "{id}");
        }
        assert_eq!(
            found(&routes, "#!::r=x,m=bidirectional"),
            Err(Refusal::BadMode)
        );
        assert_eq!(found(&routes, "#!::,,m=publish,"), Ok((In, 0)));
    }
}

//! Formats the paths of packets to members for `sinew group show`: both paths with two trees, and second paths to
//! members in trouble.

use crate::names::Names;
use crate::show::{list, text};
use serde_json::Value;

/// Lists the second paths to members in trouble, as the asked node reports them.
pub(crate) fn second_ways(second: &Value, names: &Names) -> Vec<String> {
    if second.is_null() {
        return Vec::new();
    }
    let trouble = list(&second["trouble"]).iter().map(|one| {
        let places: Vec<&str> = list(&one["places"]).iter().map(text).collect();
        format!(
            "{} (links at the {})",
            names.name(text(&one["member"])),
            places.join(" and the ")
        )
    });
    let trouble: Vec<String> = trouble.collect();
    let packets = second["packets"].as_u64().unwrap_or(0);
    let first = match trouble.is_empty() {
        true => "second ways: none, no link to a member loses packets".to_owned(),
        false => format!("second ways, because of losses, to {}", trouble.join(", ")),
    };
    let to: Vec<&str> = list(&second["branches"])
        .iter()
        .map(|node| names.name(text(node)))
        .collect();
    let here = match to.is_empty() {
        true => "none".to_owned(),
        false => format!("to {}", to.join(", ")),
    };
    vec![
        first,
        format!("  from this node: {here}; {packets} copies so far"),
    ]
}

/// Describes the two paths to a member, and the nodes and links that they share.
pub(super) fn two_ways(ways: &Value, names: &Names) -> Vec<String> {
    let path = |way: &Value| {
        let nodes: Vec<&str> = list(way).iter().map(|n| names.name(text(n))).collect();
        nodes.join(" > ")
    };
    let both = list(&ways["ways"]);
    let member = names.both(text(&ways["member"]));
    let mut lines = vec![format!("  to {member}")];
    lines.extend(both.iter().map(|way| format!("    {}", path(way))));
    let links = list(&ways["common_links"]).iter();
    let links: Vec<String> = links
        .map(|link| {
            format!(
                "{} > {}",
                names.name(text(&link[0])),
                names.name(text(&link[1]))
            )
        })
        .collect();
    let nodes = list(&ways["common_nodes"]);
    let shared = match (nodes.is_empty(), links.is_empty()) {
        (true, true) => return lines,
        (false, true) => format!(
            "the node {}",
            path(&ways["common_nodes"]).replace(" > ", ", ")
        ),
        (_, false) => format!("the link {}", links.join(", ")),
    };
    lines.push(format!(
        "    both take {shared}: without it there is no way"
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::delivered;
    use super::*;
    use serde_json::json;

    #[test]
    fn second_ways_are_shown_with_the_trouble_that_they_are_for() {
        let names = Names::of(&json!({}));
        assert!(second_ways(&Value::Null, &names).is_empty());
        let calm = json!({"branches": [], "packets": 7, "trouble": []});
        assert_eq!(
            second_ways(&calm, &names),
            [
                "second ways: none, no link to a member loses packets",
                "  from this node: none; 7 copies so far"
            ]
        );
        let trouble = json!({
            "branches": ["10.7.0.2"], "packets": 9,
            "trouble": [{"member": "10.7.0.5", "places": ["source", "destination"]}],
        });
        assert_eq!(
            second_ways(&trouble, &names),
            [
                "second ways, because of losses, to 10.7.0.5 (links at the source and the destination)",
                "  from this node: to 10.7.0.2; 9 copies so far"
            ]
        );
    }

    #[test]
    fn two_ways_are_shown_with_what_they_share() {
        let status = json!({
            "snapshot": {"name": "ams", "address": "10.7.0.1", "links": []},
            "nodes": [{"name": "fra", "address": "10.7.0.2"}, {"name": "par", "address": "10.7.0.3"}],
        });
        let names = Names::of(&status);
        let apart = json!({
            "member": "10.7.0.3", "common_nodes": [], "common_links": [],
            "ways": [["10.7.0.1", "10.7.0.3"], ["10.7.0.1", "10.7.0.2", "10.7.0.3"]],
        });
        let expected = ["  to par 10.7.0.3", "    ams > par", "    ams > fra > par"];
        assert_eq!(two_ways(&apart, &names), expected);
        let mut shared = apart.clone();
        shared["common_nodes"] = json!(["10.7.0.2"]);
        let told = two_ways(&shared, &names);
        assert_eq!(
            told[3],
            "    both take the node fra: without it there is no way"
        );
        shared["common_links"] = json!([["10.7.0.2", "10.7.0.3"]]);
        let told = two_ways(&shared, &names);
        assert_eq!(
            told[3],
            "    both take the link fra > par: without it there is no way"
        );
        let timed = json!({"delivery": "as-sent", "release_ms": 300});
        assert_eq!(delivered(&timed), ", as-sent after 300 ms");
        assert_eq!(delivered(&json!({"delivery": null})), "");
    }
}

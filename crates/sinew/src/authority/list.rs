//! `net list`: the nodes of the network, and how long their certificates are valid.

use super::List;
use super::add::id_text;
use super::directory::Directory;
use super::rights::{described, tags};
use crate::date::day;
use crate::failure::Outcome;
use crate::table::{Column, Table};
use crate::terminal;
use secure::network::notice_s;
use serde_json::json;

pub(super) fn run(args: &List) -> Outcome {
    let directory = Directory::open(&args.dir)?;
    let now_s = net::Clock::new().unix_s();
    let network = directory.authority.network();
    let mut nodes = Vec::new();
    let is_rotated = network.root_number() > 0;
    let mut table = table(is_rotated);
    for node in &directory.register.nodes {
        let certificate = directory.certificate(node.serial)?;
        let root = network.root_of(&certificate);
        let until_s = root.and_then(|root| network.counts_until_s(root));
        let not_after_s = certificate
            .fields()
            .not_after_s
            .min(until_s.unwrap_or(u64::MAX));
        let groups = described(&certificate);
        let tags = tags(&certificate);
        let state = match not_after_s.checked_sub(now_s) {
            _ if node.revoked => "revoked",
            None => "expired",
            Some(_) if until_s.is_some() => "old root key",
            Some(left_s) if left_s <= notice_s(&certificate) => "expires soon",
            Some(_) => "good",
        };
        let mut row = vec![
            node.name.clone(),
            node.address.to_string(),
            node.serial.to_string(),
            day(not_after_s),
            state.to_owned(),
            if groups.is_empty() {
                "none".into()
            } else {
                groups.join(" ")
            },
            if tags.is_empty() {
                "-".into()
            } else {
                tags.join(" ")
            },
            if node.endpoints.is_empty() {
                "-".into()
            } else {
                node.endpoints.join(" ")
            },
        ];
        if is_rotated {
            row.insert(3, root.map_or("-".into(), |root| root.to_string()));
        }
        table.row(row);
        nodes.push(json!({
            "name": node.name, "address": node.address.to_string(), "serial": node.serial,
            "not_after_s": not_after_s, "root": root, "state": state, "revoked": node.revoked,
            "endpoints": node.endpoints, "may_set_groups": groups, "tags": tags,
        }));
    }
    let register = &directory.register;
    if args.json {
        return terminal::json(&json!({
            "name": register.name, "prefix": register.prefix.to_string(),
            "id": id_text(&directory), "root": network.root_number(), "nodes": nodes,
        }));
    }
    if table.is_empty() {
        return terminal::line(&format!(
            "network {} has no nodes: add one with `sinew net add`",
            register.name
        ));
    }
    let page = table.page(&terminal::look_for(&args.wish), "")?;
    terminal::line(page.to_string().trim_end())
}

/// Returns the table without rows. In a narrow window, what a reader needs least is left out first.
fn table(is_rotated: bool) -> Table {
    let mut columns = vec![
        Column::words("NAME", 0),
        Column::words("ADDRESS", 0),
        Column::numbers("SERIAL", 5),
        Column::words("UNTIL", 0),
        Column::words("STATE", 0),
        Column::words("SETS GROUPS", 4),
        Column::words("TAGS", 2),
        Column::words("ENDPOINTS", 3),
    ];
    if is_rotated {
        columns.insert(3, Column::numbers("ROOT", 1));
    }
    Table::new(&columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Look;

    #[test]
    fn a_narrow_window_shows_whole_names_and_dates() {
        let mut table = table(false);
        let row = "amsterdam 10.107.100.3 12 2027-11-24 good none backup ams.example.net:7700";
        table.row(row.split(' '));
        let look = Look {
            width: Some(60),
            ..Look::default()
        };
        let page = table.page(&look, "").unwrap().to_string();
        let mut lines = page.lines();
        assert_eq!(
            lines.next(),
            Some("NAME       ADDRESS       UNTIL       STATE  TAGS")
        );
        assert_eq!(
            lines.next(),
            Some("amsterdam  10.107.100.3  2027-11-24  good   backup")
        );
    }
}

//! Changes in configurations that users may have edited. Only the affected keys change; comments
//! and other keys stay.

use super::configuration;
use super::register::Entry;
use crate::failure::Failure;
use crate::identity::{FileError, read, write};
use std::path::Path;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

/// Sets the listening addresses that belong to the endpoints `now`, if the present ones belong to
/// the endpoints `before`. Returns true if the file has changed.
pub(super) fn listen(path: &Path, before: &[String], now: &[String]) -> Result<bool, Failure> {
    change(path, |document| {
        let listens = document.get("listen").and_then(Item::as_array).map(texts);
        // `sinew up` lets the node listen at all addresses of both families.
        let of_both = |endpoints: &[String]| -> Vec<String> {
            let all = configuration::listen_here(endpoints, true);
            all.iter().map(ToString::to_string).collect()
        };
        let listens = listens.as_deref();
        let form = if listens == Some(&configuration::listen(before)) {
            Some(configuration::listen(now))
        } else if listens == Some(&of_both(before)) {
            Some(of_both(now))
        } else {
            None
        };
        if let Some(form) = form {
            document["listen"] = value(Array::from_iter(form));
        }
    })
}

/// Sets the list of neighbours. Entries of neighbours that stay are not changed.
pub(super) fn neighbors(path: &Path, links: &[Entry]) -> Result<bool, Failure> {
    change(path, |document| {
        let mut kept = ArrayOfTables::new();
        for link in links {
            let known = tables(document).find(|table| is_of(table, link)).cloned();
            kept.push(known.unwrap_or_else(|| neighbor_table(link)));
        }
        document.remove("neighbor");
        if !kept.is_empty() {
            document["neighbor"] = Item::ArrayOfTables(kept);
        }
    })
}

/// Updates the addresses of a neighbour. With `adds`, the function also adds the neighbour if it is
/// missing.
pub(super) fn neighbor(path: &Path, entry: &Entry, adds: bool) -> Result<bool, Failure> {
    change(path, |document| {
        if !adds && !document.contains_key("neighbor") {
            return;
        }
        let list = document.entry("neighbor");
        let list = list.or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(list) = list.as_array_of_tables_mut() else {
            return;
        };
        if let Some(table) = list.iter_mut().find(|table| is_of(table, entry)) {
            if endpoints(table) != entry.endpoints {
                table.remove("endpoint");
                if let Some(item) = endpoint(entry) {
                    table["endpoint"] = item;
                }
            }
        } else if adds {
            list.push(neighbor_table(entry));
        }
    })
}

fn change(path: &Path, edit: impl FnOnce(&mut DocumentMut)) -> Result<bool, Failure> {
    let text = read(path)?;
    let mut document: DocumentMut = text.parse().map_err(|error| FileError::Content {
        path: path.to_owned(),
        what: format!("{error}"),
    })?;
    edit(&mut document);
    let edited = document.to_string();
    if edited == text {
        return Ok(false);
    }
    write(path, &edited)?;
    Ok(true)
}

fn tables(document: &DocumentMut) -> impl Iterator<Item = &Table> {
    let list = document.get("neighbor").and_then(Item::as_array_of_tables);
    list.into_iter().flat_map(ArrayOfTables::iter)
}

fn is_of(table: &Table, entry: &Entry) -> bool {
    table.get("address").and_then(Item::as_str) == Some(entry.address.to_string().as_str())
}

fn neighbor_table(entry: &Entry) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table["name"] = value(entry.name.as_str());
    table["address"] = value(entry.address.to_string());
    if let Some(item) = endpoint(entry) {
        table["endpoint"] = item;
    }
    table
}

fn endpoint(entry: &Entry) -> Option<Item> {
    match entry.endpoints.as_slice() {
        [] => None,
        [one] => Some(value(one.as_str())),
        more => Some(value(Array::from_iter(more.iter().map(String::as_str)))),
    }
}

fn endpoints(table: &Table) -> Vec<String> {
    match table.get("endpoint") {
        Some(item) => match item.as_array() {
            Some(list) => texts(list),
            None => item.as_str().map(str::to_owned).into_iter().collect(),
        },
        None => Vec::new(),
    }
}

fn texts(list: &Array) -> Vec<String> {
    let texts = list.iter().filter_map(|value| value.as_str());
    texts.map(str::to_owned).collect()
}

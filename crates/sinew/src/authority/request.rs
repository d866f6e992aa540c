//! `net request`: a key that never leaves the node's machine, and the request for its certificate.

use super::Request;
use super::add::fresh_keys;
use super::register::check_node_name;
use crate::failure::{Failure, Outcome};
use crate::identity::{FileError, read_as, read_secret_as, write, write_secret};
use crate::terminal;
use secure::{Keys, Network};
use serde_json::json;
use std::fs;
use std::os::unix::fs::DirBuilderExt;

pub(super) fn run(args: &Request) -> Outcome {
    check_node_name(&args.node)?;
    let network = read_as(&args.network, Network::from_text)?;
    let fail = |error| FileError::Write {
        path: args.dir.clone(),
        error,
    };
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&args.dir)
        .map_err(fail)?;
    let key = args.dir.join("node.key");
    // An existing key stays: a certificate for it may exist already.
    let (keys, made) = match key.exists() {
        true => (read_secret_as(&key, Keys::from_text)?, false),
        false => (fresh_keys()?, true),
    };
    let domains: Vec<&str> = args.domains.iter().map(String::as_str).collect();
    let request = keys.request(network.id(), args.overlay, &args.node, &domains);
    let request = request.map_err(Failure::misused)?;
    if made {
        write_secret(&key, &keys.to_text())?;
    }
    let path = args.dir.join("node.request");
    write(&path, &request.to_text())?;
    write(&args.dir.join("network.pub"), &network.to_text())?;
    if args.json {
        return terminal::json(&json!({
            "name": args.node, "address": args.overlay.to_string(), "key_made": made,
            "key": key.display().to_string(), "request": path.display().to_string(),
        }));
    }
    terminal::line(&format!(
        "{} is for the administrator of the network:\n  \
         sinew net add DIR {} --request {} --address HOST:PORT\n\
         {} stays here",
        path.display(),
        args.node,
        path.file_name().unwrap_or_default().to_string_lossy(),
        key.display()
    ))
}

//! `sinew invite`: makes a token, lists open invitations, and withdraws them.

use super::token::Token;
use crate::authority::directory::entropy;
use crate::authority::{check_node_name, ranges};
use crate::config::{Config, Issuer};
use crate::date::{clock, day};
use crate::failure::{Failure, Outcome};
use crate::quantity::span;
use crate::{identity, terminal};
use base::Duration;
use clap::{Args, FromArgMatches};
use host::admission::{Books, Invitation, Member, hash_of};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use secure::{AuthorityError, Delegation};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use wire::Full;
use wire::bytes::Writer;
use wire::certificate::{GroupRange, MAX_TAGS_BYTES, Tags};
use wire::relay::join::SECRET_BYTES;

/// Number of digits of a hash that identify an invitation for users.
const SHORT: usize = 8;

/// Arguments of `sinew invite`.
#[derive(Debug, Args)]
pub struct Invite {
    /// The issuer's directory, with its node.toml; default: the only one below here or in /etc/sinew
    pub dir: Option<PathBuf>,
    /// How many hosts may join with this token
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub uses: u32,
    /// How long the token is valid
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = span)]
    pub expires: Duration,
    /// The name of the host; default: its own name, or the one it requests
    #[arg(long, conflicts_with = "uses")]
    pub name: Option<String>,
    /// A domain that the host may serve; may be repeated
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// Groups that the host may set, like 239.1.0.0/16, or `all`; may be repeated; default: `none`
    #[arg(long = "may-set-groups", value_name = "RANGE")]
    pub groups: Vec<String>,
    /// A word by which rules name the host, like `backup`; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// List the open invitations and the members instead
    #[arg(long)]
    pub list: bool,
    /// Print the certificates of a member instead, for `sinew net revoke --certificate`
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    pub show: Option<String>,
    /// Withdraw an open invitation, by the first digits of its id
    #[arg(long, value_name = "ID", conflicts_with = "list")]
    pub withdraw: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Invite {
    /// Returns the arguments of `sinew invite DIR`.
    pub fn of(dir: &Path) -> Result<Invite, Failure> {
        let command = Invite::augment_args(clap::Command::new("invite"));
        let words = ["invite".as_ref(), "--".as_ref(), dir.as_os_str()];
        let read = command.try_get_matches_from(words);
        let read = read.and_then(|matches| Invite::from_arg_matches(&matches));
        read.map_err(Failure::misused)
    }
}

/// Runs the command.
pub fn run(args: &Invite) -> Outcome {
    let (dir, config) = find(args.dir.as_deref())?;
    let issuer = config.issuer.as_ref().ok_or_else(|| {
        Failure::misused(format_args!(
            "{} issues no certificates: `sinew net delegate` lets it, `sinew up` makes one that does",
            dir.join("node.toml").display()
        ))
    })?;
    if args.list {
        return list(issuer, args.json);
    }
    if let Some(name) = &args.show {
        return show(issuer, name);
    }
    if let Some(id) = &args.withdraw {
        return withdraw(issuer, id, args.json);
    }
    let delegation = identity::read_as(&issuer.delegation, Delegation::from_text)?;
    let now_s = net::Clock::new().unix_s();
    let identity = identity::identity(&config.key, &config.certificate)?;
    let network = identity::network(&config.network, None, Some(identity.certificate()))?;
    let ends_s = host::admission::ends_s(&delegation, &network);
    if now_s > ends_s {
        return Err(Failure::failed(format_args!(
            "the delegation of this issuer has ended on {}: `sinew net delegate` makes a new one",
            day(ends_s)
        )));
    }
    let groups = ranges(&args.groups)?.unwrap_or_default();
    check(args, &groups, &delegation)?;
    let random = entropy()?;
    let secret: [u8; SECRET_BYTES] = *random.first_chunk().expect("it has 32 bytes");
    let invitation = Invitation {
        uses: args.uses,
        expires_s: now_s
            .saturating_add(args.expires.as_millis() / 1_000)
            .min(ends_s),
        name: args.name.clone(),
        domains: args.domains.clone(),
        groups,
        tags: args.tags.clone(),
    };
    Books::invite(&issuer.books, &secret, &invitation, now_s).map_err(Failure::failed)?;
    let token = Token {
        root: *network.root_key(),
        issuer: identity.certificate().fields().subject.signing_key,
        secret,
        expires_s: invitation.expires_s,
        endpoints: issuer.endpoints.clone(),
    };
    print(args, &token, &hash_of(&secret))
}

/// Checks the options against the delegation, so that the error occurs here and not on the other
/// host.
fn check(args: &Invite, groups: &[GroupRange], delegation: &Delegation) -> Outcome {
    let fields = delegation.fields();
    let name = args.name.as_deref();
    name.map_or(Ok(()), check_node_name)?;
    if let Some(name) = name.filter(|name| !name.ends_with(fields.names)) {
        return Err(Failure::misused(format_args!(
            "this issuer gives no such name: `{name}`; its names end with `{}`",
            fields.names
        )));
    }
    let bound = fields.bound();
    let is_given = |range: &GroupRange| bound.as_ref().is_none_or(|it| it.covers(*range));
    if let Some(range) = groups.iter().find(|range| !is_given(range)) {
        return Err(Failure::misused(format_args!(
            "this issuer may let nobody set {range}: name all that it may give to `sinew net delegate`, with `--may-set-groups {range}`"
        )));
    }
    let mut room = [0; MAX_TAGS_BYTES];
    let tags: Vec<&str> = args.tags.iter().map(String::as_str).collect();
    Tags::emit(&tags, &mut Writer::new(&mut room))
        .map_err(|Full| Failure::misused(format_args!("--tag: {}", AuthorityError::Tags)))?;
    if let Some(tag) = tags.iter().find(|tag| !fields.permits_tag(tag)) {
        return Err(Failure::misused(format_args!(
            "this issuer may not give the tag `{tag}`: name all that it may give to `sinew net delegate`, with `--tag {tag}`"
        )));
    }
    match args.domains.iter().find(|domain| !fields.permits(domain)) {
        None => Ok(()),
        Some(domain) => Err(Failure::misused(format_args!(
            "this issuer may not give the domain `{domain}`: name all that it may give to `sinew net delegate`, with `--domain`"
        ))),
    }
}

fn print(args: &Invite, token: &Token, hash: &str) -> Outcome {
    if args.json {
        return terminal::json(&json!({
            "token": token.to_string(), "id": hash, "uses": args.uses,
            "expires_s": token.expires_s, "endpoints": token.endpoints,
        }));
    }
    let hosts = match args.uses {
        1 => "one host".to_owned(),
        many => format!("{many} hosts"),
    };
    // A pipe gets only the token; a terminal gets more.
    if std::io::stdout().is_terminal() {
        let until = moment(token.expires_s);
        eprintln!("For {hosts} until {until}, on the new host:\n");
        eprintln!("  sinew join {token}\n");
        if let Ok(code) = QrCode::new(token.to_string()) {
            eprintln!("{}", code.render::<Dense1x2>().quiet_zone(true).build());
        }
        eprintln!(
            "Whoever reads it can join. `sinew invite --withdraw {}` takes it back.",
            &hash[..SHORT]
        );
        return Ok(());
    }
    terminal::line(&token.to_string())
}

/// Formats a second as UTC.
fn moment(unix_s: u64) -> String {
    format!("{} {} UTC", day(unix_s), clock(unix_s))
}

fn books(issuer: &Issuer) -> Result<Books, Failure> {
    let delegation = identity::read_as(&issuer.delegation, Delegation::from_text)?;
    let books = Books::open(&issuer.books, delegation.fields().serials.0);
    books.map_err(Failure::failed)
}

/// Returns the books of members that this issuer has renewed for other issuers, each with the name
/// of its file.
fn books_of_others(issuer: &Issuer) -> Result<Vec<(String, Books)>, Failure> {
    let all = issuer.renews.iter().map(|file| {
        let delegation = identity::read_as(file, Delegation::from_text)?;
        let first_serial = delegation.fields().serials.0;
        let books = Books::open(&issuer.books_of(file), first_serial);
        let name = file.file_stem().unwrap_or_default();
        Ok((
            name.to_string_lossy().into_owned(),
            books.map_err(Failure::failed)?,
        ))
    });
    all.collect()
}

/// Shows all certificates of a member, also of one from another issuer.
fn show(issuer: &Issuer, name: &str) -> Outcome {
    let (own, others) = (books(issuer)?, books_of_others(issuer)?);
    let books = std::iter::once(&own).chain(others.iter().map(|(_, books)| books));
    let members = books.flat_map(Books::members);
    let found: Vec<String> = members
        .filter(|member| member.name == name)
        .flat_map(Member::certificates)
        .collect();
    if found.is_empty() {
        return Err(Failure::misused(format_args!(
            "no member `{name}`: `sinew invite --list` has them"
        )));
    }
    terminal::line(found.concat().trim_end())
}

fn list(issuer: &Issuer, as_json: bool) -> Outcome {
    let now_s = net::Clock::new().unix_s();
    let (books, others) = (books(issuer)?, books_of_others(issuer)?);
    let invitations = Books::invitations(&issuer.books).map_err(Failure::failed)?;
    let open: Vec<(String, &Invitation, u32)> = invitations
        .iter()
        .map(|(path, it)| {
            let id = path.file_stem().unwrap_or_default().to_string_lossy();
            let used = books.uses(&id);
            (id.into_owned(), it, used)
        })
        .filter(|(_, it, used)| it.expires_s >= now_s && *used < it.uses)
        .collect();
    if as_json {
        let open: Vec<_> = open
            .iter()
            .map(|(id, it, used)| {
                json!({"id": id, "uses": it.uses, "used": used, "expires_s": it.expires_s,
                       "name": it.name, "domains": it.domains, "may_set_groups": texts(&it.groups),
                       "tags": it.tags})
            })
            .collect();
        let members: Vec<_> = books.members().iter().map(as_json_of).collect();
        let renewed = others.iter().flat_map(|(by, books)| {
            books.members().iter().map(move |it| {
                let mut member = as_json_of(it);
                member["by"] = json!(by);
                member
            })
        });
        let renewed: Vec<_> = renewed.collect();
        return terminal::json(
            &json!({"open": open, "members": members, "renewed_for_others": renewed}),
        );
    }
    let mut text = String::new();
    for (id, it, used) in &open {
        let _ = writeln!(
            text,
            "open   {}  {used} of {} used, until {}",
            &id[..SHORT.min(id.len())],
            it.uses,
            moment(it.expires_s)
        );
    }
    for it in books.members() {
        let _ = writeln!(
            text,
            "member {:<15}  {}, certificate {} until {}",
            it.address.to_string(),
            it.name,
            it.serial,
            day(it.not_after_s)
        );
    }
    for (by, it) in others
        .iter()
        .flat_map(|(by, books)| books.members().iter().map(move |it| (by, it)))
    {
        let _ = writeln!(
            text,
            "{by} {:<15}  {}, certificate {} until {}",
            it.address.to_string(),
            it.name,
            it.serial,
            day(it.not_after_s)
        );
    }
    if text.is_empty() {
        text.push_str("no open invitation and no member yet\n");
    }
    terminal::line(text.trim_end())
}

fn as_json_of(it: &Member) -> Value {
    json!({"name": it.name, "address": it.address.to_string(), "serial": it.serial,
           "not_after_s": it.not_after_s, "endpoints": it.endpoints,
           "invitation": it.invitation, "may_set_groups": texts(&it.groups),
           "tags": it.tags})
}

fn texts(groups: &[GroupRange]) -> Vec<String> {
    groups.iter().map(ToString::to_string).collect()
}

fn withdraw(issuer: &Issuer, id: &str, as_json: bool) -> Outcome {
    let invitations = Books::invitations(&issuer.books).map_err(Failure::failed)?;
    let is_meant = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        id.len() >= SHORT && stem.starts_with(id)
    };
    let mut meant = invitations.iter().filter(|(path, _)| is_meant(path));
    let (path, _) = meant.next().ok_or_else(|| {
        Failure::misused(format_args!(
            "no invitation `{id}`: `sinew invite --list` has them; give {SHORT} digits at least"
        ))
    })?;
    fs::remove_file(path).map_err(|error| {
        Failure::failed(format_args!("cannot remove {}: {error}", path.display()))
    })?;
    match as_json {
        true => terminal::json(&json!({"withdrawn": id})),
        false => terminal::line("withdrawn: the token opens nothing any more"),
    }
}

/// Finds the issuer's directory and its configuration.
fn find(dir: Option<&Path>) -> Result<(PathBuf, Config), Failure> {
    if let Some(dir) = dir {
        let config = Config::load(&dir.join("node.toml")).map_err(Failure::misused)?;
        return Ok((dir.to_owned(), config));
    }
    let mut found = Vec::new();
    let below = ["./*/*", "./*", ".", "/etc/sinew/*"];
    for dir in below.iter().flat_map(|pattern| matching(pattern)) {
        // A file that is not a configuration of this version cannot be the right one.
        let dir = fs::canonicalize(&dir).unwrap_or(dir);
        if found.iter().any(|(known, _)| *known == dir) {
            continue;
        }
        if let Ok(config) = Config::load(&dir.join("node.toml"))
            && config.issuer.is_some()
        {
            found.push((dir, config));
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::misused(
            "no issuer here or in /etc/sinew: name its directory, or make a network by `sinew up`",
        )),
        _ => {
            let dirs: Vec<String> = found
                .iter()
                .map(|(dir, _)| dir.display().to_string())
                .collect();
            Err(Failure::misused(format_args!(
                "several issuers are here: name one of {}",
                dirs.join(", ")
            )))
        }
    }
}

/// Returns the directories that match a pattern of `*`.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in Path::new(pattern).components() {
        let part = part.as_os_str();
        found = match part == "*" {
            false => found.into_iter().map(|dir| dir.join(part)).collect(),
            true => found
                .iter()
                .filter_map(|dir| fs::read_dir(dir).ok())
                .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
                .filter(|path| path.is_dir())
                .collect(),
        };
    }
    found
}

//! The tests of the Python package are in `tests/test_*.py`; `cargo xtask wheel` runs them.
//!
//! This test exists because of its dependencies: an integration test makes `cargo test --workspace`
//! build the extension module, with the features of everything else that is tested. The wheel then
//! packs that file and compiles nothing. The checks below need no Python.

const STUBS: &str = include_str!("../sinew/_sinew.pyi");
const MODULE: &str = include_str!("../src/lib.rs");

#[test]
fn every_exported_name_has_a_stub() {
    let exported = MODULE.lines().filter_map(|line| {
        let names = line.trim().strip_prefix("use crate::")?;
        Some(names.trim_end_matches(';').split_once("::")?.1)
    });
    let names = exported.flat_map(|names| names.trim_matches(['{', '}']).split(", "));
    let mut count = 0;
    for name in names {
        let has = |word: &str| STUBS.contains(&format!("{word} {name}"));
        assert!(
            has("class") || has("def"),
            "`{name}` is missing in _sinew.pyi"
        );
        count += 1;
    }
    assert!(
        count >= 10,
        "{count} names found: the module has another form"
    );
}

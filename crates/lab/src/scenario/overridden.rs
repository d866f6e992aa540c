//! Node settings that replace those of a scenario during one piece of work.
//!
//! An experiment makes its scenarios internally, so no argument could pass a setting to them. [`with`] holds the
//! settings for the thread that measures, and every simulation that starts in the meantime applies them last, after the
//! profile and the file.

use overlay::Settings;
use std::cell::{Cell, RefCell};

thread_local! {
    static WANTED: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` while simulations of this thread use `settings`. Returns also whether any simulation used them.
///
/// The caller must have checked every key and value with [`Settings::set`].
pub(crate) fn with<T>(settings: &[(String, String)], work: impl FnOnce() -> T) -> (T, bool) {
    /// Ends the replacement, also if the work panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            WANTED.take();
        }
    }
    WANTED.replace(settings.to_vec());
    TAKEN.set(false);
    let _end = End;
    let done = work();
    (done, TAKEN.get())
}

/// Returns the settings with the replacements.
pub(super) fn apply(mut settings: Settings) -> Settings {
    WANTED.with_borrow(|wanted| {
        for (key, value) in wanted {
            settings
                .set(key, value)
                .expect("a setting is tried before it is wanted");
            TAKEN.set(true);
        }
    });
    settings
}

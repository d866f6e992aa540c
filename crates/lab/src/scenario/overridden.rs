//! Settings of nodes that somebody wants otherwise than a scenario has them, for one piece of work.
//!
//! An experiment makes its scenarios inside, so there is no argument by which a setting could reach
//! them. [`with`] holds them for the thread that measures, and every simulation that starts meanwhile
//! takes them last, over the profile and the file.

use overlay::Settings;
use std::cell::{Cell, RefCell};

thread_local! {
    static WANTED: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` while simulations of this thread take `settings`; whether any has.
///
/// Every key and value must have been tried by [`Settings::set`].
pub(crate) fn with<T>(settings: &[(String, String)], work: impl FnOnce() -> T) -> (T, bool) {
    /// Ends it also when the work panics.
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

/// The settings, with what is wanted otherwise.
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

//! External libraries that are loaded when they are first used.

/// Declares a table of a library's functions, under their own names. Each is looked up when the table is made.
///
/// The types have to be those of the library's header; the header is named for that reason.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident of $header:literal: $($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            fn resolve(file: &libloading::Library) -> Result<$table, libloading::Error> {
                Ok($table {
                    $($name: {
                        let symbol = concat!(stringify!($name), "\0").as_bytes();
                        // SAFETY: the type is that of the declaration of this name in the header that
                        // the table names.
                        *unsafe { file.get::<unsafe extern "C" fn($($argument),*) -> $result>(symbol) }?
                    },)*
                })
            }
        }
    };
}

pub(crate) use functions;

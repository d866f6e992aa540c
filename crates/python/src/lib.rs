//! The extension module `sinew._sinew`: the base of the Python package, as thin as possible.
//!
//! ```text
//!   Python package (sinew/)      names, units, tables, asyncio, what a notebook shows
//!        │  JSON texts, bytes, numbers
//!   this crate                   GIL released, Ctrl-C noticed, errors as exceptions
//!        │
//!   lab · tools · client · sinew the very code of the command line
//! ```
//! Results with a documented JSON are passed as that JSON, so that Python and the command line cannot differ. Only
//! datagrams and bytes of streams are passed as objects.
//!
//! Long work runs on its own thread ([`work`]). The calling thread wakes up twenty times a second, lets Python handle
//! signals, and reports progress. Python code runs on an engine's thread only if a caller puts functions into a
//! simulation ([`custom`]).
#![deny(unsafe_code)]

mod cli;
mod custom;
mod errors;
mod held;
mod lab;
mod node;
mod scenario;
mod sockets;
mod work;

/// The extension module; `sinew/_sinew.pyi` has the types.
#[pyo3::pymodule]
mod _sinew {
    #[pymodule_export]
    use crate::cli::{command_line, name_program, settle};
    #[pymodule_export]
    use crate::errors::Error;
    #[pymodule_export]
    use crate::lab::{
        lab_cells, lab_conclude, lab_define, lab_entry, lab_given, lab_is_file, lab_list,
        lab_measure,
    };
    #[pymodule_export]
    use crate::node::Node;
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::sockets::{Listener, Socket, Stream};
    use pyo3::types::{PyModule, PyModuleMethods};
    use pyo3::{Bound, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("build", ::lab::experiment::build())
    }
}

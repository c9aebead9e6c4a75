//! Arithmetic over buffers for Culm: no protocol, no input or output, no policy. Everything here has a twin in Python,
//! and the same tests.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

pub mod columns;
pub mod entries;
pub mod fingerprints;
pub mod lzfoo;
pub mod payloads;
pub mod ranges;
pub mod signatures;

use signatures::{NoRandomBits, SIGNATURE_BYTES, Signed};

/// What `culm.native` expects; counts up when a function changes its meaning.
const INTERFACE: u32 = 10;
/// Where an entry has its author: docs/specs/bamboo.md, "Entries".
const AUTHOR: std::ops::Range<usize> = 1..33;

impl From<NoRandomBits> for PyErr {
    fn from(_: NoRandomBits) -> Self {
        PyOSError::new_err("the system gives no random bits")
    }
}

/// One byte for each encoded entry: 1 if libsodium certainly accepts its signature, 0 if it has to be asked.
#[pyfunction]
fn accepted<'py>(py: Python<'py>, entries: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyBytes>> {
    let signed = entries.iter().map(|entry| parts(entry)).collect::<Option<Vec<_>>>();
    let signed = signed.ok_or_else(|| PyValueError::new_err("an entry has at least its author and a signature"))?;
    let verdicts = py.detach(|| signatures::accepted(&signed))?;
    Ok(PyBytes::new(py, &verdicts.into_iter().map(u8::from).collect::<Vec<_>>()))
}

fn parts(entry: &[u8]) -> Option<Signed<'_>> {
    let (message, signature) = entry.split_last_chunk::<SIGNATURE_BYTES>()?;
    let author = message.get(AUTHOR)?.try_into().ok()?;
    Some(Signed { author, message, signature })
}

#[pymodule]
fn culm_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    lzfoo::add(module)?;
    payloads::add(module)?;
    ranges::add(module)?;
    columns::add(module)?;
    module.add_function(wrap_pyfunction!(accepted, module)?)
}

//! Payloads, a piece at a time: their hash, and the checksums that a store keeps of them.

use blake2b_simd::State;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// BLAKE2b-512 of pieces that come one after the other.
#[pyclass]
struct Blake2b(State);

#[pymethods]
impl Blake2b {
    #[new]
    fn new() -> Self {
        Self(State::new())
    }

    /// Several pieces at once: to get the interpreter's lock back may take as long as to hash one.
    fn update(&mut self, py: Python<'_>, pieces: Vec<PyBackedBytes>) {
        let state = &mut self.0;
        py.detach(|| {
            for piece in &pieces {
                state.update(piece);
            }
        });
    }

    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.finalize().as_bytes())
    }
}

/// The CRC-32 of what `before` is the CRC-32 of, and of `data` from `start` up to `end` behind it; as zlib has it.
#[pyfunction]
fn crc32(py: Python<'_>, data: PyBackedBytes, before: u32, start: usize, end: usize) -> PyResult<u32> {
    let part = data.get(start..end).ok_or_else(|| PyValueError::new_err("a part outside of the data"))?;
    Ok(py.detach(|| {
        let mut sum = crc32fast::Hasher::new_with_initial(before);
        sum.update(part);
        sum.finalize()
    }))
}

/// Put what this file has into the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Blake2b>()?;
    module.add_function(wrap_pyfunction!(crc32, module)?)
}

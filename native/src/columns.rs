//! What `entries` finds, for Python: where it makes objects, the fields of each entry; else columns, a `bytes` for each
//! field, numbers of 8 bytes in the machine's order.
//!
//! Python makes arrays of the columns without a copy (`memoryview.cast`, `numpy.frombuffer`). An offset of -1 stands for
//! a link that the format leaves out.

use crate::entries::{self, Digest64, Fields, Framing};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::HashMap;
use std::ops::Deref;

/// As `culm.bamboo.entry.MAX_ENTRY_BYTES`: no entry is longer.
const MOST_BYTES: usize = 322;
const NO_LINK: u64 = u64::MAX;
/// Entries up to which the interpreter's lock is kept.
const FEW: usize = 8;

/// What Python gives as data, so that it cannot change while the interpreter goes on: others may write into a buffer that
/// is no `bytes`, so that is copied.
enum Data {
    Bytes(PyBackedBytes),
    Copy(Vec<u8>),
}

impl Data {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::Bytes(bytes.clone().into())),
            Err(_) => Ok(Self::Copy(PyBuffer::get(given)?.to_vec(given.py())?)),
        }
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Copy(bytes) => bytes,
        }
    }
}

/// Columns of start, end, log_id, seq, target, lipmaalink, backlink, size and payload_hash, good, is_end.
#[derive(Default)]
struct Columns {
    numbers: [Vec<u8>; 9],
    good: Vec<u8>,
    is_end: Vec<u8>,
}

impl Columns {
    /// Add the record from `start` to `end`; None: it is no entry, and only where it stands means anything.
    fn push(&mut self, start: usize, end: usize, found: Option<Fields>) {
        let place = |at: usize| (start + at) as u64;
        let link = |at: Option<usize>| at.map_or(NO_LINK, place);
        let fields = found.unwrap_or_default();
        let row = [
            start as u64,
            end as u64,
            fields.log_id,
            fields.seq,
            fields.target,
            link(fields.lipmaalink),
            link(fields.backlink),
            fields.size,
            place(fields.payload_hash),
        ];
        for (column, number) in self.numbers.iter_mut().zip(row) {
            column.extend(number.to_ne_bytes());
        }
        self.good.push(found.is_some().into());
        self.is_end.push(fields.is_end.into());
    }

    fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let columns = self.numbers.iter().chain([&self.good, &self.is_end]);
        PyTuple::new(py, columns.map(|column| PyBytes::new(py, column)).collect::<Vec<_>>())
    }
}

/// What Python makes an entry of: its bytes, author, log id, number, links, size and YAMF-hash.
type Row<'py> = Bound<'py, PyTuple>;

/// Makes rows of entries. Neighbours mostly have one author, and link to each other: what is the same, they share.
#[derive(Default)]
struct Rows<'py> {
    author: Option<Bound<'py, PyBytes>>,
    hash: Option<Bound<'py, PyBytes>>,
}

impl<'py> Rows<'py> {
    fn next(&mut self, encoded: Bound<'py, PyBytes>, fields: &Fields, digest: &Digest64) -> PyResult<Row<'py>> {
        let (py, data) = (encoded.py(), encoded.as_bytes());
        let shared = |before: &Option<Bound<'py, PyBytes>>, own: &[u8]| match before {
            Some(before) if before.as_bytes() == own => before.clone(),
            _ => PyBytes::new(py, own),
        };
        let link = |at: usize| shared(&self.hash, &data[at - entries::YAMF_PREFIX.len()..at + entries::DIGEST_BYTES]);
        let (lipmaalink, backlink) = (fields.lipmaalink.map(link), fields.backlink.map(link));
        let author = shared(&self.author, &data[1..entries::LOG_AT]);
        let hash = PyBytes::new(py, &[&entries::YAMF_PREFIX, &digest[..]].concat());
        (self.author, self.hash) = (Some(author.clone()), Some(hash.clone()));
        (encoded.clone(), author, fields.log_id, fields.seq, lipmaalink, backlink, fields.size, hash).into_pyobject(py)
    }
}

/// The entries from the beginning of `data` on, each followed by its payload, up to the first that is not whole; and
/// where each begins.
#[pyfunction]
pub fn entries_followed<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Vec<(usize, Row<'py>)>> {
    let (found, digests) = py.detach(|| {
        let found: Vec<_> = entries::followed(data).collect();
        let digests = entries::digests(found.iter().map(|(start, fields)| &data[*start..start + fields.length]));
        (found, digests)
    });
    let mut made = Rows::default();
    let rows = found.iter().zip(&digests).map(|((start, fields), digest)| {
        let encoded = PyBytes::new(py, &data[*start..start + fields.length]);
        Ok((*start, made.next(encoded, fields, digest)?))
    });
    rows.collect()
}

/// The entries of these bytes, each for itself; None if one is no entry.
#[pyfunction]
pub fn entries_apart<'py>(py: Python<'py>, encoded: Vec<PyBackedBytes>) -> PyResult<Option<Vec<Row<'py>>>> {
    let look = || {
        let whole = |record: &PyBackedBytes| entries::pull(record).filter(|fields| fields.length == record.len());
        let fields = encoded.iter().map(whole).collect::<Option<Vec<_>>>()?;
        Some((fields, entries::digests(encoded.iter().map(|record| &record[..]))))
    };
    // Letting go of the interpreter's lock takes longer than a few entries.
    let Some((fields, digests)) = (if encoded.len() > FEW { py.detach(look) } else { look() }) else {
        return Ok(None);
    };
    let mut made = Rows::default();
    let rows = encoded.into_iter().zip(&fields).zip(&digests).map(|((record, fields), digest)| {
        made.next(record.into_pyobject(py)?.cast_into()?, fields, digest)
    });
    rows.collect::<PyResult<_>>().map(Some)
}

/// Entries of one log that are sent without what their reader knows, each with its payload behind it; and where they end.
///
/// `framing` is the byte in front of an entry, and the one in front of its payload. `known` has the digests (64 bytes) of
/// earlier entries, by number; see `entries::linked`.
#[pyfunction]
pub fn entries_linked<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    framing: (u8, Option<u8>),
    head: &[u8],
    first: u64,
    known: Vec<(u64, PyBackedBytes)>,
    most: usize,
) -> PyResult<(Vec<(Row<'py>, Bound<'py, PyBytes>)>, usize)> {
    let data = Data::of(data)?;
    let known = known.into_iter().map(|(seq, digest)| Some((seq, digest.as_ref().try_into().ok()?)));
    let known = known.collect::<Option<HashMap<u64, Digest64>>>();
    let known = known.ok_or_else(|| PyValueError::new_err("a digest has 64 bytes"))?;
    let framing = Framing { lead: framing.0, mark: framing.1 };
    let found = py.detach(|| entries::linked(&data, framing, head, first, known, most));
    let (mut made, mut begin) = (Rows::default(), 0);
    let rows = found.entries.iter().map(|one| {
        let encoded = &found.encoded[begin..one.end];
        begin = one.end;
        let fields = entries::pull(encoded).ok_or_else(|| PyValueError::new_err("the head is that of no entry"))?;
        let row = made.next(PyBytes::new(py, encoded), &fields, &one.digest)?;
        Ok((row, PyBytes::new(py, &data[one.payload.clone()])))
    });
    Ok((rows.collect::<PyResult<_>>()?, found.entries.last().map_or(0, |last| last.payload.end)))
}

/// The fields of the records from each of `starts` to before each of `ends` (8 bytes each) in `data`.
#[pyfunction]
pub fn entries_at<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    starts: &[u8],
    ends: &[u8],
) -> PyResult<Bound<'py, PyTuple>> {
    let (data, places) = (Data::of(data)?, places(starts, ends)?);
    let columns = py.detach(|| {
        let mut columns = Columns::default();
        for (start, end) in places {
            let record = data.get(start..end).filter(|record| record.len() <= MOST_BYTES);
            let found = record.and_then(entries::pull).filter(|fields| fields.length == end - start);
            columns.push(start, end, found);
        }
        columns
    });
    columns.into_python(py)
}

/// The BLAKE2b-512 hashes of the records from each of `starts` to before each of `ends`: 64 bytes each.
#[pyfunction]
pub fn digests<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    starts: &[u8],
    ends: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let (data, places) = (Data::of(data)?, places(starts, ends)?);
    let found = py.detach(|| {
        let records: Option<Vec<_>> = places.into_iter().map(|(start, end)| data.get(start..end)).collect();
        records.map(|records| entries::digests(records).concat())
    });
    let found = found.ok_or_else(|| PyValueError::new_err("a record stands outside of the bytes"))?;
    Ok(PyBytes::new(py, &found))
}

/// Two columns of 8 bytes for each record, as pairs.
pub fn places(starts: &[u8], ends: &[u8]) -> PyResult<Vec<(usize, usize)>> {
    if starts.len() != ends.len() || starts.len() % 8 != 0 {
        return Err(PyValueError::new_err("starts and ends are columns of 8 bytes for each record"));
    }
    let number = |bytes: &[u8]| {
        usize::try_from(u64::from_ne_bytes(bytes.try_into().expect("a chunk of 8"))).unwrap_or(usize::MAX)
    };
    Ok(starts.chunks_exact(8).zip(ends.chunks_exact(8)).map(|(start, end)| (number(start), number(end))).collect())
}

/// Put the functions of this file into the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(entries_followed, module)?)?;
    module.add_function(wrap_pyfunction!(entries_apart, module)?)?;
    module.add_function(wrap_pyfunction!(entries_linked, module)?)?;
    module.add_function(wrap_pyfunction!(entries_at, module)?)?;
    module.add_function(wrap_pyfunction!(digests, module)?)
}

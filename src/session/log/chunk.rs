//! Bytes of a file in memory. It knows nothing of what they mean.

use std::fs::File;
use std::io;

use super::shared::Place;
use super::spool::read_up_to;

/// A part of an index segment in memory.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) segment: u64,
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Chunk {
    /// What is in memory from this place on.
    pub(super) fn at(&self, place: Place) -> &[u8] {
        let offset = place.offset.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        match offset {
            Some(offset) if place.segment == self.segment => self.bytes.get(offset..).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// Reads so many bytes of a file.
pub(super) fn read_exact(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let (at, rest) = (offset + bytes.len() as u64, len - bytes.len());
        if !read_up_to(file, &mut bytes, rest, at)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}

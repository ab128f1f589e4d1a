//! One stream's bytes: taken from its pipe into segment files, and read back by offset.
//!
//! Byte `n` of the stream lies in segment `n / segment_bytes`. The size of the last segment says exactly what was taken
//! from the pipe, so that a new process goes on where a killed one stopped. It knows no events; of text it knows where a
//! character begins.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use repltool_protocol::event::StreamName;
use rustix::buffer::spare_capacity;
use rustix::pipe::SpliceFlags;

use super::Edge;
use super::files::{Files, Name, Part};
use super::record::Range;

/// Most that one splice takes and one event carries, in bytes.
pub(super) const MAX_PIECE: u64 = 64 * 1024;

/// The writing end.
#[derive(Debug)]
pub(super) struct Spool {
    stream: StreamName,
    segment_bytes: u64,
    /// The first segment that is kept.
    first: u64,
    /// The offset after the last byte taken from the pipe.
    end: u64,
    /// The offset after the last byte that an event covers.
    announced: u64,
    current: Option<(u64, Arc<File>)>,
}

impl Spool {
    pub(super) fn new(stream: StreamName, segment_bytes: u64) -> Self {
        Self { stream, segment_bytes, first: 0, end: 0, announced: 0, current: None }
    }

    /// Takes up what an earlier process left. `kept` and `announced` are what the index says about the first event that
    /// is kept and about the last one. Also tells whether bytes are missing that were announced; what follows then
    /// begins a new segment, because a hole would read as zeros.
    pub(super) fn open(
        files: &Files,
        stream: StreamName,
        segment_bytes: u64,
        kept: u64,
        announced: u64,
    ) -> io::Result<(Self, bool)> {
        let mut spool = Self { announced, ..Self::new(stream, segment_bytes) };
        for number in files.numbers(Part::Spool(stream))? {
            if number < kept / segment_bytes {
                files.remove(Name::spool(stream, number))?;
                continue;
            }
            let size = std::fs::metadata(files.path(Name::spool(stream, number)))?.len();
            spool.end = number.saturating_mul(segment_bytes).saturating_add(size);
        }
        spool.first = kept / segment_bytes;
        let missing = spool.end < announced;
        if missing {
            spool.end = announced.div_ceil(segment_bytes) * segment_bytes;
            spool.announced = spool.end;
        }
        Ok((spool, missing))
    }

    pub(super) fn announced(&self) -> u64 {
        self.announced
    }

    /// Bytes that no event covers yet.
    pub(super) fn unannounced(&self) -> u64 {
        self.end - self.announced
    }

    /// Bytes that are kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.end.saturating_sub(self.first * self.segment_bytes)
    }

    /// Moves at most `max` bytes from the pipe to the end of the spool; 0 is the end of the pipe.
    pub(super) fn splice(&mut self, files: &Files, pipe: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        if max == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let number = self.end / self.segment_bytes;
        let mut offset = self.end % self.segment_bytes;
        let room = MAX_PIECE.min(self.segment_bytes - offset);
        let len = usize::try_from(room).map_or(max, |room| room.min(max));
        let file = self.segment(files, number)?;
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let moved = rustix::pipe::splice(pipe, None, &*file, Some(&mut offset), len, flags)?;
        self.end += moved as u64;
        Ok(moved)
    }

    fn segment(&mut self, files: &Files, number: u64) -> io::Result<Arc<File>> {
        if let Some((held, file)) = &self.current
            && *held == number
        {
            return Ok(file.clone());
        }
        let file = files.append(Name::spool(self.stream, number))?;
        self.current = Some((number, file.clone()));
        Ok(file)
    }

    /// The next piece that an event can carry: what is not announced yet, at most [`MAX_PIECE`], cut so that no
    /// character falls into two pieces.
    pub(super) fn next_piece(&self, files: &Files, edge: Edge) -> io::Result<Option<Range>> {
        let taken = self.unannounced().min(MAX_PIECE);
        let mut range = Range { offset: self.announced, len: u32::try_from(taken).unwrap_or(0) };
        if taken < self.unannounced() || edge != Edge::Flush {
            range.len -= self.cut_character(files, range)?;
        }
        Ok((range.len > 0).then_some(range))
    }

    /// Marks a piece as covered by an event.
    pub(super) fn announce(&mut self, range: Range) {
        self.announced += u64::from(range.len);
    }

    /// Leaves out what is not announced.
    pub(super) fn skip(&mut self) {
        self.announced = self.end;
    }

    /// How many bytes at the end of a range are the begin of a character that is not complete.
    fn cut_character(&self, files: &Files, range: Range) -> io::Result<u32> {
        let len = range.len.min(3);
        let mut tail = [0; 3];
        let offset = range.offset + u64::from(range.len - len);
        let mut source = Source { stream: self.stream, segment_bytes: self.segment_bytes, held: self.current.clone() };
        let bytes = source.read(files, Range { offset, len })?;
        let tail = match tail.get_mut(..bytes.len()) {
            Some(tail) if bytes.len() == len as usize => tail,
            _ => return Ok(0),
        };
        tail.copy_from_slice(&bytes);
        Ok(incomplete(tail))
    }

    /// Unlinks the segments that lie wholly before `offset`.
    pub(super) fn release(&mut self, files: &Files, offset: u64) -> io::Result<()> {
        let first = offset / self.segment_bytes;
        if self.first < first {
            for number in files.numbers(Part::Spool(self.stream))?.into_iter().take_while(|number| *number < first) {
                files.remove(Name::spool(self.stream, number))?;
            }
            self.first = first;
        }
        Ok(())
    }
}

/// The length of a character at the end of `tail` (at most 3 bytes) that is valid so far but not complete.
///
/// `from_utf8_lossy` makes one U+FFFD of each longest valid prefix, so cutting before such a prefix, and nowhere else,
/// gives the pieces the same text as the whole.
pub(super) fn incomplete(tail: &[u8]) -> u32 {
    let Some(lead) = tail.iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    match std::str::from_utf8(&tail[lead..]) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => (tail.len() - lead) as u32,
        _ => 0,
    }
}

/// A reading end: it holds the descriptor of the segment it read last.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) stream: StreamName,
    pub(super) segment_bytes: u64,
    pub(super) held: Option<(u64, Arc<File>)>,
}

impl Source {
    pub(super) fn new(stream: StreamName, segment_bytes: u64) -> Self {
        Self { stream, segment_bytes, held: None }
    }

    /// Reads a range of the stream. Fewer bytes than asked for mean that the rest is no longer there.
    pub(super) fn read(&mut self, files: &Files, range: Range) -> io::Result<Vec<u8>> {
        let len = range.len as usize;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = range.offset.saturating_add(bytes.len() as u64);
            let (number, offset) = (at / self.segment_bytes, at % self.segment_bytes);
            let room = usize::try_from(self.segment_bytes - offset).unwrap_or(usize::MAX).min(len - bytes.len());
            let file = match self.segment(files, number) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                file => file?,
            };
            if !read_up_to(&file, &mut bytes, room, offset)? {
                break;
            }
        }
        Ok(bytes)
    }

    fn segment(&mut self, files: &Files, number: u64) -> io::Result<Arc<File>> {
        if let Some((held, file)) = &self.held
            && *held == number
        {
            return Ok(file.clone());
        }
        let file = files.read(Name::spool(self.stream, number))?;
        self.held = Some((number, file.clone()));
        Ok(file)
    }
}

/// Appends up to `len` bytes of a file to `out`, which must have room for them; whether any came.
pub(super) fn read_up_to(file: &File, out: &mut Vec<u8>, len: usize, offset: u64) -> io::Result<bool> {
    let before = out.len();
    rustix::io::retry_on_intr(|| rustix::io::pread(file, spare_capacity(out), offset))?;
    out.truncate(before.saturating_add(len));
    Ok(out.len() > before)
}

#[cfg(test)]
mod tests {
    use super::incomplete;

    #[test]
    fn only_a_character_that_may_still_become_whole_is_held() {
        let held: [(&[u8], u32); 12] = [
            (b"", 0),
            (b"abc", 0),
            ("aé".as_bytes(), 0),
            (b"ab\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            (b"\x9f\x98\x80", 0),
            (b"\xe2\x82\xac", 0),
            (b"a\xe0\x80", 0),
            (b"a\xed\xa0", 0),
            (b"\xc3\xe2\x82", 2),
            (b"ab\xff", 0),
        ];
        for (tail, expected) in held {
            assert_eq!(incomplete(tail), expected, "{tail:x?}");
        }
    }
}

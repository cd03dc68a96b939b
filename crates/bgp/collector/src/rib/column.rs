//! A vector in pages: it grows without moving elements and without spare capacity.

use std::ops::{Index, IndexMut};

/// Elements by number, in blocks of [`PIECE`].
#[derive(Debug)]
pub(super) struct Column<T> {
    pieces: Vec<Vec<T>>,
}

const PIECE: usize = 4096;

impl<T> Column<T> {
    pub(super) const fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    pub(super) fn push(&mut self, value: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(value),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(value);
                self.pieces.push(piece);
            }
            // The first block grows, so that small tables stay small.
            None => self.pieces.push(vec![value]),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.pieces.get(at / PIECE)?.get(at % PIECE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub(super) fn memory(&self) -> usize {
        let elements: usize = self.pieces.iter().map(Vec::capacity).sum();
        elements * size_of::<T>() + self.pieces.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.pieces[at / PIECE][at % PIECE]
    }
}

impl<T> IndexMut<usize> for Column<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.pieces[at / PIECE][at % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_elements() {
        let mut column = Column::new();
        assert_eq!((column.len(), column.memory(), column.get(0)), (0, 0, None));
        (0..10_000).for_each(|value| column.push(value));
        column[9_000] = 1;
        assert_eq!((column.len(), column[8_999], column[9_000]), (10_000, 8_999, 1));
        assert_eq!(column.get(10_000), None);
        assert_eq!(column.iter().sum::<usize>(), 9_999 * 5_000 - 8_999);
    }
}

//! Slices beyond the first of fragments that came in several slices: a bounded table of links.
//!
//! ```text
//!  entry { slice, tag ─┐ }
//!                      └► link { slice, tag ─┐ }
//!                                            └► link { slice, tag 0 }      free links hang on the same tags
//! ```

use thalweg_data::Slice;

/// The table. A link's name is its place + 1; 0 names none.
pub(super) struct Chains {
    links: Vec<Slice>,
    first_free: u32,
    free: usize,
}

impl Chains {
    pub fn new(links: usize) -> Chains {
        let mut chains = Chains { links: vec![Slice::default(); links], first_free: 0, free: 0 };
        chains.clear();
        chains
    }

    /// Frees every link.
    pub fn clear(&mut self) {
        let last = self.links.len() as u32;
        self.links.iter_mut().zip(2..).for_each(|(link, next)| link.tag = if next > last { 0 } else { next });
        (self.first_free, self.free) = (u32::from(last > 0), self.links.len());
    }

    /// Links that are free.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Links that there are.
    pub fn capacity(&self) -> usize {
        self.links.len()
    }

    /// Keeps `slices` and returns the name of the first, which goes into a tag. The caller has looked that there is space.
    pub fn keep(&mut self, slices: &[Slice]) -> u32 {
        let mut next = 0;
        for slice in slices.iter().rev() {
            let name = self.first_free;
            let link = &mut self.links[name as usize - 1];
            self.first_free = link.tag;
            *link = slice.tagged(next);
            self.free -= 1;
            next = name;
        }
        next
    }

    /// Frees the links of a fragment from `name` on, giving each slice to `each`.
    pub fn release(&mut self, mut name: u32, mut each: impl FnMut(Slice)) {
        while name != 0 {
            let link = &mut self.links[name as usize - 1];
            each(*link);
            let next = link.tag;
            link.tag = self.first_free;
            self.first_free = name;
            self.free += 1;
            name = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_go_round() {
        let slice = |offset| Slice { offset, ..Slice::default() };
        let mut chains = Chains::new(5);
        for turn in 0..100 {
            let one = chains.keep(&[slice(turn), slice(turn + 1)]);
            let other = chains.keep(&[slice(7), slice(8), slice(9)]);
            assert_eq!((chains.free(), chains.capacity()), (0, 5));
            let mut read = Vec::new();
            chains.release(one, |slice| read.push(slice.offset));
            chains.release(other, |slice| read.push(slice.offset));
            assert_eq!(read, [turn, turn + 1, 7, 8, 9]);
            assert_eq!(chains.free(), 5);
        }
    }
}

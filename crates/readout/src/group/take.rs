//! Who takes what the links of a group give.

use thalweg_data::{Framed, Frames, LinkId, Mark};

/// Where a group puts what its links give: a batch for all of them, or one for each, which then holds a link's units without a copy.
pub trait Take<O: Framed> {
    /// The batch that what is found on this link is appended to.
    fn batch(&mut self, link: LinkId) -> &mut O;

    /// What a link has received is framed, and in its batch. `received` is empty when only time passes or the link has ended, which its
    /// header says.
    fn take(&mut self, link: LinkId, received: &Frames);

    /// Whether a mark alone is of use: whoever cuts batches by marks must be given the same marks in a replay.
    fn wants_mark(&self, link: LinkId, mark: Mark) -> bool {
        let _ = (link, mark);
        true
    }
}

/// One batch for all links, given to a closure and emptied behind it.
pub struct Each<O, F> {
    batch: O,
    take: F,
}

/// Takes with a closure: the link, what it has received (for raw recording), and what is found in it, which may be swapped for an empty
/// batch.
pub fn each<O: Framed, F: FnMut(LinkId, &Frames, &mut O)>(take: F) -> Each<O, F> {
    Each { batch: O::default(), take }
}

impl<O: Framed, F: FnMut(LinkId, &Frames, &mut O)> Take<O> for Each<O, F> {
    fn batch(&mut self, _link: LinkId) -> &mut O {
        &mut self.batch
    }

    fn take(&mut self, link: LinkId, received: &Frames) {
        (self.take)(link, received, &mut self.batch);
        self.batch.clear();
    }
}

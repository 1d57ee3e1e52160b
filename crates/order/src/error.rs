//! Why time order refuses a batch: for mistakes of the code that feeds it, never for the data.

use thalweg_data::{Mark, SourceId};

/// A batch that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A source that was not announced.
    #[error("a batch of {source_id} came to time order, which was made for {sources} sources")]
    UnknownSource {
        /// The source named in the batch.
        source_id: SourceId,
        /// How many were announced.
        sources: usize,
    },
    /// A batch older than the one before it; a replay could not repeat what follows.
    #[error(
        "a batch of {source_id} marked {} ns came to time order behind one of {before_source} marked {} ns; \
         feed batches in the order of their marks, then of their sources",
        mark.0,
        before.0
    )]
    MarkWentBack {
        /// The source named in the batch.
        source_id: SourceId,
        /// Its mark.
        mark: Mark,
        /// The source of the batch before it.
        before_source: SourceId,
        /// That batch's mark.
        before: Mark,
    },
    /// A batch of a source after its batch with `header.end`.
    #[error("a batch of {source_id} came to time order after the source had ended")]
    AfterEnd {
        /// The source named in the batch.
        source_id: SourceId,
    },
}

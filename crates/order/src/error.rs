//! Why time order refuses a batch: mistakes of the calling code, never of the data.

use thalweg_data::{Mark, SourceId};

/// Why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The batch's source is not one of those that time order was created for.
    #[error("time order received a batch of {source_id}, but was created for {sources} sources")]
    UnknownSource {
        /// The source of the batch.
        source_id: SourceId,
        /// Number of sources that time order was created for.
        sources: usize,
    },
    /// The batch is older than the one before it, so a replay could not reproduce the order.
    #[error(
        "time order received a batch of {source_id} with mark {} ns after one of {before_source} with mark {} ns; \
         push batches in the order of their marks, then of their sources",
        mark.0,
        before.0
    )]
    MarkWentBack {
        /// The source of the batch.
        source_id: SourceId,
        /// The mark of the batch.
        mark: Mark,
        /// The source of the batch before it.
        before_source: SourceId,
        /// The mark of the batch before it.
        before: Mark,
    },
    /// The source has already sent its last batch.
    #[error("time order received a batch of {source_id} after the last one of that source")]
    AfterEnd {
        /// The source of the batch.
        source_id: SourceId,
    },
}

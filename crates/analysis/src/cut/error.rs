//! Invalid cuts.

/// What is wrong with a cut, where, and what to write.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CutError {
    /// An expression that cannot be read: shown with a mark under the place.
    #[error("{message}\n    {text}\n    {mark:>place$}", mark = "^", place = place + 1)]
    Expression {
        /// The expression.
        text: String,
        /// Characters before the place.
        place: usize,
        /// What was found, and what to write.
        message: String,
    },
    /// Two cuts with one name.
    #[error("two [[cut]] are called \"{0}\"; names are unique, since the ledger counts by them")]
    Twice(String),
    /// A cut without a name.
    #[error("a [[cut]] without a name; the ledger counts by it")]
    Nameless,
    /// A polygon that encloses nothing, or not in one way.
    #[error("[[polygon]] \"{name}\": {message}")]
    Polygon {
        /// Its name.
        name: String,
        /// What is wrong, and what to draw instead.
        message: String,
    },
    /// Two polygons with one name.
    #[error("two [[polygon]] are called \"{0}\"; names are unique, since `inside` finds them by it")]
    TwoPolygons(String),
    /// A cut of events where none are made.
    #[error(
        "[[cut]] \"{0}\" is on events, and there is no [coincidence] that makes any; add one, or write on = \"hit\""
    )]
    NoEvents(String),
    /// An error of a named cut.
    #[error("[[cut]] \"{name}\": {error}")]
    Of {
        /// The cut.
        name: String,
        /// What is wrong.
        error: Box<CutError>,
    },
}

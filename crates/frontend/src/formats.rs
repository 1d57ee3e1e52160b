//! Every family of front ends, a line each: whatever else is known of a family stands in its folder.

use crate::format::Format;
use crate::{abcd, compass, digitizer2, example, fragment, generic, sitcp};

/// The families, in the order in which they are listed to people.
pub static FORMATS: &[&Format] = &[
    &digitizer2::FORMAT,
    &generic::FORMAT,
    &compass::FORMAT,
    &abcd::FORMAT,
    &fragment::FORMAT,
    &sitcp::FORMAT,
    &example::FORMAT,
];

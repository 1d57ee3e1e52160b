//! The list of all families of front ends; everything else about a family is in its folder.

use crate::format::Format;
use crate::{abcd, compass, digitizer2, example, fragment, generic, sitcp};

/// The families, in the order in which they are displayed.
pub static FORMATS: &[&Format] = &[
    &digitizer2::FORMAT,
    &generic::FORMAT,
    &compass::FORMAT,
    &abcd::FORMAT,
    &fragment::FORMAT,
    &sitcp::FORMAT,
    &example::FORMAT,
];

//! Tests of formats with recorded files and damaged bytes.

mod decode_workers;
mod real_files;
mod short_fuzz;

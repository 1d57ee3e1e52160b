//! Formats held against recorded files and damaged bytes.

mod real_files;
mod short_fuzz;

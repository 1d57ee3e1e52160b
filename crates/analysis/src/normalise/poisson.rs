//! The interval of a Poisson number.

/// Standard deviations of a normal distribution that contain 95 % of it.
pub(super) const NORMAL_95: f64 = 1.959_964;

/// The central 95 % interval of the expectation of a Poisson number of which `count` were seen: the exact one (Garwood, Biometrika 28 (1936)
/// 437) by Wilson and Hilferty's approximation of χ², within 1 % of its width from 1 count on. Of no count, 0 to 3.7.
pub fn interval_95(count: u64) -> (f64, f64) {
    let counts = count as f64;
    // Of χ² with 2n degrees of freedom, halved.
    let quantile =
        |n: f64, deviations: f64| n * (1.0 - 1.0 / (9.0 * n) + deviations / (3.0 * n.sqrt())).powi(3);
    let low = if count == 0 { 0.0 } else { quantile(counts, -NORMAL_95).max(0.0) };
    (low, quantile(counts + 1.0, NORMAL_95))
}

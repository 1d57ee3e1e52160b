//! Runtime dispatch: one loop compiled for AVX-512, AVX2 and the baseline instructions.
//!
//! ```text
//!  widest(Loop { over, a, column }) ──► AVX-512 │ AVX2 │ baseline instructions
//! ```
//! A binary runs on every processor of its architecture and detects the available instructions at run time. The work, and every function
//! that it calls, must be `#[inline(always)]` to be compiled for them; a function that is not inlined is correct and uses baseline
//! instructions.

/// Work over columns.
pub trait Wide {
    /// The result.
    type Output;
    /// Does the work. Implementations are `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// Makes a type from one list of instruction sets, so that the compiled and the detected sets are the same.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    ($(#[$about:meta])* $name:ident: $($feature:tt),+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// Asks the processor, and the system, which must save the wide registers; `None` if one of the sets is missing.
            #[inline]
            pub fn detect() -> Option<$name> {
                let has_all = $(is_x86_feature_detected!($feature))&&+;
                has_all.then_some($name(()))
            }

            /// Does the work, compiled for these instructions.
            #[inline]
            pub fn run<W: Wide>(self, work: W) -> W::Output {
                $(#[target_feature(enable = $feature)])+
                fn compiled<W: Wide>(work: W) -> W::Output {
                    work.run()
                }
                // SAFETY: only `detect` makes this value, and it has found every set that `compiled` is compiled for.
                unsafe { compiled(work) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instructions! {
    /// Proof that the processor has 256-bit vectors; only detection makes one. Each set is detected, because a hypervisor can mask any of
    /// them.
    Avx2: "avx2", "bmi1", "bmi2"
}

#[cfg(target_arch = "x86_64")]
instructions! {
    /// Proof that the processor has 512-bit vectors, likewise.
    Avx512: "avx512f", "avx512bw", "avx512dq", "avx512vl", "bmi1", "bmi2"
}

/// Does `work` with the widest instructions. Pays off from a few hundred elements on.
#[inline]
pub fn widest<W: Wide>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(instructions) = Avx512::detect() {
            return instructions.run(work);
        }
        if let Some(instructions) = Avx2::detect() {
            return instructions.run(work);
        }
    }
    work.run()
}

/// The integer part of a number, clamped to `0..limit`; 0 for NaN. `limit` is at most 2²⁴. An ordinary cast saturates, for which there is
/// no vector instruction.
#[inline(always)]
pub fn whole_part(number: f32, limit: u32) -> u32 {
    let within = number.max(0.0).min((limit.clamp(1, 1 << 24) - 1) as f32);
    // SAFETY: `max` replaces NaN, and both together clamp the number to the range of 32 bits.
    unsafe { within.to_int_unchecked::<i32>() as u32 }
}

/// [`whole_part`] for `f64`.
#[inline(always)]
pub fn whole_part_long(number: f64, limit: u32) -> u32 {
    let within = number.max(0.0).min(f64::from(limit.clamp(1, 1 << 24) - 1));
    // SAFETY: as above.
    unsafe { within.to_int_unchecked::<i32>() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Sum<'n>(&'n [f32]);

    impl Wide for Sum<'_> {
        type Output = u64;

        #[inline(always)]
        fn run(self) -> u64 {
            self.0.iter().map(|each| u64::from(*each as u32 & 7)).sum()
        }
    }

    #[test]
    fn whole_parts_are_clamped_to_their_limit() {
        let numbers = [f32::NAN, f32::NEG_INFINITY, -0.5, 0.0, 6.99, 7.0, 1e30, f32::INFINITY];
        assert_eq!(numbers.map(|each| whole_part(each, 8)), [0, 0, 0, 0, 6, 7, 7, 7]);
        assert_eq!(numbers.map(|each| whole_part_long(f64::from(each), 8)), [0, 0, 0, 0, 6, 7, 7, 7]);
        assert_eq!(whole_part(f32::MAX, u32::MAX), (1 << 24) - 1);
        assert_eq!(whole_part_long(5.0, 0), 0);
    }

    #[test]
    fn every_instruction_set_gives_the_same_result() {
        let numbers: Vec<f32> = (0..1000).map(|each| each as f32 * 0.37).collect();
        let sum = Sum(&numbers);
        assert_eq!(widest(sum), sum.run());
        #[cfg(target_arch = "x86_64")]
        {
            assert!(Avx2::detect().is_none_or(|wide| wide.run(sum) == sum.run()));
            assert!(Avx512::detect().is_none_or(|wide| wide.run(sum) == sum.run()));
        }
    }
}

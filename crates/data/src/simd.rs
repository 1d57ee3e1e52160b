//! Runtime dispatch: one loop compiled for AVX-512, AVX2 and the baseline.
//!
//! ```text
//!  widest(Loop { over, a, column }) ──► AVX-512 │ AVX2 │ what every processor has
//! ```
//! Binaries are built for every processor of an architecture; which instructions there are is found out where they run. The work, and what
//! it calls, must be `#[inline(always)]` to be compiled anew; what is not, stays as it is, and is correct.

/// Work over columns.
pub trait Wide {
    /// What comes of it.
    type Output;
    /// Does it; always inlined.
    fn run(self) -> Self::Output;
}

/// Names instructions once: what work is compiled for is what the processor is asked for.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    ($(#[$about:meta])* $name:ident: $($feature:tt),+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// Asks the processor (and the system, which has to save the wide registers); `None` where one of them is missing.
            #[inline]
            pub fn detect() -> Option<$name> {
                let has_all = $(is_x86_feature_detected!($feature))&&+;
                has_all.then_some($name(()))
            }

            /// Does work that is compiled for these instructions.
            #[inline]
            pub fn run<W: Wide>(self, work: W) -> W::Output {
                $(#[target_feature(enable = $feature)])+
                fn compiled<W: Wide>(work: W) -> W::Output {
                    work.run()
                }
                // SAFETY: only `detect` makes this value, and it has found every instruction that `compiled` is compiled for.
                unsafe { compiled(work) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instructions! {
    /// 256-bit vectors. The only way to have one is to have found the instructions, all of them: a hypervisor can mask each alone.
    Avx2: "avx2", "bmi1", "bmi2"
}

#[cfg(target_arch = "x86_64")]
instructions! {
    /// 512-bit vectors; likewise.
    Avx512: "avx512f", "avx512bw", "avx512dq", "avx512vl", "bmi1", "bmi2"
}

/// Does `work` with the widest instructions. Worth it from some hundred elements on.
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

/// The whole part of a number that is brought into `0..limit` before; 0 of what is not a number. `limit` is 2²⁴ at most. An ordinary cast
/// saturates, which no wide instruction does.
#[inline(always)]
pub fn whole_part(number: f32, limit: u32) -> u32 {
    let within = number.max(0.0).min((limit.clamp(1, 1 << 24) - 1) as f32);
    // SAFETY: `max` has made a number of it, which both have brought into what 32 bits can say.
    unsafe { within.to_int_unchecked::<i32>() as u32 }
}

/// The same of a longer number.
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
    fn whole_parts_stay_within_their_limit() {
        let numbers = [f32::NAN, f32::NEG_INFINITY, -0.5, 0.0, 6.99, 7.0, 1e30, f32::INFINITY];
        assert_eq!(numbers.map(|each| whole_part(each, 8)), [0, 0, 0, 0, 6, 7, 7, 7]);
        assert_eq!(numbers.map(|each| whole_part_long(f64::from(each), 8)), [0, 0, 0, 0, 6, 7, 7, 7]);
        assert_eq!(whole_part(f32::MAX, u32::MAX), (1 << 24) - 1);
        assert_eq!(whole_part_long(5.0, 0), 0);
    }

    #[test]
    fn a_loop_gives_the_same_however_wide() {
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

//! What goes wrong at a server, and when.

use std::sync::{Mutex, MutexGuard};

use crate::http_server::{Answer, Head, Reaction};

/// What goes wrong in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed before anything is done.
    Before,
    /// It is closed in the middle of what is sent.
    InBody,
    /// It is closed when all is done, without an answer.
    After,
    /// It is closed in the middle of the answer.
    InAnswer,
}

/// What goes wrong all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    #[default]
    None,
    /// A bit of what is stored is another one.
    DamagesWhatComes,
    /// A bit of what is read is another one.
    DamagesWhatGoes,
    /// What is to be complete is acknowledged and forgotten.
    Forgets,
    /// Parts, or files under way, are acknowledged and forgotten.
    ForgetsParts,
    /// What is to be complete is answered with success, and then with an error in its text, as S3 does it when it takes long.
    ErrsInSuccess,
    /// Every change is answered with this status.
    Answers(u16),
    /// Every change of a file of this name is answered with this status.
    Refuses(&'static str, u16),
    /// What is renamed has a bit that is another one.
    DamagesWhatMoves,
    /// Everything is answered as if the clock of the client were wrong.
    ClockDiffers,
}

/// When.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    requests: u64,
    fault: Option<(u64, Fault)>,
    habit: Habit,
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no panic")
    }

    /// Lets one of the next requests fail: that which comes after so many others.
    pub fn fail_after(&self, requests: u64, fault: Fault) {
        let mut plan = self.plan();
        plan.fault = Some((plan.requests + requests, fault));
    }

    pub fn never_fail(&self) {
        self.plan().fault = None;
    }

    pub fn set(&self, habit: Habit) {
        self.plan().habit = habit;
    }

    pub fn habit(&self) -> Habit {
        self.plan().habit
    }

    /// Requests that came.
    pub fn requests(&self) -> u64 {
        self.plan().requests
    }

    fn fault(&self) -> Option<Fault> {
        let plan = self.plan();
        plan.fault.filter(|(at, _)| *at == plan.requests).map(|(_, fault)| fault)
    }

    pub fn head(&self) -> Head {
        match self.fault() {
            Some(Fault::InBody) => {
                self.plan().requests += 1;
                Head::VanishInBody
            }
            _ => Head::Go,
        }
    }

    /// Does what is asked, unless something goes wrong.
    pub fn react(&self, act: impl FnOnce() -> Answer) -> Reaction {
        let fault = self.fault();
        self.plan().requests += 1;
        match fault {
            Some(Fault::Before | Fault::InBody) => Reaction::Vanish,
            Some(Fault::After) => {
                act();
                Reaction::Vanish
            }
            Some(Fault::InAnswer) => Reaction::VanishInAnswer(act()),
            None => Reaction::Answer(act()),
        }
    }
}

/// Numbers that a seed gives (splitmix64).
pub struct Choices(pub u64);

impl Choices {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub fn fault(&mut self) -> Fault {
        use Fault::{After, Before, InAnswer, InBody};
        [Before, InBody, After, InAnswer][self.below(4) as usize]
    }

    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

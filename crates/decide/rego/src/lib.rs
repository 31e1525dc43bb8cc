//! Policies in Rego, the language of Open Policy Agent, evaluated in this process and within bounds.
//!
//! Files of Rego become a [`Policy`], and an [`Evaluator`] asks it on threads of its own, within a
//! [`Budget`] of steps, memory and time. The crate knows nothing of exchanges, fields or
//! configuration; the input is JSON, and so is the result. No builtin reaches the network, a file
//! or the environment.
//!
//! The language is evaluated by `regorus`. It counts steps, but neither memory nor the size of a
//! builtin's result; [`Metered`] does, the allocator of a program that evaluates policies of
//! others.
//!
//! Specifications: the policy language of OPA 1.x, and of 0.x where a file is not of 1.x.
//!
//! Begin reading in `evaluator.rs`: one question and its answer.

mod brief;
mod budget;
mod builtins;
mod calls;
mod clock_rule;
mod evaluation;
mod evaluator;
mod growing;
mod input;
mod layout;
mod lengths;
mod meter;
mod networks;
mod outcome;
mod paths;
mod policy;
mod signed_token;
mod spot;
mod tests_of;
mod times;
mod token_keys;
mod wrong;
mod zones;

pub use budget::{Budget, Excess};
pub use evaluator::{Evaluator, ThreadQuestion, threads};
pub use meter::Metered;
pub use outcome::{Answer, Failure};
pub use policy::Policy;
pub use tests_of::{RegoTest, run_tests};
pub use times::{present, suppose_time};
pub use wrong::Wrong;

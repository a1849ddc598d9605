// SPDX-License-Identifier: Apache-2.0
//! Recurrences over sequences, forward and backward, by libflashscan: linear recurrences ([`Linear`]), gated layers
//! ([`Gated`]), selective scans ([`Selective`]), recurrent networks ([`Rnn`]) and scans with associative operators
//! ([`Scan`], [`CustomScan`]).
//!
//! A builder says what to compute and makes a plan, which checks it once. A plan is executed on slices any number of
//! times, from any thread; slices that are too short, missing or not taken are refused with an [`Error`] that names them.
//! What is computed is defined in the C header `flashscan/flashscan.h`; names here are its names.
//!
//! ```
//! use flashscan::{Linear, LinearForward};
//!
//! # fn main() -> Result<(), flashscan::Error> {
//! let plan = Linear::<f32>::new(1, 4, 1).build()?; // batch, time, channels
//! let mut h = [0.0; 4];
//! plan.forward(LinearForward { gate: &[0.5; 4], input: &[1.0; 4], output: &mut h, ..Default::default() })?;
//! assert_eq!(h, [1.0, 1.5, 1.75, 1.875]);
//!
//! let error = plan.forward(LinearForward { gate: &[0.5; 3], input: &[1.0; 4], output: &mut h, ..Default::default() });
//! assert!(matches!(error, Err(flashscan::Error::BufferTooSmall(sentence)) if sentence.contains("GATE")));
//! # Ok(())
//! # }
//! ```
//!
//! Arrays are flat and row-major: of shape [B, T, C], element (b, t, c) is at `(b * T + t) * C + c`.
#![deny(unsafe_op_in_unsafe_fn)]

mod custom;
mod element;
mod error;
mod gated;
mod linear;
mod options;
mod plan;
mod pool;
mod reserve;
mod rnn;
mod scan;
mod selective;

pub use custom::{CustomForward, CustomPlan, CustomScan};
pub use element::{Bf16, Complex, Element, F16};
pub use error::Error;
pub use gated::{
    Activation, Decay, Epilogue, Gated, GatedBackward, GatedForward, GatedLayer, GatedPlan, GatedStrides, Scale,
};
pub use linear::{Broadcast, GateForm, Linear, LinearBackward, LinearForward, LinearPlan, StateStrides, Strides};
pub use options::Options;
pub use plan::{Pass, Plan};
pub use pool::Pool;
pub use reserve::Reserve;
pub use rnn::{Cell, Rnn, RnnBackward, RnnForward, RnnLayout, RnnPlan};
pub use scan::{Mode, Operator, Scan, ScanBackward, ScanForward, ScanPlan};
pub use selective::{Matrix, Selective, SelectiveBackward, SelectiveForward, SelectivePlan, SelectiveStrides};

use flashscan_sys as sys;

/// Order of the axes: [B, T, C] with the channel innermost, or [B, C, T] with the time innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    Btc = sys::FLASHSCAN_LAYOUT_BTC as isize,
    Bct = sys::FLASHSCAN_LAYOUT_BCT as isize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward = sys::FLASHSCAN_DIRECTION_FORWARD as isize,
    Reverse = sys::FLASHSCAN_DIRECTION_REVERSE as isize,
}

/// Major, minor and patch of the library that is loaded.
pub fn version() -> (i32, i32, i32) {
    // SAFETY: no arguments.
    let number = unsafe { sys::flashscan_version() };
    (number / 10000, number / 100 % 100, number % 100)
}

/// The number of GPUs; 0 where there is no driver or the library was built without CUDA.
pub fn gpu_count() -> Result<usize, Error> {
    let mut count = 0;
    // SAFETY: `count` is valid.
    error::check(unsafe { sys::flashscan_device_count(sys::FLASHSCAN_BACKEND_CUDA, &mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

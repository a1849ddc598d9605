// SPDX-License-Identifier: Apache-2.0
use crate::plan::{Args, Give};
use flashscan_sys as sys;

/// States of more sequences than a call goes on with, which forward reads and writes where they lie; in place of
/// `state_in` and `state_out`, for plans with `state_pool`. `states` is laid out as `state_in`, with the rows of the pool
/// for those of the batch. `indices` has the row of the pool that belongs to each of the batch, or to each sequence if
/// packed; no row belongs to two. -1 marks padding, which has no state and whose output is 0.
///
/// ```
/// use flashscan::{Linear, LinearForward, Pool};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let plan = Linear::<f32>::new(3, 1, 2).state_pool(10).build()?; // one step of up to three of ten sequences
/// let mut states = [1.0; 10 * 2];
/// let mut h = [0.0; 3 * 2];
/// plan.forward(LinearForward {
///     gate: &[0.5; 6],
///     input: &[1.0; 6],
///     output: &mut h,
///     pool: Some(Pool { states: &mut states, indices: &[7, -1, 4] }),
///     ..Default::default()
/// })?;
/// assert_eq!(h, [1.5, 1.5, 0.0, 0.0, 1.5, 1.5]);
/// assert_eq!(states[7 * 2], 1.5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pool<'a, S> {
    pub states: &'a mut [S],
    pub indices: &'a [i32],
}

impl<'a, S> Give<'a> for Pool<'a, S> {
    fn give(self, id: i32, args: &mut Args<'a>) {
        args.give_in_place(sys::FLASHSCAN_ARG_STATE_IN, sys::FLASHSCAN_ARG_STATE_OUT, self.states);
        self.indices.give(id, args);
    }
}

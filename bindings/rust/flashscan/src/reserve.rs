// SPDX-License-Identifier: Apache-2.0
use crate::plan::{Args, Give, Pass, Plan};
use flashscan_sys as sys;
use std::os::raw::c_void;

const BLOCK: usize = 256;

#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Block([u8; BLOCK]);

/// What forward leaves for backward, made by [`RnnPlan::reserve`](crate::RnnPlan::reserve) and
/// [`GatedPlan::reserve`](crate::GatedPlan::reserve); one for each call whose backward is still to come.
pub struct Reserve {
    blocks: Vec<Block>,
}

impl Reserve {
    /// Empty if forward of the plan leaves nothing.
    pub(crate) fn of(plan: &Plan) -> Self {
        let bytes = plan.arg_bytes(Pass::Forward, sys::FLASHSCAN_ARG_RESERVE).unwrap_or(0);
        Self { blocks: vec![Block([0; BLOCK]); (bytes + BLOCK - 1) / BLOCK] }
    }

    pub fn as_ptr(&self) -> *const c_void {
        self.blocks.as_ptr().cast()
    }
}

impl<'a> Give<'a> for &'a Reserve {
    fn give(self, id: i32, args: &mut Args<'a>) {
        self.blocks.as_slice().give(id, args);
    }
}

impl<'a> Give<'a> for &'a mut Reserve {
    fn give(self, id: i32, args: &mut Args<'a>) {
        self.blocks.as_mut_slice().give(id, args);
    }
}

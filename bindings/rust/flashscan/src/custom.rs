// SPDX-License-Identifier: Apache-2.0
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, Pass, Plan};
use crate::scan::{descriptor, scan_setters};
use flashscan_sys as sys;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::c_void;
use std::ptr;

/// Makes plans for scans and reductions with any associative function, on the CPU and forward alone.
///
/// ```
/// use flashscan::{CustomForward, CustomScan};
///
/// // The earliest position of the smallest value so far.
/// #[derive(Clone, Copy)]
/// struct Best(f64, usize);
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let plan = CustomScan::new(1, 3, 1, |l: &Best, r: &Best| if r.0 < l.0 { *r } else { *l }).build()?;
/// let mut best = [Best(0.0, 0); 3];
/// let input = [Best(2.0, 0), Best(1.0, 1), Best(1.0, 2)];
/// plan.forward(CustomForward { input: &input, output: &mut best, ..Default::default() })?;
/// assert_eq!(best.map(|b| b.1), [0, 1, 1]);
/// # Ok(())
/// # }
/// ```
pub struct CustomScan<E: Copy, F> {
    desc: sys::flashscan_operator_desc,
    options: Options,
    combine: F,
    types: PhantomData<fn(E)>,
}

impl<E: Copy + Send + Sync + 'static, F: Fn(&E, &E) -> E + Send + Sync + 'static> CustomScan<E, F> {
    /// `combine` is called from several threads at once, with the earlier element first. A panic in it aborts.
    pub fn new(batch: usize, time: usize, channels: usize, combine: F) -> Self {
        let desc = descriptor(0, sys::FLASHSCAN_OPERATOR_CUSTOM, 0, [batch, time, channels]);
        Self { desc, options: Options::new(), combine, types: PhantomData }
    }

    scan_setters!();

    pub fn build(self) -> Result<CustomPlan<E>, Error> {
        let combine = Box::new(self.combine);
        let custom = sys::flashscan_custom_operator {
            struct_size: std::mem::size_of::<sys::flashscan_custom_operator>() as u32,
            code_kind: 0,
            element_bytes: extent(std::mem::size_of::<E>()),
            state: &*combine as *const F as *mut c_void,
            state_bytes: 0,
            host: Some(call::<E, F>),
            host_adjoint: None,
            batched: None,
            batched_adjoint: None,
            code: ptr::null(),
            code_bytes: 0,
            name: ptr::null(),
            adjoint_name: ptr::null(),
        };
        let desc = sys::flashscan_operator_desc { custom: &custom, ..self.desc };
        let plan = Plan::new(sys::flashscan_plan_operator, &desc, &self.options)?;
        Ok(CustomPlan { plan, _combine: combine, types: PhantomData })
    }
}

/// A host function of the C interface that calls an `F`.
unsafe extern "C" fn call<E: Copy, F: Fn(&E, &E) -> E>(
    state: *mut c_void,
    lhs: *const c_void,
    rhs: *const c_void,
    out: *mut c_void,
) {
    let combined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: `state` is the plan's F; elements are aligned and lie in the caller's arrays or are copies from there.
        unsafe { (*state.cast::<F>())(&*lhs.cast::<E>(), &*rhs.cast::<E>()) }
    }));
    match combined {
        // SAFETY: `out` has room for an element, aligned.
        Ok(element) => unsafe { *out.cast::<E>() = element },
        Err(_) => std::process::abort(),
    }
}

/// A plan made by [`CustomScan`].
pub struct CustomPlan<E: Copy> {
    plan: Plan,
    _combine: Box<dyn Send + Sync>,
    types: PhantomData<fn(E)>,
}

impl<E: Copy> Deref for CustomPlan<E> {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl<E: Copy> CustomPlan<E> {
    pub fn forward(&self, args: CustomForward<'_, E>) -> Result<(), Error> {
        self.plan.run(Pass::Forward, args.into_args())
    }
}

arguments! {
    /// Arguments of [`CustomPlan::forward`], of the shapes in [`ScanForward`](crate::ScanForward).
    CustomForward<'a, E: Copy> {
        input: &'a [E] = sys::FLASHSCAN_ARG_INPUT,
        /// Written. Of an empty sequence without a state it is left as it is.
        output: &'a mut [E] = sys::FLASHSCAN_ARG_OUTPUT,
        /// The left operand of the first element; needed for [`Mode::Exclusive`](crate::Mode::Exclusive).
        state_in: Option<&'a [E]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written: the last y.
        state_out: Option<&'a mut [E]> = sys::FLASHSCAN_ARG_STATE_OUT,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

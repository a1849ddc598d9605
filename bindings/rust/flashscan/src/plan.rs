// SPDX-License-Identifier: Apache-2.0
use crate::error::{check, Error};
use crate::options::Options;
use flashscan_sys as sys;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::ptr::{self, NonNull};

/// Which call an argument belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pass {
    Forward = sys::FLASHSCAN_PASS_FORWARD as isize,
    Backward = sys::FLASHSCAN_PASS_BACKWARD as isize,
}

/// A plan of any family: immutable, so that any number of threads may execute it at the same time.
#[derive(Debug)]
pub struct Plan {
    handle: NonNull<sys::flashscan_plan>,
    on_host: bool,
}

// SAFETY: the library promises it.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the plan is ours, and no call is running.
        unsafe { sys::flashscan_plan_destroy(self.handle.as_ptr()) }
    }
}

type Create<Desc> = unsafe extern "C" fn(
    *mut *mut sys::flashscan_plan,
    *const Desc,
    *const sys::flashscan_options,
) -> sys::flashscan_status;

impl Plan {
    pub(crate) fn new<Desc>(create: Create<Desc>, desc: &Desc, options: &Options) -> Result<Self, Error> {
        let mut plan = ptr::null_mut();
        // SAFETY: all three are valid, and copied by the library.
        check(unsafe { create(&mut plan, desc, &options.to_c()) })?;
        let handle = NonNull::new(plan).expect("a plan that was made is not NULL");
        Ok(Self { handle, on_host: options.on_host() })
    }

    /// The problem, the kernel and why it was chosen, and the candidates passed over.
    pub fn describe(&self) -> String {
        let mut length = 0;
        // SAFETY: writes no text.
        unsafe { sys::flashscan_plan_describe(self.as_ptr(), ptr::null_mut(), 0, &mut length) };
        let mut text = vec![0u8; length + 1];
        // SAFETY: writes at most the length of `text`.
        unsafe {
            sys::flashscan_plan_describe(self.as_ptr(), text.as_mut_ptr().cast::<c_char>(), text.len(), &mut length)
        };
        text.truncate(length);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The bytes that an argument (`FLASHSCAN_ARG_*` of `flashscan_sys`) needs.
    pub fn arg_bytes(&self, pass: Pass, id: i32) -> Result<usize, Error> {
        let mut bytes = 0;
        // SAFETY: the plan is valid.
        check(unsafe { sys::flashscan_plan_arg_bytes(self.as_ptr(), pass as i32, id, &mut bytes) })?;
        Ok(bytes)
    }

    /// The plan in the C interface, valid as long as `self`.
    pub fn as_ptr(&self) -> *const sys::flashscan_plan {
        self.handle.as_ptr()
    }

    /// Forward on bare pointers: for memory of a GPU, a stream, arguments in place, scratch of the caller.
    ///
    /// # Safety
    ///
    /// Every argument's `data` is valid for its `bytes`, in the memory of the plan's device, until the work is done;
    /// nothing else uses what is written until then; `stream` is NULL or a `cudaStream_t` of a plan on a GPU.
    pub unsafe fn forward_raw(&self, args: &[sys::flashscan_arg], stream: *mut c_void) -> Result<(), Error> {
        // SAFETY: the caller's.
        check(unsafe {
            sys::flashscan_execute(self.as_ptr(), sys::FLASHSCAN_PASS_FORWARD, args.as_ptr(), args.len() as i32, stream)
        })
    }

    /// Backward on bare pointers.
    ///
    /// # Safety
    ///
    /// As for [`forward_raw`](Plan::forward_raw).
    pub unsafe fn backward_raw(&self, args: &[sys::flashscan_arg], stream: *mut c_void) -> Result<(), Error> {
        // SAFETY: the caller's.
        check(unsafe {
            sys::flashscan_execute(
                self.as_ptr(),
                sys::FLASHSCAN_PASS_BACKWARD,
                args.as_ptr(),
                args.len() as i32,
                stream,
            )
        })
    }

    pub(crate) fn run(&self, pass: Pass, args: Args<'_>) -> Result<(), Error> {
        if !self.on_host {
            let sentence =
                "the plan is for a GPU and slices are in host memory; accepted are the pointers of forward_raw \
                            and backward_raw";
            return Err(Error::InvalidPointer(sentence.into()));
        }
        // SAFETY: `args` borrows what it points to, exclusively where it is written; a CPU call is finished on return.
        unsafe {
            match pass {
                Pass::Forward => self.forward_raw(args.as_slice(), ptr::null_mut()),
                Pass::Backward => self.backward_raw(args.as_slice(), ptr::null_mut()),
            }
        }
    }
}

const MOST_ARGS: usize = 24;

/// The arguments of a call, borrowed for as long as this lives.
pub(crate) struct Args<'a> {
    list: [sys::flashscan_arg; MOST_ARGS],
    count: usize,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Args<'a> {
    pub(crate) fn new() -> Self {
        let none = sys::flashscan_arg { id: 0, reserved: 0, data: ptr::null_mut(), bytes: 0 };
        Self { list: [none; MOST_ARGS], count: 0, borrowed: PhantomData }
    }

    fn push(&mut self, id: i32, data: *mut c_void, bytes: usize) {
        self.list[self.count] = sys::flashscan_arg { id, reserved: 0, data, bytes };
        self.count += 1;
    }

    /// One slice that is read as one argument and written as another.
    pub(crate) fn give_in_place<T>(&mut self, read: i32, written: i32, slice: &'a mut [T]) {
        let bytes = std::mem::size_of_val(slice);
        let data = slice.as_mut_ptr().cast();
        self.push(read, data, bytes);
        self.push(written, data, bytes);
    }

    fn as_slice(&self) -> &[sys::flashscan_arg] {
        &self.list[..self.count]
    }
}

/// What can be given as an argument: a slice that is read, one that is written, or an option of either.
pub(crate) trait Give<'a> {
    fn give(self, id: i32, args: &mut Args<'a>);
}

impl<'a, T> Give<'a> for &'a [T] {
    fn give(self, id: i32, args: &mut Args<'a>) {
        args.push(id, self.as_ptr() as *mut c_void, std::mem::size_of_val(self));
    }
}

impl<'a, T> Give<'a> for &'a mut [T] {
    fn give(self, id: i32, args: &mut Args<'a>) {
        args.push(id, self.as_mut_ptr().cast(), std::mem::size_of_val(self));
    }
}

impl<'a, G: Give<'a>> Give<'a> for Option<G> {
    fn give(self, id: i32, args: &mut Args<'a>) {
        if let Some(given) = self {
            given.give(id, args);
        }
    }
}

/// Extents beyond the library's range are left for it to refuse.
pub(crate) fn extent(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Methods of a builder that change its descriptor, and the one that takes options.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) |$desc:ident| $change:expr;)+) => {
        $($(#[$doc])*
        pub fn $name(mut self $(, $arg: $kind)*) -> Self {
            let $desc = &mut self.desc;
            $change;
            self
        })+

        pub fn options(mut self, options: crate::options::Options) -> Self {
            self.options = options;
            self
        }
    };
}
pub(crate) use setters;

/// A plan for slices of certain types, which dereferences to [`Plan`].
macro_rules! typed_plan {
    ($(#[$doc:meta])* $name:ident<$first:ident $(, $other:ident = $default:ty)*>: $forward:ident, $backward:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$first: Element $(, $other: Element = $default)*> {
            plan: Plan,
            types: PhantomData<fn($first $(, $other)*)>,
        }

        impl<$first: Element $(, $other: Element)*> std::ops::Deref for $name<$first $(, $other)*> {
            type Target = Plan;
            fn deref(&self) -> &Plan {
                &self.plan
            }
        }

        impl<$first: Element $(, $other: Element)*> $name<$first $(, $other)*> {
            pub fn forward(&self, args: $forward<'_, $first $(, $other)*>) -> Result<(), Error> {
                self.plan.run(crate::plan::Pass::Forward, args.into_args())
            }

            pub fn backward(&self, args: $backward<'_, $first $(, $other)*>) -> Result<(), Error> {
                self.plan.run(crate::plan::Pass::Backward, args.into_args())
            }
        }
    };
}
pub(crate) use typed_plan;

/// The arguments of one pass as a struct with named fields, all of them left out by default.
macro_rules! arguments {
    ($(#[$doc:meta])* $name:ident<$life:lifetime $(, $type:ident: $bound:ident)+> {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = $id:expr,)+
    }) => {
        $(#[$doc])*
        pub struct $name<$life, $($type: $bound),+> {
            $($(#[$field_doc])* pub $field: $kind,)+
        }

        impl<$life, $($type: $bound),+> Default for $name<$life, $($type),+> {
            fn default() -> Self {
                Self { $($field: Default::default(),)+ }
            }
        }

        impl<$life, $($type: $bound),+> $name<$life, $($type),+> {
            fn into_args(self) -> crate::plan::Args<$life> {
                let mut args = crate::plan::Args::new();
                $(crate::plan::Give::give(self.$field, $id, &mut args);)+
                args
            }
        }
    };
}
pub(crate) use arguments;

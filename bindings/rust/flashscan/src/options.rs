// SPDX-License-Identifier: Apache-2.0
use flashscan_sys as sys;
use std::ffi::CString;
use std::ptr;

/// How a plan runs: by default on all threads of the CPU.
#[derive(Debug, Clone, Default)]
pub struct Options {
    backend: i32,
    device: i32,
    threads: i32,
    determinism: i32,
    kernel: Option<CString>,
}

impl Options {
    pub fn new() -> Self {
        Self::default()
    }

    /// So many threads of the CPU; 0 for all.
    pub fn threads(mut self, threads: u16) -> Self {
        self.threads = i32::from(threads);
        self
    }

    /// A GPU. Its memory is not a slice's: see [`Plan::forward_raw`](crate::Plan::forward_raw).
    pub fn cuda(mut self, device: u16) -> Self {
        self.backend = sys::FLASHSCAN_BACKEND_CUDA;
        self.device = i32::from(device);
        self
    }

    /// The bits of a sequence do not depend on how many others there are either.
    pub fn batch_invariant(mut self) -> Self {
        self.determinism = sys::FLASHSCAN_DETERMINISM_BATCH_INVARIANT;
        self
    }

    /// Forces a kernel by its name in [`Plan::describe`](crate::Plan::describe).
    ///
    /// # Panics
    ///
    /// If the name holds a zero byte.
    pub fn kernel(mut self, name: &str) -> Self {
        self.kernel = Some(CString::new(name).expect("a kernel's name holds no zero byte"));
        self
    }

    /// Points into `self`.
    pub(crate) fn to_c(&self) -> sys::flashscan_options {
        sys::flashscan_options {
            struct_size: std::mem::size_of::<sys::flashscan_options>() as u32,
            backend: self.backend,
            device: self.device,
            threads: self.threads,
            determinism: self.determinism,
            workspace: sys::FLASHSCAN_WORKSPACE_LIBRARY,
            kernel: self.kernel.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            allocator: ptr::null(),
            log: None,
            log_user: ptr::null_mut(),
            communicator: ptr::null(),
        }
    }

    pub(crate) fn on_host(&self) -> bool {
        self.backend != sys::FLASHSCAN_BACKEND_CUDA
    }
}

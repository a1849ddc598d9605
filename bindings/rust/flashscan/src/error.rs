// SPDX-License-Identifier: Apache-2.0
use flashscan_sys as sys;
use std::ffi::CStr;
use std::fmt;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $status:ident,)+) => {
        /// Why a call failed. Each holds the library's sentence, which names the argument or field, its value and what is
        /// accepted. Nothing was written, except after [`Error::CallbackFailed`].
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name(String),)+
            /// A status that this version of the crate does not know.
            Other { status: i32, sentence: String },
        }

        impl Error {
            pub(crate) fn new(status: i32, sentence: String) -> Self {
                match status {
                    $(sys::$status => Error::$name(sentence),)+
                    _ => Error::Other { status, sentence },
                }
            }

            /// The number of the status in the C interface.
            pub fn status(&self) -> i32 {
                match self {
                    $(Error::$name(_) => sys::$status,)+
                    Error::Other { status, .. } => *status,
                }
            }

            pub fn sentence(&self) -> &str {
                match self {
                    $(Error::$name(sentence) => sentence,)+
                    Error::Other { sentence, .. } => sentence,
                }
            }
        }
    };
}

errors! {
    /// An unknown value, a negative extent, offsets that decrease, ...
    InvalidArgument = FLASHSCAN_STATUS_INVALID_ARGUMENT,
    InvalidStruct = FLASHSCAN_STATUS_INVALID_STRUCT,
    /// The library is older than this crate.
    StructTooNew = FLASHSCAN_STATUS_STRUCT_TOO_NEW,
    /// The extents or strides need more than 2^63 - 1 bytes.
    SizeOverflow = FLASHSCAN_STATUS_SIZE_OVERFLOW,
    MissingArgument = FLASHSCAN_STATUS_MISSING_ARGUMENT,
    DoubledArgument = FLASHSCAN_STATUS_DOUBLED_ARGUMENT,
    /// An argument that this plan does not take.
    UnknownArgument = FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
    /// A slice that is too short.
    BufferTooSmall = FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
    InvalidPointer = FLASHSCAN_STATUS_INVALID_POINTER,
    Aliasing = FLASHSCAN_STATUS_ALIASING,
    /// No kernel takes the problem; the sentence lists the candidates and their reasons.
    Unsupported = FLASHSCAN_STATUS_UNSUPPORTED,
    /// The library was built without this backend.
    BackendMissing = FLASHSCAN_STATUS_BACKEND_MISSING,
    NoDevice = FLASHSCAN_STATUS_NO_DEVICE,
    /// A library that the plan needs could not be loaded.
    DependencyMissing = FLASHSCAN_STATUS_DEPENDENCY_MISSING,
    OutOfMemory = FLASHSCAN_STATUS_OUT_OF_MEMORY,
    DeviceError = FLASHSCAN_STATUS_DEVICE_ERROR,
    /// A callback of a custom operator failed; outputs hold no results.
    CallbackFailed = FLASHSCAN_STATUS_CALLBACK_FAILED,
    /// A defect of the library; please report it.
    InternalError = FLASHSCAN_STATUS_INTERNAL_ERROR,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl std::error::Error for Error {}

/// The last failure of this thread, unless `status` says that there was none.
pub(crate) fn check(status: sys::flashscan_status) -> Result<(), Error> {
    if status == sys::FLASHSCAN_STATUS_OK {
        return Ok(());
    }
    // SAFETY: never NULL, and valid until the next failing call on this thread.
    let sentence = unsafe { CStr::from_ptr(sys::flashscan_last_error()) };
    Err(Error::new(status, sentence.to_string_lossy().into_owned()))
}

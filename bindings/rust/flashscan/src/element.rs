// SPDX-License-Identifier: Apache-2.0
use flashscan_sys as sys;

/// A type of numbers that the library computes with; of integers, named operators alone ([`crate::Operator`]).
///
/// # Safety
///
/// Values have the layout of the data type `DTYPE`, and any bits are a valid value.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The type of states: `f32` for 16-bit types, else the type itself.
    type State: Element;
    /// `FLASHSCAN_DTYPE_F32` and so on.
    const DTYPE: i32;
}

/// A number of 16 bits with the exponent of `f32`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A number of 16 bits as IEEE 754 has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    pub re: T,
    pub im: T,
}

macro_rules! elements {
    ($($name:ty, $state:ty, $dtype:ident;)+) => {
        $(// SAFETY: plain numbers in the layout of the C type.
        unsafe impl Element for $name {
            type State = $state;
            const DTYPE: i32 = sys::$dtype;
        })+
    };
}

elements! {
    f32, f32, FLASHSCAN_DTYPE_F32;
    Bf16, f32, FLASHSCAN_DTYPE_BF16;
    F16, f32, FLASHSCAN_DTYPE_F16;
    f64, f64, FLASHSCAN_DTYPE_F64;
    Complex<f32>, Complex<f32>, FLASHSCAN_DTYPE_C64;
    Complex<f64>, Complex<f64>, FLASHSCAN_DTYPE_C128;
    i32, i32, FLASHSCAN_DTYPE_I32;
    i64, i64, FLASHSCAN_DTYPE_I64;
    u8, u8, FLASHSCAN_DTYPE_U8;
}

/// Rounds to nearest, ties to even.
impl From<f32> for Bf16 {
    fn from(value: f32) -> Self {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16(((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16)
    }
}

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> Self {
        f32::from_bits(u32::from(value.0) << 16)
    }
}

/// Rounds to nearest, ties to even.
impl From<f32> for F16 {
    fn from(value: f32) -> Self {
        let sign = (value.to_bits() >> 16 & 0x8000) as u16;
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return F16(sign | 0x7e00);
        }
        if magnitude >= 65520.0 {
            return F16(sign | 0x7c00);
        }
        // Adding 2^k and taking it away again rounds to the spacing at 2^k, which is 2^(k-23) in f32.
        let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-14);
        let spacing = 2f32.powi(exponent - 10);
        let steps = (magnitude / spacing + 8_388_608.0) - 8_388_608.0;
        // 1024 steps are one more in the exponent, and so the carry of a rounding up goes where it belongs.
        F16(sign | (steps as u16 + ((exponent + 14) as u16) * 1024))
    }
}

impl From<F16> for f32 {
    fn from(value: F16) -> Self {
        let (exponent, fraction) = (i32::from(value.0 >> 10 & 0x1f), f32::from(value.0 & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2f32.powi(-24),
            31 if fraction == 0.0 => f32::INFINITY,
            31 => f32::NAN,
            _ => (fraction + 1024.0) * 2f32.powi(exponent - 25),
        };
        if value.0 & 0x8000 != 0 {
            -magnitude
        } else {
            magnitude
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_round_to_nearest_even() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2f32.powi(-24), 1),
            (2f32.powi(-25), 0),
            (2f32.powi(-14), 0x400),
            (2f32.powi(-14) - 2f32.powi(-26), 0x400),
        ] {
            assert_eq!(F16::from(value).0, bits, "{value}");
        }
        for (value, bits) in [(1.0, 0x3f80), (-1.0, 0xbf80), (1.0 + 1.0 / 256.0, 0x3f80), (1.0 + 3.0 / 256.0, 0x3f82)] {
            assert_eq!(Bf16::from(value).0, bits, "{value}");
        }
        assert!(f32::from(Bf16::from(f32::NAN)).is_nan() && f32::from(F16::from(f32::NAN)).is_nan());
    }

    #[test]
    fn every_f16_survives_f32() {
        for bits in 0..=u16::MAX {
            let value = f32::from(F16(bits));
            assert!(value.is_nan() || F16::from(value).0 == bits, "{bits:#x}");
            let value = f32::from(Bf16(bits));
            assert!(value.is_nan() || Bf16::from(value).0 == bits, "{bits:#x}");
        }
    }
}

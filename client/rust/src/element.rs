//! What arrays are made of: Rust's own numbers, and floats of 8 and 16 bits as bits.

use std::borrow::Cow;

use bytes::Bytes;

use crate::{DType, floats};

/// A type that stands for a dtype. Its values are laid out as the protocol lays them out, but for the order of bytes.
pub trait Element: private::Element + Copy + Send + Sync + 'static {
    /// The dtype that it stands for.
    const DTYPE: DType;
}

pub(crate) mod private {
    use super::{Bytes, Cow};

    pub trait Element: Sized + Clone {
        /// The bytes of a vector, in whose memory they stay on a machine that is little-endian.
        fn into_bytes(values: Vec<Self>) -> Bytes;
        /// A copy.
        fn copied(values: &[Self]) -> Bytes;
        /// The values of bytes, which are a multiple of an element's; in their memory if it is aligned.
        fn values(bytes: &[u8]) -> Cow<'_, [Self]>;
    }
}

/// A vector as the owner of bytes.
struct Owner<T>(Vec<T>);

impl<T: bytemuck::NoUninit> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Turns each element round on a machine that is big-endian.
fn little_endian(bytes: Bytes, size: usize) -> Bytes {
    if cfg!(target_endian = "little") || size == 1 { bytes } else { turned(&bytes, size).into() }
}

fn turned(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks_exact(size).flat_map(|element| element.iter().rev().copied()).collect()
}

fn pod_values<T: bytemuck::Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    if cfg!(target_endian = "big") && size_of::<T>() > 1 {
        return Cow::Owned(bytemuck::allocation::pod_collect_to_vec(&turned(bytes, size_of::<T>())));
    }
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => Cow::Owned(bytemuck::allocation::pod_collect_to_vec(bytes)),
    }
}

macro_rules! elements {
    ($($element:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }

        impl private::Element for $element {
            fn into_bytes(values: Vec<Self>) -> Bytes {
                little_endian(Bytes::from_owner(Owner(values)), size_of::<Self>())
            }

            fn copied(values: &[Self]) -> Bytes {
                little_endian(Bytes::copy_from_slice(bytemuck::cast_slice(values)), size_of::<Self>())
            }

            fn values(bytes: &[u8]) -> Cow<'_, [Self]> {
                pod_values(bytes)
            }
        }
    )*};
}

elements! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    f32 => Float32, f64 => Float64, Half => Float16, BHalf => BFloat16, QuarterE4M3 => Float8E4M3,
    QuarterE5M2 => Float8E5M2, QuarterE4M3Fnuz => Float8E4M3Fnuz, QuarterE5M2Fnuz => Float8E5M2Fnuz,
}

#[cfg(feature = "half")]
elements! { half::f16 => Float16, half::bf16 => BFloat16 }

impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

impl private::Element for bool {
    fn into_bytes(values: Vec<Self>) -> Bytes {
        Bytes::from_owner(Owner(values))
    }

    fn copied(values: &[Self]) -> Bytes {
        Bytes::copy_from_slice(bytemuck::cast_slice(values))
    }

    /// Any byte but 0 is true.
    fn values(bytes: &[u8]) -> Cow<'_, [Self]> {
        match bytemuck::checked::try_cast_slice(bytes) {
            Ok(values) => Cow::Borrowed(values),
            Err(_) => Cow::Owned(bytes.iter().map(|byte| *byte != 0).collect()),
        }
    }
}

macro_rules! floats_as_bits {
    ($($name:ident($bits:ty): $dtype:ident, $what:literal;)*) => {$(
        #[doc = concat!("The bits of ", $what, ".")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub $bits);

        impl $name {
            /// Rounds to nearest, ties to even.
            pub fn from_f64(value: f64) -> Self {
                $name(floats::round(DType::$dtype, value) as $bits)
            }

            /// What the bits stand for.
            pub fn to_f64(self) -> f64 {
                floats::number(DType::$dtype, self.0.into())
            }
        }
    )*};
}

floats_as_bits! {
    Half(u16): Float16, "an IEEE float of 16 bits; the feature `half` has arithmetic";
    BHalf(u16): BFloat16, "a bfloat16; the feature `half` has arithmetic";
    QuarterE4M3(u8): Float8E4M3, "an OCP float of 8 bits with 4 of exponent";
    QuarterE5M2(u8): Float8E5M2, "an OCP float of 8 bits with 5 of exponent";
    QuarterE4M3Fnuz(u8): Float8E4M3Fnuz, "a float of 8 bits with 4 of exponent, and no negative zero";
    QuarterE5M2Fnuz(u8): Float8E5M2Fnuz, "a float of 8 bits with 5 of exponent, and no negative zero";
}

#[cfg(test)]
mod tests {
    use super::{private::Element as _, *};

    #[test]
    fn a_vector_keeps_its_memory() {
        let values = vec![1.0f32, -2.5];
        let place = values.as_ptr() as usize;
        let bytes = f32::into_bytes(values);
        assert_eq!(bytes.as_ptr() as usize, place);
        assert!(matches!(f32::values(&bytes), Cow::Borrowed([1.0, -2.5])));
    }

    #[test]
    fn memory_that_is_not_aligned_is_copied() {
        let bytes = i64::copied(&[0, 7, -8]);
        let odd = [&[0u8][..], &bytes[8..]].concat();
        let moved = [&odd[1..], &[0u8; 8][..]].concat();
        for start in 0..8 {
            let mut room = vec![0u8; start];
            room.extend_from_slice(&moved[..16]);
            assert_eq!(i64::values(&room[start..]).as_ref(), [7, -8]);
        }
    }

    #[test]
    fn a_bool_is_any_byte_but_0() {
        assert_eq!(bool::values(&[0, 1, 2, 255]).as_ref(), [false, true, true, true]);
        assert!(matches!(bool::values(&[0, 1]), Cow::Borrowed([false, true])));
    }

    #[test]
    fn floats_as_bits_convert() {
        assert_eq!(Half::from_f64(1.5), Half(0x3e00));
        assert_eq!(BHalf(0x3fc0).to_f64(), 1.5);
        assert_eq!(QuarterE4M3::from_f64(1e9).to_f64(), 448.0);
        assert_eq!(turned(&[1, 2, 3, 4], 2), [2, 1, 4, 3]);
    }
}

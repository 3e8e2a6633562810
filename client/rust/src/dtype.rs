use std::{fmt, str::FromStr};

use crate::{Error, Result, error::bad_argument, v1};

/// What an element is. Names are those of the protocol, in small letters: `float32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
    BFloat16,
    Float8E4M3,
    Float8E5M2,
    Float8E4M3Fnuz,
    Float8E5M2Fnuz,
}

/// How a dtype's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Truth,
    Signed,
    Unsigned,
    Floating,
}

struct Row {
    dtype: DType,
    wire: v1::DType,
    name: &'static str,
    size: usize,
    kind: Kind,
}

const fn row(dtype: DType, wire: v1::DType, name: &'static str, size: usize, kind: Kind) -> Row {
    Row { dtype, wire, name, size, kind }
}

/// In the order of `DType`.
const ROWS: [Row; 17] = [
    row(DType::Bool, v1::DType::Bool, "bool", 1, Kind::Truth),
    row(DType::Int8, v1::DType::Int8, "int8", 1, Kind::Signed),
    row(DType::Int16, v1::DType::Int16, "int16", 2, Kind::Signed),
    row(DType::Int32, v1::DType::Int32, "int32", 4, Kind::Signed),
    row(DType::Int64, v1::DType::Int64, "int64", 8, Kind::Signed),
    row(DType::Uint8, v1::DType::Uint8, "uint8", 1, Kind::Unsigned),
    row(DType::Uint16, v1::DType::Uint16, "uint16", 2, Kind::Unsigned),
    row(DType::Uint32, v1::DType::Uint32, "uint32", 4, Kind::Unsigned),
    row(DType::Uint64, v1::DType::Uint64, "uint64", 8, Kind::Unsigned),
    row(DType::Float16, v1::DType::Float16, "float16", 2, Kind::Floating),
    row(DType::Float32, v1::DType::Float32, "float32", 4, Kind::Floating),
    row(DType::Float64, v1::DType::Float64, "float64", 8, Kind::Floating),
    row(DType::BFloat16, v1::DType::Bfloat16, "bfloat16", 2, Kind::Floating),
    row(DType::Float8E4M3, v1::DType::Float8E4m3, "float8_e4m3", 1, Kind::Floating),
    row(DType::Float8E5M2, v1::DType::Float8E5m2, "float8_e5m2", 1, Kind::Floating),
    row(DType::Float8E4M3Fnuz, v1::DType::Float8E4m3Fnuz, "float8_e4m3_fnuz", 1, Kind::Floating),
    row(DType::Float8E5M2Fnuz, v1::DType::Float8E5m2Fnuz, "float8_e5m2_fnuz", 1, Kind::Floating),
];

impl DType {
    /// All of them.
    pub fn all() -> impl Iterator<Item = DType> {
        ROWS.iter().map(|row| row.dtype)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The bytes of one element.
    pub fn size(self) -> usize {
        self.row().size
    }

    /// As the protocol names it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it is one of the floats.
    pub fn is_float(self) -> bool {
        self.row().kind == Kind::Floating
    }

    pub(crate) fn kind(self) -> Kind {
        self.row().kind
    }

    pub(crate) fn wire(self) -> i32 {
        self.row().wire.into()
    }

    /// None for what is never stored, or not known here.
    pub(crate) fn of_wire(number: i32) -> Option<DType> {
        ROWS.iter().find(|row| i32::from(row.wire) == number).map(|row| row.dtype)
    }

    /// A float of less than 32 bits, with which one computes in 32.
    pub(crate) fn is_narrow(self) -> bool {
        self.is_float() && self.size() < 4
    }
}

impl fmt::Display for DType {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(name: &str) -> Result<DType> {
        let found = ROWS.iter().find(|row| row.name == name).map(|row| row.dtype);
        found.ok_or_else(|| bad_argument(format!("{name:?} names no dtype")))
    }
}

/// The bytes of an array; None for more than there can be. Axes without elements may have any neighbours.
pub(crate) fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size))?;
    let bytes = count.checked_mul(dtype.size())?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// A shape of a message's; None for what is none.
pub(crate) fn shape_of(wire: &[i64]) -> Option<Vec<usize>> {
    wire.iter().map(|size| usize::try_from(*size).ok()).collect()
}

/// A shape as messages have it.
pub(crate) fn wire_shape(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_its_row() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.dtype as usize, at);
            assert_eq!(row.wire.as_str_name().to_lowercase(), row.name);
            assert_eq!(row.name.parse::<DType>().unwrap(), row.dtype);
            assert_eq!(DType::of_wire(row.dtype.wire()), Some(row.dtype));
        }
        assert!("float24".parse::<DType>().is_err());
        assert_eq!(DType::of_wire(v1::DType::Weakint.into()), None);
    }

    #[test]
    fn sizes_do_not_overflow() {
        assert_eq!(byte_count(DType::Float32, &[2, 3]), Some(24));
        assert_eq!(byte_count(DType::Float32, &[]), Some(4));
        assert_eq!(byte_count(DType::Float64, &[usize::MAX, 0, usize::MAX]), Some(0));
        assert_eq!(byte_count(DType::Int8, &[usize::MAX]), None);
        assert_eq!(byte_count(DType::Float64, &[1 << 40, 1 << 40]), None);
        assert_eq!(shape_of(&[3, -1]), None);
    }
}

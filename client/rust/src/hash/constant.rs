//! A constant's canonical form: every way to write a value gives the same bytes.

use super::Writer;
use crate::{
    DType, Result,
    dtype::Kind,
    error::bad_argument,
    floats::Format,
    v1::{self, const_arg::Value},
};

/// What a constant may be of: stored or, as a frontend's language has numbers, weak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Stored(DType),
    WeakInt,
    WeakFloat,
}

impl Scalar {
    fn of(number: i32) -> Result<Scalar> {
        if number == i32::from(v1::DType::Weakint) {
            return Ok(Scalar::WeakInt);
        }
        if number == i32::from(v1::DType::Weakfloat) {
            return Ok(Scalar::WeakFloat);
        }
        let stored = DType::of_wire(number).map(Scalar::Stored);
        stored.ok_or_else(|| bad_argument(format!("a constant of dtype {number}")))
    }

    fn float(self) -> Option<Format> {
        match self {
            Scalar::Stored(dtype) => Format::of(dtype),
            Scalar::WeakFloat => Some(Format::FLOAT64),
            Scalar::WeakInt => None,
        }
    }

    fn bits(self) -> u32 {
        if let Scalar::Stored(dtype) = self { 8 * dtype.size() as u32 } else { 64 }
    }

    fn is_signed(self) -> bool {
        match self {
            Scalar::Stored(dtype) => dtype.kind() == Kind::Signed,
            Scalar::WeakInt | Scalar::WeakFloat => true,
        }
    }

    fn holds(self, value: i128) -> bool {
        let bits = self.bits();
        match self {
            Scalar::Stored(dtype) if dtype.kind() == Kind::Truth => (0..=1).contains(&value),
            _ if self.is_signed() => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&value),
            _ => (0..1i128 << bits).contains(&value),
        }
    }
}

/// Whether a dtype holds a constant's value.
pub(crate) fn is_held(arg: &v1::ConstArg) -> bool {
    Writer(Vec::new()).constant(arg).is_ok()
}

impl Writer {
    pub(super) fn constant(&mut self, arg: &v1::ConstArg) -> Result<()> {
        let scalar = Scalar::of(arg.dtype)?;
        self.number(arg.dtype);
        let value = match &arg.value {
            None | Some(Value::Invalid(false)) => return Err(bad_argument("a constant without a value")),
            Some(Value::Invalid(true)) => {
                self.u8(1);
                return Ok(());
            }
            Some(value) => value,
        };
        if let Some(format) = scalar.float() {
            self.u8(0);
            self.u64(float_bits(format, value)?);
            return Ok(());
        }
        let text = match integer(scalar, value)? {
            Integer::Small(value) if scalar.holds(value) => {
                self.u8(0);
                self.u64(value as u64); // two's complement
                return Ok(());
            }
            Integer::Small(value) => value.to_string(),
            Integer::Large(text) => text,
        };
        if scalar != Scalar::WeakInt {
            return Err(bad_argument(format!("{text:.40} does not fit its dtype")));
        }
        self.u8(2);
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// A whole number; beyond 128 bits in decimal, without leading zeros.
enum Integer {
    Small(i128),
    Large(String),
}

impl Integer {
    /// Of digits behind an optional sign.
    fn of_decimal(text: &str) -> Integer {
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let digits = digits.trim_start_matches('0');
        let text = format!("{}{}", sign, if digits.is_empty() { "0" } else { digits });
        text.parse().map_or(Integer::Large(text), Integer::Small)
    }
}

fn integer(scalar: Scalar, value: &Value) -> Result<Integer> {
    Ok(match value {
        Value::B(value) => Integer::Small((*value).into()),
        Value::I(value) => Integer::Small((*value).into()),
        Value::U(value) => Integer::Small((*value).into()),
        Value::F(value) if value.is_finite() && value.fract() == 0.0 => {
            // Exactly, however many digits it has.
            Integer::of_decimal(&format!("{value:.0}"))
        }
        Value::F(value) => return Err(bad_argument(format!("{value} is no integer"))),
        Value::Bits(bits) => {
            let width = scalar.bits();
            if width < 64 && bits >> width != 0 {
                return Err(bad_argument("bits above the dtype's width"));
            }
            if scalar.is_signed() {
                Integer::Small((((bits << (64 - width)) as i64) >> (64 - width)).into())
            } else {
                Integer::Small((*bits).into())
            }
        }
        Value::Decimal(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            if text.len() > 1000 || digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return Err(bad_argument(format!("{text:.40?} is no decimal number")));
            }
            Integer::of_decimal(text)
        }
        Value::Invalid(_) => return Err(bad_argument("a constant without a value")),
    })
}

fn float_bits(format: Format, value: &Value) -> Result<u64> {
    Ok(match value {
        Value::B(value) => format.of_integer(false, (*value).into()),
        Value::I(value) => format.of_integer(*value < 0, value.unsigned_abs()),
        Value::U(value) => format.of_integer(false, *value),
        Value::F(value) => format.pattern(*value),
        Value::Bits(bits) if *bits & !(format.sign() | (format.sign() - 1)) == 0 => *bits,
        Value::Bits(_) => return Err(bad_argument("bits above the dtype's width")),
        Value::Decimal(_) => return Err(bad_argument("a float in decimal")),
        Value::Invalid(_) => return Err(bad_argument("a constant without a value")),
    })
}

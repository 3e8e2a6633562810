//! Floats of any format as bits: rounding to them once, to nearest, ties to even, and reading them.

use crate::DType;

/// What is beyond a float's greatest value, and what its NaN is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Ieee,
    /// As Ieee, but finite values stay so.
    Saturating,
    NoInfinity,
    /// No infinity, and no negative zero.
    Fnuz,
}

#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// Bits of each.
    exponent: u32,
    mantissa: u32,
    bias: i32,
    style: Style,
}

const fn format(exponent: u32, mantissa: u32, bias: i32, style: Style) -> Format {
    Format { exponent, mantissa, bias, style }
}

impl Format {
    pub const FLOAT64: Format = format(11, 52, 1023, Style::Ieee);

    /// None for what is no float.
    pub fn of(dtype: DType) -> Option<Format> {
        Some(match dtype {
            DType::Float16 => format(5, 10, 15, Style::Ieee),
            DType::BFloat16 => format(8, 7, 127, Style::Ieee),
            DType::Float32 => format(8, 23, 127, Style::Ieee),
            DType::Float64 => Format::FLOAT64,
            DType::Float8E4M3 => format(4, 3, 7, Style::NoInfinity),
            DType::Float8E5M2 => format(5, 2, 15, Style::Saturating),
            DType::Float8E4M3Fnuz => format(4, 3, 8, Style::Fnuz),
            DType::Float8E5M2Fnuz => format(5, 2, 16, Style::Fnuz),
            _ => return None,
        })
    }

    pub fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    fn nan(self) -> u64 {
        match self.style {
            Style::Fnuz => self.sign(),
            Style::NoInfinity => self.sign() - 1,
            Style::Ieee | Style::Saturating => self.infinity() | 1 << (self.mantissa - 1),
        }
    }

    fn greatest(self) -> u64 {
        match self.style {
            Style::Fnuz => self.sign() - 1,
            Style::NoInfinity => self.sign() - 2,
            Style::Ieee | Style::Saturating => self.infinity() - 1,
        }
    }

    fn has_infinity(self) -> bool {
        matches!(self.style, Style::Ieee | Style::Saturating)
    }

    /// The bits of a number.
    pub fn pattern(self, value: f64) -> u64 {
        let negative = value.is_sign_negative();
        if value.is_nan() || value.is_infinite() && !self.has_infinity() {
            return self.nan();
        }
        if value.is_infinite() {
            return self.signed(self.infinity(), negative);
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let leading = if exponent > 0 { 1 << 52 } else { 0 };
        self.round(negative, fraction | leading, exponent.max(1) - 1075)
    }

    /// The same of an integer's magnitude.
    pub fn of_integer(self, negative: bool, magnitude: u64) -> u64 {
        self.round(negative, magnitude, 0)
    }

    /// The bits of magnitude · 2^exponent.
    fn round(self, negative: bool, magnitude: u64, exponent: i32) -> u64 {
        if magnitude == 0 {
            return self.signed(0, negative);
        }
        // The exponent of the leading bit, or the least that is not subnormal; and how many bits are too many.
        let leading = (exponent + 63 - magnitude.leading_zeros() as i32).max(1 - self.bias);
        let drop = leading - self.mantissa as i32 - exponent;
        let units = match drop {
            ..=0 => magnitude << -drop,
            1..=64 => {
                let half = 1u64 << (drop - 1);
                let rest = magnitude & (half | (half - 1));
                let units = if drop < 64 { magnitude >> drop } else { 0 };
                units + u64::from(rest > half || rest == half && units & 1 == 1)
            }
            _ => 0,
        };
        // A carry into the exponent is as it should be.
        let mut pattern = (((leading + self.bias - 1) as u64) << self.mantissa) + units;
        if pattern > self.greatest() {
            pattern = if self.style == Style::Ieee { self.infinity() } else { self.greatest() };
        }
        self.signed(pattern, negative)
    }

    fn signed(self, pattern: u64, negative: bool) -> u64 {
        let has_sign = negative && !(self.style == Style::Fnuz && pattern == 0);
        if has_sign { pattern | self.sign() } else { pattern }
    }

    /// What bits stand for.
    pub fn number(self, pattern: u64) -> f64 {
        if self.mantissa == 52 {
            return f64::from_bits(pattern);
        }
        let magnitude = pattern & (self.sign() - 1);
        let sign = if pattern & self.sign() == 0 { 1.0 } else { -1.0 };
        if self.style == Style::Fnuz && pattern == self.sign() {
            return f64::NAN;
        }
        if magnitude > self.greatest() {
            let is_infinite = self.has_infinity() && magnitude == self.infinity();
            return if is_infinite { sign * f64::INFINITY } else { f64::NAN };
        }
        let exponent = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let units = if exponent > 0 { fraction | 1 << self.mantissa } else { fraction };
        let power = exponent.max(1) - self.bias - self.mantissa as i32;
        sign * units as f64 * f64::from_bits(((power + 1023) as u64) << 52)
    }
}

/// A number's bits in one of the floats, rounded to nearest, ties to even; 0 of a dtype that is no float.
///
/// ```
/// use kiln::{DType, number, round};
/// assert_eq!(round(DType::Float16, 1.5), 0x3e00);
/// assert_eq!(number(DType::Float16, 0x3e00), 1.5);
/// ```
pub fn round(dtype: DType, value: f64) -> u64 {
    Format::of(dtype).map_or(0, |format| format.pattern(value))
}

/// What the bits of one of the floats stand for; NaN of a dtype that is none.
pub fn number(dtype: DType, pattern: u64) -> f64 {
    Format::of(dtype).map_or(f64::NAN, |format| format.number(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_as_rusts_own() {
        let values = [0.0, -0.0, 1.0, -1.5, std::f64::consts::PI, 1e-45, 7e-46, 1e-40, 3.4e38, 3.5e38, 16777217.0];
        for value in values.into_iter().chain([f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 8.0]) {
            assert_eq!(round(DType::Float32, value), u64::from((value as f32).to_bits()), "{value}");
            assert_eq!(round(DType::Float64, value), value.to_bits(), "{value}");
        }
    }

    #[test]
    fn every_pattern_comes_back() {
        for dtype in DType::all().filter(|dtype| dtype.is_narrow()) {
            for pattern in 0..1u64 << (8 * dtype.size()) {
                let value = number(dtype, pattern);
                assert!(value.is_nan() || round(dtype, value) == pattern, "{dtype} {pattern:x} is {value}");
            }
        }
    }

    #[test]
    fn beyond_the_greatest() {
        assert_eq!(round(DType::Float16, 1e9), 0x7c00);
        assert_eq!(round(DType::Float8E4M3, 1e9), 0x7e);
        assert_eq!(round(DType::Float8E5M2, -1e9), 0xfb);
        assert_eq!(round(DType::Float8E4M3Fnuz, f64::INFINITY), 0x80);
        assert_eq!(round(DType::Float8E5M2Fnuz, -0.0), 0);
        assert_eq!(round(DType::Int8, 1.0), 0);
        assert!(number(DType::Int8, 1).is_nan());
    }
}

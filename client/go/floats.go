package kiln

import (
	"math"
	"math/bits"
)

// What is beyond a float's greatest value, and what its NaN is.
type style byte

const (
	ieee       style = iota
	saturating       // as ieee, but finite values stay so
	noInfinity
	fnuz // no infinity, and no negative zero
)

type floatFormat struct {
	exponent, mantissa uint // bits
	bias               int
	style              style
}

var formats = map[DType]floatFormat{
	Float16:        {5, 10, 15, ieee},
	BFloat16:       {8, 7, 127, ieee},
	Float32:        {8, 23, 127, ieee},
	Float64:        {11, 52, 1023, ieee},
	weakFloat:      {11, 52, 1023, ieee},
	Float8E4M3:     {4, 3, 7, noInfinity},
	Float8E5M2:     {5, 2, 15, saturating},
	Float8E4M3Fnuz: {4, 3, 8, fnuz},
	Float8E5M2Fnuz: {5, 2, 16, fnuz},
}

func (f floatFormat) sign() uint64     { return 1 << (f.exponent + f.mantissa) }
func (f floatFormat) infinity() uint64 { return (1<<f.exponent - 1) << f.mantissa }

func (f floatFormat) nan() uint64 {
	switch f.style {
	case fnuz:
		return f.sign()
	case noInfinity:
		return f.sign() - 1
	}
	return f.infinity() | 1<<(f.mantissa-1)
}

func (f floatFormat) greatest() uint64 {
	switch f.style {
	case fnuz:
		return f.sign() - 1
	case noInfinity:
		return f.sign() - 2
	}
	return f.infinity() - 1
}

// pattern is the bits of a number, rounded once to nearest, ties to even.
func (f floatFormat) pattern(value float64) uint64 {
	negative := math.Signbit(value)
	if math.IsNaN(value) || math.IsInf(value, 0) && f.style >= noInfinity {
		return f.nan()
	}
	if math.IsInf(value, 0) {
		return f.signed(f.infinity(), negative)
	}
	fraction, exponent := math.Frexp(math.Abs(value))
	return f.round(negative, uint64(math.Ldexp(fraction, 53)), exponent-53)
}

// ofInteger is the same of an integer's magnitude.
func (f floatFormat) ofInteger(negative bool, magnitude uint64) uint64 {
	return f.round(negative, magnitude, 0)
}

// round is the bits of magnitude · 2^exponent.
func (f floatFormat) round(negative bool, magnitude uint64, exponent int) uint64 {
	if magnitude == 0 {
		return f.signed(0, negative)
	}
	// The exponent of the leading bit, or the least that is not subnormal; and how many bits of magnitude are too many.
	leading := max(exponent+bits.Len64(magnitude)-1, 1-f.bias)
	drop := leading - int(f.mantissa) - exponent
	var units uint64
	switch {
	case drop <= 0:
		units = magnitude << -drop
	case drop > 64:
		units = 0
	default:
		half := uint64(1) << (drop - 1)
		rest := magnitude & (half - 1 | half)
		if drop < 64 {
			units = magnitude >> drop
		}
		if rest > half || rest == half && units&1 == 1 {
			units++
		}
	}
	// A carry into the exponent is as it should be.
	pattern := uint64(leading+f.bias-1)<<f.mantissa + units
	if pattern > f.greatest() {
		pattern = f.greatest()
		if f.style == ieee {
			pattern = f.infinity()
		}
	}
	return f.signed(pattern, negative)
}

func (f floatFormat) signed(pattern uint64, negative bool) uint64 {
	if negative && !(f.style == fnuz && pattern == 0) {
		return pattern | f.sign()
	}
	return pattern
}

// number is what bits stand for.
func (f floatFormat) number(pattern uint64) float64 {
	sign := 1.0
	if pattern&f.sign() != 0 {
		if f.style == fnuz && pattern == f.sign() {
			return math.NaN()
		}
		sign, pattern = -1, pattern&^f.sign()
	}
	if pattern > f.greatest() {
		if f.style <= saturating && pattern == f.infinity() {
			return math.Inf(int(sign))
		}
		return math.NaN()
	}
	exponent := int(pattern >> f.mantissa)
	units := pattern & (1<<f.mantissa - 1)
	if exponent > 0 {
		units |= 1 << f.mantissa
	} else {
		exponent = 1
	}
	return sign * math.Ldexp(float64(units), exponent-f.bias-int(f.mantissa))
}

// Round gives a number's bits in one of the floats, rounded to nearest, ties to even:
// kiln.Half(kiln.Round(kiln.Float16, x)). For a dtype that is no float, 0.
func Round(dtype DType, value float64) uint64 {
	format, is := formats[dtype]
	if !is {
		return 0
	}
	return format.pattern(value)
}

// Number gives what the bits of one of the floats stand for; NaN for a dtype that is none.
func Number(dtype DType, pattern uint64) float64 {
	format, is := formats[dtype]
	if !is {
		return math.NaN()
	}
	return format.number(pattern)
}

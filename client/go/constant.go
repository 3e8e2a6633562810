package kiln

import (
	"encoding/binary"
	"math"
	"math/big"
	"regexp"

	kilnv1 "kiln/v1"
)

var decimal = regexp.MustCompile(`^-?[0-9]+$`)

// canonical appends a constant's canonical form (proto/README.md): every way to write a value gives the same bytes.
func canonical(to []byte, arg *kilnv1.ConstArg) ([]byte, error) {
	dtype := DType(arg.GetDtype())
	format, isFloat := formats[dtype]
	width := integerBits(dtype)
	if !isFloat && width == 0 {
		return nil, badArgument("a constant of dtype %d", arg.GetDtype())
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(dtype))
	switch value := arg.GetValue().(type) {
	case nil:
		return nil, badArgument("a constant without a value")
	case *kilnv1.ConstArg_Invalid:
		if !value.Invalid {
			return nil, badArgument("a constant without a value")
		}
		return append(to, 1), nil
	}
	if isFloat {
		pattern, err := floatBits(format, arg)
		return binary.LittleEndian.AppendUint64(append(to, 0), pattern), err
	}
	value, err := integer(arg, width)
	if err != nil {
		return nil, err
	}
	if dtype == weakInt && !value.IsInt64() {
		text := value.String()
		to = binary.LittleEndian.AppendUint32(append(to, 2), uint32(len(text)))
		return append(to, text...), nil
	}
	if !fits(dtype, value) {
		return nil, badArgument("%s does not fit %s", value, dtype)
	}
	pattern := value.Uint64() // of a negative number, that of its magnitude
	if value.Sign() < 0 {
		pattern = -pattern
	}
	return binary.LittleEndian.AppendUint64(append(to, 0), pattern), nil
}

// integerBits is 0 for what is no integer and no bool.
func integerBits(dtype DType) uint {
	if dtype == weakInt {
		return 64
	}
	if row := dtypes[dtype]; row.kind != floating {
		return uint(8 * row.bytes)
	}
	return 0
}

func isSigned(dtype DType) bool { return dtype == weakInt || dtypes[dtype].kind == signed }

func fits(dtype DType, value *big.Int) bool {
	width := dtypes[dtype].bytes * 8
	switch {
	case dtype == weakInt:
		return true
	case dtype == Bool:
		return value.IsUint64() && value.Uint64() <= 1
	case isSigned(dtype):
		limit := int64(1)<<(width-1) - 1
		return value.IsInt64() && value.Int64() >= -limit-1 && value.Int64() <= limit
	}
	return value.IsUint64() && (width == 64 || value.Uint64()>>width == 0)
}

// integer is the value of an integer or bool constant, not yet checked against its range.
func integer(arg *kilnv1.ConstArg, width uint) (*big.Int, error) {
	switch value := arg.GetValue().(type) {
	case *kilnv1.ConstArg_B:
		if value.B {
			return big.NewInt(1), nil
		}
		return big.NewInt(0), nil
	case *kilnv1.ConstArg_I:
		return big.NewInt(value.I), nil
	case *kilnv1.ConstArg_U:
		return new(big.Int).SetUint64(value.U), nil
	case *kilnv1.ConstArg_F:
		if math.IsInf(value.F, 0) || value.F != math.Trunc(value.F) { // a NaN is not itself
			return nil, badArgument("%v is no integer", value.F)
		}
		whole, _ := big.NewFloat(value.F).Int(nil)
		return whole, nil
	case *kilnv1.ConstArg_Bits:
		if width < 64 && value.Bits>>width != 0 {
			return nil, badArgument("bits above the dtype's width")
		}
		if isSigned(DType(arg.Dtype)) {
			return big.NewInt(int64(value.Bits<<(64-width)) >> (64 - width)), nil
		}
		return new(big.Int).SetUint64(value.Bits), nil
	case *kilnv1.ConstArg_Decimal:
		if len(value.Decimal) > 1000 || !decimal.MatchString(value.Decimal) {
			return nil, badArgument("%.40q is no decimal number", value.Decimal)
		}
		whole, _ := new(big.Int).SetString(value.Decimal, 10)
		return whole, nil
	}
	return nil, badArgument("a constant of a form that this package does not know")
}

func floatBits(format floatFormat, arg *kilnv1.ConstArg) (uint64, error) {
	switch value := arg.GetValue().(type) {
	case *kilnv1.ConstArg_B:
		if value.B {
			return format.ofInteger(false, 1), nil
		}
		return 0, nil
	case *kilnv1.ConstArg_I:
		if value.I < 0 {
			return format.ofInteger(true, -uint64(value.I)), nil
		}
		return format.ofInteger(false, uint64(value.I)), nil
	case *kilnv1.ConstArg_U:
		return format.ofInteger(false, value.U), nil
	case *kilnv1.ConstArg_F:
		return format.pattern(value.F), nil
	case *kilnv1.ConstArg_Bits:
		if value.Bits > 2*format.sign()-1 {
			return 0, badArgument("bits above the dtype's width")
		}
		return value.Bits, nil
	}
	return 0, badArgument("a float in decimal")
}

package kiln

import (
	"strings"

	kilnv1 "kiln/v1"
)

// DType is a scalar type. Its names are those of the protocol, in small letters: "float32".
type DType kilnv1.DType

// The scalar types that arrays may have.
const (
	Bool           = DType(kilnv1.DType_BOOL)
	Int8           = DType(kilnv1.DType_INT8)
	Int16          = DType(kilnv1.DType_INT16)
	Int32          = DType(kilnv1.DType_INT32)
	Int64          = DType(kilnv1.DType_INT64)
	Uint8          = DType(kilnv1.DType_UINT8)
	Uint16         = DType(kilnv1.DType_UINT16)
	Uint32         = DType(kilnv1.DType_UINT32)
	Uint64         = DType(kilnv1.DType_UINT64)
	Float16        = DType(kilnv1.DType_FLOAT16)
	Float32        = DType(kilnv1.DType_FLOAT32)
	Float64        = DType(kilnv1.DType_FLOAT64)
	BFloat16       = DType(kilnv1.DType_BFLOAT16)
	Float8E4M3     = DType(kilnv1.DType_FLOAT8_E4M3)
	Float8E5M2     = DType(kilnv1.DType_FLOAT8_E5M2)
	Float8E4M3Fnuz = DType(kilnv1.DType_FLOAT8_E4M3_FNUZ)
	Float8E5M2Fnuz = DType(kilnv1.DType_FLOAT8_E5M2_FNUZ)

	weakInt   = DType(kilnv1.DType_WEAKINT)
	weakFloat = DType(kilnv1.DType_WEAKFLOAT)
)

type kind byte

const (
	never kind = iota // is stored
	truth
	signed
	unsigned
	floating
)

var dtypes = map[DType]struct {
	bytes int64
	kind  kind
}{
	Bool: {1, truth},
	Int8: {1, signed}, Int16: {2, signed}, Int32: {4, signed}, Int64: {8, signed},
	Uint8: {1, unsigned}, Uint16: {2, unsigned}, Uint32: {4, unsigned}, Uint64: {8, unsigned},
	Float16: {2, floating}, Float32: {4, floating}, Float64: {8, floating}, BFloat16: {2, floating},
	Float8E4M3: {1, floating}, Float8E5M2: {1, floating}, Float8E4M3Fnuz: {1, floating}, Float8E5M2Fnuz: {1, floating},
}

// Size is the bytes of one element; 0 of what is never stored.
func (d DType) Size() int64 { return dtypes[d].bytes }

// IsFloat says whether it is one of the floats.
func (d DType) IsFloat() bool { return dtypes[d].kind == floating }

func (d DType) String() string { return strings.ToLower(kilnv1.DType(d).String()) }

func (d DType) message() kilnv1.DType { return kilnv1.DType(d) }

// DTypeOf gives the scalar type of a name ("float8_e4m3").
func DTypeOf(name string) (DType, error) {
	number, is := kilnv1.DType_value[strings.ToUpper(name)]
	if dtype := DType(number); is && dtype.Size() > 0 {
		return dtype, nil
	}
	return 0, badArgument("%q names no dtype", name)
}

package kiln

import (
	"math"
	"slices"
	"testing"
	"unsafe"
)

func TestAnArraySharesItsSlicesMemory(t *testing.T) {
	values := []float32{1, 2, 3, 4, 5, 6}
	array, err := ArrayOf(values, 2, 3)
	if err != nil || array.DType != Float32 || !slices.Equal(array.Shape, []int64{2, 3}) || len(array.Data) != 24 {
		t.Fatalf("%v, %v", array, err)
	}
	back, err := Values[float32](array)
	if err != nil || &back[0] != &values[0] || !slices.Equal(back, values) {
		t.Fatalf("%v, %v", back, err)
	}
}

func TestValuesOfMemoryThatIsNotAligned(t *testing.T) {
	room := make([]byte, 17)
	start := 1
	if uintptr(unsafe.Pointer(&room[1]))%8 == 0 {
		start = 0
	}
	copy(room[start:], Vector([]int64{7, -8}).Data)
	back, err := Values[int64](Array{Int64, []int64{2}, room[start : start+16]})
	if err != nil || !slices.Equal(back, []int64{7, -8}) {
		t.Fatalf("%v, %v", back, err)
	}
}

func TestWhatIsNoArrayIsRefused(t *testing.T) {
	if _, err := ArrayOf([]int8{1, 2, 3}, 2); !isBad(err) {
		t.Error(err)
	}
	if _, err := ArrayOf([]int8{1, 2, 3}, -3, -1); !isBad(err) {
		t.Error(err)
	}
	if _, err := ArrayOf([]int8{}, 0, math.MaxInt64, math.MaxInt64); err != nil {
		t.Error("an array of no elements may have any shape:", err)
	}
	if _, err := Values[int32](Vector([]float32{1})); !isBad(err) {
		t.Error(err)
	}
	if _, err := Values[int32](Array{Int32, []int64{2}, make([]byte, 7)}); !isBad(err) {
		t.Error(err)
	}
	if _, err := DTypeOf("float24"); !isBad(err) {
		t.Error(err)
	}
}

func TestAScalarHasNoAxes(t *testing.T) {
	array := Scalar(true)
	back, err := Values[bool](array)
	if err != nil || len(array.Shape) != 0 || !slices.Equal(back, []bool{true}) {
		t.Fatalf("%v, %v", array, err)
	}
}

func TestEveryElementHasItsDType(t *testing.T) {
	for name, dtype := range map[string]DType{
		"bool": dtypeOf[bool](), "int8": dtypeOf[int8](), "int16": dtypeOf[int16](), "int32": dtypeOf[int32](),
		"int64": dtypeOf[int64](),
		"uint8": dtypeOf[uint8](), "uint16": dtypeOf[uint16](), "uint32": dtypeOf[uint32](),
		"uint64":  dtypeOf[uint64](),
		"float16": dtypeOf[Half](), "bfloat16": dtypeOf[BHalf](), "float32": dtypeOf[float32](),
		"float64":     dtypeOf[float64](),
		"float8_e4m3": dtypeOf[QuarterE4M3](), "float8_e5m2": dtypeOf[QuarterE5M2](),
		"float8_e4m3_fnuz": dtypeOf[QuarterE4M3FNZ](), "float8_e5m2_fnuz": dtypeOf[QuarterE5M2FNZ](),
	} {
		if read, err := DTypeOf(name); dtype.String() != name || read != dtype || err != nil {
			t.Errorf("%s is %s, %v", name, dtype, err)
		}
	}
}

func TestFloatsRoundAsGosOwn(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1.5, math.Pi, 1e-45, 7e-46, 1e-40, 3.4e38, 3.5e38, 1<<24 + 1}
	for _, value := range append(values, math.Inf(1), math.Inf(-1)) {
		if got := Round(Float32, value); got != uint64(math.Float32bits(float32(value))) {
			t.Errorf("%v: %x", value, got)
		}
		if got := Round(Float64, value); got != math.Float64bits(value) {
			t.Errorf("%v: %x", value, got)
		}
	}
	for _, dtype := range []DType{Float16, BFloat16, Float8E4M3, Float8E5M2, Float8E4M3Fnuz, Float8E5M2Fnuz} {
		for pattern := range uint64(1) << (8 * dtype.Size()) {
			value := Number(dtype, pattern)
			if got := Round(dtype, value); got != pattern && !math.IsNaN(value) {
				t.Fatalf("%s %x is %v, and that is %x", dtype, pattern, value, got)
			}
		}
	}
}

func isBad(err error) bool { return err != nil && fromError(err).Code.String() == "BAD_ARGUMENT" }

package kiln

import (
	"math"
	"unsafe"
)

// Array is an array in this process: row-major, little-endian, without padding.
type Array struct {
	DType DType
	Shape []int64
	Data  []byte
}

// Half, BHalf and the quarters hold the bits of floats that Go has no type for. Round and Number convert.
type (
	Half           uint16
	BHalf          uint16
	QuarterE4M3    uint8
	QuarterE5M2    uint8
	QuarterE4M3FNZ uint8
	QuarterE5M2FNZ uint8
)

// Element is what slices may have that become arrays.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 |
		Half | BHalf | QuarterE4M3 | QuarterE5M2 | QuarterE4M3FNZ | QuarterE5M2FNZ
}

func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case bool:
		return Bool
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case float32:
		return Float32
	case float64:
		return Float64
	case Half:
		return Float16
	case BHalf:
		return BFloat16
	case QuarterE4M3:
		return Float8E4M3
	case QuarterE5M2:
		return Float8E5M2
	case QuarterE4M3FNZ:
		return Float8E4M3Fnuz
	default:
		return Float8E5M2Fnuz
	}
}

// Vector is an array of one axis. It shares the slice's memory.
func Vector[T Element](values []T) Array {
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
	return Array{dtypeOf[T](), []int64{int64(len(values))}, littleEndian(data, int(unsafe.Sizeof(*new(T))))}
}

// Scalar is an array of no axes.
func Scalar[T Element](value T) Array {
	array := Vector([]T{value})
	array.Shape = []int64{}
	return array
}

// ArrayOf is an array of a shape. It shares the slice's memory.
func ArrayOf[T Element](values []T, shape ...int64) (Array, error) {
	return Vector(values).Reshape(shape...)
}

// Values are an array's elements. They share the array's memory where its alignment allows; Data's, that is. An error
// if the array is of another dtype, or has not as many bytes as its shape says.
func Values[T Element](array Array) ([]T, error) {
	if wanted := dtypeOf[T](); array.DType != wanted {
		return nil, badArgument("an array of %s, not of %s", array.DType, wanted)
	}
	if err := array.check(); err != nil {
		return nil, err
	}
	size := int(unsafe.Sizeof(*new(T)))
	count := len(array.Data) / size
	data := littleEndian(array.Data, size)
	if start := unsafe.Pointer(unsafe.SliceData(data)); uintptr(start)%unsafe.Alignof(*new(T)) == 0 {
		return unsafe.Slice((*T)(start), count), nil
	}
	values := make([]T, count)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), count*size), data)
	return values, nil
}

// Reshape is the same elements in another shape.
func (a Array) Reshape(shape ...int64) (Array, error) {
	wanted, ok := byteCount(a.DType, shape)
	if !ok || wanted != int64(len(a.Data)) {
		return Array{}, badArgument(
			"%d elements are no array of shape %v",
			int64(len(a.Data))/max(1, a.DType.Size()),
			shape,
		)
	}
	a.Shape = append([]int64{}, shape...)
	return a, nil
}

func (a Array) check() error {
	if wanted, ok := byteCount(a.DType, a.Shape); !ok || wanted != int64(len(a.Data)) {
		return badArgument("an array of %s and shape %v has %d bytes, not %d", a.DType, a.Shape, wanted, len(a.Data))
	}
	return nil
}

// byteCount is false for what is no array.
func byteCount(dtype DType, shape []int64) (int64, bool) {
	count, size := int64(1), dtype.Size()
	for _, axis := range shape {
		if axis < 0 || axis > 0 && count > math.MaxInt64/8/axis {
			return 0, false
		}
		count *= axis
	}
	return count * size, size > 0
}

var isLittle = func() bool {
	number := uint16(1)
	return *(*byte)(unsafe.Pointer(&number)) == 1
}()

// littleEndian is data itself where this machine is so, else a copy with each element turned round; and back again.
func littleEndian(data []byte, size int) []byte {
	if isLittle || size == 1 {
		return data
	}
	turned := make([]byte, len(data))
	for at := range data {
		turned[at] = data[at-at%size+size-1-at%size]
	}
	return turned
}

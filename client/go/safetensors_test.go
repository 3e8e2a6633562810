package kiln

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	kilnv1 "kiln/v1"
)

func constantsFile(header string, data ...byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

const twoConstants = `{"__metadata__":{"by":"x"},"3_w":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},` +
	`"12_b_1":{"dtype":"I8","shape":[],"data_offsets":[4,5]}}  `

func TestConstantsComeFromTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, constantsFile(twoConstants, 0, 60, 0, 192, 7), 0o600); err != nil {
		t.Fatal(err)
	}
	constants, err := ReadConstants(path)
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(constants)), []uint32{3, 12}) {
		t.Fatal(constants, err)
	}
	w := constants[3]
	if w.DType != Float16 || !slices.Equal(w.Shape, []int64{2, 1}) || !slices.Equal(w.Data, []byte{0, 60, 0, 192}) {
		t.Error(w)
	}
	if b := constants[12]; b.DType != Int8 || len(b.Shape) != 0 || !slices.Equal(b.Data, []byte{7}) {
		t.Error(b)
	}
	if _, err := ReadConstants(path + "x"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestConstantsThatCannotBe(t *testing.T) {
	row := func(name, dtype, shape, offsets string) string {
		return `{"` + name + `":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for what, file := range map[string][]byte{
		"short":             {1, 2},
		"a huge header":     {255, 255, 255, 255, 255, 255, 255, 127, '{', '}'},
		"no JSON":           constantsFile("{"),
		"a list":            constantsFile("[]"),
		"no slot":           constantsFile(row("w", "I8", "[1]", "[0,1]"), 1),
		"a slot too far":    constantsFile(row("4294967296_w", "I8", "[1]", "[0,1]"), 1),
		"an unknown dtype":  constantsFile(row("1_w", "I7", "[1]", "[0,1]"), 1),
		"beyond the end":    constantsFile(row("1_w", "I8", "[2]", "[0,2]"), 1),
		"backwards":         constantsFile(row("1_w", "I8", "[1]", "[1,0]"), 1),
		"of another size":   constantsFile(row("1_w", "I8", "[3]", "[0,1]"), 1),
		"a negative size":   constantsFile(row("1_w", "I8", "[-1]", "[0,1]"), 1),
		"a negative offset": constantsFile(row("1_w", "I8", "[1]", "[-1,0]"), 1),
		"twice": constantsFile(
			`{"1_a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"1_b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`,
			1,
		),
	} {
		if _, err := parseConstants(file); !HasCode(err, kilnv1.ErrorCode_BAD_ARGUMENT) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

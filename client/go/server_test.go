package kiln

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
)

// connected is a client of the server that tests/clients/go_client_test.py has started.
func connected(t testing.TB, with ...Option) *Client {
	if os.Getenv("KILN_ADDR") == "" {
		t.Skip("KILN_ADDR names no server")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := Connect(ctx, "", with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// ran is the first result of a graph.
func ran[T Element](t *testing.T, client *Client, graph *Graph, arguments ...Argument) []T {
	program, err := client.Compile(t.Context(), graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := program.Run(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values[T](results[0])
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func counted(count int) []float32 {
	values := make([]float32, count)
	for at := range values {
		values[at] = float32(at%7 - 3)
	}
	return values
}

func TestConvolutionIsItsDefinition(t *testing.T) {
	client := connected(t)
	const n, c, h, w, o, kh, kw, pad = 2, 3, 7, 6, 4, 3, 2, 1
	for _, stride := range []int64{1, 2, 3} {
		g := NewGraph()
		g.Output(
			g.Param(
				"x",
				Float32,
				n,
				c,
				h,
				w,
			).Conv2D(
				g.Param("w", Float32, o, c, kh, kw),
				Conv2D{[2]int64{stride, stride}, [2]int64{pad, pad}},
			),
		)
		x, weight := counted(n*c*h*w), counted(o*c*kh*kw)
		pictures, _ := ArrayOf(x, n, c, h, w)
		filters, _ := ArrayOf(weight, o, c, kh, kw)
		var wanted []float32
		for image := range n {
			for out := range o {
				for top := -pad; top+kh <= h+pad; top += int(stride) {
					for left := -pad; left+kw <= w+pad; left += int(stride) {
						sum := float32(0)
						for at := range c * kh * kw {
							in, y, z := at/(kh*kw), top+at/kw%kh, left+at%kw
							if y >= 0 && y < h && z >= 0 && z < w {
								sum += x[((image*c+in)*h+y)*w+z] * weight[out*c*kh*kw+at]
							}
						}
						wanted = append(wanted, sum)
					}
				}
			}
		}
		if got := ran[float32](t, client, g, pictures, filters); !slices.Equal(got, wanted) {
			t.Errorf("stride %d: %v, not %v", stride, got, wanted)
		}
	}
}

// Sums of narrow floats leave their range, or stand still at 2^11 ones, unless they are wide until the end.
func TestNarrowFloatsAreWideWithin(t *testing.T) {
	client := connected(t)
	for _, dtype := range []DType{Float16, BFloat16, Float8E4M3, Float8E5M2} {
		g := NewGraph()
		ones, zeros := g.Full(dtype, 1.0, 100000), g.Full(dtype, 0.0, 70000)
		for _, x := range []Tensor{ones.Mean(), zeros.LogSoftmax(0).Max(), zeros.Softmax(0).Max()} {
			g.Output(x.Cast(Float64))
		}
		program, err := client.Compile(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		results, err := program.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for at, exact := range []float64{1, -math.Log(70000), 1.0 / 70000} {
			values, err := Values[float64](results[at])
			wanted := Number(dtype, Round(dtype, exact))
			if err != nil || values[0] != wanted {
				t.Errorf("%s, result %d: %v, not %v, %v", dtype, at, values, wanted, err)
			}
		}
	}
}

func TestPoolingCallsAndPlaces(t *testing.T) {
	client := connected(t)
	g := NewGraph()
	g.Output(g.Param("x", Float32, 1, 1, 4, 5).MaxPool2D(2, 2))
	x := []float32{1, 2, 3, 4, 9, 5, 6, 7, 8, 9, 0, 0, -1, -2, 9, 0, 1, -3, -4, 9}
	picture, _ := ArrayOf(x, 1, 1, 4, 5)
	if got := ran[float32](t, client, g, picture); !slices.Equal(got, []float32{6, 8, 1, -1}) {
		t.Error("the greatest of windows", got)
	}

	body := NewGraph()
	body.Output(body.Param("a", Float32, 3).Mul(body.Param("b", Float32, 3)))
	g = NewGraph()
	y := g.Param("x", Float32, 3)
	once := g.Call(body, y, y)[0]
	g.Output(g.Call(body, once, y)[0])
	if got := ran[float32](t, client, g, Vector([]float32{1, 2, 3})); !slices.Equal(got, []float32{1, 8, 27}) {
		t.Error("a function of a function", got)
	}

	g = NewGraph()
	g.Output(g.Param("x", Float32, 2, 3).ArgMax(-1))
	rows, _ := ArrayOf([]float32{1, 5, 5, 7, 2, 3}, 2, 3)
	if got := ran[int32](t, client, g, rows); !slices.Equal(got, []int32{1, 0}) {
		t.Error("the first of the greatest", got)
	}

	g = NewGraph()
	g.Output(g.Param("x", Float32, 4).ArgMax(0))
	nan := float32(math.NaN())
	if got := ran[int32](t, client, g, Vector([]float32{1, nan, 9, nan})); !slices.Equal(got, []int32{1}) {
		t.Error("the first that is no number", got)
	}

	g = new(Graph)
	g.Output(g.Arange(Int64, 11), g.Param("x", Float32, 2, 2).Transpose().Mean(0).Detach())
	square, _ := ArrayOf([]float32{1, 2, 3, 5}, 2, 2)
	if got := ran[int64](t, client, g, square); !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Error("numbers in a row", got)
	}
}

func TestArgumentsByName(t *testing.T) {
	client := connected(t)
	g := NewGraph()
	g.Output(g.Param("x", Int32, 2).Sub(g.Param("y", Int32, 2)))
	five, two := Vector([]int32{5, 5}), Vector([]int32{2, 2})
	if got := ran[int32](t, client, g, Named{"y", two}, Named{"x", five}); !slices.Equal(got, []int32{3, 3}) {
		t.Error(got)
	}
	program, err := client.Compile(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		arguments []Argument
		code      kilnv1.ErrorCode
	}{
		"unknown":  {[]Argument{Named{"z", two}}, kilnv1.ErrorCode_UNKNOWN_ARGUMENT},
		"too many": {[]Argument{two, two, two}, kilnv1.ErrorCode_UNKNOWN_ARGUMENT},
		"twice":    {[]Argument{two, Named{"x", two}}, kilnv1.ErrorCode_BAD_ARGUMENT},
		"missing":  {[]Argument{two}, kilnv1.ErrorCode_MISSING_ARGUMENT},
	} {
		if _, err := program.Run(t.Context(), row.arguments...); !HasCode(err, row.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Arrays of more than a message go through buffers, and come so.
func TestLargeArrays(t *testing.T) {
	client := connected(t)
	const count = 3 << 20
	g := NewGraph()
	g.Output(g.Param("x", Float32, count).Add(1))
	x := counted(count)
	got := ran[float32](t, client, g, Vector(x))
	for at, value := range got {
		if value != x[at]+1 {
			t.Fatalf("element %d is %v", at, value)
		}
	}
}

func TestManyGoroutinesShareAClientAndItsStream(t *testing.T) {
	client := connected(t)
	g := NewGraph()
	x := g.Param("x", Int32, 4)
	g.Update(x, x.Add(1))
	program, err := client.Compile(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.Stream()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for start := range 8 {
		group.Go(func() {
			buffer, err := stream.Upload(t.Context(), Vector([]int32{int32(start), 0, 0, 0}))
			for range 50 {
				if err == nil {
					_, err = stream.Run(t.Context(), program, "", buffer)
				}
			}
			if err != nil {
				t.Error(err)
				return
			}
			future, err := stream.Read(t.Context(), buffer)
			if err != nil {
				t.Error(err)
				return
			}
			array, err := future.Wait(t.Context())
			values, also := Values[int32](array)
			if err != nil || also != nil || !slices.Equal(values, []int32{int32(start) + 50, 50, 50, 50}) {
				t.Error(values, err, also)
			}
			if err := stream.Free(t.Context(), buffer); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := stream.Fence(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsGivenUpEnds(t *testing.T) {
	client := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Upload(ctx, Vector([]int32{1})); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	buffer, err := client.Allocate(t.Context(), 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := buffer.WriteBytes(ctx, 0, make([]byte, 16)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := buffer.ReadBytes(ctx, 0, make([]byte, 16)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := buffer.Fill(t.Context(), []byte{7}); err != nil {
		t.Error(err)
	}
	array, err := buffer.Read(t.Context())
	if err != nil || !slices.Equal(array.Data, slices.Repeat([]byte{7}, 16)) {
		t.Error(array, err)
	}
	if err := buffer.Free(t.Context()); err != nil || buffer.Free(t.Context()) != nil {
		t.Error(err)
	}
}

func TestAClientIsClosedOnce(t *testing.T) {
	client := connected(t)
	if _, err := client.Stream(); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Allocate(t.Context(), 16); fromError(err) == nil || fromError(err).Status != codes.Canceled {
		t.Error(err)
	}
}

func TestATraceIsJoined(t *testing.T) {
	client := connected(t)
	const id = "0af7651916cd43dd8448eb211c80319c"
	ctx := WithTraceparent(t.Context(), "00-"+id+"-b7ad6b7169203331-01")
	if _, err := client.Allocate(ctx, 16); err != nil {
		t.Fatal(err)
	}
	traces, err := kilnv1.NewDebugServiceClient(client.Conn()).Trace(t.Context(), &kilnv1.TraceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range traces.Calls {
		if slices.Equal(call.TraceId, []byte("\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c")) {
			return
		}
	}
	t.Errorf("none of %d calls is of the trace", len(traces.Calls))
}

func BenchmarkTransfer(b *testing.B) {
	client := connected(b)
	data := make([]byte, 64<<20)
	buffer, err := client.Allocate(b.Context(), uint64(len(data)))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := buffer.WriteBytes(b.Context(), 0, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := buffer.ReadBytes(b.Context(), 0, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRun(b *testing.B) {
	client := connected(b)
	g := NewGraph()
	g.Output(g.Param("x", Float32, 4).Mul(2).Add(1))
	program, err := client.Compile(b.Context(), g, nil)
	if err != nil {
		b.Fatal(err)
	}
	x := Vector([]float32{1, 2, 3, 4})
	for b.Loop() {
		if _, err := program.Run(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}

package kiln

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"kiln/internal/wire"
	kilnv1 "kiln/v1"
)

// Buffer is memory on a device. It lives until Free, or until its client is closed: Go's collector does not give it
// back.
type Buffer struct {
	client *Client
	handle uint64
	freed  atomic.Bool
	dtype  DType
	shape  []int64
	bytes  uint64
	device string
}

func (c *Client) buffer(description *kilnv1.BufferDescription) *Buffer {
	return &Buffer{client: c, handle: description.Handle, dtype: DType(description.Dtype), shape: description.Shape,
		bytes: description.Bytes, device: description.Device}
}

// Handle is the server's name for it.
func (b *Buffer) Handle() uint64 { return b.handle }

// DType is what it holds; 0 where that is not known.
func (b *Buffer) DType() DType { return b.dtype }

// Shape is its array's.
func (b *Buffer) Shape() []int64 { return slices.Clone(b.shape) }

// Bytes is its size.
func (b *Buffer) Bytes() uint64 { return b.bytes }

// Device is where it is, by name.
func (b *Buffer) Device() string { return b.device }

func (b *Buffer) ref(offset uint64) *kilnv1.BufferRef {
	return &kilnv1.BufferRef{Handle: b.handle, Offset: offset}
}

// Allocate makes a buffer of zeros, without a type.
func (c *Client) Allocate(ctx context.Context, bytes uint64) (*Buffer, error) {
	request := &kilnv1.AllocateRequest{Device: c.device, Size: &kilnv1.AllocateRequest_Bytes{Bytes: bytes}}
	return c.allocated(bytes)(c.buffers.Allocate(ctx, request))
}

// Zeros makes a buffer with an array of zeros. On a device of that name; "": the client's.
func (c *Client) Zeros(ctx context.Context, dtype DType, shape []int64, device string) (*Buffer, error) {
	count, ok := byteCount(dtype, shape)
	if !ok {
		return nil, badArgument("no array has %s and shape %v", dtype, shape)
	}
	request := &kilnv1.AllocateRequest{Device: cmp.Or(device, c.device)}
	request.Size = &kilnv1.AllocateRequest_Type{Type: &kilnv1.TensorType{Dtype: dtype.message(), Shape: shape}}
	return c.allocated(uint64(count))(c.buffers.Allocate(ctx, request))
}

// allocated takes the answer to a request for so many bytes.
func (c *Client) allocated(bytes uint64) func(*kilnv1.AllocateResponse, error) (*Buffer, error) {
	return func(answer *kilnv1.AllocateResponse, err error) (*Buffer, error) {
		if err != nil {
			return nil, err
		}
		if answer.Buffer == nil || answer.Buffer.Bytes != bytes {
			return nil, badServer("made a buffer of %d bytes, not %d", answer.GetBuffer().GetBytes(), bytes)
		}
		return c.buffer(answer.Buffer), nil
	}
}

// Upload makes a buffer with an array, on the client's device.
func (c *Client) Upload(ctx context.Context, array Array) (*Buffer, error) {
	return c.UploadTo(ctx, array, "")
}

// UploadTo makes a buffer with an array on a device of that name.
func (c *Client) UploadTo(ctx context.Context, array Array, device string) (*Buffer, error) {
	if err := array.check(); err != nil {
		return nil, err
	}
	made, err := c.Zeros(ctx, array.DType, array.Shape, device)
	if err != nil || len(array.Data) == 0 {
		return made, err
	}
	if err := made.WriteBytes(ctx, 0, array.Data); err != nil {
		_ = made.Free(context.WithoutCancel(ctx))
		return nil, err
	}
	return made, nil
}

// WriteBytes puts bytes at an offset, in chunks: any number of them.
func (b *Buffer) WriteBytes(ctx context.Context, offset uint64, data []byte) error {
	if err := b.inside(offset, uint64(len(data))); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := b.client.buffers.Write(ctx, grpc.ForceCodecV2(wire.Codec))
	if err != nil {
		return err
	}
	header := &kilnv1.WriteHeader{Buffer: b.ref(offset), Bytes: uint64(len(data))}
	err = stream.Send(&kilnv1.WriteRequest{Part: &kilnv1.WriteRequest_Header{Header: header}})
	for part := range slices.Chunk(data, wire.Chunk) {
		if err != nil {
			break // the answer says why
		}
		err = stream.SendMsg(wire.OutChunk(part))
	}
	_, err = stream.CloseAndRecv()
	return err
}

// ReadBytes fills `data` from an offset on.
func (b *Buffer) ReadBytes(ctx context.Context, offset uint64, data []byte) error {
	if err := b.inside(offset, uint64(len(data))); err != nil || len(data) == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &kilnv1.ReadRequest{Buffer: b.ref(offset), Bytes: uint64(len(data))}
	stream, err := b.client.buffers.Read(ctx, request, grpc.ForceCodecV2(wire.Codec))
	if err != nil {
		return err
	}
	into := &wire.InChunk{Room: data}
	for {
		if err := stream.RecvMsg(into); isEnd(err) {
			break
		} else if err != nil {
			return err
		}
		into.Room = into.Room[into.Taken:]
	}
	if len(into.Room) > 0 {
		return newError(0, codes.Internal, "the server sent %d of %d bytes", len(data)-len(into.Room), len(data))
	}
	return nil
}

// Read brings the buffer's array here.
func (b *Buffer) Read(ctx context.Context) (Array, error) {
	array := Array{b.dtype, b.Shape(), nil}
	if b.dtype == 0 {
		array.DType, array.Shape = Uint8, []int64{int64(b.bytes)}
	}
	if b.bytes > math.MaxInt {
		return array, badArgument("%d bytes are more than this machine addresses: ReadBytes takes parts", b.bytes)
	}
	// At a multiple of 8, whatever the size.
	array.Data = make([]byte, b.bytes+8)[:b.bytes:b.bytes]
	return array, b.ReadBytes(ctx, 0, array.Data)
}

// Fill repeats a pattern of 1, 2, 4 or 8 bytes all over the buffer.
func (b *Buffer) Fill(ctx context.Context, pattern []byte) error {
	_, err := b.client.buffers.Fill(ctx, &kilnv1.FillRequest{Buffer: b.ref(0), Pattern: pattern})
	return err
}

// CopyFrom copies the whole of another buffer to the beginning of this.
func (b *Buffer) CopyFrom(ctx context.Context, source *Buffer) error {
	_, err := b.client.buffers.Copy(ctx, &kilnv1.CopyRequest{From: source.ref(0), To: b.ref(0), Bytes: source.bytes})
	return err
}

// Free gives it back. What runs may still use it. Twice is once, but after a failure it can be tried again.
func (b *Buffer) Free(ctx context.Context) error {
	if b.freed.Swap(true) {
		return nil
	}
	_, err := b.client.buffers.Free(ctx, &kilnv1.FreeRequest{Handle: []uint64{b.handle}})
	if err != nil {
		b.freed.Store(false)
	}
	return err
}

func (b *Buffer) inside(offset, count uint64) error {
	if offset > b.bytes || count > b.bytes-offset {
		return newError(
			kilnv1.ErrorCode_OUT_OF_BOUNDS,
			codes.OutOfRange,
			"bytes %d to %d of a buffer of %d",
			offset,
			offset+count,
			b.bytes,
		)
	}
	return nil
}

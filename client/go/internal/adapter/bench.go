package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"kiln"
	kilnv1 "kiln/v1"
)

// measured is what `bench` measures: a client's calls, and the same by gRPC alone, with the generated stubs.
type measured struct {
	client         *kiln.Client
	stream         *kiln.Stream
	program, step  *kiln.Program
	counter, block *kiln.Buffer
	large          *kilnv1.Graph
	values         []float32
	data           []byte

	kernels                kilnv1.KernelServiceClient
	buffers                kilnv1.BufferServiceClient
	bareCounter, bareBlock uint64
}

const benchChunk = 1 << 20

func bench(a *adapter, ctx context.Context, r *ask) (answer, error) {
	if r.What == "prepare" {
		var err error
		a.measured, err = newMeasured(ctx, r)
		return nil, err
	}
	name := "kiln_" + r.What
	if r.Bare {
		name = "bare_" + r.What
	}
	work, is := benches[name]
	if !is {
		return nil, fmt.Errorf("bench: there is no %s", name)
	}
	begun := time.Now()
	err := work(a.measured, ctx, r.Count)
	return answer{"seconds": time.Since(begun).Seconds()}, err
}

func newMeasured(ctx context.Context, r *ask) (*measured, error) {
	m := &measured{values: []float32{0, 1, 2, 3}, data: make([]byte, number(r.Bytes)), large: &kilnv1.Graph{}}
	for at := range m.data {
		m.data[at] = byte(at % 251)
	}
	var err error
	if m.client, err = kiln.Connect(ctx, r.Address); err != nil {
		return nil, err
	}
	if m.stream, err = m.client.Stream(); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(r.Large, m.large); err != nil {
		return nil, err
	}
	for _, row := range []struct {
		data []byte
		made **kiln.Program
	}{{r.Affine, &m.program}, {r.Counting, &m.step}} {
		graph, err := graphOf(row.data)
		if err != nil {
			return nil, err
		}
		if *row.made, err = m.client.Compile(ctx, graph, nil); err != nil {
			return nil, err
		}
	}
	if m.counter, err = m.client.Upload(ctx, kiln.Vector(make([]int32, 4))); err != nil {
		return nil, err
	}
	if m.block, err = m.client.Upload(ctx, kiln.Vector(m.data)); err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	m.kernels, m.buffers = kilnv1.NewKernelServiceClient(connection), kilnv1.NewBufferServiceClient(connection)
	counter := &kilnv1.TensorType{Dtype: kilnv1.DType_INT32, Shape: []int64{4}}
	made, err := m.buffers.Allocate(ctx, &kilnv1.AllocateRequest{Size: &kilnv1.AllocateRequest_Type{Type: counter}})
	if err != nil {
		return nil, err
	}
	m.bareCounter = made.Buffer.Handle
	bytes := &kilnv1.AllocateRequest_Bytes{Bytes: uint64(len(m.data))}
	if made, err = m.buffers.Allocate(ctx, &kilnv1.AllocateRequest{Size: bytes}); err != nil {
		return nil, err
	}
	m.bareBlock = made.Buffer.Handle
	return m, nil
}

var benches = map[string]func(*measured, context.Context, int) error{
	"kiln_execute": func(m *measured, ctx context.Context, count int) error {
		for range count {
			if _, err := m.program.Run(ctx, kiln.Vector(m.values)); err != nil {
				return err
			}
		}
		return nil
	},
	"bare_execute": func(m *measured, ctx context.Context, count int) error {
		for range count {
			array := kiln.Vector(m.values)
			tensor := &kilnv1.Tensor{Dtype: kilnv1.DType_FLOAT32, Shape: array.Shape, Data: array.Data}
			argument := &kilnv1.Argument{Value: &kilnv1.Argument_Tensor{Tensor: tensor}}
			_, err := m.kernels.Execute(ctx, &kilnv1.ExecuteRequest{
				GraphHash:  m.program.Hash(),
				Arguments:  []*kilnv1.Argument{argument},
				ResultMode: kilnv1.ResultMode_RESULT_INLINE,
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"kiln_submit": func(m *measured, ctx context.Context, count int) error {
		for range count {
			if _, err := m.stream.Run(ctx, m.step, "", m.counter); err != nil {
				return err
			}
		}
		return m.stream.Fence(ctx)
	},
	"bare_submit": (*measured).submit,
	"kiln_upload": func(m *measured, ctx context.Context, count int) error {
		for range count {
			if err := m.block.WriteBytes(ctx, 0, m.data); err != nil {
				return err
			}
		}
		return nil
	},
	"bare_upload": (*measured).upload,
	"kiln_download": func(m *measured, ctx context.Context, count int) error {
		for range count {
			if _, err := m.block.Read(ctx); err != nil {
				return err
			}
		}
		return nil
	},
	"bare_download": (*measured).download,
	"kiln_hash": func(m *measured, _ context.Context, count int) error {
		for range count {
			if _, err := kiln.Hash(m.large); err != nil {
				return err
			}
		}
		return nil
	},
}

func (m *measured) submit(ctx context.Context, count int) error {
	call, err := m.kernels.Submit(ctx)
	if err != nil {
		return err
	}
	said := make(chan error, 1)
	go func() {
		for {
			answer, err := call.Recv()
			if err == nil && answer.GetFailed() != nil {
				err = fmt.Errorf("a command failed: %s", answer.GetFailed().Status)
			}
			if err == io.EOF {
				err = nil
			} else if err == nil {
				continue
			}
			said <- err
			return
		}
	}()
	hello := &kilnv1.SubmitRequest_Hello{Hello: &kilnv1.SubmitHello{}}
	if err := call.Send(&kilnv1.SubmitRequest{Command: hello}); err != nil {
		return err
	}
	for number := range count {
		place := &kilnv1.Argument_Buffer{Buffer: &kilnv1.BufferRef{Handle: m.bareCounter}}
		request := &kilnv1.ExecuteRequest{GraphHash: m.step.Hash(), Arguments: []*kilnv1.Argument{{Value: place}}}
		execute := &kilnv1.SubmitRequest_Execute{Execute: &kilnv1.ExecuteCommand{Request: request}}
		if err := call.Send(&kilnv1.SubmitRequest{CommandId: uint64(number + 1), Command: execute}); err != nil {
			return err
		}
	}
	fence := &kilnv1.SubmitRequest_Fence{Fence: &kilnv1.FenceCommand{}}
	if err := call.Send(&kilnv1.SubmitRequest{CommandId: uint64(count + 1), Command: fence}); err != nil {
		return err
	}
	if err := call.CloseSend(); err != nil {
		return err
	}
	return <-said
}

func (m *measured) upload(ctx context.Context, count int) error {
	for range count {
		call, err := m.buffers.Write(ctx)
		if err != nil {
			return err
		}
		header := &kilnv1.WriteHeader{Buffer: &kilnv1.BufferRef{Handle: m.bareBlock}, Bytes: uint64(len(m.data))}
		if err := call.Send(&kilnv1.WriteRequest{Part: &kilnv1.WriteRequest_Header{Header: header}}); err != nil {
			return err
		}
		for at := 0; at < len(m.data); at += benchChunk {
			part := m.data[at:min(at+benchChunk, len(m.data))]
			if err := call.Send(&kilnv1.WriteRequest{Part: &kilnv1.WriteRequest_Chunk{Chunk: part}}); err != nil {
				return err
			}
		}
		if _, err := call.CloseAndRecv(); err != nil {
			return err
		}
	}
	return nil
}

func (m *measured) download(ctx context.Context, count int) error {
	for range count {
		call, err := m.buffers.Read(ctx, &kilnv1.ReadRequest{Buffer: &kilnv1.BufferRef{Handle: m.bareBlock}})
		if err != nil {
			return err
		}
		made := make([]byte, 0, len(m.data))
		for {
			answer, err := call.Recv()
			if err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			made = append(made, answer.Chunk...)
		}
		if len(made) != len(m.data) {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

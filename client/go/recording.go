package kiln

import (
	"context"

	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

// Step is one call of a recording: a program, and for each of its parameters, in ascending order of slot, where it
// lies.
type Step struct {
	Program *Program
	Memory  []Memory
}

// Memory is a part of one of a replay's buffers, from a byte on.
type Memory struct {
	Buffer uint32
	Offset uint64
}

// Recording is calls in a row that the server keeps, and runs again in one round trip.
type Recording struct {
	client   *Client
	request  *kilnv1.RecordSequenceRequest
	programs []*Program
	hash     []byte
}

// Record records calls of programs that store to their parameters; results that would be new memory have no place here.
func (c *Client) Record(ctx context.Context, steps []Step) (*Recording, error) {
	r := &Recording{client: c, request: &kilnv1.RecordSequenceRequest{Device: c.device}}
	if r.request.Device == "" && len(c.devices) > 0 {
		r.request.Device = c.devices[0]
	}
	numbers := map[*Program]uint32{}
	for number, step := range steps {
		program := step.Program
		if _, is := numbers[program]; !is {
			numbers[program] = uint32(len(r.programs))
			r.programs = append(r.programs, program)
			r.request.Programs = append(
				r.request.Programs,
				&kilnv1.RecordedProgram{GraphHash: program.compiled.GraphHash, Options: program.options},
			)
		}
		if wanted := len(program.takes); len(step.Memory) != wanted {
			return nil, badArgument(
				"step %d gives %d memories to a program of %d parameters",
				number,
				len(step.Memory),
				wanted,
			)
		}
		recorded := &kilnv1.RecordedStep{Program: numbers[program]}
		for at, memory := range step.Memory {
			place := &kilnv1.RecordedMemory{Buffer: memory.Buffer, Offset: memory.Offset}
			recorded.Arguments = append(recorded.Arguments, &kilnv1.RecordedArgument{Slot: program.takes[at].slot,
				Value: &kilnv1.RecordedArgument_Memory{Memory: place}})
		}
		r.request.Steps = append(r.request.Steps, recorded)
	}
	answer, err := c.kernels.RecordSequence(ctx, r.request)
	if err != nil {
		return nil, err
	}
	r.hash = answer.Recording
	return r, nil
}

// Replay runs the calls on these buffers. What the server has forgotten is recorded again.
func (r *Recording) Replay(ctx context.Context, buffers ...*Buffer) error {
	request := &kilnv1.ReplaySequenceRequest{Recording: r.hash}
	for _, buffer := range buffers {
		request.Buffers = append(request.Buffers, buffer.ref(0))
	}
	_, err := r.client.kernels.ReplaySequence(ctx, request)
	if !HasCode(err, kilnv1.ErrorCode_NEED_GRAPH) {
		return err
	}
	if err := r.again(ctx); err != nil {
		return err
	}
	_, err = r.client.kernels.ReplaySequence(ctx, request)
	return err
}

// again is for a server that has forgotten the recording, and perhaps its programs.
func (r *Recording) again(ctx context.Context) error {
	_, err := r.client.kernels.RecordSequence(ctx, r.request)
	if !HasCode(err, kilnv1.ErrorCode_NEED_GRAPH) {
		return err
	}
	for _, program := range r.programs {
		request := &kilnv1.CompileRequest{
			Graph:   program.graph,
			Device:  r.request.Device,
			Options: proto.CloneOf(program.options),
		}
		if _, err := r.client.kernels.Compile(ctx, request); err != nil {
			return err
		}
	}
	_, err = r.client.kernels.RecordSequence(ctx, r.request)
	return err
}

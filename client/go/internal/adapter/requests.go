package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"kiln"
	kilnv1 "kiln/v1"
)

// requests are what an adapter is asked, by name.
var requests = map[string]func(*adapter, context.Context, *ask) (answer, error){
	"reset":         reset,
	"connect":       connect,
	"close":         closeClient,
	"hash":          hash,
	"build":         build,
	"compile":       compile,
	"gradient":      gradient,
	"upload":        upload,
	"allocate":      allocate,
	"write":         write,
	"read":          read,
	"free":          free,
	"handle":        handle,
	"describe":      describe,
	"bench":         bench,
	"run":           run,
	"run_files":     runFiles,
	"unchecked_run": uncheckedRun,
	"fence":         fence,
	"record":        record,
	"replay":        replay,
	"collective":    collective,
	"transfer":      transfer,
	"models":        models,
	"model":         model,
	"infer":         infer,
	"infer_stream":  inferStream,
}

func init() { requests["begin"], requests["end"] = begin, end }

func reset(a *adapter, _ context.Context, _ *ask) (answer, error) {
	for _, one := range a.clients {
		one.client.Close()
	}
	*a = *newAdapter()
	return nil, nil
}

func connect(a *adapter, ctx context.Context, r *ask) (answer, error) {
	var options []kiln.Option
	if r.Token != "" {
		options = append(options, kiln.WithToken(r.Token))
	}
	if r.TokenFile != "" {
		options = append(options, kiln.WithTokenFile(r.TokenFile))
	}
	if r.Ca != "" {
		options = append(options, kiln.WithAuthority(r.Ca))
	}
	if r.Certificate != "" {
		options = append(options, kiln.WithCertificate(r.Certificate, r.Key))
	}
	if r.LeaseSeconds > 0 {
		options = append(options, kiln.WithLease(time.Duration(r.LeaseSeconds)*time.Second))
	}
	client, err := kiln.Connect(ctx, r.Address, options...)
	if err != nil {
		return nil, err
	}
	one := connected{client: client}
	if r.Stream {
		one.stream, _ = client.Stream() // a server without streams is called
	}
	a.clients[r.Client] = one
	return answer{"features": client.Features(), "devices": client.Devices()}, nil
}

func closeClient(a *adapter, _ context.Context, r *ask) (answer, error) {
	one := a.one(r.Client)
	delete(a.clients, r.Client)
	return nil, one.client.Close()
}

func hash(_ *adapter, _ context.Context, r *ask) (answer, error) {
	graph, err := graphOf(r.Graph)
	if err != nil {
		return nil, err
	}
	message, _ := graph.Build()
	made, err := kiln.Hash(message)
	return answer{"hash": hex.EncodeToString(made[:])}, err
}

func compile(a *adapter, ctx context.Context, r *ask) (answer, error) {
	graph, err := graphOf(r.Graph)
	if err != nil {
		return nil, err
	}
	program, err := a.clients[r.Client].client.Compile(ctx, graph, nil)
	if err != nil {
		return nil, err
	}
	a.programs[r.As] = program
	return answer{"hash": hex.EncodeToString(program.Hash())}, nil
}

func gradient(a *adapter, ctx context.Context, r *ask) (answer, error) {
	graph, err := graphOf(r.Graph)
	if err != nil {
		return nil, err
	}
	made, err := a.clients[r.Client].client.Gradient(ctx, graph, r.Wrt, nil)
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(made.Graph)
	return answer{"graph": data}, err
}

func upload(a *adapter, ctx context.Context, r *ask) (answer, error) {
	array, err := r.Tensor.array()
	if err != nil {
		return nil, err
	}
	one := a.one(r.Client)
	if one.stream != nil {
		a.buffers[r.As], err = one.stream.Upload(ctx, array)
	} else {
		a.buffers[r.As], err = one.client.UploadTo(ctx, array, r.Device)
	}
	return nil, err
}

func allocate(a *adapter, ctx context.Context, r *ask) (answer, error) {
	made, err := a.clients[r.Client].client.Allocate(ctx, number(r.Bytes))
	a.buffers[r.As] = made
	return nil, err
}

func write(a *adapter, ctx context.Context, r *ask) (answer, error) {
	return nil, a.buffers[r.Buffer].WriteBytes(ctx, number(r.Offset), r.Data)
}

func read(a *adapter, ctx context.Context, r *ask) (answer, error) {
	buffer := a.buffers[r.Buffer]
	if r.Bytes != nil {
		data := make([]byte, number(r.Bytes))
		err := buffer.ReadBytes(ctx, number(r.Offset), data)
		return answer{"data": data}, err
	}
	array, err := fetch(ctx, a.one(r.Client), buffer)
	return answer{"tensor": said(array)}, err
}

func fetch(ctx context.Context, one connected, buffer *kiln.Buffer) (kiln.Array, error) {
	if one.stream == nil {
		return buffer.Read(ctx)
	}
	future, err := one.stream.Read(ctx, buffer)
	if err != nil {
		return kiln.Array{}, err
	}
	return future.Wait(ctx)
}

func free(a *adapter, ctx context.Context, r *ask) (answer, error) {
	for _, name := range r.Buffers {
		var err error
		if one := a.one(r.Client); one.stream != nil {
			err = one.stream.Free(ctx, a.buffers[name])
		} else {
			err = a.buffers[name].Free(ctx)
		}
		if err != nil {
			return nil, err
		}
		delete(a.buffers, name)
	}
	return nil, nil
}

func handle(a *adapter, _ context.Context, r *ask) (answer, error) {
	return answer{"handle": strconv.FormatUint(a.buffers[r.Buffer].Handle(), 10)}, nil
}

// describe asks by a stub: of a handle, whosever it is.
func describe(a *adapter, ctx context.Context, r *ask) (answer, error) {
	stub := kilnv1.NewBufferServiceClient(a.clients[r.Client].client.Conn())
	said, err := stub.Describe(ctx, &kilnv1.DescribeBufferRequest{Handle: number(r.Handle)})
	return answer{"bytes": said.GetBuffer().GetBytes()}, err
}

func run(a *adapter, ctx context.Context, r *ask) (answer, error) {
	program, one := a.programs[r.Program], a.one(r.Client)
	var arguments []kiln.Argument
	for _, item := range r.Arguments {
		switch {
		case item.Tensor != nil:
			array, err := item.Tensor.array()
			if err != nil {
				return nil, err
			}
			arguments = append(arguments, array)
		case item.Integer != nil:
			arguments = append(arguments, kiln.Integer(*item.Integer))
		default:
			arguments = append(arguments, a.buffers[item.Buffer])
		}
	}
	if r.Keep == nil {
		results, err := program.Run(ctx, arguments...)
		tensors := []*tensor{}
		for _, array := range results {
			tensors = append(tensors, said(array))
		}
		return answer{"results": tensors}, err
	}
	var names []string
	if err := json.Unmarshal(r.Keep, &names); err != nil {
		return nil, err
	}
	results, err := keep(ctx, one, program, r.Tag, arguments)
	for at, name := range names {
		if at < len(results) {
			a.buffers[name] = results[at]
		}
	}
	return nil, err
}

func keep(
	ctx context.Context,
	one connected,
	program *kiln.Program,
	tag string,
	arguments []kiln.Argument,
) ([]*kiln.Buffer, error) {
	if one.stream != nil {
		return one.stream.Run(ctx, program, tag, arguments...)
	}
	return program.RunKeep(ctx, arguments...)
}

// uncheckedRun is run, of one buffer: this client checks nothing that the server does.
func uncheckedRun(a *adapter, ctx context.Context, r *ask) (answer, error) {
	var name string
	if err := json.Unmarshal(r.Keep, &name); err != nil {
		return nil, err
	}
	results, err := keep(ctx, a.one(r.Client), a.programs[r.Program], r.Tag, []kiln.Argument{a.buffers[r.Buffer]})
	if err == nil {
		a.buffers[name] = results[0]
	}
	return nil, err
}

// begin does a request beside what follows; end answers it.
func begin(a *adapter, _ context.Context, r *ask) (answer, error) {
	made := make(chan answer, 1)
	a.begun[r.As] = made
	go func() { made <- a.answer(r.Request) }()
	return nil, nil
}

func end(a *adapter, _ context.Context, r *ask) (answer, error) { return <-a.begun[r.Of], nil }

func fence(a *adapter, ctx context.Context, r *ask) (answer, error) {
	if stream := a.one(r.Client).stream; stream != nil {
		return nil, stream.Fence(ctx)
	}
	return nil, nil
}

func record(a *adapter, ctx context.Context, r *ask) (answer, error) {
	var steps []kiln.Step
	for _, row := range r.Steps {
		var name string
		var numbers []uint32
		if err := json.Unmarshal(row[0], &name); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(row[1], &numbers); err != nil {
			return nil, err
		}
		step := kiln.Step{Program: a.programs[name]}
		for _, buffer := range numbers {
			step.Memory = append(step.Memory, kiln.Memory{Buffer: buffer})
		}
		steps = append(steps, step)
	}
	made, err := a.clients[r.Client].client.Record(ctx, steps)
	a.recordings[r.As] = made
	return nil, err
}

func names(list json.RawMessage) (made []string) {
	_ = json.Unmarshal(list, &made)
	return made
}

func (a *adapter) named(names []string) []*kiln.Buffer {
	var buffers []*kiln.Buffer
	for _, name := range names {
		buffers = append(buffers, a.buffers[name])
	}
	return buffers
}

func replay(a *adapter, ctx context.Context, r *ask) (answer, error) {
	return nil, a.recordings[r.Recording].Replay(ctx, a.named(r.Buffers)...)
}

func collective(a *adapter, ctx context.Context, r *ask) (answer, error) {
	client := a.clients[r.Client].client
	what := kiln.Collective{Inputs: a.named(names(r.Inputs)), Outputs: a.named(names(r.Outputs)), Root: r.Root}
	what.Op = map[string]kiln.Reduction{"sum": kiln.Sum, "prod": kiln.Product, "max": kiln.Maximum}[r.Op]
	return nil, map[string]func(context.Context, kiln.Collective) error{
		"broadcast": client.Broadcast, "scatter": client.Scatter, "gather": client.Gather, "reduce": client.Reduce,
		"all_gather": client.AllGather, "reduce_scatter": client.ReduceScatter, "all_reduce": client.AllReduce,
	}[r.Kind](ctx, what)
}

func transfer(a *adapter, ctx context.Context, r *ask) (answer, error) {
	sent := make([]byte, number(r.Bytes))
	for at := range sent {
		sent[at] = byte(at % 251)
	}
	one := a.one(r.Client)
	var buffer *kiln.Buffer
	var err error
	if one.stream != nil {
		buffer, err = one.stream.Upload(ctx, kiln.Vector(sent))
	} else {
		buffer, err = one.client.Upload(ctx, kiln.Vector(sent))
	}
	if err != nil {
		return nil, err
	}
	array, err := fetch(ctx, one, buffer)
	if err != nil {
		return nil, err
	}
	wrong := 0
	for at, value := range array.Data {
		if value != sent[at] {
			wrong++
		}
	}
	return answer{"wrong": wrong}, buffer.Free(ctx)
}

// runFiles runs a graph of a file, on constants of another, which are uploaded, and on what is given by value.
func runFiles(a *adapter, ctx context.Context, r *ask) (answer, error) {
	client := a.clients[r.Client].client
	graph, err := kiln.ReadGraph(r.GraphFile)
	if err != nil {
		return nil, err
	}
	constants, err := kiln.ReadConstants(r.ConstantsFile)
	if err != nil {
		return nil, err
	}
	program, err := client.Compile(ctx, kiln.FromMessage(graph), nil)
	if err != nil {
		return nil, err
	}
	var arguments []kiln.Argument
	for slot, constant := range constants {
		buffer, err := client.Upload(ctx, constant)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, kiln.InSlot{Slot: slot, Value: buffer})
	}
	for _, item := range r.Arguments {
		array, err := item.Tensor.array()
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, array)
	}
	results, err := program.Run(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	made := []*tensor{}
	for _, array := range results {
		made = append(made, said(array))
	}
	return answer{"results": made}, nil
}

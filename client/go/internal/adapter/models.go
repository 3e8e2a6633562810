package main

import (
	"context"
	"encoding/json"
	"fmt"

	"kiln"
)

// inferring is a request to a model, as the suite has it.
type inferring struct {
	Inputs   map[string]argument
	Outputs  []string
	Sequence *sequence
}

type sequence struct {
	ID         json.RawMessage
	Start, End bool
}

// inferring is the one request that is a request of the suite's by itself.
func (r *ask) inferring() (*inferring, error) {
	made := &inferring{Outputs: names(r.Outputs), Sequence: r.Sequence}
	return made, json.Unmarshal(r.Inputs, &made.Inputs)
}

func (i *inferring) arrays() (map[string]kiln.Array, error) {
	arrays := map[string]kiln.Array{}
	for name, item := range i.Inputs {
		array, err := item.Tensor.array()
		if err != nil {
			return nil, err
		}
		arrays[name] = array
	}
	return arrays, nil
}

func (i *inferring) options() []kiln.InferOption {
	options := []kiln.InferOption{kiln.WithOutputs(i.Outputs...)}
	if i.Sequence != nil {
		options = append(options, kiln.WithSequence(number(i.Sequence.ID), i.Sequence.Start, i.Sequence.End))
	}
	return options
}

func byName(arrays map[string]kiln.Array) answer {
	tensors := map[string]*tensor{}
	for name, array := range arrays {
		tensors[name] = said(array)
	}
	return answer{"outputs": tensors}
}

func models(a *adapter, ctx context.Context, r *ask) (answer, error) {
	rows := []answer{}
	found, err := a.clients[r.Client].client.Models(ctx)
	for _, row := range found {
		rows = append(rows, answer{"name": row.Name, "version": row.Version, "state": row.State, "reason": row.Reason})
	}
	return answer{"models": rows}, err
}

func model(a *adapter, ctx context.Context, r *ask) (answer, error) {
	made, err := a.clients[r.Client].client.Model(ctx, r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	a.models[r.As] = made
	ready, err := made.Ready(ctx)
	told := answer{"ready": ready, "versions": made.Versions()}
	for name, tensors := range map[string][]kiln.TensorMetadata{"inputs": made.Inputs(), "outputs": made.Outputs()} {
		rows := []answer{}
		for _, row := range tensors {
			rows = append(rows, answer{"name": row.Name, "dtype": row.DType.String(), "shape": row.Shape})
		}
		told[name] = rows
	}
	return told, err
}

func infer(a *adapter, ctx context.Context, r *ask) (answer, error) {
	model, is := a.models[r.Model]
	if !is {
		return nil, fmt.Errorf("no model %q", r.Model)
	}
	request, err := r.inferring()
	if err != nil {
		return nil, err
	}
	arrays, err := request.arrays()
	if err != nil {
		return nil, err
	}
	outputs, err := model.Infer(ctx, arrays, request.options()...)
	return byName(outputs), err
}

func inferStream(a *adapter, ctx context.Context, r *ask) (answer, error) {
	model, is := a.models[r.Model]
	if !is {
		return nil, fmt.Errorf("no model %q", r.Model)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := model.Stream(ctx)
	if err != nil {
		return nil, err
	}
	var futures []*kiln.FutureArrays
	for _, request := range r.Requests {
		arrays, err := request.arrays()
		if err != nil {
			return nil, err
		}
		future, err := stream.Send(ctx, arrays, request.options()...)
		if err != nil {
			return nil, err
		}
		futures = append(futures, future)
	}
	answers := []answer{}
	for _, future := range futures {
		outputs, err := future.Wait(ctx)
		if err != nil {
			answers = append(answers, answer{"error": told(err)})
		} else {
			answers = append(answers, byName(outputs))
		}
	}
	return answer{"answers": answers}, stream.Close()
}

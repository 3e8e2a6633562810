package kiln_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"kiln"
)

func Example() {
	ctx := context.Background()
	client, err := kiln.Connect(ctx, "") // KILN_ADDR, or this machine
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	graph := kiln.NewGraph()
	x := graph.Param("x", kiln.Float32, 4)
	graph.Output(x.Mul(2).Add(1))
	program, err := client.Compile(ctx, graph, nil)
	if err != nil {
		log.Fatal(err)
	}
	results, err := program.Run(ctx, kiln.Vector([]float32{1, 2, 3, 4}))
	if err != nil {
		log.Fatal(err)
	}
	values, err := kiln.Values[float32](results[0])
	fmt.Println(values, err)
}

func ExampleClient_Stream() {
	ctx := context.Background()
	client, err := kiln.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	graph := kiln.NewGraph()
	x := graph.Param("x", kiln.Float32, 4)
	graph.Output(x.Exp())
	program, err := client.Compile(ctx, graph, nil)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := client.Stream()
	if err != nil {
		log.Fatal(err)
	}
	// Nothing is waited for …
	value, err := stream.Upload(ctx, kiln.Vector([]float32{0, 0, 0, 0}))
	for range 3 {
		if err == nil {
			var results []*kiln.Buffer
			if results, err = stream.Run(ctx, program, "exp", value); err == nil {
				value = results[0]
			}
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	future, err := stream.Read(ctx, value)
	if err != nil {
		log.Fatal(err)
	}
	array, err := future.Wait(ctx) // … but here
	fmt.Println(array, err)
}

func ExampleModel() {
	ctx := context.Background()
	client, err := kiln.Connect(ctx, "", kiln.WithLease(0)) // no session, for models alone
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	model, err := client.Model(ctx, "affine", "")
	if err != nil {
		log.Fatal(err)
	}
	x, err := kiln.ArrayOf([]float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		log.Fatal(err)
	}
	outputs, err := model.Infer(ctx, map[string]kiln.Array{"x": x}, kiln.WithOutputs("y"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(kiln.Values[float32](outputs["y"]))

	// Many are on their way at a time.
	stream, err := model.Stream(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var futures []*kiln.FutureArrays
	for range 3 {
		future, err := stream.Send(ctx, map[string]kiln.Array{"x": x})
		if err != nil {
			log.Fatal(err)
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		outputs, err := future.Wait(ctx)
		fmt.Println(outputs["y"].Shape, err)
	}
	if err := stream.Close(); err != nil {
		log.Fatal(err)
	}
}

func ExampleError() {
	graph := kiln.NewGraph()
	graph.Output(graph.Param("x", kiln.Float32, 4).Add(graph.Param("y", kiln.Float32, 3)))
	_, err := graph.Build()
	var failed *kiln.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Code, failed.Status)
	}
	// Output: SHAPE_MISMATCH InvalidArgument
}

func ExampleHash() {
	graph := kiln.NewGraph()
	graph.Output(graph.Scalar(kiln.Int32, 1))
	built, err := graph.Build()
	if err != nil {
		log.Fatal(err)
	}
	hash, err := kiln.Hash(built)
	fmt.Println(len(hash), err)
	// Output: 32 <nil>
}

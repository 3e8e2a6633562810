// Package kiln is the Go client of kilnd: it sends graphs of tensor operations to a server, keeps arrays on its devices
// and runs programs there.
//
//	client, err := kiln.Connect(ctx, "localhost:7437")
//	graph := kiln.NewGraph()
//	x := graph.Param("x", kiln.Float32, 4)
//	graph.Output(x.Mul(2).Add(1))
//	program, err := client.Compile(ctx, graph, nil)
//	results, err := program.Run(ctx, kiln.Vector([]float32{1, 2, 3, 4}))
//	values, err := kiln.Values[float32](results[0])
//
// Models that the server has of files are asked by name (Client.Model): arrays by name go in, and arrays by name come
// out.
//
// Every function that talks to the server takes a context, whose deadline and cancellation the server honours, too.
// Failures that the server or this package found are *Error, by errors.As. All types but Graph may be used by many
// goroutines.
//
// The messages and stubs of the protocol are package kiln/v1, those of models kiln/v1/inference; Client.Conn makes
// calls with them that this package does not make, with the same credentials, session, retries and errors.
package kiln

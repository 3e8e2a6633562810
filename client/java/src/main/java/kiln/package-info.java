/**
 * The Java client of kilnd: sends graphs of tensor operations to a server, keeps arrays on its
 * devices and runs programs there.
 *
 * <pre>{@code
 * try (var client = KilnClient.connect("localhost:7437")) {
 *     var graph = new Graph();
 *     var x = graph.param("x", DType.FLOAT32, 4);
 *     graph.output(x.mul(2).add(1));
 *     var program = client.compile(graph);
 *     float[] values = program.run(NdArray.of(new float[] {1, 2, 3, 4})).get(0).floats();
 * }
 * }</pre>
 *
 * <p>What talks to the server has two forms. One waits, and throws {@link kiln.KilnException}. The
 * other, whose name ends in Async, gives a {@link java.util.concurrent.CompletableFuture}; to
 * cancel that ends its calls on the server, too. Deadlines are in {@link kiln.CallOptions}; what a
 * surrounding io.grpc.Context has of deadline and cancellation holds as well. All types but {@link
 * kiln.Graph} may be used by many threads.
 *
 * <p>The messages and stubs of the protocol are the package kiln.v1, those of served models
 * kiln.inference; {@link kiln.KilnClient#channel} makes calls with them that this package does not
 * make, with the same credentials and session.
 */
package kiln;

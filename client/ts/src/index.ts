/**
 * The TypeScript client of kilnd: it sends graphs of tensor operations to a server, keeps arrays on its devices and
 * runs programs there. docs/clients.md has a first program.
 *
 * Every function that talks to the server takes `signal` and `timeout`, which the server honours, too. Failures that
 * the server or this package found are KilnError. The messages and services of the protocol are kiln/v1/…, those of
 * served models kiln/inference/…; Client.call makes calls with them that this package has no function for.
 */
export { connect } from "./client.js";
export type { Client, ConnectOptions, PlaceOptions } from "./client.js";
export { NdArray, array, scalar } from "./array.js";
export type { Shape, Values } from "./array.js";
export type { BufferPart, DeviceBuffer } from "./buffer.js";
export { Graph } from "./build/graph.js";
export type { Operand } from "./build/elementwise.js";
export type { Pair } from "./build/movement.js";
export type { Reduction } from "./build/reducing.js";
export type { Tensor, Windows } from "./build/tensor.js";
export type { Collective, CollectiveKind } from "./collectives.js";
export type { CallOptions } from "./options.js";
export type { DType, TypedArray } from "./dtype.js";
export { KilnError } from "./errors.js";
export type { CodeName, Details, StatusName } from "./errors.js";
export { readGraph, writeGraph } from "./files.js";
export { round } from "./floats.js";
export { hash } from "./hash.js";
export { readConstants } from "./safetensors.js";
export type { Credentials } from "./identity.js";
export type { Argument, Arguments, Compilable, CompileOptions, Program } from "./program.js";
export type { InferOptions, Model, ModelOptions, ModelRow } from "./models.js";
export type { ModelInputs, ModelOutputs, ModelRequest, ModelTensor, Sequence } from "./modelmessages.js";
export type { ModelStream } from "./modelstream.js";
export type { Recording, Step } from "./recording.js";
export type { Stream } from "./stream.js";

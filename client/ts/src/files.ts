import { readFile, writeFile } from "node:fs/promises";
import { extname } from "node:path";
import { fromBinary, fromJsonString, toBinary, toJsonString } from "@bufbuild/protobuf";

import type { Graph as GraphMessage } from "./gen/kiln/v1/graph_pb.js";
import { GraphSchema } from "./gen/kiln/v1/graph_pb.js";
import { badArgument } from "./errors.js";

/**
 * Reads a graph's file: .kgraph or .pb has the message as it travels, .json as protobuf's JSON. `kiln import` and `kiln
 * gradient` write .kgraph and .pb; readConstants reads what `kiln import` writes beside a .kgraph.
 */
export async function readGraph(path: string): Promise<GraphMessage> {
  const isText = isJson(path);
  const data = await readFile(path);
  try {
    return isText ? fromJsonString(GraphSchema, data.toString("utf8")) : fromBinary(GraphSchema, data);
  } catch (error) {
    throw badArgument(`${path} is no graph: ${(error as Error).message}`);
  }
}

/** Writes a graph's file, as its name says. */
export async function writeGraph(path: string, graph: GraphMessage): Promise<void> {
  const isText = isJson(path);
  await writeFile(path, isText ? toJsonString(GraphSchema, graph, { prettySpaces: 2 }) : toBinary(GraphSchema, graph));
}

function isJson(path: string): boolean {
  if (extname(path) === ".txtpb") {
    throw badArgument(`${path}: protobuf's text is not read here; .kgraph, .pb and .json are`);
  }
  return extname(path) === ".json";
}

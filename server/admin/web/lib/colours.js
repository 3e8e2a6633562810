// Which class a tenant, a kind of memory or a part of a call is drawn in; theme.css has the colours.

const COUNT = 10;

// By place in the list of all, so that one who is idle does not change the others'.
export function tenantColours(names) {
  const places = new Map(names.map((name, place) => [name, place]));
  return (name) => (places.has(name) ? `tint-${places.get(name) % COUNT}` : "tint-rest");
}

// Of a call, in order; docs/tracing.md says what each is.
export const PARTS = [
  ["decode", "from arrival until the request is read"],
  ["verify", "the graph is checked and hashed"],
  ["cache", "the program is looked for"],
  ["compile", "it is compiled, or another's compilation waited for"],
  ["arguments", "handles are looked up, results made"],
  ["turn", "others have the device first"],
  ["upload", "tensors by value go to the device's queue"],
  ["queue", "until the device begins"],
  ["device", "the program runs"],
  ["results", "results are read, or get handles"],
  ["encode", "the answer is made"],
];

export const partColour = (name) => (PARTS.some(([part]) => part === name) ? `part-${name}` : "part-other");

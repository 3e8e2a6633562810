// Pages are functions from data to trees of plain objects; patch() makes the document like the tree.
//
// What is shown was named by clients of the server, so it enters the document as text and as
// attributes of a fixed list, and nowhere else: no markup is ever made of it.

const SVG = "http://www.w3.org/2000/svg";

// Set as they are; all others, "style" and "onclick" among them, are refused.
const ATTRIBUTES = new Set([
  "aria-activedescendant", "aria-colindex", "aria-current", "aria-describedby", "aria-hidden", "aria-label",
  "aria-labelledby", "aria-live", "aria-pressed", "aria-rowcount", "aria-rowindex", "aria-selected", "aria-sort",
  "class", "colspan", "cx", "cy", "d", "data-id", "data-part", "dominant-baseline", "for", "height", "href", "id",
  "max", "name", "placeholder", "points", "preserveAspectRatio", "r", "role", "rx", "scope", "stroke-dasharray",
  "tabindex", "text-anchor", "title", "transform", "type", "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2",
]);

// A node: `props` has attributes, and
//   key    which of its siblings it is, whatever their order
//   on     {event: function}
//   vars   custom properties, {"--part": "3px"}
//   value  of a field
//   own    its children are somebody else's
//   made   called with the element once it is there
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter(isShown) };
}

const isShown = (child) => child !== null && child !== undefined && child !== false && child !== "";

// Makes the children of `parent` be `nodes`. Elements that stay keep focus, selection and scrolling.
export function patch(parent, nodes) {
  const spare = new Map(); // key, or tag -> elements that are there
  for (const child of parent.childNodes) {
    const name = child.kilnKey ?? nameOf(child);
    if (!spare.has(name)) spare.set(name, []);
    spare.get(name).push(child);
  }
  let place = parent.firstChild;
  for (const node of nodes) {
    const name = typeof node === "object" ? (node.props.key === undefined ? node.tag : `key ${node.props.key}`) : "#text";
    const there = spare.get(name)?.shift();
    const child = there ?? make(node, parent, name);
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
    if (typeof node === "object") update(child, node, there === undefined);
    else if (child.data !== String(node)) child.data = String(node);
  }
  for (const left of spare.values()) for (const child of left) child.remove();
}

const nameOf = (child) => (child.nodeType === Node.TEXT_NODE ? "#text" : child.localName);

function make(node, parent, name) {
  if (typeof node !== "object") return document.createTextNode(String(node));
  const inSvg = node.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  const element = inSvg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  if (node.props.key !== undefined) element.kilnKey = name;
  return element;
}

function update(element, { props, children }, isNew) {
  if (element.kilnProps === props) return; // the same node as before: a page has kept it
  const before = element.kilnProps ?? {};
  for (const name in before) {
    if (!(name in props) && ATTRIBUTES.has(name)) element.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(props)) {
    if (ATTRIBUTES.has(name)) setAttribute(element, name, value);
    else if (name === "on") listen(element, value);
    else if (name === "vars") setVariables(element, value);
    else if (name === "value") { if (element.value !== value) element.value = value; }
    else if (!["key", "own", "made"].includes(name)) throw new Error(`no attribute ${name}`);
  }
  element.kilnProps = props;
  if (!props.own) patch(element, children);
  if (isNew && props.made) props.made(element);
}

function setAttribute(element, name, value) {
  // Links lead to pages of this port, whatever a name looks like.
  if (name === "href" && !/^(#|\/(?!\/))/.test(value)) throw new Error(`a link to ${value}`);
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
}

function setVariables(element, variables) {
  for (const [name, value] of Object.entries(variables)) {
    if (element.style.getPropertyValue(name) !== String(value)) element.style.setProperty(name, value);
  }
}

// One listener an event; what it calls changes with each tree.
function listen(element, handlers) {
  for (const type of Object.keys(handlers)) {
    if (!(type in (element.kilnOn ?? {}))) element.addEventListener(type, (event) => element.kilnOn[type]?.(event));
  }
  element.kilnOn = handlers;
}

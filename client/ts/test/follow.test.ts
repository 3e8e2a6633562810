import assert from "node:assert/strict";
import { test } from "node:test";

import { Identity } from "../src/identity.js";

test("a client does not go wherever a server says", () => {
  const anyone = new Identity("host:1", {});
  // That something else encrypts holds for where the user has sent the token.
  const readable = new Identity("host:1", { token: "secret", insecureToken: true });
  const encrypted = new Identity("host:1", { token: "secret", tls: true });
  for (const address of ["gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"]) {
    const may = [anyone, encrypted, readable].map((one) => one.mayFollow(address));
    assert.deepEqual(may, [true, true, false], address);
  }
  assert.ok(readable.mayFollow("127.0.0.1:7437"));
  const none = ["", "host", ":1", "host:", "unix:/tmp/x", "xds:host:1", "dns:///host:1", "a..b:1", "a b:1"];
  for (const address of [...none, "ipv4:127.0.0.1:1,10.0.0.1:1", "127.0.0.1:1,10.0.0.1:1"]) {
    assert.ok(!anyone.mayFollow(address), address);
  }
});

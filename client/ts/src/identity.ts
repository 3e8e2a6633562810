import { readFileSync } from "node:fs";
import { isIPv4 } from "node:net";
import { credentials } from "@grpc/grpc-js";
import type { ChannelCredentials } from "@grpc/grpc-js";

import { badArgument } from "./errors.js";

/**
 * Who asks, and how the server is known. What is not given is as the environment says: KILN_TOKEN, KILN_TOKEN_FILE,
 * KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY.
 */
export interface Credentials {
  /** A secret that is sent with every call. */
  token?: string;
  /** A file that has the token, and is read again when it changes. */
  tokenFile?: string;
  /**
   * Encrypts: `true` trusts whom Node trusts; `authority` names a file of PEM with who signs the server's certificate;
   * `certificate` and `key` are files of PEM of the client's own.
   */
  tls?: boolean | { authority?: string; certificate?: string; key?: string };
  /** Lets a token travel to another machine without encryption, where something else encrypts. */
  insecureToken?: boolean;
}

// For so many milliseconds a token's file is believed unchanged.
const believed = 1000;

/** Whether all that is sent to an address stays on this machine. One may name several hosts. */
function staysHere(address: string): boolean {
  const [, list, rest] = /^(?:dns:(?:\/\/\/)?|(ipv4:|ipv6:))?(.*)$/s.exec(address)!;
  const hosts = list === undefined ? [rest!] : rest!.split(",");
  return address.startsWith("unix:") || hosts.every(isLoopback);
}

function isLoopback(text: string): boolean {
  const [, host] = /^(.*?)(?::\d+)?$/s.exec(text)!;
  return host === "localhost" || host === "[::1]" || (isIPv4(host!) && host!.startsWith("127."));
}

// What a server may tell to be its own address.
const plain = /^([A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$/;

export class Identity {
  readonly transport: ChannelCredentials;
  readonly #readable: boolean;
  readonly #file: string | undefined;
  #token: string | undefined;
  #looked = -Infinity;

  constructor(address: string, given: Credentials) {
    const { token, tokenFile, tls } = withEnvironment(given);
    const encrypted = tls !== undefined && tls !== false;
    const tells = token !== undefined || tokenFile !== undefined;
    if (tells && !encrypted && !given.insecureToken && !staysHere(address)) {
      const other = "or insecureToken, where something else encrypts";
      throw badArgument(`the token would travel to ${address} where others can read it: give tls; ${other}`);
    }
    this.#readable = tells && !encrypted;
    this.#token = token;
    this.#file = tokenFile;
    if (tokenFile !== undefined && !this.bearer()) {
      throw badArgument(`there is no token in ${tokenFile}`);
    }
    this.transport = encrypted ? transport(tls === true ? {} : tls) : credentials.createInsecure();
  }

  /**
   * Whether a client may go to an address that a server has told it: one of host:port, and none where the token would
   * be read on its way. That something else encrypts holds for the way that the user has chosen, and for no other.
   */
  mayFollow(address: string): boolean {
    return plain.test(address) && (!this.#readable || staysHere(address));
  }

  /** The token as it is now. A file that is being changed, or is gone for a moment, leaves the one before. */
  bearer(): string | undefined {
    if (this.#file !== undefined && performance.now() - this.#looked >= believed) {
      this.#looked = performance.now();
      try {
        this.#token = readFileSync(this.#file, "utf8").trim() || this.#token;
      } catch {
        // as said above
      }
    }
    return this.#token;
  }

  /** The same, of a file that is read now: for who was refused the one before. */
  newest(): string | undefined {
    this.#looked = -Infinity;
    return this.bearer();
  }
}

function withEnvironment(given: Credentials): Credentials {
  const { KILN_TOKEN, KILN_TOKEN_FILE, KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY } = process.env;
  const made = { ...given };
  if (made.token === undefined && made.tokenFile === undefined) {
    Object.assign(made, KILN_TOKEN ? { token: KILN_TOKEN } : {}, KILN_TOKEN_FILE ? { tokenFile: KILN_TOKEN_FILE } : {});
  }
  if (made.tls === undefined && (KILN_TLS_CA || KILN_TLS_CERTIFICATE || KILN_TLS_KEY)) {
    const files = { authority: KILN_TLS_CA, certificate: KILN_TLS_CERTIFICATE, key: KILN_TLS_KEY };
    made.tls = Object.fromEntries(Object.entries(files).filter(([, path]) => path));
  }
  return made;
}

function transport({ authority, certificate, key }: { authority?: string; certificate?: string; key?: string }) {
  if ((certificate === undefined) !== (key === undefined)) {
    throw badArgument("a client's certificate and its key go together: tls.certificate and tls.key");
  }
  const read = (path: string | undefined) => {
    try {
      return path === undefined || path === "system" ? null : readFileSync(path);
    } catch (error) {
      throw badArgument(`tls: cannot read ${path}: ${(error as Error).message}`);
    }
  };
  try {
    return credentials.createSsl(read(authority), read(key), read(certificate));
  } catch (error) {
    throw badArgument(`tls: ${(error as Error).message}`);
  }
}

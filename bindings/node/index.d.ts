/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the package `contrail`. Scripts that `contrail script` runs have the members of Api as global names: for
 * those `globals.d.ts` is there. What differs from other tools of this kind is in docs/SCRIPT.md. */

import {EventEmitter} from 'node:events';

/* ---- values ---- */

export type NumberLike = number | bigint | string | Int64 | UInt64 | NativePointer;
export type PointerLike = NativePointer | NumberLike | {handle: NativePointer};

/** A 64-bit number with methods, since JavaScript's own numbers have 53 bits. */
export class Wide<Self> {
  add(other: NumberLike): Self;
  sub(other: NumberLike): Self;
  and(other: NumberLike): Self;
  or(other: NumberLike): Self;
  xor(other: NumberLike): Self;
  shl(bits: NumberLike): Self;
  shr(bits: NumberLike): Self;
  not(): Self;
  compare(other: NumberLike): number;
  equals(other: NumberLike): boolean;
  toNumber(): number;
  toBigInt(): bigint;
  toString(radix?: number): string;
  toJSON(): string;
  valueOf(): number;
}
export class Int64 extends Wide<Int64> {
  constructor(value: NumberLike);
}
export class UInt64 extends Wide<UInt64> {
  constructor(value: NumberLike);
}

/** An address in the target. */
export class NativePointer {
  constructor(value: PointerLike);
  isNull(): boolean;
  add(other: PointerLike): NativePointer;
  sub(other: PointerLike): NativePointer;
  and(other: PointerLike): NativePointer;
  or(other: PointerLike): NativePointer;
  xor(other: PointerLike): NativePointer;
  shl(bits: PointerLike): NativePointer;
  shr(bits: PointerLike): NativePointer;
  not(): NativePointer;
  sign(key?: string, data?: PointerLike): NativePointer;
  strip(key?: string): NativePointer;
  blend(small: NumberLike): NativePointer;
  equals(other: PointerLike): boolean;
  compare(other: PointerLike): number;
  toInt32(): number;
  toUInt32(): number;
  toBigInt(): bigint;
  toString(radix?: number): string;
  toJSON(): string;
  toMatchPattern(): string;
  /** 'text ' + pointer is its text; < and > compare numbers. */
  [Symbol.toPrimitive](hint: string): string | number;

  readPointer(): NativePointer;
  readS8(): number;
  readU8(): number;
  readS16(): number;
  readU16(): number;
  readS32(): number;
  readU32(): number;
  readS64(): Int64;
  readU64(): UInt64;
  readShort(): number;
  readUShort(): number;
  readInt(): number;
  readUInt(): number;
  readLong(): Int64;
  readULong(): UInt64;
  readFloat(): number;
  readDouble(): number;
  readByteArray(length: number): ArrayBuffer;
  readVolatile(length: number): ArrayBuffer;
  readCString(size?: number): string | null;
  readUtf8String(size?: number): string | null;
  readUtf16String(length?: number): string | null;
  readAnsiString(size?: number): string | null;

  writePointer(value: PointerLike): NativePointer;
  writeS8(value: NumberLike): NativePointer;
  writeU8(value: NumberLike): NativePointer;
  writeS16(value: NumberLike): NativePointer;
  writeU16(value: NumberLike): NativePointer;
  writeS32(value: NumberLike): NativePointer;
  writeU32(value: NumberLike): NativePointer;
  writeS64(value: NumberLike): NativePointer;
  writeU64(value: NumberLike): NativePointer;
  writeShort(value: NumberLike): NativePointer;
  writeUShort(value: NumberLike): NativePointer;
  writeInt(value: NumberLike): NativePointer;
  writeUInt(value: NumberLike): NativePointer;
  writeLong(value: NumberLike): NativePointer;
  writeULong(value: NumberLike): NativePointer;
  writeFloat(value: number): NativePointer;
  writeDouble(value: number): NativePointer;
  writeByteArray(bytes: Bytes): NativePointer;
  writeVolatile(bytes: Bytes): NativePointer;
  writeUtf8String(text: string): NativePointer;
  writeUtf16String(text: string): NativePointer;
  writeAnsiString(text: string): NativePointer;
}

export type Bytes = ArrayBuffer | Uint8Array | number[];

/* ---- functions ---- */

export type NativeType = string | NativeType[];

export interface NativeCallable extends NativePointer {
  (...args: any[]): any;
  call(thisArg: any, ...args: any[]): any;
  apply(thisArg: any, args?: any[]): any;
}
export interface NativeFunctionConstructor {
  new (address: PointerLike, returnType: NativeType, argumentTypes: NativeType[], options?: any): NativeCallable;
}

/** `this` of a NativeCallback. */
export interface CallbackContext {
  readonly context: CpuContext;
  readonly returnAddress: NativePointer;
  readonly threadId: number;
  errno: number;
}
export type NativeImplementation = (this: CallbackContext, ...args: any[]) => any;
export interface NativeCallbackConstructor {
  new (implementation: NativeImplementation, returnType: NativeType, argumentTypes: NativeType[]): NativePointer;
}

/* ---- registers ---- */

export interface X64CpuContext {
  rax: NativePointer; rbx: NativePointer; rcx: NativePointer; rdx: NativePointer;
  rsi: NativePointer; rdi: NativePointer; rbp: NativePointer; rsp: NativePointer;
  r8: NativePointer; r9: NativePointer; r10: NativePointer; r11: NativePointer;
  r12: NativePointer; r13: NativePointer; r14: NativePointer; r15: NativePointer;
  rip: NativePointer; rflags: NativePointer;
}
export interface Arm64CpuContext {
  x0: NativePointer; x1: NativePointer; x2: NativePointer; x3: NativePointer; x4: NativePointer;
  x5: NativePointer; x6: NativePointer; x7: NativePointer; x8: NativePointer; x9: NativePointer;
  x10: NativePointer; x11: NativePointer; x12: NativePointer; x13: NativePointer; x14: NativePointer;
  x15: NativePointer; x16: NativePointer; x17: NativePointer; x18: NativePointer; x19: NativePointer;
  x20: NativePointer; x21: NativePointer; x22: NativePointer; x23: NativePointer; x24: NativePointer;
  x25: NativePointer; x26: NativePointer; x27: NativePointer; x28: NativePointer;
  fp: NativePointer; lr: NativePointer; nzcv: NativePointer;
}
export interface CommonCpuContext {
  pc: NativePointer;
  sp: NativePointer;
}
/** Registers of a thread. Those of a thread that waits can be written. */
export type CpuContext = CommonCpuContext & Partial<X64CpuContext> & Partial<Arm64CpuContext>;

/* ---- Interceptor ---- */

export type InvocationArguments = NativePointer[];
export interface InvocationReturnValue extends NativePointer {
  replace(value: PointerLike | boolean | null): void;
}
/** `this` of onEnter and onLeave: one object for a call, for what the script wants to keep. */
export interface InvocationContext {
  readonly context: any;
  readonly returnAddress: NativePointer;
  readonly threadId: number;
  readonly depth: number;
  errno: number;
  [name: string]: any;
}
export interface InvocationCallbacks {
  onEnter?: ((this: InvocationContext, args: InvocationArguments) => void) | NativePointer;
  onLeave?: ((this: InvocationContext, retval: InvocationReturnValue) => void) | NativePointer;
}
export interface InvocationListener {
  detach(): void;
}
export interface Interceptor {
  /** An array of targets is hooked at once, all or none; single ones when the script's turn is over, or at flush(). */
  attach(target: PointerLike | PointerLike[] | {address: PointerLike},
    callbacks: InvocationCallbacks | ((this: InvocationContext, args: InvocationArguments) => void),
    data?: PointerLike): InvocationListener;
  replace(target: PointerLike | {address: PointerLike}, replacement: PointerLike, data?: PointerLike): void;
  replaceFast(target: PointerLike | {address: PointerLike}, replacement: PointerLike): NativePointer;
  revert(target: PointerLike): void;
  detachAll(): void;
  flush(): void;
}

/* ---- Stalker ---- */

export interface StalkerOptions {
  events?: {call?: boolean; ret?: boolean; exec?: boolean; block?: boolean; compile?: boolean};
  onReceive?(events: ArrayBuffer): void;
  onCallSummary?(summary: {[target: string]: number}): void;
  transform?: ((iterator: any) => void) | NativePointer;
  onEvent?: NativePointer;
  data?: PointerLike;
}
export type StalkerEvent = Array<string | number | NativePointer>;
export interface Stalker {
  trustThreshold: number;
  queueCapacity: number;
  queueDrainInterval: number;
  /** Without a thread: the one that the callback is of. */
  follow(threadId?: number, options?: StalkerOptions): void;
  follow(options: StalkerOptions): void;
  unfollow(threadId?: number): void;
  exclude(range: {base: NativePointer; size: number}): void;
  invalidate(address: PointerLike): void;
  invalidate(threadId: number, address: PointerLike): void;
  flush(): void;
  garbageCollect(): void;
  parse(events: ArrayBuffer, options?: {annotate?: boolean; stringify?: boolean}): any[];
  addCallProbe(address: PointerLike, callback: ((this: any, args: InvocationArguments) => void) | NativePointer,
    data?: any): number;
  removeCallProbe(id: number): void;
}
/** What a transform gets: the instructions of a block, and a writer (X86Writer or Arm64Writer) for what it inserts. */
export interface StalkerIterator {
  readonly memoryAccess: 'open' | 'exclusive';
  next(): Instruction | null;
  keep(): void;
  putCallout(callout: ((context: any) => void) | NativePointer, data?: PointerLike): void;
  /** Adds one to a 64-bit word of the target, in the code itself. */
  putCount(address: PointerLike): void;
  putChainingReturn(): void;
}

/* ---- what is in the target ----
 *
 * Lists have two older forms too, which have no types here: enumerateModules({onMatch(module) {}, onComplete() {}}) and
 * enumerateModulesSync(). */

export type Protection = string;
export interface Range {
  base: NativePointer;
  size: number;
  protection: Protection;
  file?: {path: string; offset: number; size: number};
}
export interface ExportDetails {
  type: 'function' | 'variable';
  name: string;
  address: NativePointer;
}
export interface ImportDetails {
  type?: 'function' | 'variable';
  name: string;
  module?: string;
  address?: NativePointer;
  slot?: NativePointer;
}
export interface SymbolDetails {
  isGlobal: boolean;
  type: string;
  name: string;
  address: NativePointer;
  size?: number;
}
export class Module {
  readonly name: string;
  readonly base: NativePointer;
  readonly size: number;
  readonly path: string;
  /** ELF files have none. */
  readonly version: string | null;
  ensureInitialized(): void;
  enumerateSections(): Array<{id: string; name: string; address: NativePointer; size: number}>;
  enumerateDependencies(): Array<{name: string; type: 'regular'}>;
  enumerateExports(): ExportDetails[];
  enumerateImports(): ImportDetails[];
  enumerateSymbols(): SymbolDetails[];
  enumerateRanges(protection: Protection): Range[];
  findExportByName(name: string): NativePointer | null;
  getExportByName(name: string): NativePointer;
  findSymbolByName(name: string): NativePointer | null;
  getSymbolByName(name: string): NativePointer;

  static load(path: string): Module;
  static findGlobalExportByName(name: string): NativePointer | null;
  static getGlobalExportByName(name: string): NativePointer;
  /* The forms of Frida 16. */
  static findExportByName(module: string | null, name: string): NativePointer | null;
  static getExportByName(module: string | null, name: string): NativePointer;
  static findSymbolByName(module: string, name: string): NativePointer | null;
  static getSymbolByName(module: string, name: string): NativePointer;
  static findBaseAddress(name: string): NativePointer | null;
  static getBaseAddress(name: string): NativePointer;
  static enumerateExports(module: string): ExportDetails[];
  static enumerateImports(module: string): ImportDetails[];
  static enumerateSymbols(module: string): SymbolDetails[];
  static enumerateRanges(module: string, protection: Protection): Range[];
  static ensureInitialized(name: string): void;
}

/** Which module an address belongs to, as the modules were when it was made or updated. */
export class ModuleMap {
  constructor(filter?: (module: Module) => boolean);
  has(address: PointerLike): boolean;
  find(address: PointerLike): Module | null;
  get(address: PointerLike): Module;
  findName(address: PointerLike): string | null;
  getName(address: PointerLike): string;
  findPath(address: PointerLike): string | null;
  getPath(address: PointerLike): string;
  update(): void;
  values(): Module[];
}

/** Called while the thread that has loaded or unloaded them waits, before constructors run. */
export interface ModuleObserverCallbacks {
  onAdded?(module: Module): void;
  onRemoved?(module: Module): void;
}

export class Thread {
  readonly id: number;
  readonly name: string;
  readonly state: string;
  readonly context: any;
  /** Innermost frame first. */
  static backtrace(context?: any, backtracer?: any): NativePointer[];
  /** In seconds. Callbacks are served meanwhile. */
  static sleep(delay: number): void;
}

export interface ExceptionDetails {
  type: string;
  signal: number;
  address: NativePointer;
  memory?: {operation: 'read' | 'write' | 'execute'; address: NativePointer};
  context: any;
  /** The kernel's `ucontext` of the signal. */
  nativeContext: NativePointer;
}
export interface Process {
  readonly id: number;
  readonly arch: 'x64' | 'arm64';
  readonly platform: 'linux';
  readonly pageSize: number;
  readonly pointerSize: number;
  readonly codeSigningPolicy: string;
  readonly mainModule: Module;
  getCurrentDir(): string;
  getHomeDir(): string;
  getTmpDir(): string;
  isDebuggerAttached(): boolean;
  getCurrentThreadId(): number;
  enumerateThreads(): Thread[];
  getThreadById(id: number): Thread;
  findThreadById(id: number): Thread | null;
  /** On the thread, when it next runs code of its own. Rejects what the function throws. */
  runOnThread<T>(id: number, callback: () => T): Promise<T>;
  attachModuleObserver(callbacks: ModuleObserverCallbacks): {detach(): void};
  enumerateModules(): Module[];
  findModuleByName(name: string): Module | null;
  getModuleByName(name: string): Module;
  findModuleByAddress(address: PointerLike): Module | null;
  getModuleByAddress(address: PointerLike): Module;
  enumerateRanges(specifier: Protection | {protection: Protection; coalesce: boolean}): Range[];
  findFunctionRange(address: PointerLike): {base: NativePointer; size: number} | null;
  getFunctionRange(address: PointerLike): {base: NativePointer; size: number};
  findRangeByAddress(address: PointerLike): Range | null;
  getRangeByAddress(address: PointerLike): Range;
  /** True of the callback: the thread goes on with its registers as they are now. */
  setExceptionHandler(callback: ((details: ExceptionDetails) => boolean | void) | null): void;
}

export interface ScanCallbacks {
  onMatch(address: NativePointer, size: number): any;
  onError?(reason: string): void;
  onComplete?(): void;
}
export interface Memory {
  alloc(size: number | UInt64, options?: {near?: PointerLike; maxDistance?: number}): NativePointer;
  allocUtf8String(text: string): NativePointer;
  allocUtf16String(text: string): NativePointer;
  copy(to: PointerLike, from: PointerLike, size: number | UInt64): void;
  dup(address: PointerLike, size: number | UInt64): NativePointer;
  protect(address: PointerLike, size: number | UInt64, protection: Protection): boolean;
  queryProtection(address: PointerLike): Protection;
  patchCode(address: PointerLike, size: number | UInt64, apply: (code: NativePointer) => void): void;
  scan(address: PointerLike, size: number | UInt64, pattern: string | MatchPattern, callbacks: ScanCallbacks):
    Promise<void>;
  scanSync(address: PointerLike, size: number | UInt64, pattern: string | MatchPattern):
    Array<{address: NativePointer; size: number}>;
  findPointers(ranges: {base: NativePointer; size: number} | Array<{base: NativePointer; size: number}>,
    values: PointerLike[], options?: {mask?: PointerLike}): Array<{address: NativePointer; value: NativePointer}>;
}
/** "13 37 ?? ff", "13 37 : 1f ff" or "/some\\s*text/", read once for many scans. */
export class MatchPattern {
  constructor(pattern: string);
  private readonly parsed: any;
}

export class DebugSymbol {
  address: NativePointer;
  name: string | null;
  moduleName: string | null;
  fileName: string | null;
  lineNumber: number | null;
  column: number | null;
  toString(): string;
  static fromAddress(address: PointerLike): DebugSymbol;
  static fromName(name: string): DebugSymbol;
  static getFunctionByName(name: string): NativePointer;
  static findFunctionsNamed(name: string): NativePointer[];
  static findFunctionsMatching(glob: string): NativePointer[];
  static load(path: string): void;
}

export class ApiResolver {
  constructor(type: string);
  enumerateMatches(query: string): Array<{name: string; address: NativePointer; size?: number}>;
}

export class Instruction {
  static parse(target: PointerLike): Instruction;
  address: NativePointer;
  next: NativePointer;
  size: number;
  mnemonic: string;
  opStr: string;
  operands: any[];
  regsAccessed: {read: string[]; written: string[]};
  regsRead: string[];
  regsWritten: string[];
  groups: string[];
  /** Where a direct branch goes. */
  target: NativePointer | null;
  kind: string;
  toString(): string;
}

/** C in the target. Its functions are properties: pointers for Interceptor, Stalker and NativeFunction. */
export class CModule {
  constructor(source: string | Bytes, symbols?: {[name: string]: PointerLike}, options?: any);
  readonly [name: string]: any;
  dispose(): void;
}

export class X86Writer {
  constructor(code: PointerLike, options?: {pc?: PointerLike});
  base: NativePointer;
  code: NativePointer;
  pc: NativePointer;
  offset: number;
  reset(code: PointerLike, options?: {pc?: PointerLike}): void;
  flush(): boolean;
  dispose(): void;
  [put: string]: any;
}
export class Arm64Writer {
  constructor(code: PointerLike, options?: {pc?: PointerLike});
  base: NativePointer;
  code: NativePointer;
  pc: NativePointer;
  offset: number;
  reset(code: PointerLike, options?: {pc?: PointerLike}): void;
  flush(): boolean;
  dispose(): void;
  [put: string]: any;
}

export function hexdump(target: PointerLike | Bytes,
  options?: {offset?: number; length?: number; address?: PointerLike; header?: boolean; ansi?: boolean}): string;

/** Files of the machine that the script runs on, with the modes of fopen. */
export class File {
  constructor(path: string, mode: string);
  static readonly SEEK_SET: number;
  static readonly SEEK_CUR: number;
  static readonly SEEK_END: number;
  static readAllBytes(path: string): ArrayBuffer;
  static readAllText(path: string): string;
  static writeAllBytes(path: string, bytes: Bytes): void;
  static writeAllText(path: string, text: string): void;
  tell(): number;
  seek(offset: number, whence?: number): number;
  readBytes(count?: number): ArrayBuffer;
  readText(count?: number): string;
  readLine(): string;
  write(data: string | Bytes): void;
  flush(): void;
  close(): void;
}
export type ChecksumType = 'md5' | 'sha1' | 'sha256' | 'sha384' | 'sha512';
export class Checksum {
  constructor(type: ChecksumType);
  static compute(type: ChecksumType, data: string | Bytes): string;
  update(data: string | Bytes): Checksum;
  copy(): Checksum;
  getString(): string;
  peekString(): string;
  getDigest(): ArrayBuffer;
  peekDigest(): ArrayBuffer;
}

/* ---- Contrail's own ---- */

export interface Row {
  [column: string]: string | number | bigint | null;
}
export type Condition = string | number | bigint | {from?: number | bigint; to?: number | bigint};

/** Recorded calls. */
export class Trace implements AsyncIterable<Row> {
  /** Without a path: the newest trace in ./traces. */
  constructor(path?: string | null);
  readonly path: string;
  calls(where?: {[column: string]: Condition}): AsyncGenerator<Row>;
  functions(where?: {[column: string]: Condition}): Promise<Row[]>;
  threads(): Promise<Row[]>;
  processes(): Promise<Row[]>;
  /** A question in SQL, as `contrail query` answers it. */
  query(sql: string): Promise<Row[]>;
  rows(sql: string): AsyncGenerator<Row>;
  [Symbol.asyncIterator](): AsyncGenerator<Row>;
}

export interface RecordOptions {
  pid?: number;
  program?: string | string[];
  stdio?: any[];
  /** Any option of `contrail spawn` or `contrail attach`: maxDepth is --max-depth. */
  [option: string]: any;
}
export class Recording extends EventEmitter {
  readonly pid: number | null;
  readonly path: string | null;
  mark(): Promise<string>;
  status(): Promise<string>;
  readonly triggers: {
    add(trigger: string): Promise<string>;
    remove(trigger: string): Promise<string>;
    list(): Promise<string[]>;
  };
  stop(): Promise<Trace>;
  wait(): Promise<number>;
  trace(): Trace;
}
export function record(options: RecordOptions): Recording;

export interface ScriptMessage {
  type: 'send' | 'error';
  payload?: any;
  description?: string;
  stack?: string;
  fileName?: string;
  lineNumber?: number;
  columnNumber?: number;
}

/** What scripts see. */
export interface Api {
  NativePointer: typeof NativePointer;
  Int64: typeof Int64;
  UInt64: typeof UInt64;
  NULL: NativePointer;
  ptr(value: PointerLike): NativePointer;
  int64(value: NumberLike): Int64;
  uint64(value: NumberLike): UInt64;
  hexdump: typeof hexdump;
  NativeFunction: NativeFunctionConstructor;
  SystemFunction: NativeFunctionConstructor;
  NativeCallback: NativeCallbackConstructor;
  CModule: typeof CModule;
  Process: Process;
  Module: typeof Module;
  ModuleMap: typeof ModuleMap;
  MatchPattern: typeof MatchPattern;
  File: typeof File;
  Checksum: typeof Checksum;
  Thread: typeof Thread;
  Backtracer: {ACCURATE: any; FUZZY: any};
  Memory: Memory;
  DebugSymbol: typeof DebugSymbol;
  ApiResolver: typeof ApiResolver;
  Instruction: {parse(target: PointerLike): Instruction};
  Interceptor: Interceptor;
  Stalker: Stalker;
  X86Writer: typeof X86Writer;
  Arm64Writer: typeof Arm64Writer;
  Script: {readonly runtime: string; readonly fileName: string; timeout: number;
    nextTick(callback: (...args: any[]) => void, ...args: any[]): void; pin(): void; unpin(): void;
    evaluate(name: string, source: string): any; load(name: string, source: string): Promise<any>};
  send(message: any, data?: Bytes | null): void;
  recv(callback: (message: any, data: ArrayBuffer | null) => void): {wait(): void};
  recv(type: string, callback: (message: any, data: ArrayBuffer | null) => void): {wait(): void};
  rpc: {exports: {[name: string]: any}};
  Trace: typeof Trace;
  ObjC: {available: boolean};
  Java: {available: boolean};
  Contrail: {readonly pid: number; detach(): void; record: typeof record; Trace: typeof Trace};
}

export interface SessionOptions {
  /** Milliseconds after which a thread goes on although its callback has not answered; default 1,000. */
  timeout?: number;
  /** Microseconds for which both sides look for news before they sleep; default 30. 0: they sleep at once. */
  spin?: number;
}
/** One process. Events: 'message' (ScriptMessage, data), 'warning' (text), 'detached' (reason, exit status);
 * reason: 'application-requested', 'process-terminated', 'process-replaced', 'recording-ended'. */
export class Session extends EventEmitter {
  readonly api: Api;
  readonly isStopped: boolean;
  readonly isDetached: boolean;
  resume(): void;
  detach(): void;
  readonly messages: {post(message: any, data?: Bytes | null): void; readonly exports: {[name: string]: any}};
}

export function attach(pid: number, options?: SessionOptions): Session;
/** The program is stopped before its first constructor, until resume(). */
export function spawn(command: string | string[], options?: SessionOptions & {env?: {[name: string]: string}}): Session;
/** Runs a script with the members of session.api as global names. */
export function runScript(session: Session, file: string): Promise<any>;

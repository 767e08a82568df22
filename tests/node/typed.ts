/* SPDX-License-Identifier: Apache-2.0 */
/* A script as people write them, with types. It is checked twice: with Frida's types (npm's @types/frida-gum) and with
 * ours; it never runs. */

const libc: Module = Process.getModuleByName('libc.so.6');
const open: NativePointer = libc.getExportByName('open');
const malloc = Module.getGlobalExportByName('malloc');

interface Seen {
  path: string | null;
  flags: number;
}
const seen: Seen[] = [];

const listener = Interceptor.attach(open, {
  onEnter(args) {
    this.path = args[0].readUtf8String();
    seen.push({path: args[0].readCString(), flags: args[1].toInt32()});
    console.log(`${this.threadId} at depth ${this.depth} from ${this.returnAddress}`);
    const frames = Thread.backtrace(this.context, Backtracer.ACCURATE).map(DebugSymbol.fromAddress);
    console.log(frames.map((frame) => `${frame.moduleName}!${frame.name} ${frame.lineNumber}`).join('\n'));
    args[1] = ptr(0);
  },
  onLeave(retval) {
    if (retval.toInt32() < 0)
      retval.replace(ptr(3));
  },
});

const write = new NativeFunction(libc.getExportByName('write'), 'int', ['int', 'pointer', 'int']);
const text = Memory.allocUtf8String('hello\n');
write(1, text, 6);

const replacement = new NativeCallback((size: number) => ptr(size), 'pointer', ['int']);
Interceptor.replace(malloc, replacement);
Interceptor.revert(malloc);
Interceptor.flush();

const buffer = Memory.alloc(Process.pageSize);
buffer.writeU32(0x1234).add(4).writeUtf8String('text');
const large: UInt64 = buffer.readU64().add(1).shl(3);
const number: number = buffer.readS16() + buffer.add(8).readDouble();
console.log(hexdump(buffer, {length: 64, header: true, ansi: false}), large.toString(16), number);
Memory.protect(buffer, Process.pageSize, 'r-x');
for (const match of Memory.scanSync(libc.base, 4096, '7f 45 ?? 46'))
  console.log(match.address, match.size);
Memory.patchCode(open, 16, (code) => {
  const writer = new X86Writer(code, {pc: open});
  writer.putCallAddress(malloc);
  writer.putRet();
  writer.flush();
});

for (const thread of Process.enumerateThreads())
  Stalker.follow(thread.id, {
    events: {call: true, ret: false, exec: false, block: false, compile: false},
    onReceive(events) {
      console.log(Stalker.parse(events, {annotate: true, stringify: false}).length);
    },
    onCallSummary(summary) {
      for (const [target, count] of Object.entries(summary))
        console.log(target, count);
    },
  });
Stalker.exclude({base: libc.base, size: libc.size});
const probe = Stalker.addCallProbe(open, (args) => console.log(args[0].readCString()));
Stalker.removeCallProbe(probe);
Stalker.trustThreshold = 0;
Stalker.queueCapacity = 30000;
Stalker.flush();
Stalker.garbageCollect();

const insn = Instruction.parse(open);
console.log(insn.mnemonic, insn.opStr, insn.next, insn.size, insn.groups.join());
const resolver = new ApiResolver('module');
resolver.enumerateMatches('exports:*libc*!open*').forEach((match) => console.log(match.name, match.address));
const module = new CModule('int add(int a, int b) { return a + b; }');
const add = new NativeFunction(module.add, 'int', ['int', 'int']);
console.log(add(1, 2), int64(5).add(uint64(3)).toNumber(), NULL.isNull());
Process.setExceptionHandler((details) => {
  console.log(details.type, details.address);
  return false;
});
for (const range of Process.enumerateRanges({protection: 'rw-', coalesce: true}))
  console.log(range.base.add(range.size), range.protection);
console.log(libc.enumerateExports().map(({name, address, type}) => `${type} ${name} ${address}`).length);
console.log(Process.mainModule.enumerateSymbols().length, Process.mainModule.enumerateImports().length);
const map = new ModuleMap((one) => one.path.startsWith('/usr'));
console.log(map.findName(open), map.has(malloc), map.values().length, libc.version);
const observer = Process.attachModuleObserver({onAdded: (one) => console.log(one.name, one.base)});
observer.detach();
Process.runOnThread(Process.id, () => Process.getCurrentThreadId()).then((id) => console.log(id + 1));
console.log(Process.getThreadById(Process.id).name, Process.findFunctionRange(open)?.size);
console.log(libc.enumerateSections().map(({name, address, size}) => `${name} ${address} ${size}`).length);
console.log(libc.enumerateDependencies()[0].name, Checksum.compute('sha256', 'text'));
const pattern = new MatchPattern('13 37 ?? ff');
console.log(Memory.scanSync(libc.base, 4096, pattern).length, Script.evaluate('/x.js', '1'));
console.log(Memory.findPointers({base: buffer, size: 64}, [open], {mask: ptr(-1)})[0].value);
function first<T>(list: T[]): T {
  return list[0];
}
const callbacks: InvocationListenerCallbacks = {onEnter(args: InvocationArguments) { console.log(args[2].toInt32()); }};
const attached: InvocationListener = Interceptor.attach(open, callbacks);
attached.detach();
const thread: ThreadDetails = first(Process.enumerateThreads());
const tid: ThreadId = thread.id;
const exported: ModuleExportDetails = first(libc.enumerateExports());
const range: RangeDetails = first(Process.enumerateRanges('r-x'));
const place: NativePointerValue = exported.address;
const found: MemoryScanMatch = first(Memory.scanSync(range.base, range.size, '90'));
console.log(tid, exported.name, place, found.size);
Stalker.follow(tid, {
  transform(iterator: StalkerX86Iterator) {
    let insn = iterator.next();
    do {
      if (insn!.mnemonic === 'ret')
        iterator.putCallout((context: CpuContext) => console.log((context as X64CpuContext).rax));
      iterator.keep();
    } while ((insn = iterator.next()) !== null);
  },
});
recv('poke', (message) => send({got: message}));
rpc.exports = {
  detach() {
    listener.detach();
    Interceptor.detachAll();
  },
};
setTimeout(() => Stalker.unfollow(Process.enumerateThreads()[0].id), 100);

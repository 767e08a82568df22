/* SPDX-License-Identifier: Apache-2.0 */
/* Names that scripts know from elsewhere and that are not there: whoever uses one gets a sentence that says what there
 * is instead. `available` of each is false, for scripts that ask first. */
'use strict';

const OTHER_MACHINE = 'processes here are of x86_64 or arm64';
const ABSENT = {
  ObjC: 'programs of Linux have no Objective-C runtime',
  Java: 'programs of Linux have no Java runtime that is known here',
  Swift: 'programs of Linux have no Swift runtime that is known here',
  Kernel: 'the memory of the kernel cannot be reached',
  Cloak: 'nothing has to be hidden: lists have no threads, modules and ranges of Contrail',
  Socket: 'node:net has sockets',
  SocketListener: 'node:net has sockets',
  SocketConnection: 'node:net has sockets',
  IOStream: 'node:stream has streams',
  InputStream: 'node:fs has streams',
  OutputStream: 'node:fs has streams',
  UnixInputStream: 'node:fs has streams',
  UnixOutputStream: 'node:fs has streams',
  Win32InputStream: 'this is not Windows',
  Win32OutputStream: 'this is not Windows',
  SqliteDatabase: 'node:sqlite (Node 22) or a package of npm has databases',
  SqliteStatement: 'node:sqlite (Node 22) or a package of npm has databases',
  Worker: 'node:worker_threads has workers',
  MemoryAccessMonitor: 'a process whose pages are protected for a script would die with it; ' +
    'Process.setExceptionHandler and Memory.protect do the same knowingly',
  RustModule: 'new CModule takes object files, also those that rustc makes (--emit obj, no_std)',
  ControlFlowGraph: 'Instruction.parse has single instructions',
  BasicBlock: 'Instruction.parse has single instructions',
  Profiler: '`contrail spawn` and `contrail report` profile, and new Trace() reads what was recorded',
  X86Relocator: 'a transform of the Stalker moves code',
  Arm64Relocator: 'a transform of the Stalker moves code',
  ArmWriter: OTHER_MACHINE,
  ArmRelocator: OTHER_MACHINE,
  ThumbWriter: OTHER_MACHINE,
  ThumbRelocator: OTHER_MACHINE,
  MipsWriter: OTHER_MACHINE,
  MipsRelocator: OTHER_MACHINE,
};
for (const name of ['Sampler', 'CycleSampler', 'BusyCycleSampler', 'WallClockSampler', 'UserTimeSampler',
  'MallocCountSampler', 'CallCountSampler'])
  ABSENT[name] = ABSENT.Profiler;

function absent(name, instead) {
  const refuse = () => {
    throw new Error(`there is no ${name} here: ${instead}`);
  };
  return new Proxy(class {}, {
    get(own, key) {
      if (key === 'available')
        return false;
      return typeof key === 'symbol' || key === 'prototype' ? own[key] : refuse();
    },
    set: refuse,
    apply: refuse,
    construct: refuse,
  });
}

const makeAbsent = () => Object.fromEntries(Object.entries(ABSENT).map(([name, instead]) =>
  [name, absent(name, instead)]));

/* A method that only says what there is instead. */
const refusing = (name, instead) => () => {
  throw new Error(`${name} is not there: ${instead}`);
};

module.exports = {makeAbsent, refusing};

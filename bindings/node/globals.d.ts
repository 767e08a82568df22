/* SPDX-License-Identifier: Apache-2.0 */
/* Global names of scripts that `contrail script` runs:  /// <reference types="contrail/globals" /> */

import * as contrail from './index';

declare global {
  const NativePointer: typeof contrail.NativePointer;
  type NativePointer = contrail.NativePointer;
  const Int64: typeof contrail.Int64;
  type Int64 = contrail.Int64;
  const UInt64: typeof contrail.UInt64;
  type UInt64 = contrail.UInt64;
  const NULL: contrail.NativePointer;
  const ptr: contrail.Api['ptr'];
  const int64: contrail.Api['int64'];
  const uint64: contrail.Api['uint64'];
  const hexdump: typeof contrail.hexdump;
  const NativeFunction: contrail.NativeFunctionConstructor;
  type NativeFunction = contrail.NativeCallable;
  const SystemFunction: contrail.NativeFunctionConstructor;
  const NativeCallback: contrail.NativeCallbackConstructor;
  const CModule: typeof contrail.CModule;
  const Process: contrail.Process;
  const Module: typeof contrail.Module;
  type Module = contrail.Module;
  const ModuleMap: typeof contrail.ModuleMap;
  type ModuleMap = contrail.ModuleMap;
  const MatchPattern: typeof contrail.MatchPattern;
  type MatchPattern = contrail.MatchPattern;
  const Checksum: typeof contrail.Checksum;
  type Checksum = contrail.Checksum;
  const Thread: typeof contrail.Thread;
  const Backtracer: contrail.Api['Backtracer'];
  const Memory: contrail.Memory;
  const DebugSymbol: typeof contrail.DebugSymbol;
  type DebugSymbol = contrail.DebugSymbol;
  const ApiResolver: typeof contrail.ApiResolver;
  const Instruction: contrail.Api['Instruction'];
  const Interceptor: contrail.Interceptor;
  const Stalker: contrail.Stalker;
  const X86Writer: typeof contrail.X86Writer;
  const Arm64Writer: typeof contrail.Arm64Writer;
  const Script: contrail.Api['Script'];
  const send: contrail.Api['send'];
  const recv: contrail.Api['recv'];
  const rpc: contrail.Api['rpc'];
  const Trace: typeof contrail.Trace;
  const Contrail: contrail.Api['Contrail'];
  const ObjC: contrail.Api['ObjC'];
  const Java: contrail.Api['Java'];
  type CpuContext = contrail.CpuContext;
  type InvocationContext = contrail.InvocationContext;
  type InvocationArguments = contrail.InvocationArguments;
  type InvocationReturnValue = contrail.InvocationReturnValue;
  type StalkerOptions = contrail.StalkerOptions;
  /* Names by which scripts in TypeScript call the same. */
  type NativePointerValue = contrail.PointerLike;
  type ThreadId = number;
  type ThreadDetails = contrail.Thread;
  type PageProtection = contrail.Protection;
  type RangeDetails = contrail.Range;
  type MemoryRange = {base: contrail.NativePointer; size: number};
  type MemoryScanMatch = {address: contrail.NativePointer; size: number};
  type MemoryScanCallbacks = contrail.ScanCallbacks;
  type ModuleExportDetails = contrail.ExportDetails;
  type ModuleImportDetails = contrail.ImportDetails;
  type ModuleSymbolDetails = contrail.SymbolDetails;
  type ModuleObserverCallbacks = contrail.ModuleObserverCallbacks;
  type ApiResolver = contrail.ApiResolver;
  type Instruction = contrail.Instruction;
  type ExceptionDetails = contrail.ExceptionDetails;
  type InvocationListener = contrail.InvocationListener;
  type InvocationListenerCallbacks = contrail.InvocationCallbacks;
  type StalkerX86Iterator = contrail.StalkerIterator & contrail.X86Writer;
  type StalkerArm64Iterator = contrail.StalkerIterator & contrail.Arm64Writer;
  type X64CpuContext = contrail.CpuContext & contrail.X64CpuContext;
  type Arm64CpuContext = contrail.CpuContext & contrail.Arm64CpuContext;
}

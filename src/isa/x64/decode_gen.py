#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the decoder's C tables from decode_table.txt, which begins with a description of its language.

Per opcode one 32-bit word: how to find the length (low half) and a cell (high half). A cell is 0 (no such instruction),
a form (what the instruction does), or a node that asks for one more field of the encoding: prefix, modrm parts, W,
vector length. Equal forms and equal nodes are stored once."""
import sys

MAPS = ['legacy 0', 'legacy 1', 'legacy 2', 'legacy 3', '3dnow', 'vex 1', 'vex 2', 'vex 3', 'evex 1', 'evex 2',
        'evex 3', 'evex 5', 'evex 6', 'xop 8', 'xop 9', 'xop a']
# Fields of the key that nodes select by: name -> (shift, width). decode.c builds the key in this layout.
FIELDS = {'rm': (0, 3), 'reg': (3, 3), 'pp': (8, 2), 'w': (10, 1), 'l': (11, 2), 'bc': (13, 1), 'mem': (14, 1),
          'b': (15, 1)}
ORDER = ['pp', 'reg', 'mem', 'rm', 'w', 'l', 'bc', 'b']
PREFIXES = {'np': 0, '66': 1, 'f3': 2, 'f2': 3}
IMMEDIATES = ['none', 'ib', 'iw', 'iz', 'iv', 'id', 'rel', 'moffs', 'enter', 'g3b', 'g3z', 'extrq', '3dnow']
MODRM, PREFIX, ESCAPE, MODREG = 0x10, 0x20, 0x40, 0x80
KINDS = {'jcc': 'JCC', 'jmp': 'JMP', 'loop': 'LOOP', 'call': 'CALL', 'ijmp': 'JMP_INDIRECT', 'icall': 'CALL_INDIRECT',
         'ret': 'RET', 'far': 'FAR', 'syscall': 'SYSCALL', 'int': 'INT', 'int3': 'INT3', 'trap': 'TRAP', 'halt': 'HALT',
         'xbegin': 'XBEGIN', 'nop': 'NOP', 'landing': 'LANDING'}
ACCESS = {'n': 0, 'r': 1, 'w': 2, 'x': 3}
GENERAL, BYTE = 4, 8
REGISTERS = 'rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15'.split()
CHECKS = {'lock': 1, 'novvvv': 2, 'Kg': 4, 'Kv': 8, 'gpr_reg': 0x10, 'mask': 0x20, 'must_mask': 0x40, 'zero': 0x80}
SPECIALS = ['none', 'sreg', 'sregw', 'cr', 'dr', 'bnd', 'bnde', 'tile', 'sibmem', 'tile3', 'vsib', 'gather',
            'bndmib', 'distinct']
FLAG_BITS = {'C': 1, 'P': 4, 'A': 16, 'Z': 64, 'S': 128, 'D': 1024, 'O': 2048}
FLAG_NAMES = {'arith': 'w=OSZAPC', 'carry': 'r=C w=OSZAPC', 'bits': 'w=OSAPC', 'strcmp': 'r=D w=OSZAPC k=norep',
              'syscall': 'r=OSZAPCD w=OSZAPCD k=-'}
CONDITIONS = ['O', 'C', 'Z', 'ZC', 'S', 'P', 'SO', 'ZSO']
KILL_RULES = ['always', 'shift', 'norep']


class Problem(Exception):
    pass


def numbers(text, base):
    out = []
    for part in text.split(','):
        low, _, high = part.partition('-')
        out += range(int(low, base), int(high or low, base) + 1)
    return out


def flag_mask(letters):
    return sum(FLAG_BITS[c] for c in letters)


def parse_flags(text, opcode):
    read, written, killed, rule = 0, 0, None, 0
    for token in FLAG_NAMES.get(text.strip(), text).split():
        name, _, value = token.partition('=')
        if name == 'r':
            read = flag_mask(CONDITIONS[opcode >> 1 & 7] if value == 'cc' else value)
        elif name == 'w':
            written = flag_mask(value)
        elif name == 'k' and value in KILL_RULES:
            rule = KILL_RULES.index(value)
        elif name == 'k':
            killed = flag_mask(value.strip('-'))
        else:
            raise Problem('flags: ' + token)
    return (read, written, written if killed is None else killed, rule)


class Line:
    """One line for one opcode: conditions {field: set of values}, length attributes, and its form."""

    def __init__(self, section, text):
        columns = [c.strip() for c in text.split('|')] + ['', '', '']
        self.section, (self.where, self.names, self.operands, self.flags) = section, columns[:4]
        self.vector = section.split()[0] in ('vex', 'evex', 'xop')
        self.evex = section.startswith('evex')
        tokens = self.where.split()
        self.opcodes = numbers(tokens[0], 16)
        self.cond = {}
        self.attr = MODRM if self.vector else 0
        for token in tokens[1:]:
            self.condition(token)
        if self.names in ('prefix', 'escape'):
            self.attr |= PREFIX if self.names == 'prefix' else ESCAPE

    def condition(self, token):
        head = token.split(',')[0]
        if token == '/r':
            self.attr |= MODRM
        elif token[0] == '/':
            self.attr |= MODRM
            self.cond['reg'] = set(numbers(token[1:], 10))
        elif token[0] == '=':
            self.attr |= MODRM
            self.cond['modrm'] = set(numbers(token[1:], 16))
        elif token.startswith('rm='):
            self.cond['rm'] = set(numbers(token[3:], 10))
            self.cond['mem'] = {0}
        elif token in ('mem', 'reg'):
            self.cond['mem'] = {int(token == 'mem')}
        elif head in PREFIXES:
            self.cond['pp'] = {PREFIXES[p] for p in token.split(',')}
        elif token == 'lig':
            pass  # only a note: length 3 is reserved anyway
        elif token == 'bare':
            self.attr &= ~MODRM
        elif token == 'modreg':
            self.attr |= MODREG
        elif token in IMMEDIATES:
            self.attr |= IMMEDIATES.index(token)
        elif token[0] in 'wbl' and token[1:2].isdigit():
            self.cond[token[0]] = set(numbers(token[1:], 10))
        else:
            raise Problem('condition: ' + token)

    def variants(self):
        """Splits what one line says about several shapes: (conditions, extra operand tokens)."""
        tokens = self.operands.split()
        cond = dict(self.cond)
        if any(t[0] == 'M' and len(t) < 4 for t in tokens):
            cond['mem'] = {1}
        if any(t[0] == 'R' and len(t) < 4 for t in tokens):
            cond['mem'] = {0}
        if 'modrm' in cond:
            for value in sorted(cond.pop('modrm')):
                yield dict(cond, mem={0}, reg={value >> 3 & 7}, rm={value & 7}), tokens
            return
        if not self.evex:
            yield cond, tokens
            return
        shapes = cond.get('mem', {0, 1})
        for mem in sorted(shapes):
            kept = [t for t in tokens if t not in ('b', 'er', 'sae')]
            mine = [('k' if mem else 'kz') if t == 'ks' else t for t in kept]
            lengths = cond.get('l', {0, 1, 2})
            yield {**cond, 'mem': {mem}, 'bc': {0}, 'l': lengths}, mine
            if mem and 'b' in tokens:
                yield {**cond, 'mem': {1}, 'bc': {1}, 'l': lengths}, mine
            if not mem and ('er' in tokens or 'sae' in tokens):
                yield {**cond, 'mem': {0}, 'bc': {1}, 'l': {0, 1, 2, 3}}, mine


class Form:
    """What the operand column says."""

    def __init__(self, line, tokens):
        self.evex, self.kind, self.uses_vvvv = line.evex, 'OTHER', False
        self.rm = self.reg = self.vvvv = self.low = self.checks = self.special = 0
        self.read = self.written = self.mem = self.rep = 0
        for token in tokens:
            if not (self.implicit(token) or self.rule(token) or self.operand(token)):
                raise Problem('operand: ' + token)
        if line.vector and not self.uses_vvvv:
            self.checks |= CHECKS['novvvv']

    def implicit(self, token):
        name, _, how = token.partition(':')
        if token in ('push', 'pop'):
            self.implicit('rsp:x')
            self.mem |= ACCESS['w' if token == 'push' else 'r']
        elif token == 'rep':
            self.rep = 1
        elif name == 'mem' and how:
            self.mem |= ACCESS[how]
        elif name in REGISTERS and how:
            bit = 1 << REGISTERS.index(name)
            self.read |= bit if ACCESS[how] & 1 else 0
            self.written |= bit if ACCESS[how] & 2 else 0
        else:
            return False
        return True

    def rule(self, token):
        if token.startswith('kind='):
            self.kind = KINDS[token[5:]]
        elif token in ('k', 'kz', 'K'):
            self.checks |= CHECKS['mask'] | {'k': 0, 'kz': CHECKS['zero'], 'K': CHECKS['must_mask']}[token]
        elif token in CHECKS:
            self.checks |= CHECKS[token]
            self.uses_vvvv |= token == 'Kv'
        elif token in SPECIALS:
            self.special = SPECIALS.index(token)
        elif token == 'H':
            self.uses_vvvv = True
        else:
            return token == 'Ke'  # only a note: the processor ignores the fourth bit of a mask register in rm
        return True

    def operand(self, token):
        if len(token) > 3 or token[0] not in 'EMRWGBZ' or token[-1] not in ACCESS:
            return False
        access = ACCESS[token[-1]] | (BYTE if token[1] == 'b' else 0)
        if token[0] in 'EMRW':
            self.rm = access | (GENERAL if token[0] in 'ER' else 0)
        elif token[0] == 'G':
            self.reg = access | GENERAL
            self.checks |= CHECKS['gpr_reg'] if self.evex else 0
        elif token[0] == 'B':
            self.vvvv, self.uses_vvvv = access, True
        else:
            self.low = access
        return True


class Tables:
    def __init__(self):
        self.forms, self.implicits, self.flag_sets = [None], [], []
        self.cells, self.nodes = [0], {}
        self.opcodes = {name: [(0, 0)] * 256 for name in MAPS}

    @staticmethod
    def intern(table, value):
        if value not in table:
            table.append(value)
        return table.index(value)

    def form(self, line, tokens, opcode):
        f = Form(line, tokens)
        implicit = self.intern(self.implicits, (f.read, f.written, f.mem, f.rep))
        flags = self.intern(self.flag_sets, parse_flags(line.flags, opcode))
        form = (f.kind, f.rm, f.reg, f.vvvv | f.low << 4, implicit, flags, f.checks | f.special << 12)
        return self.intern(self.forms, form)

    def cell(self, rules):
        """rules: [(conditions, form)], later ones first."""
        if not rules:
            return 0
        top = rules[0][0]
        if not top:
            return rules[0][1]
        field = next(f for f in ORDER if any(f in c for c, _ in rules))
        shift, width = FIELDS[field]
        children = []
        for value in range(1 << width):
            rest = [({k: v for k, v in c.items() if k != field}, f) for c, f in rules if value in c.get(field, {value})]
            children.append(self.cell(rest))
        if len(set(children)) == 1:
            return children[0]
        node = (shift | (1 << width) - 1 << 8, *children)
        if node not in self.nodes:
            self.nodes[node] = len(self.cells)
            self.cells += node
        return 0x8000 | self.nodes[node]

    def add(self, name, lines):
        by_opcode = {}
        for line in lines:
            for opcode in line.opcodes:
                by_opcode.setdefault(opcode, []).append(line)
        for opcode, mine in by_opcode.items():
            attrs = {l.attr for l in mine if l.names != 'escape'} or {0}
            if len(attrs) > 1:
                raise Problem(f'{name} {opcode:02x}: lines disagree on the length')
            attr = attrs.pop()
            rules = []
            for line in mine:
                if line.names == 'escape':
                    attr |= ESCAPE
                elif line.names != 'prefix':
                    rules += [(c, self.form(line, t, opcode)) for c, t in line.variants()]
            self.opcodes[name][opcode] = (attr, self.cell(rules[::-1]))


def read_table(path):
    sections, name = {}, None
    with open(path, encoding='ascii') as f:
        for number, text in enumerate(f, 1):
            text = text.split('#')[0].strip()
            if not text:
                continue
            try:
                if text[0] == '[':
                    name = text.strip('[]')
                    if name not in MAPS:
                        raise Problem('section')
                else:
                    sections.setdefault(name, []).append(Line(name, text))
            except (Problem, ValueError, KeyError, IndexError) as e:
                sys.exit(f'{path}:{number}: {e}: {text}')
    return sections


def rows(values, per_line):
    return ',\n'.join('    ' + ', '.join(values[i:i + per_line]) for i in range(0, len(values), per_line))


def write(tables, out):
    print('/* Made by decode_gen.py of decode_table.txt. */\n#include "isa/x64/decode_tables.h"\n', file=out)
    print(f'const uint32_t ct_x64_opcodes[{len(MAPS)}][256] = {{', file=out)
    for name in MAPS:
        words = [f'0x{cell << 16 | attr:08x}' for attr, cell in tables.opcodes[name]]
        print(f'    /* {name} */ {{\n{rows(words, 12)}}},', file=out)
    print('};\n', file=out)
    cells = rows([f'0x{c:04x}' for c in tables.cells], 16)
    print(f'const uint16_t ct_x64_cells[{len(tables.cells)}] = {{\n{cells}}};\n', file=out)
    forms = ['{0}'] + ['{CT_INSN_%s, 0x%02x, 0x%02x, 0x%02x, %d, %d, 0x%04x}' % f for f in tables.forms[1:]]
    print(f'const struct ct_x64_form ct_x64_forms[{len(forms)}] = {{\n{rows(forms, 3)}}};\n', file=out)
    print(f'const struct ct_x64_implicit ct_x64_implicits[{len(tables.implicits)}] = {{', file=out)
    print(rows(['{0x%04x, 0x%04x, %d, %d}' % i for i in tables.implicits], 4) + '};\n', file=out)
    print(f'const struct ct_x64_flag_set ct_x64_flag_sets[{len(tables.flag_sets)}] = {{', file=out)
    print(rows(['{0x%03x, 0x%03x, 0x%03x, %d}' % f for f in tables.flag_sets], 4) + '};', file=out)


def main():
    source, target = sys.argv[1:3]
    tables = Tables()
    try:
        for name, lines in read_table(source).items():
            tables.add(name, lines)
    except Problem as e:
        sys.exit(f'{source}: {e}')
    if len(tables.cells) >= 0x8000 or max(len(tables.implicits), len(tables.flag_sets)) > 256:
        sys.exit('tables too large')
    with open(target, 'w', encoding='ascii') as out:
        write(tables, out)
    if len(sys.argv) > 3:
        print(f'{len(tables.forms)} forms, {len(tables.cells)} cells, {len(tables.implicits)} implicit sets, '
              f'{len(tables.flag_sets)} flag sets')


main()

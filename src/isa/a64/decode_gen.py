#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C tables of the A64 decoder from decode_table.txt, which begins with a description of its language.

A tree of cells finds the line that an instruction word matches: a cell is 0 (no such instruction), a node that selects
the next cell by a few bits of the word, or a test of the word against one line. A line has a form: what the decoder
reports of it. The text of a form is a string in which bytes from 0x80 on are operands with two arguments each."""
import re
import sys

KINDS = {'jcc': 'JCC', 'jmp': 'JMP', 'loop': 'LOOP', 'call': 'CALL', 'ijmp': 'JMP_INDIRECT', 'icall': 'CALL_INDIRECT',
         'ret': 'RET', 'far': 'FAR', 'syscall': 'SYSCALL', 'int': 'INT', 'int3': 'INT3', 'trap': 'TRAP', 'halt': 'HALT',
         'nop': 'NOP', 'landing': 'LANDING', 'other': 'OTHER'}
FLAGS = {'fr': 'FORM_FLAGS_READ', 'fw': 'FORM_FLAGS_WRITTEN', 'ld': 'FORM_MEM_READ', 'st': 'FORM_MEM_WRITTEN',
         'ldst': 'FORM_MEM_READ | FORM_MEM_WRITTEN', 'bitmask': 'FORM_BITMASK', 'eight': 'FORM_EIGHT',
         'distinct': 'FORM_DISTINCT', 'apart': 'FORM_DISTINCT | FORM_ZERO',
         'zmask': 'FORM_ZMASK', 'index': 'FORM_INDEX', 'index16': 'FORM_INDEX_16'}
PLACES = {'d': 0, 't': 0, 'n': 5, 'a': 10, 't2': 10, 'm': 16, 's': 16}  # of registers in the word
FIELDS = {0: 0, 5: 1, 10: 2, 16: 3}  # their bits in masks of a form
WIDTHS = {'R': 0, 'W': 1, 'X': 2, 'Y': 3}  # Y: by size (23:22)
# Width of a vector register: its letter, or the rule that finds it (text_vector.c).
SCALARS = {'B': 0, 'H': 1, 'S': 2, 'D': 3, 'Q': 4, 'V': 'S_WHOLE', 'I': 'S_SIZE', 'L': 'S_SIZE_LONG', 'F': 'S_FTYPE',
           'G': 'S_SZ', 'J': 'S_IMMH', 'JL': 'S_IMMH_LONG', 'K': 'S_IMM5'}
# Lanes of a vector: fixed ones, or by which rule they are found. In rules of one letter Q chooses 64 or 128 bits.
ARRANGEMENTS = {'T': 'A_SIZE', 'B': 'A_B', 'H': 'A_H', 'S': 'A_S', 'D': 'A_D', 'F': 'A_SZ', 'L': 'A_SIZE_LONG',
                'P': 'A_SIZE_PAIR', 'I': 'A_IMM5', 'J': 'A_IMMH', 'JL': 'A_IMMH_LONG'}
# One lane, and how its number is found.
ELEMENTS = {'E5': 'E_IMM5', 'E4': 'E_IMM4', 'E': 'E_SIZE', 'EF': 'E_SZ', 'EH': 'E_H', 'EB4': 'E_4B', 'EH2': 'E_2H',
            'EC': 'E_COMPLEX', 's2': 'E_IMM2'}
# Operands without arguments: name -> type of text.c.
OPERANDS = {'to': 'T_TO', 'aimm': 'T_AIMM', 'limm': 'T_LIMM', 'mimm': 'T_MIMM', 'shift': 'T_SHIFT', 'bit': 'T_BIT',
            'prfop': 'T_PRFOP', 'barrier': 'T_BARRIER', 'barriernxs': 'T_BARRIER_NXS', 'pstate': 'T_PSTATE',
            'smstart': 'T_SMSTART', 'sysreg': 'T_SYSREG', 'mov': 'T_MOV_WIDE', 'movn': 'T_MOV_NOT', 'sysop': 'T_SYSOP',
            '2': 'T_SECOND', 'fimm': 'T_FIMM', 'vfimm': 'T_VFIMM', 'vimm': 'T_VIMM', 'shl': 'T_SHL', 'shr': 'T_SHR',
            'fbits': 'T_FBITS', 'lsl': 'T_LSL', 'width': 'T_WIDTH', 'bfi': 'T_BFI', 'bfiw': 'T_BFI_WIDTH'}
# Operands with a number: name:number.
# SVE: vectors and predicates by their places, letters of lanes by the field that holds their size (text_sve.c).
SVE_REGISTERS = {'Zd': ('T_Z', 0), 'Zn': ('T_Z', 5), 'Zm': ('T_Z', 16), 'Pd': ('T_P', 0, 4), 'Pn': ('T_P', 5, 4),
                 'Pm': ('T_P', 16, 4), 'Pg3': ('T_P', 10, 3), 'Pg4': ('T_P', 10, 4), 'Pm3': ('T_P', 13, 3)}
SVE_LETTERS = {'T': 'L_SIZE', 'Th': 'L_HALF', 'Tq': 'L_QUARTER', 'Tp': 'L_TSZ_P', 'Tu': 'L_TSZ_U', 'Tw': 'L_TSZ_WIDE',
               'Ti': 'L_IMM', 'Tm': 'L_MASK'}
SVE_NUMBERS = {'zshlp': 'N_SHL_P', 'zshrp': 'N_SHR_P', 'zshlu': 'N_SHL_U', 'zshru': 'N_SHR_U', 'zext': 'N_EXT',
               'zindex': 'N_INDEX', 'zlimm': 'N_MASK', 'zimm8': 'N_SIGNED8', 'zuimm8': 'N_UNSIGNED8',
               'zfimm': 'N_FLOAT', 'pattern': 'N_PATTERN', 'pattern1': 'N_PATTERN_ONLY', 'zprf': 'N_PREFETCH'}
# Addresses: form in text_sve.c, general registers that are read (n is a base).
SVE_MEMORY = {'zss': ('Z_SCALARS', 'nm'), 'zvl': ('Z_VL4', 'n'), 'zvl6': ('Z_VL6', 'n'), 'zvl9': ('Z_VL9', 'n'),
              'zri': ('Z_SCALED', 'n'), 'zquad': ('Z_QUAD', 'n'), 'zgs': ('Z_GATHER_S', 'n'),
              'zgd': ('Z_GATHER_D', 'n'),
              'zgs14': ('Z_SCATTER_S', 'n'), 'zgd14': ('Z_SCATTER_D', 'n'), 'zgl': ('Z_GATHER_L', 'n'),
              'zvis': ('Z_VECTOR_S', ''), 'zvid': ('Z_VECTOR_D', ''), 'zvss': ('Z_VECTOR_SCALAR_S', 'm'),
              'zvsd': ('Z_VECTOR_SCALAR_D', 'm'), 'zavl': ('Z_ARRAY', 'n')}
SVE_ELEMENTS = {'zi1': 'X_1', 'zi2': 'X_2', 'zi3': 'X_3', 'zi2l': 'X_2_LOW', 'zi3l': 'X_3_LOW'}
NUMBERED = {'regs': 'T_REGS', 'lane': 'T_LANE', 'table': 'T_TABLE', 'rot': 'T_ROT', 'rotodd': 'T_ROT_ODD'}
# Memory operands: name -> form of the address in text.c. A base that changes has ! (before) or p (after).
MEMORY = {'m0': 'M_BASE', 'm12': 'M_UNSIGNED', 'm9': 'M_SIGNED', 'mreg': 'M_REGISTER', 'm7': 'M_PAIR',
          'm7g': 'M_PAIR_TAGS', 'm10': 'M_KEYED', 'mg': 'M_TAGS'}


SECTIONS = {'[base]': 'base', '[aliases]': 'aliases', '[registers]': 'names', '[operations]': 'names'}


class Problem(Exception):
    pass


def fixed(lanes):
    """8b, 4s ...: 0x80 | log2 of all bytes << 3 | log2 of the bytes of a lane."""
    size = 'bhsdq'.index(lanes[-1])
    return 0x80 | (int(lanes[:-1]).bit_length() - 1 + size) << 3 | size


def split_list(text):
    """Splits at commas that are not inside <>."""
    return re.split(r',(?![^<]*>)', text)


def zipped(columns):
    """One list of columns for each member of the {} lists."""
    count = {len(split_list(g)) for c in columns for g in re.findall(r'\{([^}]*)\}', c)}
    if not count:
        return [columns]
    if len(count) > 1:
        raise Problem('lists of different lengths')
    return [[re.sub(r'\{([^}]*)\}', lambda m: split_list(m.group(1))[i], c) for c in columns]
            for i in range(count.pop())]


def crossed(bits):
    """One pattern for each choice of the [] lists."""
    found = re.search(r'\[([^\]]*)\]', bits)
    if not found:
        return [bits]
    return [b for choice in found.group(1).split(',')
            for b in crossed(bits[:found.start()] + choice + bits[found.end():])]


class Bits:
    """A pattern: mask and value, and where its named fields are."""

    def __init__(self, text):
        self.mask = self.value = 0
        self.fields = {}
        at = 32
        for token in text.split():
            literal = re.fullmatch('[01x]+', token)
            width = len(token) if literal else self.width(token)
            at -= width
            if literal:
                self.fix(at, token)
            else:
                self.fields[token.split(':')[0]] = (at, width)
        if at:
            raise Problem(f'{32 - at} bits: {text}')

    @staticmethod
    def width(name):
        if ':' in name:
            return int(name.split(':')[1])
        number = re.fullmatch(r'imm(\d+)', name)
        if number:
            return int(number.group(1))
        return 5 if name in ('Rd', 'Rn', 'Rm', 'Ra', 'Rt', 'Rt2', 'Rs') else {'cond': 4, 'size': 2}.get(name, 1)

    def fix(self, at, digits):
        for i, digit in enumerate(reversed(digits)):
            if digit != 'x':
                self.mask |= 1 << (at + i)
                self.value |= int(digit) << (at + i)

    def without(self, rule):
        """The pattern that the rule !a=01&b=1x takes out of this one."""
        out = Bits('x' * 32)
        out.mask, out.value = self.mask, self.value
        for term in rule[1:].split('&'):
            name, digits = term.split('=')
            if name not in self.fields or self.fields[name][1] != len(digits):
                raise Problem('field: ' + term)
            out.fix(self.fields[name][0], digits)
        return out


class Form:
    """What a line says about an instruction: rules, registers, text."""

    def __init__(self, text, rules):
        self.kind, self.what, self.imm, self.condition = 'OTHER', 'PLAIN', 'NONE', 'ALWAYS'
        self.read = self.written = self.sp = self.pair = 0
        self.flags, self.implicit = set(), (0, 0)
        self.text = []
        for rule in rules:
            self.rule(rule)
        for part in re.split(r'(<[^>]*>)', text):
            if part.startswith('<'):
                self.operand(part[1:-1])
            else:
                self.text += [str(ord(c)) for c in part.replace('(', '{').replace(')', '}')]

    def rule(self, rule):
        name, _, value = rule.partition('=')
        if rule in FLAGS:
            self.flags.add(FLAGS[rule])
        elif name == 'kind':
            self.kind = KINDS[value]
        elif name == 'what':
            self.what = value.upper()
        elif name == 'imm':
            self.imm = value.upper()
        elif name == 'if':
            self.condition = value.upper()
        elif name in 'rw':
            mask = sum(1 << (31 if r == 'sp' else int(r[1:])) for r in value.split(','))
            self.implicit = (self.implicit[0] | mask, self.implicit[1]) if name == 'r' else (self.implicit[0], mask)
        else:
            raise Problem('rule: ' + rule)

    def loads(self):
        return any('MEM_READ' in f for f in self.flags)

    def put(self, kind, a=0, b=0):
        self.text += [kind, str(a), str(b)]

    def touch(self, place, access, sp=False):
        bit = 1 << FIELDS[place]
        self.read |= bit if 'r' in access else 0
        self.written |= bit if 'w' in access else 0
        self.sp |= bit if sp else 0

    def operand(self, name):
        if not (self.general(name) or self.number(name) or self.memory(name) or self.vector(name) or
                self.scalable(name)):
            if name not in OPERANDS:
                raise Problem('operand: ' + name)
            self.put(OPERANDS[name])

    def general(self, name):
        if name == 'Rtb':
            self.touch(0, 'r')
            self.put('T_RTB')
        elif name == 'Rmx':
            self.touch(16, 'r')
            self.put('T_RMX')
        elif name == 'Xt-,':
            self.touch(0, 'r')
            self.put('T_OPTIONAL')
        else:
            return self.plain_general(name)
        return True

    def plain_general(self, name):
        found = re.fullmatch(r'([RWXY])(8?)(d|n|m|a|t2|t|s)(d?)(1?)(S?)(\*?)([+-]?)', name)
        if not found:
            return False
        width, eight, field, written, second, sp, pair, sign = found.groups()
        place = PLACES[field]
        access = 'w' if field == 'd' or written or (field[0] == 't' and self.loads()) else 'r'
        access = {'+': 'rw', '-': 'r', '': access}[sign]
        if eight:
            self.flags.add(FLAGS['eight'])
        if not second:
            self.touch(place, access, bool(sp))
        if pair:
            self.pair |= 1 << FIELDS[place]
        self.put('T_REG', place | WIDTHS[width] << 5, (1 if sp else 0) | (2 if second else 0))
        return True

    def number(self, name):
        found = re.fullmatch(r'([xuds]):(\d+):(\d+)(?::(\d+))?', name)
        if found:
            kind, place, width, shift = found.groups()
            self.put({'x': 'T_HEX', 'u': 'T_DEC', 'd': 'T_NUMBER', 's': 'T_SIGNED'}[kind],
                     int(place) | int(shift or 0) << 5, width)
        elif re.fullmatch(r'!?cond:\d+', name):
            self.put('T_COND', name.split(':')[1], int(name[0] == '!'))
        else:
            return False
        return True

    def memory(self, name):
        base = name.rstrip('!p')
        found = re.fullmatch(r'mpost(1?):(\d)', name)
        if found:
            self.touch(5, 'rw', True)
            self.touch(16, 'r')
            self.put('T_MEMORY', 'M_AFTER_LANES' if found.group(1) else 'M_AFTER_REGS', found.group(2))
            return True
        if base not in MEMORY:
            return False
        self.touch(5, 'r' if base == name else 'rw', True)
        if base == 'mreg':
            self.touch(16, 'r')
        self.put('T_MEMORY', MEMORY[base], {'': 'M_PLAIN', '!': 'M_BEFORE', 'p': 'M_AFTER'}[name[len(base):]])
        return True

    def vector(self, name):
        scalar = re.fullmatch(r'([A-Z]L?)(d|n|m|a|t2|t|s)', name)
        lanes = re.fullmatch(r'V([dnma])\.(\w+)', name)
        numbered = re.fullmatch(r'(\w+):(\d+)', name)
        if scalar and scalar.group(1) in SCALARS:
            self.put('T_SCALAR', PLACES[scalar.group(2)], SCALARS[scalar.group(1)])
        elif lanes and lanes.group(2) in ELEMENTS:
            self.put('T_ELEMENT', PLACES[lanes.group(1)], ELEMENTS[lanes.group(2)])
        elif lanes:
            self.put('T_VECTOR', PLACES[lanes.group(1)], ARRANGEMENTS.get(lanes.group(2)) or fixed(lanes.group(2)))
        elif numbered and numbered.group(1) in NUMBERED:
            self.put(NUMBERED[numbered.group(1)], numbered.group(2))
        else:
            return False
        return True

    def scalable(self, name):
        base, _, argument = name.partition(':')
        if name in SVE_REGISTERS:
            self.put(*SVE_REGISTERS[name])
        elif name in SVE_LETTERS:
            self.put('T_LETTER', SVE_LETTERS[name])
        elif name in SVE_NUMBERS:
            self.put('T_SVE_NUMBER', SVE_NUMBERS[name])
        elif base in SVE_MEMORY:
            form, registers = SVE_MEMORY[base]
            for field in registers:
                self.touch(PLACES[field], 'r', field == 'n')
            self.put('T_SVE_MEMORY', form, argument or 0)
        elif base in SVE_ELEMENTS:
            self.put('T_SVE_ELEMENT', SVE_ELEMENTS[base], ord(argument))
        elif base in ('zregs', 'zlist'):
            count, letter = argument.split(':')
            self.put('T_SVE_LIST', int(count) | (0x80 if base == 'zlist' else 0), ord(letter))
        elif base == 'zlistT':
            self.put('T_SVE_LIST', int(argument) | 0x80)
        elif base in ('slice', 'slice5'):
            self.flags.add(FLAGS['index'])
            self.put('T_SLICE', 0, 'bhsdq'.index(argument) | (8 if base == 'slice5' else 0))
        elif name == 'psel':
            self.flags.add(FLAGS['index16'])
            self.put('T_PSEL')
        elif name == 'wv':
            self.flags.add(FLAGS['index'])
            self.put('T_INDEX')
        elif name == 'tiles':
            self.put('T_TILES')
        elif base == 'zhalf':
            self.put('T_SVE_HALF', argument)
        else:
            return False
        return True

    def facts(self):
        return (self.kind, self.what, self.imm, self.read | self.written << 4, self.sp | self.pair << 4,
                ' | '.join(sorted(self.flags)) or '0', self.implicit)


def line_rows(text, aliases):
    """The rows of one line of the table: [(mask, value, form or None)]."""
    columns = [c.strip() for c in re.split(r' \|(?: |$)', text)] + ['', '']
    rows = []
    for bits, words, rules in zipped(columns[:3]):
        rules = rules.split()
        form = None if words.startswith('-') else Form(words, [r for r in rules if r[0] != '!'])
        if aliases and form.kind != 'OTHER':
            raise Problem('an alias has no kind')
        for pattern in (Bits(b) for b in crossed(bits)):
            rows += [(hole.mask, hole.value, None) for hole in (pattern.without(r) for r in rules if r[0] == '!')]
            rows.append((pattern.mask, pattern.value, form))
    return rows


def name_rows(text):
    """Names of one line of [registers] or [operations]: [(op0:op1:CRn:CRm:op2, name)]."""
    where, names = text.split(' | ')
    numbers = [int(n) for n in where.split()]
    op0, op1, crn, crm = numbers if len(numbers) == 4 else [1] + numbers
    start = op0 << 14 | op1 << 11 | crn << 7 | crm << 3
    return [(start + i, name.replace('_', ' ', 1) if op0 == 1 else name)
            for i, name in enumerate(names.split()) if name != '-']


def read_table(path):
    sections, macros, rows = {'names': []}, {}, None
    with open(path, encoding='ascii') as f:
        for number, text in enumerate(f, 1):
            text = text.rstrip('\n')
            try:
                if text.startswith('['):
                    rows = sections.setdefault(SECTIONS[text], [])
                elif text.startswith('let '):
                    name, _, value = text[4:].partition(' = ')
                    macros[name] = value
                elif rows is sections['names'] and text and text[0] != '#':
                    rows += name_rows(text)
                elif text and not text.startswith('#'):
                    text = re.sub(r'\$(\w+)', lambda m: macros[m.group(1)], text)
                    rows += line_rows(text, rows is sections.get('aliases'))
            except (Problem, ValueError, KeyError, IndexError) as e:
                sys.exit(f'{path}:{number}: {e}: {text}')
    return sections


class Tree:
    """Cells: 0, CELL_NODE | place of a node in `cells`, or a place in `tests`."""

    def __init__(self, rows):
        self.cells, self.tests = [0], [(0, 0, 0, 0)]
        self.nodes, self.known_tests = {}, {}
        self.root = self.build(rows, 0, 0)

    @staticmethod
    def select(rows, mask, value):
        """The rows that can match when the bits of mask have this value."""
        out = []
        for row in rows:
            fixed_bits, fixed_value, _, more = row
            if (fixed_value ^ value) & fixed_bits & mask:
                continue
            out.append(row)
            if not fixed_bits & ~mask and not more:
                break
        return out

    def children(self, rows, known, value, shift, width, most):
        """The rows for each value of the bits; None: together they are `most` or more."""
        mask = known | ((1 << width) - 1) << shift
        value &= ~(((1 << width) - 1) << shift)
        lists, total = [], 0
        for i in range(1 << width):
            lists.append(self.select(rows, mask, value | i << shift))
            total += len(lists[-1])
            if total >= most:
                return None
        return lists

    def best_split(self, rows, known, value):
        best = None
        for width in range(1, 8):
            count = 1 << width
            for shift in range(0, 33 - width):
                bits = ((1 << width) - 1) << shift
                if bits & known or not all(any(r[0] >> b & 1 for r in rows) for b in (shift, shift + width - 1)):
                    continue
                most = (best[0] - count / 8) * count if best else float('inf')
                lists = self.children(rows, known, value, shift, width, most) if most > 0 else None
                if lists:
                    best = (sum(map(len, lists)) / count + count / 8, shift, width, lists)
        return best

    def build(self, rows, known, value):
        while rows and rows[-1][2] == 0:
            rows = rows[:-1]  # no such instruction, as without the row
        if not rows:
            return 0
        if len(rows) <= 2:
            return self.test(rows)
        split = self.best_split(rows, known, value)
        if split is None or split[0] >= len(rows):
            return self.test(rows)
        _, shift, width, lists = split
        bits = ((1 << width) - 1) << shift
        cells = tuple(self.build(part, known | bits, (value & ~bits) | i << shift) for i, part in enumerate(lists))
        if len(set(cells)) == 1:
            return cells[0]
        node = (shift | width << 8,) + cells
        if node not in self.nodes:
            self.nodes[node] = len(self.cells)
            self.cells += node
        return 0x8000 | self.nodes[node]

    def test(self, rows):
        if not rows:
            return 0
        mask, value, form, _ = rows[0]
        entry = (mask, value, form, self.test(rows[1:]))
        if entry not in self.known_tests:
            self.known_tests[entry] = len(self.tests)
            self.tests.append(entry)
        return self.known_tests[entry]


def lines(values, per_line):
    return ',\n'.join('    ' + ', '.join(values[i:i + per_line]) for i in range(0, len(values), per_line))


class Output:
    def __init__(self):
        self.forms, self.implicits, self.conditions = [], [(0, 0)], []
        self.texts, self.pool = {}, []

    def number(self, rows, forms, key):
        """Rows with numbers of forms in place of forms, and whether a word may match them and yet be another's."""
        known = {None: 0}
        for _, _, form in rows:
            if form and key(form) not in known:
                forms.append(form)
                known[key(form)] = len(forms)
        return [(mask, value, known[key(form) if form else None], bool(form and form.condition != 'ALWAYS'))
                for mask, value, form in rows]

    def text(self, form):
        text = tuple(form.text + ['0'])
        if text not in self.texts:
            self.texts[text] = len(self.pool)
            self.pool += text
        return self.texts[text]

    def implicit(self, masks):
        if masks not in self.implicits:
            self.implicits.append(masks)
        return self.implicits.index(masks)

    def form(self, form):
        kind, what, imm, access, sp, flags, implicit = form.facts()
        return '{CT_INSN_%s, CT_A64_%s, IMM_%s, 0x%02x, 0x%02x, %s, %d}' % (
            kind, what, imm, access, sp, flags, self.implicit(implicit))


def write_tree(name, tree, numbers, out):
    """`numbers`: what a test has for the number of its form."""
    if len(tree.cells) >= 0x8000 or len(tree.tests) >= 0x8000:
        sys.exit('tables too large')
    cells = [f'0x{c:x}' for c in [tree.root] + tree.cells[1:]]
    print(f'const uint16_t ct_a64_{name}_cells[{len(cells)}] = {{\n{lines(cells, 16)}}};\n', file=out)
    print(f'const unsigned ct_a64_{name}_test_count = {len(tree.tests)};', file=out)
    tests = ['{0x%08x, 0x%08x, %d, 0x%x}' % (mask, value, numbers[form], following)
             for mask, value, form, following in tree.tests]
    print(f'const struct ct_a64_test ct_a64_{name}_tests[{len(tests)}] = {{\n{lines(tests, 3)}}};\n', file=out)


def write_names(names, out):
    places, pool = [], ''
    for number, name in names:
        places.append('{0x%04x, %d}' % (number, len(pool)))
        pool += name + '\0'
    print(f'\nconst unsigned ct_a64_name_count = {len(names)};', file=out)
    print(f'const struct ct_a64_name ct_a64_names[{len(names)}] = {{\n{lines(places, 6)}}};\n', file=out)
    codes = [str(ord(c)) for c in pool]
    print(f'const char ct_a64_names_text[{len(codes)}] = {{\n{lines(codes, 24)}}};', file=out)


def main():
    source, decode_target, text_target = sys.argv[1:4]
    sections = read_table(source)
    output, forms, aliases = Output(), [], []
    base = Tree(output.number(sections['base'], forms, lambda f: (f.facts(), tuple(f.text))))
    other = Tree(output.number(sections['aliases'], aliases, lambda f: (f.condition, tuple(f.text))))
    facts = ['{0}']
    for form in forms:
        if output.form(form) not in facts:
            facts.append(output.form(form))
    with open(decode_target, 'w', encoding='ascii') as out:
        print('/* Made by decode_gen.py of decode_table.txt. */\n#include "isa/a64/decode_tables.h"\n', file=out)
        write_tree('decode', base, [0] + [facts.index(output.form(f)) for f in forms], out)
        print(f'const struct ct_a64_form ct_a64_forms[{len(facts)}] = {{\n{lines(facts, 2)}}};\n', file=out)
        masks = ['{0x%08x, 0x%08x}' % m for m in output.implicits]
        print(f'const struct ct_a64_implicit ct_a64_implicits[{len(masks)}] = {{\n{lines(masks, 4)}}};', file=out)
    with open(text_target, 'w', encoding='ascii') as out:
        print('/* Made by decode_gen.py of decode_table.txt. */\n#include "isa/a64/text_tables.h"\n', file=out)
        write_tree('alias', other, range(len(aliases) + 1), out)
        places = [str(output.text(forms[form - 1])) if form else '0' for _, _, form, _ in base.tests]
        print(f'const uint32_t ct_a64_row_texts[{len(places)}] = {{\n{lines(places, 16)}}};\n', file=out)
        places = ['{0, 0}'] + ['{%d, IF_%s}' % (output.text(f), f.condition) for f in aliases]
        print(f'const struct ct_a64_alias ct_a64_aliases[{len(places)}] = {{\n{lines(places, 6)}}};\n', file=out)
        print(f'const uint8_t ct_a64_texts[{len(output.pool)}] = {{\n{lines(output.pool, 20)}}};', file=out)
        write_names(sorted(sections['names']), out)
    if len(sys.argv) > 4:
        print(f'{len(base.cells)} cells, {len(base.tests)} tests, {len(facts)} forms, {len(aliases)} aliases, '
              f'{len(output.pool)} bytes of text')


main()

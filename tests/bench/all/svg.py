# SPDX-License-Identifier: Apache-2.0
"""A plot of a few lines as SVG, by hand: no library is needed to look at results."""
import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 150, 40, 50
COLORS = ["#1b6ca8", "#c8553d", "#2e8b57", "#8a4fbe", "#b8860b", "#555555"]


class Scale:
    """From values to places. Logarithmic when the values span more than a factor of 50."""

    def __init__(self, values, low, high):
        self.low, self.high = low, high
        least, most = min(values), max(values)
        self.log = least > 0 and most / least > 50
        self.least = least if self.log else min(0, least)
        self.most = most if most > self.least else self.least + 1

    def place(self, value):
        if self.log:
            part = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            part = (value - self.least) / (self.most - self.least)
        return self.low + part * (self.high - self.low)

    def ticks(self):
        if self.log:
            first, last = math.floor(math.log10(self.least)), math.ceil(math.log10(self.most))
            return [10.0 ** e for e in range(first, last + 1) if self.least <= 10.0 ** e <= self.most * 1.001]
        step = 10.0 ** math.floor(math.log10((self.most - self.least) / 4))
        step *= next(f for f in (1, 2, 5, 10) if (self.most - self.least) / (step * f) <= 6)
        count = int((self.most - self.least) / step + 1e-9)
        return [self.least + i * step for i in range(count + 1)]


def short(value):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return "%g%s" % (round(value / limit, 2), suffix)
    return "%g" % round(value, 3)


def text(x, y, what, anchor="middle", extra=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' % (x, y, anchor, extra, html.escape(what))


def axes(across, up, x_name, y_name):
    parts = []
    for value in across.ticks():
        x = across.place(value)
        parts += ['<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % (x, TOP, x, HEIGHT - BOTTOM),
                  text(x, HEIGHT - BOTTOM + 16, short(value))]
    for value in up.ticks():
        y = up.place(value)
        parts += ['<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>' % (LEFT, y, WIDTH - RIGHT, y),
                  text(LEFT - 6, y + 4, short(value), "end")]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name),
              text(16, middle, y_name, extra=' transform="rotate(-90 16 %.1f)"' % middle)]
    return parts


def line(number, name, points, across, up):
    color = COLORS[number % len(COLORS)]
    places = [(across.place(x), up.place(y)) for x, y in points]
    parts = ['<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' %
             (color, " ".join("%.1f,%.1f" % place for place in places))]
    parts += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (x, y, color) for x, y in places]
    y = TOP + 10 + 18 * number
    parts += ['<rect x="%d" y="%d" width="12" height="4" fill="%s"/>' % (WIDTH - RIGHT + 12, y - 6, color),
              text(WIDTH - RIGHT + 30, y, name, "start")]
    return parts


def plot(series):
    """The SVG text of one entry of Bench.series."""
    lines = {name: sorted(points) for name, points in series["lines"].items() if points}
    across = Scale([x for points in lines.values() for x, _ in points], LEFT, WIDTH - RIGHT)
    up = Scale([y for points in lines.values() for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'
             % (WIDTH, HEIGHT), '<style>.grid{stroke:#ddd}</style><rect width="100%" height="100%" fill="white"/>',
             text(LEFT, 22, series["title"], "start", ' font-weight="bold"')]
    parts += axes(across, up, series["x"], series["y"])
    for number, (name, points) in enumerate(lines.items()):
        parts += line(number, name, points, across, up)
    return "\n".join(parts + ["</svg>"]) + "\n"

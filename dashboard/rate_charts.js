'use strict';

// The charts of checks per second, of one rule or of all of them together.

class RateChart {
  // `kind` is what samples have of the series; `read` gives the number of one of the series from the
  // rates of a rule's counters.
  constructor(id, kind, series, label, read) {
    this.kind = kind;
    this.series = series;
    this.read = read;
    this.tellLegend = makeLegend(byId(`${id}-legend`), series);
    this.chart = new Chart(byId(id), series.map(({ name }) => name), {
      label: `${label}, the last two minutes`,
      format: (number) => `${rate(number)} /s`,
      isStacked: true,
      onChoice: () => this.showNumbers(),
    });
  }

  history() {
    return historyOf(byId('rule').value, this.kind, this.series);
  }

  draw(axis, rows, least) {
    this.chart.draw(axis, rows, least);
    this.showNumbers();
  }

  // The numbers of the legend: now, or where the line in the chart is.
  showNumbers() {
    const { back } = this.chart;
    const id = byId('rule').value;
    const now = ratesOf(id);
    const numbers = back > 0 ? samples.at(-1 - back)?.[this.kind].get(id)
      : this.series.map((each) => this.read(now, each));
    this.tellLegend(this.series.map((each, i) => `${rate(numbers?.[i] ?? 0)} /s`));
  }
}

const rateCharts = [
  new RateChart('outcomes', 'outcomes', outcomes, 'Checks per second by outcome',
    (rates, { of }) => sum(rates, of)),
  new RateChart('verdicts', 'sources', sources, 'Verdicts per second by source', (rates, { of }) => of(rates)),
];

// They stand beside each other, so they have one scale.
function drawRates(axis) {
  const histories = rateCharts.map((each) => each.history());
  const highest = Math.max(...histories.map((rows) => highestOf(stack(rows))));
  rateCharts.forEach((each, i) => each.draw(axis, histories[i], highest));
}

byId('rule').addEventListener('change', () => drawRates(makeAxis()));

function buildSelect(rules) {
  offer(byId('rule'), [[everyRule, 'all'], ...rules.map(({ id }) => [id])]);
}

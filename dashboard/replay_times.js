'use strict';

// The chart of a rule's requests over time.

function timesPanel({ name, series, ...totals }) {
  const { begin, step, passed } = series;
  const end = begin + passed.length * step;
  const rows = outcomes.map((outcome) => series[outcome]);
  const unit = unitOfRate(highestOf(stack(rows)) / step);
  const rates = rows.map((row) => stepped(row.map((requests) => (requests * unit.length) / step)));

  const chart = new ChartLines(outcomes, true, {});
  const top = chart.draw(stepAxis(passed.length), rates, roundUp);
  const partOf = (time) => (time - begin) / (end - begin);
  const ticks = ticksOf(begin, end);
  chart.svg.prepend(...ticks.map(({ time }) => upright(partOf(time), 'tick')));

  const when = element('span', { class: 'unit' });
  const legend = element('ul', { class: 'legend' });
  const tellLegend = makeLegend(legend, outcomes.map((outcome) => ({ name: outcome, label: outcome })));
  new StepChooser(chart.svg, passed.length, `Requests of ${name} over time: the arrow keys choose ${duration(step)}`, (at) => {
    const counts = outcomes.map((outcome, i) => (at < 0 ? totals[outcome] : rows[i][at]));
    const all = counts.reduce((sum, requests) => sum + requests, 0);
    const numbers = counts.map((requests) => `${count(requests)}${all > 0 ? ` (${percent(requests, all)})` : ''}`);
    const time = at < 0 ? 'in all' : period(begin + at * step, begin + (at + 1) * step);
    tell(when, time);
    tellLegend(numbers);
    return [time, ...outcomes.map((outcome, i) => `${outcome} ${numbers[i]}`)].join(', ');
  });

  const axisText = (number) => `${rate(number)} /${unit.name}`;
  return element('div', { class: 'panel' },
    element('div', { class: 'heading' }, element('h3', {}, 'Requests over time'), when),
    element('div', { class: 'chart' }, chart.svg, element('span', { class: 'top' }, axisText(top)),
      element('span', { class: 'middle' }, axisText(top / 2)),
      element('div', { class: 'marks', 'aria-hidden': 'true' }, ...ticks.map(({ time, text }) => placed(partOf(time), text)))),
    legend,
    element('p', { class: 'note' }, `Times are in UTC. Each step is ${duration(step)} long; the log may begin or end within one.`));
}
